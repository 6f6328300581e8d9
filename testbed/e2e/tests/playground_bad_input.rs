//! Bad input gets one clear message, a non-zero exit, and leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use liqo_testkit::{Traces, command, own_prefix, places};

/// Runs the command line, which must fail, and returns what it said; nothing may be left.
fn refusal(words: &[&str]) -> String {
    let (places, prefix) = (places().unwrap(), own_prefix());
    let output = command(&places, &prefix, words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it was accepted: {said}");
    let left = Traces::of(&prefix, &places.home).unwrap();
    assert!(left.is_empty(), "{left:#?}");
    said
}

#[test]
fn an_unknown_preset_is_answered_with_the_known_ones() {
    let said = refusal(&["up", "quick-strat"]);
    assert!(
        said.contains("there is no preset or file \"quick-strat\"; presets: quick-start,"),
        "{said}"
    );
}

#[test]
fn a_malformed_topology_is_reported_by_line_and_field() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    fs::write(
        &path,
        "clusters:\n  - name: rome\n    podCIDR: 10.1.0.0/16\n    serviceCIDR: 10.1.0.0/16\n",
    )
    .unwrap();
    let said = refusal(&["up", &path]);
    assert!(said.contains(&format!("{path}:4: clusters[0].serviceCIDR: ")), "{said}");
    fs::write(&path, "clusters:\n  - name: rome\n    podCIDR: 10.1.0.0/16\n    serviceCIDR: 10.2.0.0/16\n    noeds: 2\n").unwrap();
    let said = refusal(&["up", &path]);
    assert!(said.contains("noeds") && said.contains("line 5"), "{said}");
}

#[test]
fn a_name_that_is_taken_by_somebody_else_is_left_alone() {
    let prefix = own_prefix();
    let namespace = format!("{prefix}.rome-1");
    let ip = |words: &[&str]| assert!(Command::new("ip").args(words).status().unwrap().success());
    ip(&["netns", "add", &namespace]);
    let output = command(&places().unwrap(), &prefix, &["up", "one"]).output().unwrap();
    let still_there = fs::exists(format!("/run/netns/{namespace}")).unwrap();
    ip(&["netns", "delete", &namespace]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && still_there, "{said}");
    assert!(
        said.contains(&format!("{namespace} already exist")) && said.contains("--prefix"),
        "{said}"
    );
}

#[test]
fn somebody_who_is_not_root_is_told_so() {
    let places = places().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("playground");
    fs::copy(&places.program, &program).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["up", "one"])
        .current_dir(folder.path())
        .env("LIQO_CACHE", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("run this with sudo"), "{said}");
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let places = places().unwrap();
    let output =
        command(&places, &own_prefix(), &["up", "one"]).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("apt-get install containerd runc"), "{said}");
}

#[test]
fn a_cluster_that_never_becomes_ready_is_reported_and_removed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    // No component knows this feature, so none of them starts.
    fs::write(&path, "clusters:\n  - name: rome\n    podCIDR: 10.1.0.0/16\n    serviceCIDR: 10.2.0.0/16\n    features: {NoSuchFeature: true}\n").unwrap();
    let said = refusal(&["up", &path, "--timeout", "8"]);
    assert!(said.contains("the API server of rome did not answer at https://198.18."), "{said}");
    let evidence = said.split("is in ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let log = fs::read_to_string(format!("{evidence}/nodes/rome-1/logs/kubelet.log")).unwrap();
    assert!(log.contains("unrecognized feature gate: NoSuchFeature"), "{log}");
    fs::remove_dir_all(evidence).unwrap();
}

#[test]
fn a_playground_that_is_not_up_says_how_to_bring_it_up() {
    let said = refusal(&["kubectl", "rome", "get", "nodes"]);
    assert!(said.contains("run `./playground up`"), "{said}");
}
