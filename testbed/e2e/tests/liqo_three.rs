//! Three clusters: one that uses two others, a chain, and clusters that have the same name.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::pod;
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::json;

const CLUSTERS: [&str; 3] = ["venice", "florence", "naples"];
const IMAGE: &str = "localhost/playground/demo:v1";
const SOON: Duration = Duration::from_mins(1);
/// How long a component may take to be replaced, and to do what the new one is told.
const RESTARTED: Duration = Duration::from_mins(2);
/// Venice has a name of its own; the other two have the same.
const NAMES: [&str; 3] = ["venice", "town", "town"];

fn main() -> ExitCode {
    Scenario::on("three")
        .fact("each of three clusters reaches the api server of the others", reach)
        .fact("two clusters of one name use the same provider", namesakes)
        .fact("a second provider of the same name needs another one", same_name)
        .fact("a hub has a node for each of its providers", hub)
        .fact("pods in two providers reach each other through the hub", leaves)
        .fact("a provider may use another one", chain)
        .fact("labels of a provider are labels of its node, whenever they change", labels)
        .fact("an authentication service may move", moved)
        .fact("a resource plugin gives every peer its own share", plugin)
        .fact("a hub parts from one provider and keeps the other", part)
        .fact("an authentication service may be behind an Ingress", behind_ingress)
        .run()
}

fn reach(lab: &Lab) -> Result<()> {
    for name in CLUSTERS {
        lab.apply(name, &[pod("asker").build()])?;
        let nodes = lab.kubectl(name, "get nodes --no-headers")?;
        ensure!(nodes.starts_with(&format!("{name}-1 ")), "{nodes}");
    }
    for name in CLUSTERS {
        lab.ready(name, &["asker"])?;
        for other in CLUSTERS {
            let address = lab.plan().cluster(other).context(other)?.control_plane().address;
            lab.kubectl(name, &format!("exec asker -- demo wait-for {address}:6443 --max-time 3"))?;
        }
    }
    Ok(())
}

fn namesakes(lab: &Lab) -> Result<()> {
    lab.load_liqo(&CLUSTERS)?;
    for (cluster, name) in CLUSTERS.into_iter().zip(NAMES) {
        install(lab, cluster, name, "")?;
    }
    let command = lab.peer_command("venice")?;
    for consumer in ["florence", "naples"] {
        lab.liqoctl(consumer, &command)?;
        is_ready(lab, consumer, "liqo-venice")?;
    }
    let known = lab.kubectl("venice", "get foreignclusters --no-headers")?;
    ensure!(known.lines().count() == 2, "{known}");
    ensure!(known.lines().all(|line| line.starts_with("town")), "{known}");
    for consumer in ["florence", "naples"] {
        lab.liqoctl(consumer, "unpeer out-of-band venice")?;
        ensure!(lab.kubectl(consumer, "get node liqo-venice").is_err(), "{consumer}");
    }
    eventually(SOON, "the provider forgets both", || {
        let left = lab.kubectl("venice", "get foreignclusters -o name")?;
        ensure!(left.is_empty(), "{left}");
        Ok::<_, anyhow::Error>(())
    })
}

fn same_name(lab: &Lab) -> Result<()> {
    lab.liqoctl("venice", &lab.peer_command("florence")?)?;
    is_ready(lab, "venice", "liqo-town")?;
    let command = lab.peer_command("naples")?;
    let secrets = || lab.kubectl("venice", "get secrets -n liqo -o name");
    let before = secrets()?;
    let refused = lab.liqoctl_command("venice", &command).output()?;
    let said = String::from_utf8_lossy(&refused.stdout);
    ensure!(refused.status.code() == Some(1), "{said}");
    ensure!(said.contains("there is another cluster called town"), "{said}");
    ensure!(secrets()? == before, "a token was left behind");
    Ok(())
}

fn hub(lab: &Lab) -> Result<()> {
    let command = lab.peer_command("naples")?.replace(" town ", " naples ");
    lab.liqoctl("venice", &command)?;
    for node in ["liqo-town", "liqo-naples"] {
        is_ready(lab, "venice", node)?;
    }
    let said = lab.liqoctl("venice", "status peer town naples")?;
    ensure!(said.contains("town - ") && said.contains("naples - "), "{said}");
    let tenants =
        lab.kubectl("venice", "get namespaces -l discovery.liqo.io/tenant-namespace=true -o name")?;
    ensure!(tenants.lines().count() == 2, "{tenants}");
    Ok(())
}

