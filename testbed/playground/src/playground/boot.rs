//! Writes what stands on a node's disk, and starts its first process.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Places;
use crate::host::{cgroup, network, process};
use crate::init::{self, Request};
use crate::pki::Pki;
use crate::plan::{ClusterPlan, NodePlan, Plan};
use crate::store::{Store, write_whole};
use crate::{images, node_files};

/// Writes the disks of a cluster's nodes, once.
pub fn prepare(
    places: &Places,
    store: &Store,
    plan: &Plan,
    cluster: &ClusterPlan,
    engine: &Path,
    preload: &[String],
) -> Result<()> {
    let name = &cluster.cluster.name;
    if store.prepared(name).exists() {
        return Ok(());
    }
    let pki = Pki::new(cluster)?;
    for node in &cluster.nodes {
        let folder = store.node(&node.name);
        for (path, bytes) in node_files::files(plan, cluster, node, &pki)? {
            let path = folder.join("layers/etc").join(path);
            write_whole(&path, &bytes).with_context(|| format!("write {}", path.display()))?;
            let private = path.extension().is_some_and(|kind| kind == "key" || kind == "conf");
            if private && !path.ends_with("resolv.conf") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            }
        }
        let mut boot = node_files::boot(cluster, node, engine, &images::folder(&places.cache));
        boot.preload = preload.to_vec();
        write_whole(&folder.join(init::BOOT_FILE), &serde_json::to_vec_pretty(&boot)?)?;
    }
    let kubeconfig = store.kubeconfig(name);
    write_whole(&kubeconfig, pki.admin())?;
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600))?;
    write_whole(&store.prepared(name), b"")?;
    Ok(())
}

/// Starts a node, unless it runs.
pub fn node(
    places: &Places,
    store: &Store,
    plan: &Plan,
    cluster: &ClusterPlan,
    node: &NodePlan,
) -> Result<()> {
    if process::init_of(&node.namespace).is_some() {
        return Ok(());
    }
    let left = process::end_all(std::slice::from_ref(&node.namespace), Duration::from_secs(15));
    ensure!(left.is_empty(), "processes {left:?} of an earlier start do not end");
    network::remove(&node.namespace)?;
    network::enact(&crate::plan::network::node(plan, cluster, node))?;
    // A machine that starts has none of its pods; a kubelet would look for each of them at length.
    let group = format!("{}/{}", plan.cgroup(), node.name);
    cgroup::remove(&group).with_context(|| format!("remove the control group {group}"))?;
    cgroup::create(&plan.cgroup(), &node.name).context("make the control groups")?;

    let folder = store.node(&node.name);
    fs::create_dir_all(folder.join("logs"))?;
    let log = File::create(folder.join("logs/init.log"))?;
    let network = format!("--net={}", network::path_of(&node.namespace).display());
    Command::new("setsid")
        .args(["nsenter", &network, "--"])
        .args([
            "unshare",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ])
        .arg(&places.program)
        .arg("node-init")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("run setsid; run scripts/setup to install what is missing")?;
    wait_for_answer(&folder)
}

/// Waits until the node's first process takes requests.
fn wait_for_answer(folder: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if init::ask(folder, &Request::Status).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let words = fs::read_to_string(folder.join("logs/init.log")).unwrap_or_default();
    bail!("the node's first process does not answer; it said: {}", words.trim())
}
