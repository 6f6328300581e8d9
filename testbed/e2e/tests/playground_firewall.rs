//! Clusters that share a network share a wire; a firewall lets in only what it names.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::pod;
use liqo_testkit::{Lab, Scenario};

const TOPOLOGY: &str = "
clusters:
  - name: venice
    podCIDR: 10.10.0.0/16
    serviceCIDR: 10.11.0.0/16
    lan: north
    addons: {dns: false, metrics: false, storage: false}
  - name: florence
    podCIDR: 10.20.0.0/16
    serviceCIDR: 10.21.0.0/16
    lan: north
    addons: {dns: false, metrics: false, storage: false}
  - name: naples
    podCIDR: 10.30.0.0/16
    serviceCIDR: 10.31.0.0/16
    addons: {dns: false, metrics: false, storage: false}
lans:
  - name: north
    inbound: [tcp/6443]
";

fn main() -> ExitCode {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
    file.write_all(TOPOLOGY.as_bytes()).expect("the file is written");
    Scenario::on(file.path().display().to_string())
        .fact("clusters of one network are neighbours on one wire", neighbours)
        .fact("a firewall lets in the ports it names and no others", firewall)
        .run()
}

fn neighbours(lab: &Lab) -> Result<()> {
    let florence = lab.plan().cluster("florence").context("florence")?.control_plane().address;
    let route =
        lab.playground(&["exec", "venice-1", "--", "ip", "route", "get", &florence.to_string()])?;
    ensure!(!route.contains("via"), "{route}");
    let ping = ["busybox", "ping", "-c", "1", "-W", "2", &florence.to_string()];
    lab.playground(&[&["exec", "venice-1", "--"], &ping[..]].concat())?;
    Ok(())
}

fn firewall(lab: &Lab) -> Result<()> {
    lab.apply("naples", &[pod("asker").build()])?;
    lab.ready("naples", &["asker"])?;
    let venice = lab.plan().cluster("venice").context("venice")?.control_plane().address;
    let reach = |port: u16| {
        lab.kubectl("naples", &format!("exec asker -- demo wait-for {venice}:{port} --max-time 1"))
    };
    reach(6443)?;
    ensure!(reach(10250).is_err(), "the kubelet is reached through the firewall");
    Ok(())
}
