//! Two clusters peer and part as the manual's chapter on out-of-band peering says.

use std::process::{ExitCode, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
/// What is told before this is not waited for; a busy machine is not at fault.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How long a cluster may need to notice that a peer does not answer any more.
const NOTICED: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    Scenario::on("pair")
        .fact("both clusters run liqo", install)
        .fact("a wrong token is told at once and leaves nothing behind", wrong_token)
        .fact("a wrong cluster or a wrong address is told at once and leaves nothing", mistaken)
        .fact("a cluster of another version is told at once and leaves nothing", other_version)
        .fact("a provider out of reach is named with its address", out_of_reach)
        .fact("a cluster is not peered with itself", with_itself)
        .fact("a peering can be tried without doing it", dry_run)
        .fact("peering shows a foreign cluster and a ready node", peer)
        .fact("peering again changes nothing", peer_again)
        .fact("status peer tells how the peering does", status_peer)
        .fact("the offer follows the provider while it changes", resources)
        .fact("a tenant sees its own namespace and nothing else", tenant_rights)
        .fact("nothing is written while nothing happens", silence)
        .fact("liqo is not uninstalled while it is peered", uninstall_refused)
        .fact("the other direction is peered with a name and given back alone", bidirectional)
        .fact("a node of a cluster that does not answer is not ready until it does", cut)
        .fact("what is changed in a copy by hand is changed back", reverted)
        .fact("every component may be killed while clusters peer", killed)
        .fact("a component that is away for a while holds a peering up, and that is all", away)
        .fact("unpeering and peering ten times in a row works", ten_times)
        .fact("a peer that is gone for ever does not hold up unpeering", gone_for_ever)
        .run()
}

fn install(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let words = format!("install kubeadm --cluster-name {cluster} --service-type NodePort");
        lab.liqoctl(cluster, &words)?;
    }
    Ok(())
}

/// The words after `liqoctl` that peer with a cluster.
fn peer_command(lab: &Lab, provider: &str) -> Result<String> {
    let words = lab.peer_command(provider)?;
    ensure!(
        words.starts_with(&format!("peer out-of-band {provider} --auth-url https://")),
        "{words}"
    );
    Ok(words)
}

fn wrong_token(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    let (start, _) = command.rsplit_once(' ').context("a token")?;
    let namespaces = || lab.kubectl("rome", "get namespaces -o name");
    let before = namespaces()?;
    let said = refused(lab, &format!("{start} 0123456789abcdef"))?;
    ensure!(said.contains("token"), "{said}");
    ensure!(namespaces()? == before, "a namespace was left behind");
    let hosted = lab.kubectl("milan", "get namespaces -o name")?;
    ensure!(!hosted.contains("tenant"), "{hosted}");
    Ok(())
}

/// What is said about a peering that is refused at once; it must leave nothing in rome.
fn refused(lab: &Lab, command: &str) -> Result<String> {
    let start = Instant::now();
    let refused = lab.liqoctl_command("rome", command).output()?;
    let (said, took) = (said(&refused), start.elapsed());
    ensure!(refused.status.code() == Some(1), "{said}");
    ensure!(took < AT_ONCE, "it took {took:?}: {said}");
    let left = lab.kubectl("rome", "get foreignclusters -o name")?;
    ensure!(left.is_empty(), "{left}");
    let left = lab.kubectl("rome", "get secrets -n liqo -o name")?;
    ensure!(!left.contains("remote-token"), "{left}");
    Ok(said)
}

fn mistaken(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    let id = flag(&command, "--cluster-id")?;
    let other = command.replace(id, "00000000-0000-4000-8000-000000000000");
    let said = refused(lab, &other)?;
    ensure!(said.contains("belongs to another cluster"), "{said}");
    // An API server speaks the same protocol, but is none that peers with us.
    let address = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let url = flag(&command, "--auth-url")?;
    let other = command.replace(url, &format!("https://{address}:6443"));
    let said = refused(lab, &other)?;
    ensure!(said.contains("not the authentication service"), "{said}");
    Ok(())
}

