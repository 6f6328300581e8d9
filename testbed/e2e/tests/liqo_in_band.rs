//! Two clusters peer and part as the manual's chapter on in-band peering says; one of them is behind
//! a router that translates, and neither's authentication service is reached from outside.

use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
const LATE: Duration = Duration::from_mins(3);
const IMAGE: &str = "localhost/playground/demo:v1";

fn main() -> ExitCode {
    Scenario::on("nat")
        .fact("both clusters run liqo, and show nothing but their gateway", |lab| {
            install(lab).and_then(|()| only_datagrams(lab))
        })
        .fact("a cluster is not introduced to itself", with_itself)
        .fact("who is not there is told, with the flags to check", out_of_reach)
        .fact("peering in band shows foreign clusters and a ready node", peer)
        .fact("everything goes through the tunnel", through_the_tunnel)
        .fact("status peer tells of networks and of the tunnel", status_peer)
        .fact("a pod runs there", pod_runs)
        .fact("peering again changes nothing", peer_again)
        .fact("what does not fit any more fits again after peering again", mended)
        .fact("each can use the other", bidirectional)
        .fact("one direction can be given back alone", one_direction)
        .fact("clusters that talk through the tunnel do not peer out of band", not_out_of_band)
        .fact("parting leaves nothing behind", unpeer)
        .fact("parting again is no problem", unpeer_again)
        .fact("clusters that parted peer again", anew)
        .run()
}

fn install(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let words = format!(
            "install kubeadm --cluster-name {cluster} --service-type NodePort \
             --set auth.service.type=ClusterIP"
        );
        lab.liqoctl(cluster, &words)?;
        let kind =
            lab.kubectl(cluster, "get service -n liqo liqo-auth -o jsonpath={.spec.type}")?;
        ensure!(kind == "ClusterIP", "{kind}");
    }
    Ok(())
}

