//! Liqo comes and goes as the manual says: installed by liqoctl, kept by Helm, and gone without trace.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::Value;

const SOON: Duration = Duration::from_mins(1);
const INSTALL: &str = "install kubeadm --service-type NodePort";

/// What the clusters held before Liqo came.
static BEFORE: Mutex<Vec<(String, BTreeSet<String>)>> = Mutex::new(vec![]);

fn main() -> ExitCode {
    Scenario::on("quick-start")
        .fact("liqo is installed on both clusters and nothing restarts", install)
        .fact("status shows a healthy control plane", status)
        .fact("status is told to programs as well", status_for_programs)
        .fact("versions of both sides are shown", version)
        .fact("installing again changes nothing", install_again)
        .fact("the custom resources are explained", explain)
        .fact("webhooks judge what is created and changed", webhooks)
        .fact("metrics of consumers are served through the api server only", metric_agent)
        .fact("real helm lists reads and upgrades what liqoctl installed", helm)
        .fact("an upgrade that never gets ready is rolled back", rollback)
        .fact("an object of somebody else is not overwritten", foreign_object)
        .fact("liqo is not uninstalled while something uses it", blockers)
        .fact("uninstalling leaves the definitions and the ledger of networks", uninstall)
        .fact("an installation that was interrupted is finished by another", interrupted)
        .fact("helm uninstalls what liqoctl installed", helm_uninstall)
        .fact("purging leaves nothing at all", purge)
        .run()
}

fn install(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let objects = objects(lab, cluster)?;
        BEFORE.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.push((cluster.to_owned(), objects));
        let said = lab.liqoctl(cluster, &format!("{INSTALL} --cluster-name {cluster}"))?;
        ensure!(said.contains("installed"), "{said}");
        all_running(lab, cluster)?;
    }
    Ok(())
}

/// All pods of Liqo run, none has been restarted.
fn all_running(lab: &Lab, cluster: &str) -> Result<()> {
    let pods: Value = serde_json::from_str(&lab.kubectl(cluster, "get pods -n liqo -o json")?)?;
    let pods = pods["items"].as_array().context("a list")?;
    ensure!(pods.len() >= 5, "{} pods", pods.len());
    for pod in pods {
        let name = &pod["metadata"]["name"];
        let status = &pod["status"];
        ensure!(status["phase"] == "Running", "{name}: {status:#}");
        for container in status["containerStatuses"].as_array().into_iter().flatten() {
            ensure!(container["restartCount"] == 0, "{name}: {container:#}");
        }
    }
    Ok(())
}

fn status(lab: &Lab) -> Result<()> {
    for cluster in ["rome", "milan"] {
        let said = lab.liqoctl(cluster, "status")?;
        for part in [
            "liqo-controller-manager",
            "liqo-crd-replicator",
            "liqo-auth",
            "liqo-proxy",
            "liqo-metric-agent",
            "Desired: 1, Ready: 1/1, Available: 1/1",
            &format!("Cluster name: {cluster}"),
            "Cluster ID:",
        ] {
            ensure!(
                said.replace("  ", " ").contains(part) || said.contains(part),
                "no {part}:\n{said}"
            );
        }
        let address = if cluster == "rome" { "https://198.18.1.1" } else { "https://198.18.2.1" };
        ensure!(said.contains(address), "no {address}:\n{said}");
    }
    Ok(())
}

fn status_for_programs(lab: &Lab) -> Result<()> {
    let said: Value = serde_json::from_str(&lab.liqoctl("rome", "status -o json")?)?;
    ensure!(said.to_string().contains("rome"), "{said:#}");
    ensure!(lab.liqoctl("rome", "status -o yaml")?.contains("rome"));
    let none = lab.liqoctl_command("rome", "status -n elsewhere").output()?;
    ensure!(none.status.code() == Some(1), "{none:?}");
    Ok(())
}