/// It says who it is as every version does, but knows nothing of identities.
fn other_version(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    let id = flag(&command, "--cluster-id")?;
    let address = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let folder = "/tmp/liqo";
    let front = ["front", "--port", "8443", "--host", &address.to_string(), "--to"];
    let front = [&front[..], &["127.0.0.1:8080"]].concat();
    let container = |name: &str, words: &[&str]| {
        json!({
            "name": name,
            "image": "localhost/playground/demo:v1",
            "args": words,
            "volumeMounts": [{ "name": "folder", "mountPath": folder }],
        })
    };
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "other-version" },
        "spec": {
            "hostNetwork": true,
            "containers": [container("serve", &["serve"]), container("front", &front)],
            "volumes": [{ "name": "folder", "emptyDir": {} }],
        },
    });
    lab.apply("milan", &[pod])?;
    lab.ready("milan", &["other-version"])?;
    let ids = json!({ "clusterId": id, "clusterName": "milan" }).to_string();
    let put = format!("http://127.0.0.1:8080/file{folder}/ids");
    let curl = ["curl", "-s", "-f", "-X", "PUT", "-d", &ids, &put];
    let exec = [&["exec", "other-version", "-c", "serve", "--"], &curl[..]].concat();
    lab.kubectl_words("milan", &exec)?;
    let url = format!("https://{address}:8443/file{folder}");
    let other = command.replace(flag(&command, "--auth-url")?, &url);
    let said = refused(lab, &other)?;
    ensure!(said.contains("another version"), "{said}");
    lab.kubectl("milan", "delete pod other-version --now")?;
    Ok(())
}

/// The value of a flag.
fn flag<'a>(command: &'a str, flag: &str) -> Result<&'a str> {
    let mut words = command.split_whitespace().skip_while(|word| *word != flag);
    words.nth(1).context("the flag has a value")
}

fn out_of_reach(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    let address = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let url = command.split_whitespace().find(|word| word.starts_with("https://"));
    let other = command.replace(url.context("a URL")?, &format!("https://{address}:31999"));
    let failed = lab.liqoctl_command("rome", &format!("{other} --timeout 3s")).output()?;
    let said = said(&failed);
    ensure!(failed.status.code() == Some(1), "{said}");
    ensure!(said.contains(&format!("{address}:31999")) && said.contains("tcp"), "{said}");
    lab.liqoctl("rome", "unpeer out-of-band milan")?;
    Ok(())
}

fn with_itself(lab: &Lab) -> Result<()> {
    let refused = lab.liqoctl_command("milan", &peer_command(lab, "milan")?).output()?;
    ensure!(refused.status.code() == Some(1) && said(&refused).contains("itself"), "{refused:?}");
    Ok(())
}

fn dry_run(lab: &Lab) -> Result<()> {
    let said = lab.liqoctl("rome", &format!("{} --dry-run", peer_command(lab, "milan")?))?;
    ensure!(said.contains("Would create the ForeignCluster milan"), "{said}");
    ensure!(said.contains("answers"), "{said}");
    let left = lab.kubectl("rome", "get foreignclusters -o name")?;
    ensure!(left.is_empty(), "{left}");
    Ok(())
}

fn peer(lab: &Lab) -> Result<()> {
    let said = lab.liqoctl("rome", &peer_command(lab, "milan")?)?;
    for part in
        ["Authenticated", "Resources of the cluster milan", "Node of the cluster milan is ready"]
    {
        ensure!(said.contains(part), "{said}");
    }
    let shown = lab.kubectl("rome", "get foreignclusters")?;
    let columns = [
        "NAME",
        "TYPE",
        "OUTGOING PEERING",
        "INCOMING PEERING",
        "NETWORKING",
        "AUTHENTICATION",
        "AGE",
    ];
    for column in columns {
        ensure!(shown.contains(column), "{shown}");
    }
    let row: Vec<&str> = shown.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    ensure!(
        row[..6] == ["milan", "OutOfBand", "Established", "None", "Established", "Established"],
        "{row:?}"
    );
    eventually(SOON, "the provider knows it, too", || {
        let shown = lab.kubectl("milan", "get foreignclusters --no-headers")?;
        let row: Vec<&str> = shown.split_whitespace().collect();
        ensure!(row.get(..4) == Some(&["rome", "OutOfBand", "None", "Established"][..]), "{row:?}");
        Ok::<_, anyhow::Error>(())
    })?;
    let node = lab.kubectl("rome", "get node liqo-milan --no-headers")?;
    let row: Vec<&str> = node.split_whitespace().collect();
    ensure!(row[..3] == ["liqo-milan", "Ready", "agent"] && row[4] == "v1.34.4", "{row:?}");
    let node: Value = serde_json::from_str(&lab.kubectl("rome", "get node liqo-milan -o json")?)?;
    ensure!(node["metadata"]["labels"]["liqo.io/type"] == "virtual-node", "{node:#}");
    ensure!(
        node["spec"]["taints"].to_string().contains("virtual-node.liqo.io/not-allowed"),
        "{node:#}"
    );
    let maps = lab.kubectl("milan", "get namespacemaps -A --no-headers")?;
    ensure!(maps.lines().count() == 1, "the map of namespaces is replicated: {maps}");
    Ok(())
}

