//! Pods that have no choice, and need no scheduler.

use anyhow::{Result, ensure};
use liqo_testkit::{Lab, eventually};
use serde_json::{Value, json};

use crate::{SOON, deployment};

/// Pods of a namespace that may go to one cluster only are bound as they are created; what takes a
/// scheduler is left to it, and what finds no room says so.
pub fn skipped(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace straight")?;
    let words = "offload namespace straight --skip-scheduler";
    let refused = lab.liqoctl_command("rome", words).output()?;
    let said = String::from_utf8_lossy(&refused.stdout);
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(said.contains("--pod-offloading-strategy Remote"), "{said}");
    lab.liqoctl("rome", &format!("{words} --pod-offloading-strategy Remote"))?;

    let mut web = deployment("web");
    web["metadata"]["namespace"] = json!("straight");
    web["spec"]["replicas"] = json!(3);
    lab.apply("rome", &[web])?;
    lab.kubectl("rome", "rollout status -n straight deployment/web --timeout=60s")?;
    let nodes = "get pods -n straight -o jsonpath={.items[*].spec.nodeName}";
    let nodes = lab.kubectl("rome", nodes)?;
    ensure!(nodes == "liqo-milan liqo-milan liqo-milan", "{nodes}");
    let scheduled = "get events -n straight --field-selector reason=Scheduled -o name";
    let said = lab.kubectl("rome", scheduled)?;
    ensure!(said.is_empty(), "a scheduler had to do with it: {said}");

    // A node that takes no pods now may do so later: that is for the scheduler to wait for.
    lab.kubectl("rome", "cordon liqo-milan")?;
    lab.apply("rome", &[pod("later", &json!({}))])?;
    let left = lab.kubectl("rome", "wait -n straight pod/later --for=condition=PodScheduled=False");
    lab.kubectl("rome", "uncordon liqo-milan")?;
    left?;
    lab.kubectl("rome", "wait -n straight pod/later --for=condition=Ready --timeout=60s")?;
    ensure!(!lab.kubectl("rome", scheduled)?.is_empty(), "the scheduler bound it");

    lab.apply("rome", &[pod("large", &json!({"requests": {"memory": "1Pi"}}))])?;
    let node = lab.kubectl("rome", "get pod -n straight large -o jsonpath={.spec.nodeName}")?;
    ensure!(node == "liqo-milan", "{node}");
    eventually(SOON, "the other cluster says that there is no room", || {
        let told = lab.kubectl("rome", "events -n straight --for pod/large")?;
        ensure!(told.contains("Insufficient memory"), "{told}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.liqoctl("rome", "unoffload namespace straight")?;
    lab.kubectl("rome", "delete namespace straight")?;
    Ok(())
}

fn pod(name: &str, resources: &Value) -> Value {
    let mut spec = deployment(name)["spec"]["template"]["spec"].clone();
    spec["containers"][0]["resources"] = resources.clone();
    let metadata = json!({"name": name, "namespace": "straight"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
