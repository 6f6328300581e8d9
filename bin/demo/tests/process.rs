//! Runs the program as a pod would, on loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

#[test]
fn a_server_told_to_terminate_ends_well() {
    let mut server = Server::start();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn links_called_curl_fetch_and_tell_failures_by_exit_code() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let curl = folder.path().join("curl");
    symlink(DEMO, &curl).unwrap();
    let fetch = |path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", server.port);
        Command::new(&curl).args(["-s", "-f", &url]).output().unwrap()
    };

    let found = fetch("/env/CLUSTER_NAME");
    assert_eq!((found.status.code(), found.stdout.as_slice()), (Some(0), &b"rome"[..]));
    let missing = fetch("/env/NO_SUCH_NAME");
    assert_eq!((missing.status.code(), missing.stderr.as_slice()), (Some(22), &b""[..]));

    server.signal(Signal::SIGKILL);
    server.child.wait().unwrap();
    assert_eq!(fetch("/").status.code(), Some(7));
}

#[test]
fn a_datagram_is_answered() {
    let server = Server::start();
    let port = server.port.to_string();
    let asked = Command::new(DEMO).args(["udp", "127.0.0.1", &port, "hello"]).output().unwrap();
    let reply = String::from_utf8(asked.stdout).unwrap();
    assert!(reply.contains(" 127.0.0.1:") && reply.ends_with(" hello\n"), "{reply:?}");
}

/// A server on a free port, ended with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(DEMO)
            .args(["serve", "--port", "0", "--udp"])
            .env("CLUSTER_NAME", "rome")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let port = first.trim().rsplit(':').next().unwrap().parse().unwrap();
        Self { child, port }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails when the test has already ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
