//! Pods of two clusters reach each other, even if both clusters have the very same addresses.

mod failover;
mod narrow;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
const NODES: [&str; 2] = ["rome-1", "rome-2"];
const SERVICE: &str = "liqo-demo.liqo-demo.svc.cluster.local";

/// All that networks are mapped to, but for the pods and services of the clusters and one more.
const RESERVED: &str = "192.168.0.0/16,172.16.0.0/12,10.128.0.0/9,10.64.0.0/10,10.32.0.0/11,\
                        10.16.0.0/12,10.0.0.0/13,10.12.0.0/14,10.9.0.0/16";

fn main() -> ExitCode {
    let (keep, kept) = channel();
    Scenario::on("overlap")
        .fact("two clusters with the same networks are installed", install)
        .fact(
            "where there is no room for a peer's networks, that is told until there is",
            move |lab| {
                keep.send(everything(lab)?)?;
                full(lab)
            },
        )
        .fact("they are peered, and their networks connected", peer)
        .fact(
            "the tutorial: a pod here and a pod there answer, and so does their Service",
            tutorial,
        )
        .fact("a pod reaches its Service from the other cluster, too", from_there)
        .fact("every node reaches a pod of the other cluster", from_nodes)
        .fact("a pod reaches the API server of its home from the other cluster", api_server)
        .fact("large answers arrive", large)
        .fact("nodes among pods, and their ports, are out of reach of a peer", guarded)
        .fact("what is removed from a node is put back", repaired)
        .fact("a way that loses long packets is found out", narrow::found)
        .fact("gateways find each other again, whichever is started first", failover::restarted)
        .fact("a gateway that is killed comes back", failover::killed)
        .fact("one that stands by takes over, and connections go on", failover::stand_by)
        .fact("so it does when the active one's node is cut off", failover::cut)
        .fact("and when that node loses its power", failover::unplugged)
        .fact("the status tells of the tunnel, and a look finds nothing to do", told)
        .fact("a peer whose networks would lead packets astray is refused", hostile)
        .fact("where nothing gets through is told, until it does", blocked)
        .fact("unpeering leaves nothing in the kernel", move |lab| unpeer(lab, &kept.recv()?))
        .run()
}