/// The clusters of the two pods know nothing of each other yet.
fn leaves(lab: &Lab) -> Result<()> {
    lab.kubectl("venice", "create namespace mesh")?;
    let words = "offload namespace mesh --namespace-mapping-strategy EnforceSameName \
                 --pod-offloading-strategy Remote";
    lab.liqoctl("venice", words)?;
    let pod = |name: &str, node: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": "mesh", "labels": { "app": name } },
            "spec": {
                "nodeSelector": { "kubernetes.io/hostname": node },
                "containers": [{ "name": "main", "image": IMAGE, "args": ["serve"] }],
            },
        })
    };
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "server", "namespace": "mesh" },
        "spec": {
            "selector": { "app": "server" },
            "ports": [{ "port": 80, "targetPort": 8080 }],
        },
    });
    lab.apply("venice", &[pod("server", "liqo-town"), pod("client", "liqo-naples"), service])?;
    let both = "pod/server pod/client";
    lab.kubectl("venice", &format!("wait -n mesh --for=condition=Ready {both} --timeout=90s"))?;
    eventually(SOON, "the pod in florence answers the one in naples", || {
        let said = lab.kubectl("venice", "exec -n mesh client -- curl -s -f http://server")?;
        ensure!(said.contains(r#""hostname":"server""#), "{said}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("venice", "delete namespace mesh")?;
    Ok(())
}

fn chain(lab: &Lab) -> Result<()> {
    let command = lab.peer_command("naples")?.replace(" town ", " naples ");
    lab.liqoctl("florence", &command)?;
    is_ready(lab, "florence", "liqo-naples")?;
    // What florence borrows is not what it lends.
    let nodes = lab.kubectl("venice", "get nodes --no-headers")?;
    ensure!(nodes.lines().count() == 3, "{nodes}");
    let consumers = lab.kubectl("naples", "get foreignclusters --no-headers")?;
    ensure!(consumers.matches("Established").count() >= 2, "{consumers}");
    let (own, lent) = (cpu(lab, "florence", "florence-1")?, cpu(lab, "venice", "liqo-town")?);
    ensure!(lent < own, "{lent} lent of {own}");
    Ok(())
}

fn labels(lab: &Lab) -> Result<()> {
    let shown = |consumer: &str, region: &str| -> Result<()> {
        let words = "get node liqo-naples -o jsonpath={.metadata.labels}";
        eventually(RESTARTED, "the label is there", || {
            let labels = lab.kubectl(consumer, words)?;
            ensure!(labels.contains(&format!("\"example.org/region\":\"{region}\"")), "{labels}");
            Ok::<_, anyhow::Error>(())
        })
    };
    for region in ["south", "deep-south"] {
        install(lab, "naples", "town", &format!("--cluster-labels example.org/region={region}"))?;
        for consumer in ["venice", "florence"] {
            shown(consumer, region)?;
        }
    }
    Ok(())
}

fn moved(lab: &Lab) -> Result<()> {
    let service = "get service liqo-auth -n liqo -o jsonpath={.spec.ports[0].nodePort}";
    let before = lab.kubectl("naples", service)?;
    let port = if before == "30999" { "30998" } else { "30999" };
    let change = format!(
        "[{{\"op\": \"replace\", \"path\": \"/spec/ports/0/nodePort\", \"value\": {port}}}]"
    );
    let words = ["patch", "service", "liqo-auth", "-n", "liqo", "--type=json", "-p", &change];
    lab.kubectl_words("naples", &words)?;
    let command = lab.peer_command("naples")?.replace(" town ", " naples ");
    ensure!(command.contains(&format!(":{port} ")), "{command}");
    lab.liqoctl("florence", &command)?;
    let url =
        lab.kubectl("florence", "get foreigncluster naples -o jsonpath={.spec.foreignAuthUrl}")?;
    ensure!(url.ends_with(port), "{url}");
    // The new address is good for something: an identity that is lost comes from there.
    let naples = cluster_id(lab, "naples")?;
    let identity = |field: &str| -> Result<String> {
        let labels =
            format!("discovery.liqo.io/local-identity=true,discovery.liqo.io/cluster-id={naples}");
        let path = format!("jsonpath={{.items[*].metadata.{field}}}");
        lab.kubectl("florence", &format!("get secrets -A -l {labels} -o {path}"))
    };
    let (tenant, name, old) = (identity("namespace")?, identity("name")?, identity("uid")?);
    lab.kubectl("florence", &format!("delete secret -n {tenant} {name}"))?;
    eventually(SOON, "the identity is there again", || {
        let new = identity("uid")?;
        ensure!(!new.is_empty() && new != old, "{new}");
        Ok::<_, anyhow::Error>(())
    })?;
    is_ready(lab, "florence", "liqo-naples")
}

fn plugin(lab: &Lab) -> Result<()> {
    lab.playground(&["load", "naples", "resource-plugin"])?;
    let manifest =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/resource-plugin/manifest.yaml");
    lab.kubectl("naples", &format!("apply -f {manifest}"))?;
    lab.kubectl("naples", "rollout status -n liqo deployment/resource-plugin --timeout=60s")?;
    let address = "--set controllerManager.config.resourcePluginAddress=resource-plugin.liqo:6001";
    install(lab, "naples", "town", address)?;
    let offered = |consumer: &str, thousandths: i64| {
        eventually(RESTARTED, "that much is offered", || {
            let now = cpu(lab, consumer, "liqo-naples")?;
            ensure!(now == thousandths, "{now} to {consumer} instead of {thousandths}");
            Ok::<_, anyhow::Error>(())
        })
    };
    offered("venice", 1000)?;
    offered("florence", 1000)?;
    let venice = cluster_id(lab, "venice")?;
    let share = json!({"data": { venice: "cpu: 8\nmemory: 16Gi\n" }}).to_string();
    lab.kubectl_words("naples", &["patch", "cm", "resource-shares", "-n", "liqo", "-p", &share])?;
    offered("venice", 8000)?;
    offered("florence", 1000)?;
    // Without its plugin, a provider keeps its word.
    lab.kubectl("naples", "scale -n liqo deployment/resource-plugin --replicas=0")?;
    lab.kubectl("naples", "wait -n liqo --for=delete pod -l app=resource-plugin --timeout=60s")?;
    offered("venice", 8000)?;
    is_ready(lab, "venice", "liqo-naples")
}

fn part(lab: &Lab) -> Result<()> {
    lab.liqoctl("venice", "unpeer out-of-band naples")?;
    ensure!(lab.kubectl("venice", "get node liqo-naples").is_err(), "the node is still there");
    is_ready(lab, "venice", "liqo-town")?;
    is_ready(lab, "florence", "liqo-naples")
}

/// Peers reach naples by a name alone: what stands there ends TLS, as its Ingress says.
fn behind_ingress(lab: &Lab) -> Result<()> {
    let host = "auth.naples.example";
    lab.liqoctl("florence", "unpeer out-of-band naples")?;
    let values = format!(
        "--set auth.tls=false --set auth.service.type=ClusterIP --set auth.ingress.enable=true \
         --set auth.ingress.host={host}"
    );
    install(lab, "naples", "town", &values)?;
    let rule = "{.spec.rules[0].host} {.spec.rules[0].http.paths[0].backend.service.name}";
    let words = ["get", "ingress", "-n", "liqo", "liqo-auth", "-o", &format!("jsonpath={rule}")];
    let rule = lab.kubectl_words("naples", &words)?;
    let (name, service) = rule.split_once(' ').context("a host and a service")?;
    let behind = format!("get service -n liqo {service} -o jsonpath={{.spec.clusterIP}}");
    let to = format!("{}:5000", lab.kubectl("naples", &behind)?);
    let front = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "front" },
        "spec": {
            "nodeName": "naples-1",
            "hostNetwork": true,
            "containers": [{
                "name": "main",
                "image": IMAGE,
                "args": ["front", "--host", name, "--to", to],
                "readinessProbe": { "tcpSocket": { "port": 443 }, "periodSeconds": 1 },
            }],
        },
    });
    lab.apply("naples", &[front])?;
    lab.ready("naples", &["front"])?;

    let address = lab.plan().cluster("naples").context("naples")?.control_plane().address;
    resolve(lab, "florence", host, &address.to_string())?;
    let command = lab.peer_command("naples")?.replace(" town ", " naples ");
    ensure!(command.contains(&format!("--auth-url https://{host} ")), "{command}");
    lab.liqoctl("florence", &command)?;
    is_ready(lab, "florence", "liqo-naples")
}