fn peer_again(lab: &Lab) -> Result<()> {
    let uid = "get foreigncluster milan -o jsonpath={.metadata.uid}";
    let before = lab.kubectl("rome", uid)?;
    lab.liqoctl("rome", &peer_command(lab, "milan")?)?;
    ensure!(lab.kubectl("rome", uid)? == before);
    Ok(())
}

fn status_peer(lab: &Lab) -> Result<()> {
    let said = lab.liqoctl("rome", "status peer")?;
    for part in [
        "milan - ",
        "OutOfBand",
        "Outgoing: Established",
        "Incoming: None",
        "Total acquired",
        "cpu:",
    ] {
        ensure!(said.contains(part), "no {part}:\n{said}");
    }
    ensure!(lab.liqoctl("milan", "status peer rome")?.contains("Total shared"));
    let unknown = lab.liqoctl_command("rome", "status peer nobody").output()?;
    ensure!(unknown.status.code() == Some(1), "{unknown:?}");
    ensure!(self::said(&unknown).contains("nobody - Peer Not Found"), "{unknown:?}");
    Ok(())
}

/// What rome is offered, in thousandths of a CPU.
fn offered(lab: &Lab) -> Result<i64> {
    let cpu = lab.kubectl("rome", "get node liqo-milan -o jsonpath={.status.capacity.cpu}")?;
    match cpu.strip_suffix('m') {
        Some(thousandths) => Ok(thousandths.parse()?),
        None => Ok(cpu.parse::<i64>()? * 1000),
    }
}

