//! Whatever happens to a playground, `down` removes all it made, and nothing else.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Traces, command, eventually, own_prefix, places};

const MINUTE: Duration = Duration::from_mins(1);

/// A command line on a prefix of its own; what it left is taken down at the end in any case.
struct Own(String);

impl Own {
    fn new() -> Self {
        Self(own_prefix())
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let output = command(&places()?, &self.0, words).output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{error}");
        Ok(error)
    }

    fn start(&self, words: &[&str]) -> Result<Child> {
        let mut command = command(&places()?, &self.0, words);
        Ok(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?)
    }

    fn traces(&self) -> Result<Traces> {
        Traces::of(&self.0, &places()?.home)
    }

    fn wait_for_node(&self) -> Result<()> {
        let folder = places()?.home.join(".playground").join(&self.0).join("nodes/rome-1/logs");
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
    own.run(&["up", "one"]).unwrap();
    assert!(!own.traces().unwrap().is_empty());
    own.run(&["down"]).unwrap();
    let left = own.traces().unwrap();
    assert!(left.is_empty(), "{left:#?}");
    assert!(!home.join(".playground").join(&own.0).exists());
    assert_eq!((count("/proc/self/mountinfo"), list("/sys/class/net")), (mounts, links));
    let said = own.run(&["down"]).unwrap();
    assert!(said.contains("there was nothing to take down"), "{said}");
}

#[test]
fn a_killed_up_is_finished_by_the_next_one() {
    let own = Own::new();
    let mut first = own.start(&["up", "one"]).unwrap();
    own.wait_for_node().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    own.run(&["up", "one"]).unwrap();
    own.run(&["status"]).unwrap();
    own.run(&["down"]).unwrap();
    assert!(own.traces().unwrap().is_empty());
}

#[test]
fn a_killed_up_is_taken_down_without_a_trace() {
    let own = Own::new();
    let mut first = own.start(&["up", "one"]).unwrap();
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
    let first = own.start(&["up", "one"]).unwrap();
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
    let mut first = one.start(&["up", "one"]).unwrap();
    other.run(&["up", "one"]).unwrap();
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
