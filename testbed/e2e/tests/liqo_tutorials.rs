//! The tutorials on three clusters, command by command.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::Value;

const PROVIDERS: [&str; 2] = ["florence", "naples"];
const SOON: Duration = Duration::from_mins(1);

fn main() -> ExitCode {
    Scenario::on("three")
        .fact("policies: three clusters are set up, and each has its label", policies)
        .fact("policies: nodes have the labels of their clusters", labelled)
        .fact("policies: a namespace reaches the clusters that it selects", selected)
        .fact("policies: pods run where both they and their namespace allow", south)
        .fact("policies: pods come home with their namespace", home)
        .fact("replicas: clusters are labelled anew by setting them up again", replicas)
        .fact("replicas: each cluster runs one pod, or an even share", spread)
        .fact("replicas: everything is given back", give_back)
        .run()
}

/// Runs the script of an example on the lab's clusters.
fn set_up(lab: &Lab, example: &str) -> Result<()> {
    let like = lab.command(&[]);
    let home = like
        .get_envs()
        .find_map(|(name, value)| value.filter(|_| name == "PLAYGROUND_HOME"))
        .context("the playground has a home")?;
    let script = std::path::Path::new(home).join("examples").join(example).join("setup.sh");
    let mut command = Command::new(&script);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().with_context(|| script.display().to_string())?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

fn manifest(example: &str) -> String {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    format!("{examples}/{example}/deploy.yaml")
}

fn policies(lab: &Lab) -> Result<()> {
    set_up(lab, "offloading-with-policies")?;
    for (cluster, region) in [("venice", "north"), ("florence", "center"), ("naples", "south")] {
        let said = lab.liqoctl(cluster, "status")?;
        ensure!(said.contains(region), "{said}");
    }
    Ok(())
}

fn labelled(lab: &Lab) -> Result<()> {
    for provider in PROVIDERS {
        lab.liqoctl("venice", &lab.peer_command(provider)?)?;
    }
    let known = lab.kubectl("venice", "get foreignclusters --no-headers")?;
    ensure!(known.lines().count() == 2, "{known}");
    ensure!(known.lines().all(|line| line.contains("Established")), "{known}");
    let nodes = "get nodes --selector liqo.io/type=virtual-node --no-headers -L";
    let nodes = lab.kubectl("venice", &format!("{nodes} topology.liqo.io/region"))?;
    for (node, region) in [("liqo-florence", "center"), ("liqo-naples", "south")] {
        let line = nodes.lines().find(|line| line.starts_with(node));
        ensure!(line.is_some_and(|line| line.ends_with(region)), "{nodes}");
    }
    Ok(())
}

fn selected(lab: &Lab) -> Result<()> {
    lab.kubectl("venice", "create namespace liqo-demo")?;
    lab.liqoctl(
        "venice",
        "offload namespace liqo-demo --namespace-mapping-strategy EnforceSameName \
         --pod-offloading-strategy LocalAndRemote --selector topology.liqo.io/region=south",
    )?;
    let words = "get namespaceoffloadings offloading -n liqo-demo -o json";
    let offloading: Value = serde_json::from_str(&lab.kubectl("venice", words)?)?;
    let status = &offloading["status"];
    ensure!(status["offloadingPhase"] == "Ready", "{status}");
    ensure!(status["remoteNamespaceName"] == "liqo-demo", "{status}");
    let conditions = status["remoteNamespacesConditions"].as_object().context("conditions")?;
    let reasons = |cluster: &str| -> Vec<&str> {
        let found = conditions.iter().find(|(name, _)| name.starts_with(cluster));
        let of = found.and_then(|(_, list)| list.as_array());
        of.into_iter().flatten().filter_map(|condition| condition["reason"].as_str()).collect()
    };
    ensure!(reasons("florence") == ["ClusterNotSelected"], "{status}");
    ensure!(reasons("naples") == ["ClusterSelected", "NamespaceCreated"], "{status}");
    lab.kubectl("naples", "get namespace liqo-demo")?;
    ensure!(lab.kubectl("florence", "get namespace liqo-demo").is_err());
    Ok(())
}

fn south(lab: &Lab) -> Result<()> {
    let file = manifest("offloading-with-policies");
    lab.kubectl("venice", &format!("apply -n liqo-demo -f {file}"))?;
    let rollout = "rollout status -n liqo-demo deployment/app-south --timeout=60s";
    lab.kubectl("venice", rollout)?;
    ensure!(nodes_of(lab, "app-south")? == ["liqo-naples"]);
    // Nobody takes the other one, and the scheduler says so.
    let words = "wait -n liqo-demo pod -l app=app-center --for=condition=PodScheduled=false";
    lab.kubectl("venice", &format!("{words} --timeout=60s"))?;
    ensure!(nodes_of(lab, "app-center")? == ["<none>"]);
    // Without its own wish it goes where the namespace may.
    let patch = r#"[{"op": "remove", "path": "/spec/template/spec/affinity"}]"#;
    lab.kubectl_words(
        "venice",
        &["patch", "-n", "liqo-demo", "deployment/app-center", "--type=json", "-p", patch],
    )?;
    let rollout = "rollout status -n liqo-demo deployment/app-center --timeout=60s";
    lab.kubectl("venice", rollout)?;
    eventually(SOON, "only the new pod is left", || {
        let nodes = nodes_of(lab, "app-center")?;
        ensure!(nodes == ["liqo-naples"] || nodes == ["venice-1"], "{nodes:?}");
        Ok::<_, anyhow::Error>(())
    })
}

/// Where the pods of an application are, without those that ended.
fn nodes_of(lab: &Lab, app: &str) -> Result<Vec<String>> {
    let columns = "-o custom-columns=NODE:.spec.nodeName --no-headers";
    let live = "--field-selector status.phase!=Failed";
    let words = format!("get pods -n liqo-demo -l app={app} {live} {columns}");
    let mut nodes: Vec<String> =
        lab.kubectl("venice", &words)?.lines().map(|line| line.trim().to_owned()).collect();
    nodes.sort();
    Ok(nodes)
}

fn home(lab: &Lab) -> Result<()> {
    lab.kubectl("venice", "delete -n liqo-demo deployment app-south")?;
    lab.liqoctl("venice", "unoffload namespace liqo-demo")?;
    ensure!(lab.kubectl("naples", "get namespace liqo-demo").is_err());
    let words = "rollout status -n liqo-demo deployment/app-center --timeout=60s";
    lab.kubectl("venice", words)?;
    eventually(SOON, "the pod runs at home", || {
        let nodes = nodes_of(lab, "app-center")?;
        ensure!(nodes == ["venice-1"], "{nodes:?}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("venice", "delete namespace liqo-demo --timeout=60s")?;
    Ok(())
}

fn replicas(lab: &Lab) -> Result<()> {
    set_up(lab, "replicated-deployments")?;
    let nodes = "get nodes --selector topology.liqo.io/type=destination -o name";
    eventually(SOON, "the nodes have the new labels", || {
        let found = lab.kubectl("venice", nodes)?;
        ensure!(found.lines().count() == 2, "{found}");
        Ok::<_, anyhow::Error>(())
    })
}

fn spread(lab: &Lab) -> Result<()> {
    lab.kubectl("venice", "create namespace liqo-demo")?;
    lab.liqoctl(
        "venice",
        "offload namespace liqo-demo --namespace-mapping-strategy EnforceSameName \
         --pod-offloading-strategy Remote --selector topology.liqo.io/type=destination",
    )?;
    for provider in PROVIDERS {
        lab.kubectl(provider, "get namespace liqo-demo")?;
    }
    let file = manifest("replicated-deployments");
    lab.kubectl("venice", &format!("apply -n liqo-demo -f {file}"))?;
    let rollout = "rollout status -n liqo-demo deployment/liqo-demo-app --timeout=60s";
    lab.kubectl("venice", rollout)?;
    let nodes = nodes_of(lab, "liqo-demo-app")?;
    ensure!(nodes == ["liqo-florence", "liqo-naples"], "{nodes:?}");
    lab.kubectl("venice", "scale -n liqo-demo deployment/liqo-demo-app --replicas 4")?;
    lab.kubectl("venice", rollout)?;
    let nodes = nodes_of(lab, "liqo-demo-app")?;
    ensure!(nodes == ["liqo-florence", "liqo-florence", "liqo-naples", "liqo-naples"], "{nodes:?}");
    for provider in PROVIDERS {
        let words = "get pods -n liqo-demo --field-selector status.phase=Running --no-headers";
        let pods = lab.kubectl(provider, words)?;
        ensure!(pods.lines().count() == 2, "{provider}: {pods}");
    }
    Ok(())
}

fn give_back(lab: &Lab) -> Result<()> {
    lab.liqoctl("venice", "unoffload namespace liqo-demo")?;
    for provider in PROVIDERS {
        ensure!(lab.kubectl(provider, "get namespace liqo-demo").is_err(), "{provider}");
        lab.liqoctl("venice", &format!("unpeer out-of-band {provider}"))?;
    }
    let nodes = lab.kubectl("venice", "get nodes --no-headers")?;
    ensure!(nodes.lines().count() == 1, "{nodes}");
    Ok(())
}
