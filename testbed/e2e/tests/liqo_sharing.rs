//! How much a provider lends, as the manual's chapter on peering says, while it changes.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

/// Milan pretends to have a node more than it has.
const TOPOLOGY: &str = "
clusters:
  - name: rome
    podCIDR: 10.10.0.0/16
    serviceCIDR: 10.11.0.0/16
    addons: {dns: false, metrics: false, storage: false}
  - name: milan
    podCIDR: 10.20.0.0/16
    serviceCIDR: 10.21.0.0/16
    fakeNodes: 1
    addons: {dns: false, metrics: false, storage: true}
";
/// A component may have to be replaced first.
const LIMIT: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
    file.write_all(TOPOLOGY.as_bytes()).expect("the file is written");
    Scenario::on(file.path().display().to_string())
        .fact("of 100 CPUs that are free 90 are lent", hundred)
        .fact("once pods ask for 50 of them, 45 are lent", busy)
        .fact("when the cluster has doubled, 180 are lent", doubled)
        .fact("the percentage can be changed at any time", percentage)
        .fact("of GPUs whole ones are lent, and one that is left is one", gpus)
        .fact("storage classes are part of the offer", classes)
        .run()
}

fn hundred(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    install(lab, "rome", 90)?;
    install(lab, "milan", 90)?;
    lab.liqoctl("rome", &lab.peer_command("milan")?)?;
    // With this node, what is free is 100 CPUs.
    let missing = 100_000 - free(lab)?;
    add_node(lab, "ballast", &format!("{missing}m"), "0")?;
    offers(lab, "cpu", 90_000)
}

fn busy(lab: &Lab) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "busy", "namespace": "default"},
        "spec": {
            "nodeName": "ballast",
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [{
                "name": "none",
                "image": "none",
                "resources": {"requests": {"cpu": "50"}},
            }],
        },
    });
    lab.apply("milan", &[pod])?;
    offers(lab, "cpu", 45_000)
}

fn doubled(lab: &Lab) -> Result<()> {
    lab.kubectl("milan", "delete pod busy --grace-period=0 --force")?;
    add_node(lab, "more", "100", "1")?;
    offers(lab, "cpu", 180_000)
}

fn percentage(lab: &Lab) -> Result<()> {
    install(lab, "milan", 50)?;
    // While components are replaced more of them run, which is too little a change to be told.
    eventually(LIMIT, "half is lent", || {
        let now = lent(lab, "cpu")?;
        ensure!((99_000..=100_000).contains(&now), "{now}");
        Ok::<_, anyhow::Error>(())
    })
}

fn gpus(lab: &Lab) -> Result<()> {
    offers(lab, "example\\.org/gpu", 1_000)?;
    add_node(lab, "gpus", "1", "4")?;
    // Half of five.
    offers(lab, "example\\.org/gpu", 2_000)
}

fn classes(lab: &Lab) -> Result<()> {
    let label = "get node liqo-milan -o jsonpath={.metadata.labels.storage\\.liqo\\.io/available}";
    ensure!(lab.kubectl("rome", label)? == "true");
    let offer = "get resourceoffers -A -o jsonpath={.items[0].spec.storageClasses}";
    let classes = lab.kubectl("rome", offer)?;
    ensure!(classes.contains("local-path"), "{classes}");
    Ok(())
}

fn install(lab: &Lab, cluster: &str, percentage: u8) -> Result<()> {
    let words = format!(
        "install kubeadm --cluster-name {cluster} --service-type NodePort \
         --sharing-percentage {percentage}"
    );
    lab.liqoctl(cluster, &words)?;
    Ok(())
}

/// Waits until that much is lent, in thousandths.
fn offers(lab: &Lab, what: &str, thousandths: i64) -> Result<()> {
    eventually(LIMIT, "that much is lent", || {
        let now = lent(lab, what)?;
        ensure!(now == thousandths, "{now} of {what} instead of {thousandths}");
        Ok::<_, anyhow::Error>(())
    })
}

/// How much is lent of something, in thousandths.
fn lent(lab: &Lab, what: &str) -> Result<i64> {
    let words = format!("get node liqo-milan -o jsonpath={{.status.allocatable.{what}}}");
    amount(&lab.kubectl("rome", &words)?)
}

/// The CPUs that milan's nodes have and its pods did not ask for, in thousandths.
fn free(lab: &Lab) -> Result<i64> {
    let list = |what: &str| -> Result<Vec<Value>> {
        let text = lab.kubectl("milan", &format!("get {what} -A -o json"))?;
        let mut list: Value = serde_json::from_str(&text)?;
        Ok(serde_json::from_value(list["items"].take())?)
    };
    let mut free = 0;
    for node in list("nodes")? {
        free += amount(node["status"]["allocatable"]["cpu"].as_str().context("an amount")?)?;
    }
    for pod in list("pods")?.iter().filter(|pod| pod["status"]["phase"] == "Running") {
        for container in pod["spec"]["containers"].as_array().context("containers")? {
            let request = container.pointer("/resources/requests/cpu").and_then(Value::as_str);
            free -= request.map_or(Ok(0), amount)?;
        }
    }
    Ok(free)
}

fn amount(text: &str) -> Result<i64> {
    Ok(match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse()?,
        None => text.parse::<i64>().with_context(|| format!("'{text}' is no amount"))? * 1000,
    })
}

/// Adds a node that only pretends.
fn add_node(lab: &Lab, name: &str, cpu: &str, gpus: &str) -> Result<()> {
    let has = json!({"cpu": cpu, "memory": "256Gi", "pods": "250", "example.org/gpu": gpus});
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"type": "kwok"},
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": has, "capacity": has},
    });
    lab.apply("milan", &[node])?;
    lab.kubectl("milan", &format!("wait --for=condition=Ready node/{name} --timeout=60s"))?;
    Ok(())
}
