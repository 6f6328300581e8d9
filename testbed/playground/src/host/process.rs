//! Finds, enters and ends the processes of nodes.
//!
//! A process belongs to a node if it is in the node's network namespace or descends from one that
//! is. That is read from the kernel each time, so no file can be out of date after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::network::path_of;

/// A process and what it holds of the machine's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its program's name.
    pub name: String,
    /// Resident bytes, shared ones included.
    pub resident: u64,
    /// Resident bytes, shared ones split among those who share them.
    pub proportional: u64,
}

/// The node's first process, if the node is up.
pub fn init_of(namespace: &str) -> Option<i32> {
    in_namespace(namespace).into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| is_second_level_init(&status))
    })
}

/// Ends every process of the given namespaces, and returns those that would not end in time.
pub fn end_all(namespaces: &[String], limit: Duration) -> Vec<i32> {
    let deadline = Instant::now() + limit;
    loop {
        let left: Vec<i32> = namespaces.iter().flat_map(|name| in_namespace(name)).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All processes of a node.
pub fn of_node(namespace: &str) -> Vec<Process> {
    let parents = parents();
    let mut family: BTreeSet<i32> = in_namespace(namespace).into_iter().collect();
    loop {
        let before = family.len();
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| family.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    family.into_iter().filter_map(describe).collect()
}

/// Arguments of `nsenter` that lead into a node.
pub fn entrance(init: i32) -> Vec<String> {
    let target = format!("--target={init}");
    [&target, "--mount", "--uts", "--ipc", "--net", "--pid"].map(str::to_owned).to_vec()
}

fn in_namespace(namespace: &str) -> Vec<i32> {
    let Ok(wanted) = fs::metadata(path_of(namespace)) else { return vec![] };
    all_pids()
        .filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
        })
        .collect()
}

fn parents() -> BTreeMap<i32, i32> {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything, but it ends with the last parenthesis.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    all_pids().filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

fn describe(pid: i32) -> Option<Process> {
    let folder = format!("/proc/{pid}");
    let rollup = fs::read_to_string(Path::new(&folder).join("smaps_rollup")).unwrap_or_default();
    let command = fs::read(Path::new(&folder).join("cmdline")).ok()?;
    let program = String::from_utf8_lossy(command.split(|byte| *byte == 0).next()?).into_owned();
    let name = program.rsplit('/').next()?.to_owned();
    let (resident, proportional) = (kilobytes(&rollup, "Rss:"), kilobytes(&rollup, "Pss:"));
    (!name.is_empty()).then_some(Process { pid, name, resident, proportional })
}

fn all_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether `/proc/PID/status` is that of process 1 of a namespace directly below this one.
fn is_second_level_init(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.is_some_and(|line| {
        let numbers: Vec<&str> = line.split_whitespace().collect();
        numbers.len() == 2 && numbers.last() == Some(&"1")
    })
}

fn kilobytes(rollup: &str, key: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_process_one_of_a_nested_namespace_is_a_nodes_init() {
        assert!(is_second_level_init("Name:\tx\nNSpid:\t4711\t1\n"));
        assert!(!is_second_level_init("NSpid:\t4711\t7\n"));
        assert!(!is_second_level_init("NSpid:\t1\n"));
        // A pod in the node's network has a first process of its own.
        assert!(!is_second_level_init("NSpid:\t4711\t99\t1\n"));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(kilobytes("Rss:   12 kB\nPss:  7 kB\n", "Pss:"), 7168);
    }
}