fn example(file: &str) -> String {
    format!("{}/../../examples/hello-world/{file}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// The words that install it; in rome there is no room for networks of peers.
fn installation(cluster: &str) -> String {
    let words = format!("install kubeadm --cluster-name {cluster} --service-type NodePort");
    if cluster != "rome" {
        return words;
    }
    format!("{words} --set gateway.metrics.enabled=true --reserved-subnets {RESERVED}")
}

fn install(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        lab.liqoctl(cluster, &installation(cluster))?;
        eventually(SOON, "the gateway has said where it is", || {
            let said = lab.liqoctl(cluster, "status")?;
            ensure!(said.contains("Network gateway:           udp://"), "{said}");
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(())
}

/// Nothing is left that milan's networks could be called, until a pool is added.
fn full(lab: &Lab) -> Result<()> {
    let before = kernel(lab)?;
    let refused = lab.liqoctl_command("rome", &lab.peer_command("milan")?).output()?;
    let said = String::from_utf8_lossy(&refused.stdout) + String::from_utf8_lossy(&refused.stderr);
    let cause = "no pool has room for a network of size /16";
    let cure = "networkManager.config.additionalPools";
    ensure!(!refused.status.success() && said.contains(cause) && said.contains(cure), "{said}");
    let (status, message) = network_status(lab)?;
    ensure!(status == "Error" && message.contains(cause) && message.contains(cure), "{message}");
    let shown = lab.liqoctl("rome", "status peer milan")?;
    // It may be shown on several lines.
    let words: Vec<&str> = shown.split_whitespace().filter(|word| *word != "│").collect();
    ensure!(words.join(" ").contains(cause), "{shown}");
    let told = lab.kubectl("rome", "get events -A --field-selector reason=PoolExhausted")?;
    ensure!(told.contains(cause), "{told}");
    ensure!(kernel(lab)? == before, "nothing of it reaches the kernel");
    let room = "--set networkManager.config.additionalPools={100.64.0.0/14}";
    lab.liqoctl("rome", &format!("{} {room}", installation("rome")))?;
    eventually(SOON, "there is room", || {
        let (status, message) = network_status(lab)?;
        ensure!(status == "Established", "{status}: {message}");
        Ok(())
    })
}

/// Rules, routes and filters of the nodes of rome.
fn kernel(lab: &Lab) -> Result<Vec<String>> {
    let mut all = vec![];
    for node in NODES {
        for words in [
            "ip rule",
            "ip route show table 18952 2>/dev/null || true",
            "nft -s list table ip liqo",
        ] {
            all.push(format!("{node}: {words}\n{}", on(lab, node, words)?));
        }
    }
    Ok(all)
}

/// All that the fabric could change on the nodes of both clusters and in their gateways, but for what
/// comes with the gateway's process or with a pod, wherever those are.
fn everything(lab: &Lab) -> Result<Vec<String>> {
    const NODE: [&str; 6] = [
        "ip rule",
        "ip route show table 18952 2>/dev/null || true",
        "ip route show table main | grep -v ' dev liqo.host\\|^10.10.[0-9.]* dev ' || true",
        "ip -br -4 addr show dev liqo.vxlan",
        "bridge fdb show dev liqo.vxlan | cut -d' ' -f2- | sort",
        "nft -s list table ip liqo",
    ];
    const GATEWAY: [&str; 5] = [
        "ip -4 rule",
        "ip -4 route show table all",
        "ip -br -4 addr | sed 's/@[^ ]*//'",
        "ip -br link | sed 's/@[^ ]*//' | cut -d' ' -f1",
        "nft -s list ruleset",
    ];
    let mut all = vec![];
    for cluster in ["rome", "milan"] {
        let mut gateways = 0;
        for node in ["1", "2"].map(|number| format!("{cluster}-{number}")) {
            for words in NODE {
                all.push(format!("{node}: {words}\n{}", on(lab, &node, words)?));
            }
            let process = on(lab, &node, "pgrep -f '^/usr/bin/liqo gateway' || true")?;
            let Some(process) = process.lines().next() else { continue };
            gateways += 1;
            for words in GATEWAY {
                let enter = format!("nsenter --net=/proc/{process}/root/run/netns/liqo-netns");
                let said = on(lab, &node, &format!("{enter} sh -c \"{words}\""))?;
                all.push(format!("gateway of {cluster}: {words}\n{said}"));
            }
        }
        ensure!(gateways > 0, "{cluster} has a gateway");
    }
    // Of several gateways of a cluster, all hold the same.
    all.sort();
    all.dedup();
    Ok(all)
}

fn on(lab: &Lab, node: &str, command: &str) -> Result<String> {
    lab.playground(&["exec", node, "bash", "-c", command])
}

fn peer(lab: &Lab) -> Result<()> {
    lab.liqoctl("rome", &lab.peer_command("milan")?)?;
    let row = lab.kubectl("rome", "get foreignclusters milan --no-headers")?;
    let row: Vec<&str> = row.split_whitespace().collect();
    ensure!(
        row[..6] == ["milan", "OutOfBand", "Established", "None", "Established", "Established"]
    );
    let words = "get tunnelendpoints -A -o jsonpath={.items[0].spec.remoteNATPodCIDR}";
    let remapped = lab.kubectl("rome", words)?;
    ensure!(!remapped.is_empty() && remapped != "None" && remapped != "10.10.0.0/16", "{remapped}");
    Ok(())
}

fn tutorial(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace liqo-demo")?;
    lab.liqoctl("rome", "offload namespace liqo-demo")?;
    lab.kubectl("rome", &format!("apply -n liqo-demo -f {}", example("manifest")))?;
    lab.kubectl("rome", &format!("apply -f {}", example("client")))?;
    let pods = "pod/nginx-local pod/nginx-remote";
    lab.kubectl("rome", &format!("wait -n liqo-demo --for=condition=Ready {pods} --timeout=60s"))?;
    lab.ready("rome", &["client"])?;
    for pod in ["nginx-local", "nginx-remote"] {
        let address = address(lab, pod)?;
        let said = eventually(SOON, pod, || lab.ask("rome", "client", &address))?;
        ensure!(said["pod"] == pod, "{said}");
    }
    both_answer(|| lab.ask("rome", "client", SERVICE))
}

/// The address of a pod, as rome knows it.
fn address(lab: &Lab, pod: &str) -> Result<String> {
    lab.kubectl("rome", &format!("get pod -n liqo-demo {pod} -o jsonpath={{.status.podIP}}"))
}

/// Asks until the pod here and the pod there have answered.
fn both_answer(ask: impl Fn() -> Result<Value>) -> Result<()> {
    let mut seen = BTreeSet::new();
    eventually(SOON, "both pods answer", || {
        seen.insert(ask()?["pod"].to_string());
        ensure!(seen.len() == 2, "answered so far: {seen:?}");
        Ok(())
    })
}

fn from_there(lab: &Lab) -> Result<()> {
    both_answer(|| {
        let said =
            lab.kubectl("rome", "exec -n liqo-demo nginx-remote -- curl -s -f -m 3 liqo-demo")?;
        Ok(serde_json::from_str(&said)?)
    })
}

fn from_nodes(lab: &Lab) -> Result<()> {
    let address = address(lab, "nginx-remote")?;
    for node in NODES {
        let ask = format!(
            "exec 3<>/dev/tcp/{address}/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; timeout 3 cat <&3"
        );
        let said = eventually(SOON, node, || on(lab, node, &ask))?;
        ensure!(said.contains("nginx-remote"), "{node}: {said}");
    }
    Ok(())
}

fn api_server(lab: &Lab) -> Result<()> {
    let ask = "demo wait-for $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT --max-time 3";
    let words = ["exec", "-n", "liqo-demo", "nginx-remote", "--", "sh", "-c", ask];
    eventually(SOON, "the API server", || lab.kubectl_words("rome", &words)).map(drop)
}

fn large(lab: &Lab) -> Result<()> {
    for size in ["65536", "1048576"] {
        let url = format!("{}/bytes/{size}", address(lab, "nginx-remote")?);
        let ask = format!("curl -s -f --max-time 10 {url} | wc -c");
        let said = lab.kubectl_words("rome", &["exec", "client", "--", "sh", "-c", &ask])?;
        ensure!(said.trim() == size, "{said}");
    }
    Ok(())
}

/// Nodes of milan have an address among their pods, at which its kube-proxy serves all their ports.
fn guarded(lab: &Lab) -> Result<()> {
    let port = "get service -n liqo liqo-auth -o jsonpath={.spec.ports[0].nodePort}";
    let port = lab.kubectl("milan", port)?;
    let pods = "get tunnelendpoints -A -o jsonpath={.items[0].spec.remoteNATPodCIDR}";
    let pods = lab.kubectl("rome", pods)?;
    let prefix: Vec<&str> = pods.split('.').take(2).collect();
    let mut served = 0;
    for node in ["milan-1", "milan-2"] {
        let own = format!("get node {node} -o jsonpath={{.spec.podCIDR}}");
        let own = lab.kubectl("milan", &own)?;
        let third = own.split('.').nth(2).context("a network of pods")?;
        // A node without pods has none.
        if on(lab, node, &format!("timeout 2 bash -c '</dev/tcp/10.10.{third}.1/{port}'")).is_err()
        {
            continue;
        }
        served += 1;
        let address = format!("{}.{third}.1:{port}", prefix.join("."));
        let asked = format!("exec client -- demo wait-for {address} --max-time 2");
        ensure!(lab.kubectl("rome", &asked).is_err(), "{node} is reached at {address}");
    }
    ensure!(served > 0, "no node of milan serves {port} at an address among its pods");
    flows(lab)
}

/// Packets go from rome to milan.
fn flows(lab: &Lab) -> Result<()> {
    let address = address(lab, "nginx-remote")?;
    eventually(SOON, "the pod over there answers", || lab.ask("rome", "client", &address)).map(drop)
}

fn repaired(lab: &Lab) -> Result<()> {
    let whole = kernel(lab)?;
    for (node, damage) in [
        ("rome-1", "ip route flush table 18952"),
        ("rome-1", "nft delete table ip liqo"),
        ("rome-2", "ip rule del table 18952"),
    ] {
        on(lab, node, damage)?;
        eventually(SOON, damage, || {
            let now = kernel(lab)?;
            ensure!(now == whole, "{node} after {damage}: {now:#?}");
            Ok(())
        })?;
    }
    flows(lab)
}

fn told(lab: &Lab) -> Result<()> {
    let row = lab.kubectl("rome", "get tunnelendpoints -A --no-headers")?;
    ensure!(row.contains("Connected"), "{row}");
    let said = lab.liqoctl("rome", "status peer milan --verbose")?;
    ensure!(said.contains("Established"), "{said}");
    let gateway = format!("exec -n liqo {} -- liqo gateway --dry-run", failover::active(lab)?.0);
    for look in [gateway.as_str(), "exec -n liqo ds/liqo-route -- liqo route --dry-run"] {
        eventually(SOON, "nothing is to be done", || {
            let said = lab.kubectl("rome", look)?;
            let rest = said.replace("on the node:\n", "").replace("in the gateway:\n", "");
            ensure!(rest.trim().lines().all(|line| line == "nothing to do"), "{said}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Says something of milan's pods as milan itself could, which is silent otherwise.
fn hostile(lab: &Lab) -> Result<()> {
    let replicator = "-n liqo deployment/liqo-crd-replicator";
    lab.kubectl("milan", &format!("scale {replicator} --replicas=0"))?;
    let pods = "pod -l app.kubernetes.io/name=crd-replicator";
    lab.kubectl("milan", &format!("wait -n liqo --for=delete {pods} --timeout=60s"))?;
    let field = |words: &str| lab.kubectl("rome", words).map(|text| text.trim().to_owned());
    let milan = field("get foreigncluster milan -o jsonpath={.spec.clusterIdentity.clusterID}")?;
    let copy = "get networkconfigs -A -l liqo.io/replicated=true -o jsonpath={.items[0].metadata";
    let [namespace, name] =
        [field(&format!("{copy}.namespace}}"))?, field(&format!("{copy}.name}}"))?];
    let before = kernel(lab)?;
    for network in ["0.0.0.0/0", "127.0.0.0/16", "224.0.0.0/16"] {
        let patch = json!({ "spec": { "podCIDR": network } }).to_string();
        let words = ["patch", "networkconfig", "-n", &namespace, &name, "--type=merge"];
        lab.kubectl_words("rome", &[&words[..], &["-p", &patch, "--as", &milan]].concat())?;
        eventually(SOON, "it is refused, with the reason", || {
            let (status, message) = network_status(lab)?;
            ensure!(status == "Error" && message.contains(network), "{status}: {message}");
            Ok(())
        })?;
    }
    ensure!(kernel(lab)? == before, "nothing of it reaches the kernel");
    lab.kubectl("milan", &format!("scale {replicator} --replicas=1"))?;
    eventually(SOON, "milan says again what is true", || {
        let (status, message) = network_status(lab)?;
        ensure!(status == "Established", "{status}: {message}");
        Ok(())
    })?;
    flows(lab)
}

/// What the ForeignCluster says of the network: its status, and why.
fn network_status(lab: &Lab) -> Result<(String, String)> {
    let cluster: Value =
        serde_json::from_str(&lab.kubectl("rome", "get foreigncluster milan -o json")?)?;
    let conditions = cluster["status"]["peeringConditions"].as_array().context("conditions")?;
    let network = conditions.iter().find(|one| one["type"] == "NetworkStatus");
    let network = network.context("a condition of the network")?;
    let text = |field: &str| network[field].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("message")))
}

/// Nothing that gateways say reaches the nodes of milan for a while.
fn blocked(lab: &Lab) -> Result<()> {
    let ports = "{ 5871, 30000-32767 }";
    let wall = format!(
        "nft 'table ip wall {{ chain c {{ type filter hook prerouting priority -400; \
         udp dport {ports} drop; udp sport {ports} drop; }}; }}'"
    );
    for node in ["milan-1", "milan-2"] {
        on(lab, node, &wall)?;
    }
    let connection = || -> Result<Value> {
        let said = lab.liqoctl("rome", "status peer milan -o json")?;
        Ok(serde_json::from_str::<Value>(&said)?[0]["network"]["connection"].clone())
    };
    let spec = "get tunnelendpoints -A -o jsonpath={.items[0].spec";
    let address = lab.kubectl("rome", &format!("{spec}.endpointIP}}"))?;
    let port = lab.kubectl("rome", &format!("{spec}.backend_config.port}}"))?;
    let place = format!("does not answer at {}:{}/udp", address.trim(), port.trim());
    eventually(SOON, "the address and the port are named", || {
        let connection = connection()?;
        let message = connection["message"].as_str().unwrap_or_default();
        ensure!(connection["status"] == "Error" && message.contains(&place), "{connection}");
        Ok(())
    })?;
    for node in ["milan-1", "milan-2"] {
        on(lab, node, "nft delete table ip wall")?;
    }
    eventually(SOON, "it is connected again", || {
        let connection = connection()?;
        ensure!(connection["status"] == "Connected", "{connection}");
        Ok(())
    })?;
    flows(lab)
}

fn unpeer(lab: &Lab, before: &[String]) -> Result<()> {
    lab.liqoctl("rome", "unpeer out-of-band milan")?;
    eventually(SOON, "the kernel is as it was", || {
        let now = everything(lab)?;
        let other = |some: &[String], more: &[String]| -> Vec<String> {
            some.iter().filter(|one| !more.contains(one)).cloned().collect()
        };
        let (gone, new) = (other(before, &now), other(&now, before));
        ensure!(now == before, "gone: {gone:#?}\nnew: {new:#?}");
        Ok(())
    })
}
