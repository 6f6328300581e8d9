//! Says how a playground is: in a table, as JSON, or as a folder full of evidence.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::host::{network, process};
use crate::init::{self, Request, ServiceState};
use crate::plan::Plan;
use crate::playground::Playground;

/// How a playground is.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Its prefix.
    pub prefix: String,
    /// The preset or file it comes from.
    pub topology: String,
    /// Its clusters.
    pub clusters: Vec<ClusterStatus>,
}

/// How a cluster is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Its name.
    pub name: String,
    /// Where its API server is.
    pub api: String,
    /// Whether it answers.
    pub answers: bool,
    /// How many nodes are Ready.
    pub ready: usize,
    /// How many nodes there are, pretended ones included.
    pub nodes: usize,
    /// Its kubeconfig.
    pub kubeconfig: String,
    /// Its real nodes.
    pub machines: Vec<Machine>,
}

/// How a node is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether it is on.
    pub on: bool,
    /// Resident memory of all its processes, in MiB.
    pub resident_mib: u64,
    /// The same, with shared pages counted once.
    pub proportional_mib: u64,
    /// Its services and control plane pods.
    pub services: Vec<ServiceState>,
}

impl Status {
    /// Whether everything that should run does.
    pub fn is_healthy(&self) -> bool {
        self.clusters.iter().all(|cluster| {
            let machines = cluster.machines.iter();
            cluster.answers
                && cluster.ready == cluster.nodes
                && machines.clone().all(|machine| machine.on)
                && machines.flat_map(|machine| &machine.services).all(|service| service.running)
        })
    }

    /// The table a user reads.
    pub fn table(&self) -> String {
        let mut text = format!("playground {} ({})\n", self.prefix, self.topology);
        for cluster in &self.clusters {
            let api = if cluster.answers { "answers" } else { "DOES NOT ANSWER" };
            let _ = writeln!(
                text,
                "\n{}  {}/{} nodes Ready, API server {} {api}\n  export KUBECONFIG={}",
                cluster.name, cluster.ready, cluster.nodes, cluster.api, cluster.kubeconfig,
            );
            for machine in &cluster.machines {
                let state = if machine.on { "on" } else { "OFF" };
                let down: Vec<&str> = machine
                    .services
                    .iter()
                    .filter(|service| !service.running)
                    .map(|service| service.name.as_str())
                    .collect();
                let note = if down.is_empty() {
                    String::new()
                } else {
                    format!("  DOWN: {}", down.join(", "))
                };
                let _ = writeln!(
                    text,
                    "  {:<12} {:<15} {state:<4} {:>5} MiB{note}",
                    machine.name, machine.address, machine.proportional_mib
                );
            }
        }
        text
    }
}

/// Looks at everything.
pub async fn status(playground: &Playground) -> Result<Status> {
    let plan = playground.plan()?;
    let mut clusters = vec![];
    for cluster in &plan.clusters {
        let name = cluster.cluster.name.clone();
        let path = playground.store().kubeconfig(&name);
        let talk = Cluster::new(cluster, &path).await;
        let count = match talk {
            Ok(talk) => tokio::time::timeout(Duration::from_secs(5), talk.count_nodes())
                .await
                .ok()
                .and_then(Result::ok),
            Err(_) => None,
        };
        let machines = cluster
            .nodes
            .iter()
            .map(|node| {
                let processes = process::of_node(&node.namespace);
                let sum = |field: fn(&process::Process) -> u64| {
                    processes.iter().map(field).sum::<u64>() >> 20
                };
                Machine {
                    name: node.name.clone(),
                    address: node.address.to_string(),
                    on: process::init_of(&node.namespace).is_some(),
                    resident_mib: sum(|process| process.resident),
                    proportional_mib: sum(|process| process.proportional),
                    services: services(playground, &node.name),
                }
            })
            .collect();
        clusters.push(ClusterStatus {
            name,
            api: cluster.api_url(),
            answers: count.is_some(),
            ready: count.map_or(0, |(ready, _)| ready),
            nodes: count.map_or(cluster.nodes.len(), |(_, all)| all),
            kubeconfig: path.display().to_string(),
            machines,
        });
    }
    Ok(Status { prefix: plan.prefix, topology: plan.origin, clusters })
}