fn resources(lab: &Lab) -> Result<()> {
    let before = offered(lab)?;
    ensure!(before > 1000, "{before}");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "greedy", "namespace": "default" },
        "spec": { "containers": [{
            "name": "greedy",
            "image": "localhost/playground/demo:v1",
            "args": ["serve"],
            "resources": { "requests": { "cpu": "1" } },
        }] },
    });
    lab.apply("milan", &[pod])?;
    lab.ready("milan", &["greedy"])?;
    eventually(SOON, "less is offered", || {
        let now = offered(lab)?;
        ensure!(now == before - 900, "{now} instead of {}", before - 900);
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("milan", "delete pod greedy --grace-period=1")?;
    eventually(SOON, "as much is offered as before", || {
        let now = offered(lab)?;
        ensure!(now == before, "{now}");
        Ok::<_, anyhow::Error>(())
    })
}

fn tenant_rights(lab: &Lab) -> Result<()> {
    let id = "get cm -n liqo liqo-clusterid-configmap -o jsonpath={.data.CLUSTER_ID}";
    let rome = lab.kubectl("rome", id)?;
    let tenant = "get namespaces -l discovery.liqo.io/tenant-namespace=true -o jsonpath={.items[0].metadata.name}";
    let tenant = lab.kubectl("milan", tenant)?;
    let may = |verb: &str, what: &str, namespace: &str| -> Result<bool> {
        let scope = if namespace.is_empty() { "-A".to_owned() } else { format!("-n {namespace}") };
        let words = format!(
            "auth can-i {verb} {what} {scope} --as={rome} --as-group=liqo.io --as-group=system:authenticated"
        );
        let output = lab.kubectl_command("milan")?.args(words.split_whitespace()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim() == "yes")
    };
    for what in ["resourcerequests.discovery.liqo.io", "namespacemaps.virtualkubelet.liqo.io"] {
        ensure!(may("create", what, &tenant)?, "{what} has to be allowed");
    }
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    for verb in verbs {
        for (what, namespace) in [
            ("secrets", tenant.as_str()),
            ("secrets", "liqo"),
            ("secrets", ""),
            ("pods", "default"),
            ("pods", ""),
            ("nodes", ""),
            ("configmaps", "kube-system"),
            ("resourcerequests.discovery.liqo.io", "default"),
            ("resourcerequests.discovery.liqo.io", ""),
            ("foreignclusters.discovery.liqo.io", ""),
            ("resourceoffers.sharing.liqo.io", tenant.as_str()),
            ("rolebindings.rbac.authorization.k8s.io", tenant.as_str()),
            ("clusterroles.rbac.authorization.k8s.io", ""),
            ("shadowpods.virtualkubelet.liqo.io", "default"),
        ] {
            ensure!(!may(verb, what, namespace)?, "{verb} {what} in '{namespace}' is allowed");
        }
    }
    Ok(())
}

fn silence(lab: &Lab) -> Result<()> {
    let kinds = "foreignclusters,resourcerequests,resourceoffers,namespacemaps,networkconfigs,\
                 tunnelendpoints,nodes,secrets,configmaps,deployments,rolebindings,clusterroles,\
                 clusterrolebindings,serviceaccounts,namespaces";
    let columns =
        "custom-columns=K:.kind,N:.metadata.name,V:.metadata.resourceVersion,L:.metadata.labels";
    let ours = |cluster: &str| -> Result<Vec<String>> {
        let listed = lab.kubectl(cluster, &format!("get {kinds} -A --no-headers -o {columns}"))?;
        // Real nodes tell how they do every few minutes.
        let passing = |line: &&str| line.starts_with("Node ") && !line.contains("liqo-");
        // Columns grow with what is in them.
        let bare = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(listed.lines().filter(|line| !passing(line)).map(bare).collect())
    };
    let before = [ours("rome")?, ours("milan")?];
    // What happens all by itself would happen within this time; nothing can be waited for.
    let quiet = Instant::now() + Duration::from_mins(1);
    eventually(SOON * 2, "time passes", || {
        ensure!(Instant::now() > quiet, "not yet");
        Ok::<_, anyhow::Error>(())
    })?;
    for (cluster, before) in ["rome", "milan"].into_iter().zip(before) {
        let after = ours(cluster)?;
        let written: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
        ensure!(written.is_empty(), "written in {cluster} for nothing: {written:#?}");
    }
    Ok(())
}

fn uninstall_refused(lab: &Lab) -> Result<()> {
    for cluster in ["rome", "milan"] {
        let refused = lab.liqoctl_command(cluster, "uninstall").output()?;
        ensure!(refused.status.code() == Some(1), "{refused:?}");
        let other = if cluster == "rome" { "milan" } else { "rome" };
        ensure!(said(&refused).contains(other), "{refused:?}");
    }
    Ok(())
}

fn bidirectional(lab: &Lab) -> Result<()> {
    lab.liqoctl("milan", "peer rome")?;
    ensure!(lab.kubectl("milan", "get node liqo-rome --no-headers")?.contains(" Ready "));
    let rome = lab.kubectl("rome", "get foreigncluster milan --no-headers")?;
    let row: Vec<&str> = rome.split_whitespace().collect();
    ensure!(row[2..4] == ["Established", "Established"], "{row:?}");
    lab.liqoctl("milan", "unpeer rome")?;
    ensure!(lab.kubectl("milan", "get node liqo-rome").is_err(), "the node is still there");
    ensure!(lab.kubectl("rome", "get node liqo-milan --no-headers")?.contains(" Ready "));
    Ok(())
}

fn cut(lab: &Lab) -> Result<()> {
    let ready = "get node liqo-milan -o jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    lab.playground(&["cut", "milan:api"])?;
    let lost = eventually(NOTICED, "the node is not ready", || {
        let status = lab.kubectl("rome", ready)?;
        ensure!(status != "True", "{status}");
        Ok::<_, anyhow::Error>(())
    });
    lab.playground(&["heal"])?;
    lost?;
    eventually(NOTICED, "the node is ready again", || {
        let status = lab.kubectl("rome", ready)?;
        ensure!(status == "True", "{status}");
        Ok::<_, anyhow::Error>(())
    })
}

fn reverted(lab: &Lab) -> Result<()> {
    let copy = lab.kubectl("milan", "get resourcerequests -A --no-headers")?;
    let namespace = copy.split_whitespace().next().context("a copy")?;
    let read = format!("get resourcerequest -n {namespace} rome -o jsonpath={{.spec.authUrl}}");
    let before = lab.kubectl("milan", &read)?;
    let change = json!({"spec": {"authUrl": "https://192.0.2.1"}}).to_string();
    let words =
        ["patch", "resourcerequest", "-n", namespace, "rome", "--type=merge", "-p", &change];
    lab.kubectl_words("milan", &words)?;
    eventually(SOON, "the copy is as it was", || {
        let now = lab.kubectl("milan", &read)?;
        ensure!(now == before, "{now}");
        Ok::<_, anyhow::Error>(())
    })
}

/// A peer that is away in one phase of the peering or another.
fn away(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    let scale = |component: &str, replicas: u8| {
        let words = format!("scale -n liqo deployment/liqo-{component} --replicas={replicas}");
        lab.kubectl("milan", &words)
    };
    for component in ["auth", "controller-manager", "crd-replicator"] {
        lab.liqoctl("rome", "unpeer out-of-band milan")?;
        // Whoever has an identity needs nobody to give it one.
        lab.kubectl("rome", "delete secrets -A -l discovery.liqo.io/local-identity=true")?;
        scale(component, 0)?;
        let pods = format!("-n liqo pod -l app.kubernetes.io/name={component}");
        lab.kubectl("milan", &format!("wait --for=delete {pods} --timeout=60s"))?;
        let early = lab.liqoctl_command("rome", &format!("{command} --timeout 3s")).output()?;
        scale(component, 1)?;
        ensure!(early.status.code() == Some(1), "without {component}: {}", said(&early));
        lab.liqoctl("rome", &command).with_context(|| format!("{component} is back"))?;
    }
    Ok(())
}

fn killed(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    for (cluster, component) in [
        ("rome", "controller-manager"),
        ("milan", "controller-manager"),
        ("rome", "crd-replicator"),
        ("milan", "crd-replicator"),
        ("milan", "auth"),
    ] {
        lab.liqoctl("rome", "unpeer out-of-band milan")?;
        let kill = format!(
            "delete pod -n liqo -l app.kubernetes.io/name={component} --grace-period=0 --force --wait=false"
        );
        lab.kubectl(cluster, &kill)?;
        lab.liqoctl("rome", &command)
            .with_context(|| format!("{component} of {cluster} was killed"))?;
    }
    Ok(())
}

fn ten_times(lab: &Lab) -> Result<()> {
    let command = peer_command(lab, "milan")?;
    for round in 1..=10 {
        lab.liqoctl("rome", "unpeer out-of-band milan")
            .with_context(|| format!("round {round}"))?;
        let left = lab.kubectl(
            "rome",
            "get resourcerequests,resourceoffers,namespacemaps,foreignclusters -A -o name",
        )?;
        ensure!(left.is_empty(), "round {round}: {left}");
        ensure!(
            lab.kubectl("rome", "get node liqo-milan").is_err(),
            "round {round}: the node is there"
        );
        lab.liqoctl("rome", &command).with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

fn gone_for_ever(lab: &Lab) -> Result<()> {
    lab.playground(&["cut", "rome..milan"])?;
    let start = Instant::now();
    let parted = lab.liqoctl("rome", "unpeer out-of-band milan");
    let took = start.elapsed();
    let left = lab.kubectl("rome", "get nodes -o name");
    lab.playground(&["heal"])?;
    parted?;
    ensure!(took < Duration::from_secs(90), "it took {took:?}");
    if left?.contains("liqo-milan") {
        bail!("the virtual node is still there");
    }
    eventually(NOTICED, "the peer that is back cleans up", || {
        let left =
            lab.kubectl("milan", "get resourcerequests,resourceoffers,namespacemaps -A -o name")?;
        ensure!(left.is_empty(), "{left}");
        Ok::<_, anyhow::Error>(())
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