fn version(lab: &Lab) -> Result<()> {
    let said = lab.liqoctl("rome", "version")?;
    ensure!(said.contains("Client version: v0.8.3"), "{said}");
    ensure!(said.contains("Server version: v0.8.3"), "{said}");
    Ok(())
}

fn install_again(lab: &Lab) -> Result<()> {
    let pods = || lab.kubectl("rome", "get pods -n liqo -o name --sort-by=.metadata.name");
    let versions = || {
        let columns = "custom-columns=K:.kind,N:.metadata.name,V:.metadata.resourceVersion";
        let kinds = "deploy,svc,cm,sa,clusterrole,clusterrolebinding,role,rolebinding";
        lab.kubectl(
            "rome",
            &format!("get {kinds} -n liqo -l app.kubernetes.io/part-of=liqo -o {columns}"),
        )
    };
    let (before, versions_before) = (pods()?, versions()?);
    let said = lab.liqoctl("rome", &format!("{INSTALL} --cluster-name rome"))?;
    ensure!(pods()? == before, "pods changed: {said}");
    let after = versions()?;
    ensure!(after == versions_before, "objects changed:\n{versions_before}\n{after}");
    // The name it has is kept when none is given.
    lab.liqoctl("rome", INSTALL)?;
    let name = "get cm -n liqo liqo-clusterid-configmap -o jsonpath={.data.CLUSTER_NAME}";
    ensure!(lab.kubectl("rome", name)? == "rome");
    ensure!(pods()? == before);
    Ok(())
}

fn explain(lab: &Lab) -> Result<()> {
    for (path, word) in [
        ("foreigncluster.spec.foreignAuthUrl", "foreignAuthUrl"),
        ("resourceoffer.spec.resourceQuota", "resourceQuota"),
        ("namespaceoffloading.spec.podOffloadingStrategy", "LocalAndRemote"),
    ] {
        let said = lab.kubectl("rome", &format!("explain {path}"))?;
        ensure!(said.contains(word) && said.contains("DESCRIPTION"), "{said}");
    }
    Ok(())
}

fn webhooks(lab: &Lab) -> Result<()> {
    let apply = |object: Value| lab.apply("rome", &[object]);
    let cluster = |id: &str| {
        serde_json::json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ForeignCluster",
            "metadata": { "name": "nobody" },
            "spec": {
                "foreignAuthUrl": "https://198.18.255.1:30443",
                "outgoingPeeringEnabled": "No",
                "incomingPeeringEnabled": "No",
                "insecureSkipTLSVerify": true,
                "clusterIdentity": { "clusterID": id, "clusterName": "nobody" },
            },
        })
    };
    let one = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
    apply(cluster(one))?;
    let labels = lab.kubectl("rome", "get foreigncluster nobody -o jsonpath={.metadata.labels}")?;
    ensure!(labels.contains(one), "{labels}");
    let refused = apply(cluster("06ae40b0-be4b-4ed6-9f42-8fa4dfb9a7f6"));
    let Err(refused) = refused else { bail!("another identity was accepted") };
    ensure!(format!("{refused:#}").contains("cannot"), "{refused:#}");
    let offloading = serde_json::json!({
        "apiVersion": "offloading.liqo.io/v1alpha1",
        "kind": "NamespaceOffloading",
        "metadata": { "name": "mine", "namespace": "default" },
        "spec": { "clusterSelector": { "nodeSelectorTerms": [] } },
    });
    let Err(refused) = apply(offloading) else { bail!("a second name was accepted") };
    ensure!(format!("{refused:#}").contains("offloading"), "{refused:#}");
    lab.kubectl("rome", "delete foreigncluster nobody --timeout=60s")?;
    Ok(())
}

