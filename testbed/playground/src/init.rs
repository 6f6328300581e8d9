//! A node's first process: what systemd is to a real machine.
//!
//! It runs as process 1 of the node's own process, mount and host name namespaces, so that ending it
//! ends everything on the node, mounts included. It makes the node's file system, starts its
//! services, starts them again when they die, and obeys `stop` and `start` on a socket.
//!
//! ```text
//!          gate opens            ends by itself
//! waiting ───────────> running ─────────────────> waiting
//!    ^                    │ stop
//!    └─────── start ── stopped
//! ```

mod files;
mod services;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, thread};

use serde::{Deserialize, Serialize};

use services::Supervisor;

/// The file in a node's folder that says what to start.
pub const BOOT_FILE: &str = "boot.json";
/// The socket in a node's folder that takes requests.
const SOCKET: &str = "init.sock";

/// What a node consists of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Boot {
    /// Its host name.
    pub hostname: String,
    /// The folder of the engine's programs.
    pub engine: PathBuf,
    /// The folder of image archives.
    pub images: PathBuf,
    /// The archives to import before the kubelet starts.
    pub preload: Vec<String>,
    /// What runs on it.
    pub services: Vec<Service>,
    /// On the node that runs the control plane: where its API server will answer.
    pub api: Option<Gate>,
}

/// A program that is kept running.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What must be there before it starts.
    pub gates: Vec<Gate>,
}

/// Something a service waits for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Gate {
    /// A local socket that accepts.
    Socket(PathBuf),
    /// A remote port that accepts.
    Tcp(String),
}

/// What a node is asked to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Say how the services are.
    Status,
    /// Stop a service, or a control plane pod, and keep it stopped.
    Stop(String),
    /// Start it again.
    Start(String),
}

/// How a service is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ServiceState {
    /// Its name.
    pub name: String,
    /// Whether it is supposed to run.
    pub wanted: bool,
    /// Whether it runs.
    pub running: bool,
    /// How often it was started again after it died.
    pub restarts: u32,
}

/// What a node answers.
pub type Reply = Result<Vec<ServiceState>, String>;

impl Service {
    /// A service without gates.
    pub fn new(name: &str, command: &[&str]) -> Self {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        Self { name: name.to_owned(), command, gates: vec![] }
    }

    /// The same service, which also waits for `gate`.
    #[must_use]
    pub fn after(mut self, gate: Gate) -> Self {
        self.gates.push(gate);
        self
    }
}

/// Runs as the first process of the node in `folder`; returns only when it cannot.
pub fn run(folder: &Path) -> io::Result<()> {
    std::env::set_current_dir(folder)?;
    let boot: Boot = serde_json::from_slice(&fs::read(BOOT_FILE)?)?;
    files::prepare(&boot)?;
    nix::unistd::sethostname(&boot.hostname)?;

    remove_if_there(SOCKET)?;
    let listener = UnixListener::bind(SOCKET)?;
    let supervisor = Arc::new(Supervisor::new(&boot));
    let answering = Arc::clone(&supervisor);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(&stream, &answering);
        }
    });
    supervisor.run(boot)
}

/// Asks the node in `folder`.
pub fn ask(folder: &Path, request: &Request) -> io::Result<Reply> {
    // A socket's path may have 107 bytes; a folder's may have more.
    let directory = fs::File::open(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
    writeln!(stream, "{}", serde_json::to_string(request)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn answer(mut stream: &UnixStream, supervisor: &Supervisor) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let reply: Reply = match serde_json::from_str(&line)? {
        Request::Status => Ok(supervisor.status()),
        Request::Stop(name) => supervisor.want(&name, false).map(|()| supervisor.status()),
        Request::Start(name) => supervisor.want(&name, true).map(|()| supervisor.status()),
    };
    writeln!(stream, "{}", serde_json::to_string(&reply)?)
}

fn remove_if_there(path: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