/// Has the pods of a cluster find an address under a name.
fn resolve(lab: &Lab, cluster: &str, name: &str, address: &str) -> Result<()> {
    let path = "jsonpath={.data.Corefile}";
    let before =
        lab.kubectl(cluster, &format!("get configmap -n kube-system coredns -o {path}"))?;
    let hosts = format!("hosts {{\n {address} {name}\n fallthrough\n}}\n");
    let after = before.replacen("errors\n", &format!("errors\n{hosts}"), 1);
    let change = json!({ "data": { "Corefile": after } }).to_string();
    let words = ["patch", "configmap", "-n", "kube-system", "coredns", "-p", &change];
    lab.kubectl_words(cluster, &words)?;
    lab.kubectl(cluster, "rollout restart -n kube-system deployment/coredns")?;
    lab.kubectl(cluster, "rollout status -n kube-system deployment/coredns --timeout=90s")?;
    Ok(())
}

fn install(lab: &Lab, cluster: &str, name: &str, more: &str) -> Result<()> {
    let words = format!("install kubeadm --cluster-name {name} --service-type NodePort {more}");
    lab.liqoctl(cluster, &words)?;
    Ok(())
}

fn cluster_id(lab: &Lab, cluster: &str) -> Result<String> {
    lab.kubectl(cluster, "get cm -n liqo liqo-clusterid-configmap -o jsonpath={.data.CLUSTER_ID}")
}

fn is_ready(lab: &Lab, cluster: &str, node: &str) -> Result<()> {
    let shown = lab.kubectl(cluster, &format!("get node {node} --no-headers"))?;
    ensure!(shown.contains(" Ready "), "{shown}");
    Ok(())
}

/// The CPUs of a node, in thousandths.
fn cpu(lab: &Lab, cluster: &str, node: &str) -> Result<i64> {
    let cpu =
        lab.kubectl(cluster, &format!("get node {node} -o jsonpath={{.status.capacity.cpu}}"))?;
    match cpu.strip_suffix('m') {
        Some(thousandths) => Ok(thousandths.parse()?),
        None => Ok(cpu.parse::<i64>()? * 1000),
    }
}
