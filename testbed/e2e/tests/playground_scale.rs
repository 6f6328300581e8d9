//! Nodes that only pretend make pods Ready without running them.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario};
use serde_json::json;

const TOPOLOGY: &str = "
clusters:
  - name: milan
    podCIDR: 10.20.0.0/16
    serviceCIDR: 10.21.0.0/16
    fakeNodes: 10
    qps: 500
    addons: {dns: false, metrics: false, storage: false}
";

fn main() -> ExitCode {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
    file.write_all(TOPOLOGY.as_bytes()).expect("the file is written");
    Scenario::on(file.path().display().to_string())
        .fact("a topology file brings up the nodes it pretends to have", nodes)
        .fact("the rates reach controller manager and scheduler", rates)
        .fact("a thousand pods become ready and none runs", thousand)
        .run()
}

fn nodes(lab: &Lab) -> Result<()> {
    lab.kubectl("milan", "wait --for=condition=Ready node -l type=kwok --timeout=60s")?;
    let nodes = lab.kubectl("milan", "get nodes -l type=kwok --no-headers")?;
    ensure!(nodes.lines().count() == 10, "{nodes}");
    Ok(())
}

fn rates(lab: &Lab) -> Result<()> {
    for component in ["kube-controller-manager", "kube-scheduler"] {
        let words = format!(
            "-n kube-system get pod {component}-milan-1 -o jsonpath={{.spec.containers[0].command}}"
        );
        let flags = lab.kubectl("milan", &words)?;
        ensure!(flags.contains("--kube-api-qps=500"), "{flags}");
    }
    Ok(())
}

fn thousand(lab: &Lab) -> Result<()> {
    lab.apply(
        "milan",
        &[json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "many", "namespace": "default"},
            "spec": {
                "replicas": 1000,
                "selector": {"matchLabels": {"app": "many"}},
                "template": {
                    "metadata": {"labels": {"app": "many"}},
                    "spec": {
                        "nodeSelector": {"type": "kwok"},
                        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                        "containers": [{"name": "none", "image": "none"}],
                    },
                },
            },
        })],
    )?;
    lab.kubectl("milan", "rollout status deployment/many --timeout=180s")?;
    let names = lab.playground(&[
        "exec",
        "milan-1",
        "--",
        "ctr",
        "-n",
        "k8s.io",
        "containers",
        "ls",
        "-q",
    ])?;
    ensure!(names.lines().count() < 30, "{} containers run", names.lines().count());
    let ready = lab.kubectl("milan", "get deployment many -o jsonpath={.status.readyReplicas}")?;
    let ready: u32 = ready.parse().context("a number of pods")?;
    ensure!(ready == 1000, "{ready}");
    Ok(())
}
