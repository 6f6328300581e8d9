//! Two clusters with the very same addresses inside live beside each other.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use liqo_testkit::fixtures::{pod, service};
use liqo_testkit::{Lab, Scenario, eventually};

fn main() -> ExitCode {
    Scenario::on("overlap").fact("equal addresses lead to each clusters own pod", own_pod).run()
}

fn own_pod(lab: &Lab) -> Result<()> {
    let mut addresses = vec![];
    for (cluster, node) in [("rome", "rome-2"), ("milan", "milan-2")] {
        lab.apply(cluster, &[pod("web").on_node(node).build(), pod("asker").build()])?;
        lab.apply(cluster, &[service("web").build()])?;
        lab.ready(cluster, &["web", "asker"])?;
        let range = lab.kubectl(cluster, "get pod web -o jsonpath={.status.podIP}")?;
        ensure!(range.starts_with("10.10.1."), "{range}");
        let said = eventually(Duration::from_secs(20), "web", || {
            lab.ask(cluster, "asker", "http://web/")
        })?;
        ensure!(said["node"] == node, "{said}");
        addresses.push(range);
    }
    let dns = |cluster: &str| {
        lab.kubectl(cluster, "get svc -n kube-system kube-dns -o jsonpath={.spec.clusterIP}")
    };
    ensure!(dns("rome")? == dns("milan")?, "the service networks differ");
    Ok(())
}
