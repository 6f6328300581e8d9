//! What a process that lacks something is told, by one that really lacks it.

use std::process::Command;

use liqo_tunnel::{Implementation, PrivateKey, Tunnel};

use super::{block_on, settings};

/// Tells why a tunnel cannot be opened.
#[test]
#[ignore = "another test runs it without what it needs"]
fn lacking() {
    let key = PrivateKey::generate();
    let settings = liqo_tunnel::Settings {
        implementation: Implementation::Auto,
        ..settings("lqt-lacking", &key, 0)
    };
    let refused = block_on(Tunnel::open(settings, None)).err();
    println!("refused: {}", refused.expect("it lacks something"));
}

#[test]
fn what_a_process_lacks_is_named_with_what_would_help() {
    let own = std::env::current_exe().unwrap();
    let said = |before: &[&str]| {
        let [program, words @ ..] = before else { panic!("nothing to run") };
        let mut command = Command::new(program);
        command.args(words).arg(&own).args(["--exact", "rights::lacking"]);
        let output = command.args(["--ignored", "--nocapture"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once("refused: "));
        line.map_or_else(|| panic!("{output:?}"), |(_, why)| why.to_owned())
    };
    let drop = ["--bounding-set=-net_admin", "--inh-caps=-net_admin"];
    let why = said(&["unshare", "--net", "setpriv", drop[0], drop[1]]);
    assert!(why.ends_with("not permitted; the gateway takes the capability NET_ADMIN"), "{why}");
    // Who may make the device does; the machine does not see what is mounted there.
    let drop = "setpriv --bounding-set=-mknod --inh-caps=-mknod";
    let hide = format!("mount -t tmpfs none /dev/net && exec {drop} \"$@\"");
    let why = said(&["unshare", "--mount", "--net", "sh", "-c", &hide, "sh"]);
    assert!(why.contains("/dev/net/tun is missing; load the module 'tun'"), "{why}");
}
