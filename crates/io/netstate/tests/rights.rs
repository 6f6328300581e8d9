//! What a process that lacks something is told, by one that really lacks it.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]
#![expect(clippy::print_stdout, reason = "one process tells another")]

#[path = "fabric/lab.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod lab;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use lab::{Lab, node_settings};
use liqo_fabric::node;
use liqo_fabric::owned::Scope;
use liqo_netstate::{Error, Kernel, Namespace};

/// Where the process that lacks something is to work.
const PLACE: &str = "LIQO_TEST_PLACE";

/// Tells why a node cannot be settled, or a namespace not be made.
#[tokio::test]
#[ignore = "another test runs it without what it needs"]
async fn lacking() {
    let place = std::env::var(PLACE).unwrap();
    let refused = settle(Path::new(&place)).await.err();
    println!("refused: {}", refused.expect("it lacks something"));
    let new = format!("{place}-new");
    match Namespace::create(Path::new(&new)).await {
        Ok(_) => assert!(Namespace::remove(Path::new(&new)).unwrap()),
        Err(refused) => println!("not made: {refused}"),
    }
}

async fn settle(at: &Path) -> Result<usize, Error> {
    let kernel = Kernel::open(Namespace::open(at)?, None).await?;
    let settings = node_settings([172, 30, 0, 4].into());
    let want = node::desired([], &BTreeSet::new(), &BTreeSet::new(), &settings, false);
    kernel.settle(&Scope::node(), |_| want.state.clone()).await
}

#[test]
fn what_a_process_lacks_is_named_with_what_would_help() {
    let lab = Lab::new("lack");
    let at = lab.namespace("a");
    let before = lab.dump(&at);
    let said = |lack: &str, also: &[&str], begin: &str| {
        let mut command = Command::new("setpriv");
        let sets = ["--bounding-set", "--inh-caps"].map(|set| format!("{set}=-{lack}"));
        command.args(sets).args(also).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "lacking", "--ignored", "--nocapture"]).env(PLACE, &at);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once(begin));
        line.map_or_else(|| panic!("{output:?}"), |(_, why)| why.to_owned())
    };
    let help = "; run it with the capabilities NET_ADMIN and SYS_ADMIN, as privileged pods have";
    let why = said("net_admin", &[], "refused: ");
    assert!(why.starts_with("not allowed to ") && why.ends_with(help), "{why}");
    let why = said("sys_admin", &[], "not made: ");
    assert!(why.starts_with("not allowed to create ") && why.ends_with(help), "{why}");
    let why = said("sys_time", &["env", "PATH=/nowhere"], "refused: ");
    assert_eq!(why, "cannot find the program nft; the image has to carry it (package nftables)");
    assert_eq!(lab.dump(&at), before, "nothing was done");
    assert!(!lab.path("a-new").exists(), "something was left");
}
