//! Whatever happens to a playground, `down` removes all it made, and nothing else.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Traces, command, eventually, own_prefix, places};
use tempfile::NamedTempFile;

const MINUTE: Duration = Duration::from_mins(1);

/// The least that is a cluster: here it matters what is made, not what runs on it.
const BARE: &str = "
clusters:
  - name: rome
    podCIDR: 10.10.0.0/16
    serviceCIDR: 10.11.0.0/16
    addons: {dns: false, metrics: false, storage: false}
";

/// A command line on a prefix of its own; what it left is taken down at the end in any case.
struct Own {
    prefix: String,
    topology: NamedTempFile,
}

impl Own {
    fn new() -> Self {
        let topology = NamedTempFile::new().unwrap();
        fs::write(topology.path(), BARE).unwrap();
        Self { prefix: own_prefix(), topology }
    }

    fn up(&self) -> Result<String> {
        self.run(&["up", &self.topology.path().display().to_string()])
    }

    fn start_up(&self) -> Result<Child> {
        let topology = self.topology.path().display().to_string();
        let mut command = command(&places()?, &self.prefix, &["up", &topology]);
        Ok(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?)
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let output = command(&places()?, &self.prefix, words).output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{error}");
        Ok(error)
    }

    fn traces(&self) -> Result<Traces> {
        Traces::of(&self.prefix, &places()?.home)
    }

    fn wait_for_node(&self) -> Result<()> {
        let folder =
            places()?.home.join(".playground").join(&self.prefix).join("nodes/rome-1/logs");
        eventually(MINUTE, "the node starts", || {
            fs::read_to_string(folder.join("kubelet.log")).map(drop)
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

#[test]
fn down_removes_every_trace_and_is_idempotent() {
    let own = Own::new();
    assert!(own.traces().unwrap().is_empty());
    let home = places().unwrap().home;
    let (mounts, links) = (count("/proc/self/mountinfo"), list("/sys/class/net"));
    own.up().unwrap();
    assert!(!own.traces().unwrap().is_empty());
    own.run(&["down"]).unwrap();
    let left = own.traces().unwrap();
    assert!(left.is_empty(), "{left:#?}");
    assert!(!home.join(".playground").join(&own.prefix).exists());
    assert_eq!((count("/proc/self/mountinfo"), list("/sys/class/net")), (mounts, links));
    let said = own.run(&["down"]).unwrap();
    assert!(said.contains("there was nothing to take down"), "{said}");
}

#[test]
fn a_killed_up_is_finished_by_the_next_one() {
    let own = Own::new();
    let mut first = own.start_up().unwrap();
    own.wait_for_node().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    own.up().unwrap();
    own.run(&["status"]).unwrap();
    own.run(&["down"]).unwrap();
    assert!(own.traces().unwrap().is_empty());
}

#[test]
fn a_killed_up_is_taken_down_without_a_trace() {
    let own = Own::new();
    let mut first = own.start_up().unwrap();
    own.wait_for_node().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    own.run(&["down"]).unwrap();
    let left = own.traces().unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn an_interrupted_up_cleans_up_after_itself() {
    let own = Own::new();
    let first = own.start_up().unwrap();
    own.wait_for_node().unwrap();
    let pid = first.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    let left = own.traces().unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn two_playgrounds_live_beside_each_other_and_one_goes_alone() {
    let (one, other) = (Own::new(), Own::new());
    let mut first = one.start_up().unwrap();
    other.up().unwrap();
    assert!(first.wait().unwrap().success());
    one.run(&["down"]).unwrap();
    assert!(one.traces().unwrap().is_empty());
    other.run(&["status"]).context("the other one is disturbed").unwrap();
}

fn count(file: &str) -> usize {
    fs::read_to_string(file).unwrap().lines().count()
}

fn list(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