/// Nothing but datagrams passes between the clusters: rome reaches no other port of milan, and milan
/// none of rome, which is behind its router.
fn only_datagrams(lab: &Lab) -> Result<()> {
    let router = |cluster: &str| {
        let lan = &lab.plan().cluster(cluster).context("it is up")?.lan;
        lab.plan().lan(lan).context("it stands in a network")
    };
    let (rome, milan) = (router("rome")?.wan_address, &router("milan")?.namespace);
    let script = format!(
        "table ip shut {{ chain c {{ type filter hook forward priority -450; \
         ip saddr {rome} meta l4proto tcp counter drop; }}; }}"
    );
    let output = Command::new("ip").args(["netns", "exec", milan, "nft", &script]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Runs a command on rome and milan, each with its own kubeconfig.
fn two(lab: &Lab, words: &str) -> Result<Output> {
    let words = format!("{words} --remote-kubeconfig {}", lab.kubeconfig("milan").display());
    lab.liqoctl_command("rome", &words).output().context("run liqoctl")
}

/// The same, and what it says if it ends well.
fn well(lab: &Lab, words: &str) -> Result<String> {
    let output = two(lab, words)?;
    let said = said(&output);
    ensure!(output.status.success(), "liqoctl {words}:\n{said}");
    Ok(said)
}

fn with_itself(lab: &Lab) -> Result<()> {
    let refused = lab.liqoctl_command("rome", "peer in-band").output()?;
    let said = said(&refused);
    ensure!(refused.status.code() == Some(1) && said.contains("itself"), "{said}");
    Ok(())
}

fn out_of_reach(lab: &Lab) -> Result<()> {
    let words = "peer in-band --remote-kubeconfig /nowhere";
    let refused = said(&lab.liqoctl_command("rome", words).output()?);
    ensure!(refused.contains("(remote) cannot read the kubeconfig /nowhere"), "{refused}");
    let milan = lab.kubeconfig("milan");
    let words =
        format!("peer in-band --remote-kubeconfig {} --remote-namespace no", milan.display());
    let refused = said(&lab.liqoctl_command("rome", &words).output()?);
    ensure!(
        refused.contains("(remote)") && refused.contains("no Liqo in namespace no"),
        "{refused}"
    );
    let left = lab.kubectl("rome", "get foreignclusters,networkconfigs -A -o name")?;
    ensure!(left.is_empty(), "{left}");
    Ok(())
}

fn peer(lab: &Lab) -> Result<()> {
    let said = well(lab, "peer in-band")?;
    for part in [
        "(local) Pods are in 10.10.0.0/16",
        "(remote) Pods are in 10.20.0.0/16",
        "(local) Network to the cluster milan is there",
        "(remote) Network to the cluster rome is there",
        "(local) Authenticated to the cluster milan",
        "(remote) Authenticated to the cluster rome",
        "(local) Node of the cluster milan is ready",
    ] {
        ensure!(said.contains(part), "no '{part}':\n{said}");
    }
    let row = row(lab, "rome")?;
    ensure!(
        row[..6] == ["milan", "InBand", "Established", "None", "Established", "Established"],
        "{row:?}"
    );
    eventually(SOON, "the provider knows it, too", || {
        let row = self::row(lab, "milan")?;
        ensure!(row[..4] == ["rome", "InBand", "None", "Established"], "{row:?}");
        Ok::<_, anyhow::Error>(())
    })?;
    let nodes = lab.kubectl("rome", "get nodes -l liqo.io/type=virtual-node --no-headers")?;
    let node: Vec<&str> = nodes.split_whitespace().collect();
    ensure!(node[..3] == ["liqo-milan", "Ready", "agent"], "{nodes}");
    Ok(())
}

/// The one foreign cluster of a cluster, as kubectl shows it.
fn row(lab: &Lab, cluster: &str) -> Result<Vec<String>> {
    let shown = lab.kubectl(cluster, "get foreignclusters --no-headers")?;
    ensure!(shown.lines().count() == 1, "{shown}");
    Ok(shown.split_whitespace().map(str::to_owned).collect())
}

fn through_the_tunnel(lab: &Lab) -> Result<()> {
    for (cluster, other) in [("rome", "milan"), ("milan", "rome")] {
        let spec = lab.kubectl(cluster, &format!("get foreigncluster {other} -o json"))?;
        let spec: Value = serde_json::from_str(&spec)?;
        let proxy = spec["spec"]["foreignProxyUrl"].as_str().context("a proxy")?;
        let auth = spec["spec"]["foreignAuthUrl"].as_str().context("an address")?;
        let inside =
            lab.kubectl(other, "get service -n liqo liqo-auth -o jsonpath={.spec.clusterIP}")?;
        ensure!(
            !auth.contains(&inside),
            "{auth} is not {inside}, which means nothing in {cluster}"
        );
        let field = "jsonpath={.items[0].data.proxyURL}";
        let words = format!("get secrets -A -l discovery.liqo.io/local-identity=true -o {field}");
        let kept = lab.kubectl(cluster, &words)?;
        ensure!(!kept.is_empty(), "the identity in {cluster} does not go through {proxy}");
    }
    Ok(())
}

fn status_peer(lab: &Lab) -> Result<()> {
    let said = lab.liqoctl("rome", "status peer milan --verbose")?;
    for part in [
        "Type: InBand",
        "Auth Proxy URL: http://",
        "Network connection",
        "Gateway IPs",
        "Connected",
        "Latency:",
        "Driver:  wireguard (",
        "MTU:     1340",
        "10.20.0.0/16",
        "remapping not necessary",
    ] {
        ensure!(said.contains(part), "no '{part}':\n{said}");
    }
    let said = lab.liqoctl("milan", "status peer -o json")?;
    let report: Value = serde_json::from_str(&said)?;
    ensure!(report[0]["network"]["connection"]["status"] == "Connected", "{report:#}");
    ensure!(report[0]["network"]["remote"]["pod"] == "10.10.0.0/16", "{report:#}");
    Ok(())
}

fn pod_runs(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace shop")?;
    lab.liqoctl("rome", "offload namespace shop --pod-offloading-strategy Remote")?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "containers": [{ "name": "main", "image": IMAGE, "args": ["serve"] }] },
    });
    lab.apply("rome", &[pod])?;
    lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/web --timeout=90s")?;
    let node = lab.kubectl("rome", "get pod -n shop web -o jsonpath={.spec.nodeName}")?;
    ensure!(node == "liqo-milan", "{node}");
    let said = lab.kubectl("rome", "exec -n shop web -- curl -s -f localhost:8080")?;
    ensure!(said.contains(r#""hostname":"web""#), "a command in the pod is answered: {said}");
    Ok(())
}

fn peer_again(lab: &Lab) -> Result<()> {
    let versions = |cluster: &str| {
        let kinds = "networkconfigs,tunnelendpoints -A";
        let column = "custom-columns=UID:.metadata.uid,G:.metadata.generation";
        lab.kubectl(cluster, &format!("get {kinds} --no-headers -o {column}"))
    };
    let before = (versions("rome")?, versions("milan")?);
    well(lab, "peer in-band")?;
    ensure!((versions("rome")?, versions("milan")?) == before, "something was written");
    lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/web --timeout=5s")?;
    Ok(())
}

fn mended(lab: &Lab) -> Result<()> {
    let proxies = "get secrets -A -l discovery.liqo.io/local-identity=true \
                   -o jsonpath={.items[0].data.proxyURL}";
    let before = lab.kubectl("rome", proxies)?;
    let patch = json!({"spec": {"foreignProxyUrl": "http://192.0.2.1:8118"}}).to_string();
    let words = ["patch", "foreigncluster", "milan", "--type=merge", "-p", &patch];
    lab.kubectl_words("rome", &words)?;
    eventually(SOON, "the identity follows the proxy", || {
        ensure!(lab.kubectl("rome", proxies)? != before);
        Ok::<_, anyhow::Error>(())
    })?;
    well(lab, "peer in-band")?;
    eventually(SOON, "the identity goes through the right proxy", || {
        ensure!(lab.kubectl("rome", proxies)? == before);
        Ok::<_, anyhow::Error>(())
    })?;
    let api = "get foreigncluster milan \
               -o jsonpath={.status.peeringConditions[?(@.type==\"APIServerStatus\")].status}";
    eventually(LATE, "the API server answers", || {
        let status = lab.kubectl("rome", api)?;
        ensure!(status == "Established", "{status}");
        Ok::<_, anyhow::Error>(())
    })
}

fn bidirectional(lab: &Lab) -> Result<()> {
    let said = well(lab, "peer in-band --bidirectional")?;
    ensure!(said.contains("(remote) Node of the cluster rome is ready"), "{said}");
    let row = row(lab, "milan")?;
    ensure!(row[..4] == ["rome", "InBand", "Established", "Established"], "{row:?}");
    let again = well(lab, "peer in-band")?;
    ensure!(again.contains("(remote) It goes on using resources of rome"), "{again}");
    lab.kubectl("milan", "get node liqo-rome")?;
    Ok(())
}

fn one_direction(lab: &Lab) -> Result<()> {
    lab.liqoctl("milan", "unpeer rome")?;
    let row = row(lab, "milan")?;
    ensure!(row[..5] == ["rome", "InBand", "None", "Established", "Established"], "{row:?}");
    lab.kubectl("rome", "wait --for=condition=Ready node/liqo-milan --timeout=5s")?;
    Ok(())
}

fn not_out_of_band(lab: &Lab) -> Result<()> {
    let refused = lab.liqoctl_command("rome", "unpeer out-of-band milan").output()?;
    let said = said(&refused);
    ensure!(refused.status.code() == Some(1) && said.contains("unpeer in-band"), "{said}");
    Ok(())
}

fn unpeer(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "delete pod -n shop web")?;
    lab.liqoctl("rome", "unoffload namespace shop")?;
    well(lab, "unpeer in-band")?;
    for cluster in ["rome", "milan"] {
        let kinds = "foreignclusters,networkconfigs,tunnelendpoints,natmappings,resourceoffers";
        let left = lab.kubectl(cluster, &format!("get {kinds} -A -o name"))?;
        ensure!(left.is_empty(), "{cluster}: {left}");
        let left =
            lab.kubectl(cluster, "get namespaces -l discovery.liqo.io/tenant-namespace -o name")?;
        ensure!(left.is_empty(), "{cluster}: {left}");
        let ledger = "get ipamstorages -o jsonpath={.items[0].spec.clusterSubnets}{.items[0].spec.endpointMappings}";
        let taken = lab.kubectl(cluster, ledger)?;
        ensure!(taken == "{}{}", "{cluster}: {taken}");
    }
    let nodes = lab.kubectl("rome", "get nodes -l liqo.io/type=virtual-node -o name")?;
    ensure!(nodes.is_empty(), "{nodes}");
    Ok(())
}

fn unpeer_again(lab: &Lab) -> Result<()> {
    let said = well(lab, "unpeer in-band")?;
    ensure!(said.contains("(local) The cluster milan is not known here"), "{said}");
    ensure!(said.contains("(remote) The cluster rome is not known here"), "{said}");
    Ok(())
}

fn anew(lab: &Lab) -> Result<()> {
    well(lab, "peer in-band")?;
    well(lab, "unpeer in-band")?;
    Ok(())
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