/// Writes everything that helps to understand a failure below `target`.
pub fn collect(playground: &Playground, target: &Path) -> Result<()> {
    let plan = playground.plan()?;
    fs::create_dir_all(target).with_context(|| format!("make {}", target.display()))?;
    fs::write(target.join("plan.json"), serde_json::to_vec_pretty(&plan)?)?;
    for namespace in plan.namespaces() {
        let folder = target.join("network");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{namespace}.txt")), network_state(&namespace))?;
    }
    for (_, node) in plan.nodes() {
        let folder = target.join("nodes").join(&node.name);
        fs::create_dir_all(&folder)?;
        let source = playground.store().node(&node.name);
        for (from, to) in [("logs", "logs"), ("layers/var/log/pods", "pods")] {
            copy_tree(&source.join(from), &folder.join(to))?;
        }
        let states = services(playground, &node.name);
        fs::write(folder.join("services.json"), serde_json::to_vec_pretty(&states)?)?;
        let processes = process::of_node(&node.namespace);
        let lines: String = processes.iter().map(|process| format!("{process:?}\n")).collect();
        fs::write(folder.join("processes.txt"), lines)?;
    }
    collect_objects(playground, &plan, target)
}

fn collect_objects(playground: &Playground, plan: &Plan, target: &Path) -> Result<()> {
    for cluster in &plan.clusters {
        let name = &cluster.cluster.name;
        let folder = target.join("clusters").join(name);
        fs::create_dir_all(&folder)?;
        for (file, words) in [
            ("nodes.yaml", "get nodes -o yaml"),
            ("pods.txt", "get pods -A -o wide"),
            ("pods.yaml", "get pods -A -o yaml"),
            (
                "objects.yaml",
                "get deployments,daemonsets,services,endpointslices,pvc,pv,configmaps -A -o yaml",
            ),
            ("events.txt", "get events -A --sort-by=.lastTimestamp"),
        ] {
            let output = playground
                .kubectl(name)?
                .args(words.split_whitespace())
                .arg("--request-timeout=5s")
                .output()
                .context("run kubectl")?;
            fs::write(folder.join(file), [output.stdout, output.stderr].concat())?;
        }
    }
    Ok(())
}

fn services(playground: &Playground, node: &str) -> Vec<ServiceState> {
    let answer = init::ask(&playground.store().node(node), &Request::Status);
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

fn network_state(namespace: &str) -> String {
    let commands: [&[&str]; 5] = [
        &["ip", "-details", "addr"],
        &["ip", "rule"],
        &["ip", "route", "show", "table", "all"],
        &["ip", "neigh"],
        &["nft", "list", "ruleset"],
    ];
    commands
        .iter()
        .map(|words| {
            let output =
                network::inside(namespace, words, "").unwrap_or_else(|error| error.to_string());
            format!("$ {}\n{output}\n", words.join(" "))
        })
        .collect()
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let status = Command::new("cp").args(["-rL", "--"]).arg(from).arg(to).output();
    status.with_context(|| format!("copy {}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(running: bool) -> Status {
        let service =
            ServiceState { name: "kubelet".to_owned(), wanted: running, running, restarts: 0 };
        Status {
            prefix: "pg".to_owned(),
            topology: "one".to_owned(),
            clusters: vec![ClusterStatus {
                name: "rome".to_owned(),
                api: "https://198.18.1.11:6443".to_owned(),
                answers: true,
                ready: 1,
                nodes: 1,
                kubeconfig: "/x/kubeconfig".to_owned(),
                machines: vec![Machine {
                    name: "rome-1".to_owned(),
                    address: "198.18.1.11".to_owned(),
                    on: true,
                    resident_mib: 900,
                    proportional_mib: 700,
                    services: vec![service],
                }],
            }],
        }
    }

    #[test]
    fn a_healthy_playground_is_shown_with_what_to_type_next() {
        assert!(status(true).is_healthy());
        insta::assert_snapshot!(status(true).table(), @r"
        playground pg (one)

        rome  1/1 nodes Ready, API server https://198.18.1.11:6443 answers
          export KUBECONFIG=/x/kubeconfig
          rome-1       198.18.1.11     on     700 MiB
        ");
    }

    #[test]
    fn a_stopped_service_is_named() {
        assert!(!status(false).is_healthy());
        assert!(status(false).table().contains("DOWN: kubelet"));
    }
}
