//! Volumes follow their pods, and then pods follow their volumes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
const IMAGE: &str = "localhost/playground/demo:v1";

fn main() -> ExitCode {
    Scenario::on("pair")
        .fact("two clusters are peered, and one offers volumes", prepare)
        .fact("a claim gets a volume where its first pod runs", first_pod)
        .fact("the next pod goes where the volume is, and finds what was written", next_pod)
        .fact("a virtual kubelet that is killed leaves volumes as they are", killed_kubelet)
        .fact("a claim that is deleted leaves nothing behind", deleted)
        .fact("a StatefulSet has its volumes there", stateful_set)
        .run()
}

fn prepare(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    let words = "install kubeadm --cluster-name rome --service-type NodePort";
    lab.liqoctl("rome", words)?;
    let words = "install kubeadm --cluster-name milan --service-type NodePort \
                 --set storage.realStorageClassName=local-path";
    lab.liqoctl("milan", words)?;
    lab.liqoctl("rome", &lab.peer_command("milan")?)?;
    lab.kubectl("rome", "create namespace shop")?;
    lab.liqoctl("rome", "offload namespace shop")?;
    lab.kubectl("rome", "get storageclass liqo")?;
    eventually(SOON, "the node says so", || {
        let words =
            "get node liqo-milan -o jsonpath={.metadata.labels.storage\\.liqo\\.io/available}";
        let available = lab.kubectl("rome", words)?;
        ensure!(available == "true", "{available}");
        Ok::<_, anyhow::Error>(())
    })
}

/// What the namespace is called in milan.
fn twin(lab: &Lab) -> Result<String> {
    let words =
        "get namespaceoffloading -n shop offloading -o jsonpath={.status.remoteNamespaceName}";
    lab.kubectl("rome", words)
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "storageClassName": "liqo",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "16Mi"}},
        },
    })
}

/// A pod with a claim, on any node that its selector allows.
fn pod(name: &str, claim: &str, selector: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "nodeSelector": selector,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": IMAGE, "args": ["serve"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

fn run(lab: &Lab, pod: &Value) -> Result<()> {
    lab.apply("rome", std::slice::from_ref(pod))?;
    let name = pod["metadata"]["name"].as_str().context("a name")?;
    let words = format!("wait -n shop pod/{name} --for=condition=Ready --timeout=120s");
    lab.kubectl("rome", &words)?;
    let node =
        lab.kubectl("rome", &format!("get pod -n shop {name} -o jsonpath={{.spec.nodeName}}"))?;
    ensure!(node == "liqo-milan", "{name} is on {node}");
    Ok(())
}

fn object(lab: &Lab, cluster: &str, what: &str) -> Result<Value> {
    Ok(serde_json::from_str(&lab.kubectl(cluster, &format!("get {what} -o json"))?)?)
}

fn first_pod(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[claim("data")])?;
    run(lab, &pod("writer", "data", &json!({"liqo.io/type": "virtual-node"})))?;
    let script = "echo far away > /data/said";
    lab.kubectl_words("rome", &["exec", "-n", "shop", "writer", "--", "sh", "-c", script])?;
    let here = object(lab, "rome", "pvc -n shop data")?;
    ensure!(here["status"]["phase"] == "Bound", "{here:#}");
    let volume = here["spec"]["volumeName"].as_str().context("a volume")?;
    let volume = object(lab, "rome", &format!("pv {volume}"))?;
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    ensure!(terms[0]["matchExpressions"][0]["values"] == json!(["liqo-milan"]), "{volume:#}");
    let there = object(lab, "milan", &format!("pvc -n {} data", twin(lab)?))?;
    ensure!(there["status"]["phase"] == "Bound", "{there:#}");
    ensure!(there["spec"]["storageClassName"] == "local-path", "{there:#}");
    Ok(())
}

fn next_pod(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "delete pod -n shop writer")?;
    run(lab, &pod("reader", "data", &json!({})))?;
    reads(lab, "reader")
}

fn reads(lab: &Lab, pod: &str) -> Result<()> {
    let said = lab.kubectl("rome", &format!("exec -n shop {pod} -- cat /data/said"))?;
    ensure!(said.trim() == "far away", "{said}");
    Ok(())
}

fn killed_kubelet(lab: &Lab) -> Result<()> {
    let before = object(lab, "milan", &format!("pvc -n {} data", twin(lab)?))?;
    let kubelet = "get pods -A -l app.kubernetes.io/name=virtual-kubelet --no-headers";
    let kubelet = lab.kubectl("rome", kubelet)?;
    let mut words = kubelet.split_whitespace();
    let (namespace, name) = words.next().zip(words.next()).context("a virtual kubelet")?;
    let kill = format!("delete pod -n {namespace} {name} --grace-period=0 --force --wait=false");
    lab.kubectl("rome", &kill)?;
    lab.kubectl("rome", "delete pod -n shop reader")?;
    run(lab, &pod("again", "data", &json!({})))?;
    reads(lab, "again")?;
    let after = object(lab, "milan", &format!("pvc -n {} data", twin(lab)?))?;
    ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "{after:#}");
    Ok(())
}

fn deleted(lab: &Lab) -> Result<()> {
    let volume = lab.kubectl("rome", "get pvc -n shop data -o jsonpath={.spec.volumeName}")?;
    lab.kubectl("rome", "delete pod -n shop again")?;
    lab.kubectl("rome", "delete pvc -n shop data")?;
    let twin = twin(lab)?;
    for (cluster, what) in
        [("milan", format!("pvc -n {twin} data")), ("rome", format!("pv {volume}"))]
    {
        eventually(SOON, "nothing is left", || {
            let left = lab.kubectl(cluster, &format!("get {what} --ignore-not-found"))?;
            ensure!(left.is_empty(), "{left}");
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(())
}

fn stateful_set(lab: &Lab) -> Result<()> {
    let mut template = claim("data");
    template["metadata"] = json!({"name": "data"});
    let spec = pod("any", "data", &json!({"liqo.io/type": "virtual-node"}))["spec"].take();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "base", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "serviceName": "base",
            "selector": {"matchLabels": {"app": "base"}},
            "template": {"metadata": {"labels": {"app": "base"}}, "spec": {
                "nodeSelector": spec["nodeSelector"],
                "terminationGracePeriodSeconds": 0,
                "containers": spec["containers"],
            }},
            "volumeClaimTemplates": [template],
        },
    });
    lab.apply("rome", &[set])?;
    lab.kubectl("rome", "rollout status -n shop statefulset/base --timeout=180s")?;
    for pod in ["base-0", "base-1"] {
        let script = format!("echo {pod} > /data/name");
        lab.kubectl_words("rome", &["exec", "-n", "shop", pod, "--", "sh", "-c", &script])?;
    }
    lab.kubectl("rome", "rollout restart -n shop statefulset/base")?;
    lab.kubectl("rome", "rollout status -n shop statefulset/base --timeout=180s")?;
    for pod in ["base-0", "base-1"] {
        let name = lab.kubectl("rome", &format!("exec -n shop {pod} -- cat /data/name"))?;
        ensure!(name.trim() == pod, "{pod} has the volume of {name}");
    }
    Ok(())
}