fn metric_agent(lab: &Lab) -> Result<()> {
    let path = "/apis/metrics.liqo.io/v1alpha1/scrape/2cb4110a-c5e6-4a52-851d-d0e0d86c9174/metrics";
    let said = eventually(SOON, "metrics are served", || {
        let said = lab.kubectl("rome", &format!("get --raw {path}/resource"))?;
        ensure!(said.contains("node_cpu_usage_seconds_total "), "{said}");
        Ok::<_, anyhow::Error>(said)
    })?;
    ensure!(!said.contains("kube-system"), "metrics of others are shown:\n{said}");
    let wrong = lab.kubectl("rome", &format!("get --raw {path}/exec"));
    ensure!(wrong.is_err(), "an unknown path was answered");
    Ok(())
}

fn helm(lab: &Lab) -> Result<()> {
    let list: Value = serde_json::from_str(&run_helm(lab, "rome", "list -n liqo -o json")?)?;
    ensure!(list[0]["name"] == "liqo" && list[0]["status"] == "deployed", "{list:#}");
    let values = run_helm(lab, "rome", "get values liqo -n liqo -o json")?;
    ensure!(values.contains(r#""clusterName":"rome""#), "{values}");
    let chart = liqo_testkit::places()?.home.join("charts/liqo").display().to_string();
    run_helm(
        lab,
        "rome",
        &format!(
            "upgrade liqo {chart} -n liqo --reuse-values --set proxy.pod.labels.team=a --wait"
        ),
    )?;
    let team = "get pods -n liqo -l team=a -o name";
    ensure!(lab.kubectl("rome", team)?.lines().count() == 1);
    // And liqoctl goes on from there.
    lab.liqoctl("rome", INSTALL)?;
    eventually(SOON, "the label is gone again", || {
        let pods = lab.kubectl("rome", team)?;
        ensure!(pods.is_empty(), "{pods}");
        Ok::<_, anyhow::Error>(())
    })?;
    let list: Value = serde_json::from_str(&run_helm(lab, "rome", "list -n liqo -o json")?)?;
    ensure!(list[0]["status"] == "deployed" && list[0]["revision"] == "3", "{list:#}");
    Ok(())
}

fn rollback(lab: &Lab) -> Result<()> {
    let words = format!("{INSTALL} --set proxy.imageName=localhost/none:v1 --timeout 10s");
    let output = lab.liqoctl_command("rome", &words).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{said}");
    ensure!(said.contains("liqo-proxy"), "it is not said what was not ready:\n{said}");
    let image =
        "get deploy -n liqo liqo-proxy -o jsonpath={.spec.template.spec.containers[0].image}";
    let image = lab.kubectl("rome", image)?;
    ensure!(image.ends_with("liqo/liqo:v0.8.3"), "{image} after:\n{said}");
    lab.kubectl("rome", "rollout status -n liqo deploy/liqo-proxy --timeout=60s")?;
    lab.liqoctl("rome", "status")?;
    Ok(())
}

fn foreign_object(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace second")?;
    lab.kubectl("rome", "create configmap -n second liqo-clusterid-configmap --from-literal=A=B")?;
    let output = lab
        .liqoctl_command("rome", "install kubeadm -n second --cluster-name other --timeout 10s")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{said}");
    ensure!(
        said.contains("liqo-clusterid-configmap") || said.contains("liqo-controller-manager"),
        "{said}"
    );
    let left = lab.kubectl("rome", "get all,cm,secret -n second -o name")?;
    ensure!(!left.contains("liqo-auth") && !left.contains("sh.helm"), "{left}");
    lab.kubectl("rome", "delete namespace second --timeout=60s")?;
    lab.liqoctl("rome", "status")?;
    Ok(())
}

fn blockers(lab: &Lab) -> Result<()> {
    let offloading = serde_json::json!({
        "apiVersion": "offloading.liqo.io/v1alpha1",
        "kind": "NamespaceOffloading",
        "metadata": { "name": "offloading", "namespace": "default" },
        "spec": { "clusterSelector": { "nodeSelectorTerms": [] } },
    });
    lab.apply("rome", &[offloading])?;
    let output = lab.liqoctl_command("rome", "uninstall").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{said}");
    ensure!(said.contains("default"), "the blocker is not named:\n{said}");
    all_running(lab, "rome")?;
    lab.kubectl("rome", "delete namespaceoffloading -n default offloading --timeout=60s")?;
    Ok(())
}

fn uninstall(lab: &Lab) -> Result<()> {
    lab.liqoctl("rome", "uninstall")?;
    let left = left(lab, "rome")?;
    let expected = |name: &String| {
        name.contains("customresourcedefinition") || name == "namespace/liqo"
            // Kubernetes adds one for every group of custom resources.
            || name.starts_with("apiservice/v1alpha1.")
            // What networks are called stays the same for the next installation.
            || name.starts_with("ipamstorage/")
    };
    let unexpected: Vec<&String> =
        left.iter().filter(|name| !expected(name) && !name.starts_with("liqo ")).collect();
    ensure!(unexpected.is_empty(), "{unexpected:#?}");
    ensure!(left.iter().any(|name| name.contains("customresourcedefinition")), "{left:#?}");
    Ok(())
}

fn interrupted(lab: &Lab) -> Result<()> {
    let words = format!("{INSTALL} --cluster-name rome");
    let mut first = lab.liqoctl_command("rome", &words).spawn()?;
    eventually(SOON, "the installation has begun", || {
        lab.kubectl("rome", "get deploy -n liqo liqo-controller-manager -o name")
    })?;
    first.kill()?;
    first.wait()?;
    lab.liqoctl("rome", &words)?;
    all_running(lab, "rome")?;
    lab.liqoctl("rome", "status")?;
    Ok(())
}

fn helm_uninstall(lab: &Lab) -> Result<()> {
    run_helm(lab, "milan", "uninstall liqo -n liqo --wait --timeout 2m")?;
    let roles =
        lab.kubectl("milan", "get clusterrole -l app.kubernetes.io/part-of=liqo -o name")?;
    ensure!(roles.is_empty(), "{roles}");
    Ok(())
}

fn purge(lab: &Lab) -> Result<()> {
    for cluster in ["rome", "milan"] {
        lab.liqoctl(cluster, "uninstall --purge")?;
        let left = left(lab, cluster)?;
        ensure!(left.is_empty(), "{cluster}: {left:#?}");
    }
    Ok(())
}

fn run_helm(lab: &Lab, cluster: &str, words: &str) -> Result<String> {
    let output = lab.engine_command(cluster, "helm")?.args(words.split_whitespace()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {words}: {said}{complaint}");
    Ok(said)
}

/// What is there now that was not there before Liqo came.
fn left(lab: &Lab, cluster: &str) -> Result<BTreeSet<String>> {
    let before = BEFORE.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
    let (_, before) =
        before.iter().find(|(name, _)| name == cluster).context("it was looked at")?;
    let now = objects(lab, cluster)?;
    Ok(now.difference(before).cloned().collect())
}

/// All objects of a cluster, as `namespace kind/name`, but for what comes and goes by itself.
fn objects(lab: &Lab, cluster: &str) -> Result<BTreeSet<String>> {
    let kinds = lab.kubectl(cluster, "api-resources --verbs=list -o name")?;
    let passing = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];
    let kinds: Vec<&str> = kinds
        .lines()
        .filter(|kind| !passing.contains(kind) && !kind.contains("metrics.k8s.io"))
        .collect();
    let columns = "custom-columns=A:.metadata.namespace,B:.kind,C:.metadata.name";
    let words = ["get", &kinds.join(","), "-A", "--no-headers", "-o", columns];
    let listed = lab.kubectl_words(cluster, &words)?;
    let name = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["<none>", kind, name] => format!("{}/{name}", kind.to_lowercase()),
            [namespace, kind, name] => format!("{namespace} {}/{name}", kind.to_lowercase()),
            _ => line.to_owned(),
        }
    };
    Ok(listed.lines().map(name).collect())
}
