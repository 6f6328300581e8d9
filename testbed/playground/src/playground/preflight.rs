//! What a machine must offer before anything is made on it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::node_files::PLUGIN_FOLDERS;

/// The room a few clusters need.
const ROOM: u64 = 4 << 30;
/// How many watches of files a user may have, and how many of them a node's programs need.
const WATCHES: &str = "/proc/sys/fs/inotify/max_user_instances";
const WATCHES_OF_A_NODE: usize = 64;

/// What is run, and the Debian package it is in.
const TOOLS: [(&str, &str); 10] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("sysctl", "procps"),
    ("cc", "gcc"),
];

/// Checks that this machine can carry a playground.
pub fn machine(home: &Path) -> Result<()> {
    ensure!(
        nix::unistd::Uid::effective().is_root(),
        "making network namespaces needs root: run this with sudo"
    );
    let missing = missing_tools(&std::env::var("PATH").unwrap_or_default());
    ensure!(
        missing.is_empty(),
        "missing programs; install them with: apt-get install {}",
        missing.join(" "),
    );
    ensure!(
        PLUGIN_FOLDERS.iter().any(|folder| Path::new(folder).join("ptp").exists()),
        "missing network plugins; install them with: apt-get install containernetworking-plugins"
    );
    let disk = nix::sys::statvfs::statvfs(home).context("ask how full the disk is")?;
    let free = disk.blocks_available() * disk.fragment_size();
    enough_room(home, free)
}

/// Sees to it that so many nodes can watch their files: Linux allows few of that by itself.
///
/// The limit is of the machine and stays raised; a higher one is kept.
pub fn watches(nodes: usize) -> Result<()> {
    let limit = std::fs::read_to_string(WATCHES).with_context(|| format!("read {WATCHES}"))?;
    let enough = nodes * WATCHES_OF_A_NODE;
    if limit.trim().parse::<usize>().is_ok_and(|limit| limit >= enough) {
        return Ok(());
    }
    std::fs::write(WATCHES, enough.to_string()).with_context(|| format!("raise {WATCHES}"))
}

/// Waits for one's turn among all playgrounds of this machine; it ends with the value.
pub fn turn() -> Result<UnixListener> {
    let address = SocketAddr::from_abstract_name("liqo-playground")?;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(listener),
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            Err(error) => bail!("another playground has been starting for 30 s: {error}"),
        }
    }
}

fn missing_tools(path: &str) -> Vec<&'static str> {
    let there = |tool: &str| path.split(':').any(|folder| Path::new(folder).join(tool).exists());
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| !there(tool)).map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn enough_room(home: &Path, free: u64) -> Result<()> {
    ensure!(
        free >= ROOM,
        "the disk of {} has {} MiB left and a playground needs {} MiB: make room",
        home.display(),
        free >> 20,
        ROOM >> 20,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_by_their_packages_once() {
        assert_eq!(
            missing_tools("/nowhere"),
            [
                "containerd",
                "runc",
                "iproute2",
                "nftables",
                "iptables",
                "util-linux",
                "procps",
                "gcc"
            ]
        );
    }

    #[test]
    fn a_full_disk_is_said_so_with_figures() {
        let error = enough_room(Path::new("/srv"), 100 << 20).unwrap_err().to_string();
        assert_eq!(
            error,
            "the disk of /srv has 100 MiB left and a playground needs 4096 MiB: make room"
        );
        assert!(enough_room(Path::new("/srv"), ROOM).is_ok());
    }
}
