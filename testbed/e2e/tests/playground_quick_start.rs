//! Two clusters of two real nodes each do everything that real clusters do.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::{claim, pod, service};
use liqo_testkit::{Lab, Scenario, eventually, places};

const SOON: Duration = Duration::from_secs(30);
/// A node is given up 16 s after its last word.
const NODE_LOST: Duration = Duration::from_mins(1);

fn main() -> ExitCode {
    Scenario::on("quick-start")
        .fact("both clusters have two ready nodes", two_ready_nodes)
        .fact("installers find the networks where kubeadm puts them", kubeadm_facts)
        .fact("pods of different nodes reach each other directly", cross_node)
        .fact("a service is reached by name, by cluster address and by node port", services)
        .fact("a claimed volume is a real directory and keeps what is written", volumes)
        .fact("a privileged pod of the host network lives in its nodes namespace", host_network)
        .fact("logs exec and port-forward work", streams)
        .fact("top shows nodes and pods", top)
        .fact("a pod of one cluster reaches the api server of the other", api_over_wan)
        .fact("up is idempotent and refuses another topology", up_again)
        .fact("an image archive can be loaded", load)
        .fact("a cut between clusters stops packets until it heals", cut_between)
        .fact("a cut api server is not reached from outside until it heals", cut_api)
        .fact("a stopped component stays stopped until it is started", stop_component)
        .fact("a killed component comes back by itself", kill_component)
        .fact("a node without power is lost and comes back with its pods", power)
        .fact("the evidence holds logs objects and network state", evidence)
        .run()
}

fn two_ready_nodes(lab: &Lab) -> Result<()> {
    for cluster in ["rome", "milan"] {
        let nodes = lab.kubectl(cluster, "get nodes --no-headers")?;
        ensure!(nodes.lines().count() == 2, "{nodes}");
        ensure!(nodes.lines().all(|line| line.contains(" Ready ")), "{nodes}");
        ensure!(nodes.lines().all(|line| line.contains("v1.34.4")), "{nodes}");
    }
    let status = lab.playground(&["status", "-o", "json"])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    ensure!(status["clusters"][1]["ready"] == 2, "{status}");
    let region = "get nodes -l topology.kubernetes.io/region=europe-milan --no-headers";
    ensure!(lab.kubectl("milan", region)?.lines().count() == 2);
    Ok(())
}

fn kubeadm_facts(lab: &Lab) -> Result<()> {
    let config = lab.kubectl("milan", "-n kube-system get cm kubeadm-config -o yaml")?;
    ensure!(config.contains("podSubnet: 10.20.0.0/16"), "{config}");
    ensure!(config.contains("serviceSubnet: 10.21.0.0/16"), "{config}");
    let selector = "component=kube-controller-manager,tier=control-plane";
    let words = format!(
        "-n kube-system get pods -l {selector} -o jsonpath={{.items[*].spec.containers[*].command}}"
    );
    let flags = lab.kubectl("milan", &words)?;
    ensure!(flags.contains("--cluster-cidr=10.20.0.0/16"), "{flags}");
    ensure!(flags.contains("--service-cluster-ip-range=10.21.0.0/16"), "{flags}");
    Ok(())
}

fn cross_node(lab: &Lab) -> Result<()> {
    let pods = [pod("one").on_node("rome-1").build(), pod("two").on_node("rome-2").build()];
    lab.apply("rome", &pods)?;
    lab.ready("rome", &["one", "two"])?;
    let address = lab.kubectl("rome", "get pod two -o jsonpath={.status.podIP}")?;
    ensure!(address.starts_with("10.10.1."), "{address}");
    let said = lab.ask("rome", "one", &format!("http://{address}:8080/"))?;
    ensure!(said["node"] == "rome-2", "{said}");
    // No translation on the way: the server sees the client's own address.
    let own = lab.kubectl("rome", "get pod one -o jsonpath={.status.podIP}")?;
    ensure!(
        said["client"].as_str().is_some_and(|client| client.starts_with(&format!("{own}:"))),
        "{said}"
    );
    Ok(())
}

fn services(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[service("one").on_node_port(30080).build()])?;
    for host in ["one", "one.default.svc.cluster.local"] {
        let said = eventually(SOON, host, || lab.ask("rome", "two", &format!("http://{host}/")))?;
        ensure!(said["pod"] == "one", "{said}");
    }
    let address = lab.kubectl("rome", "get svc one -o jsonpath={.spec.clusterIP}")?;
    let found = lab.kubectl("rome", "exec two -- dig +short one.default.svc.cluster.local")?;
    ensure!(found.trim() == address, "{found} instead of {address}");
    // A pod reaches itself through its own service.
    let said = lab.ask("rome", "one", &format!("http://{address}/"))?;
    ensure!(said["pod"] == "one", "{said}");
    // From this machine, through the node that does not run the pod.
    let node = lab.plan().node("rome-2").context("rome-2")?.1.address;
    let page = ask_from_here(&format!("{node}:30080"))?;
    ensure!(page.contains("\"pod\":\"one\""), "{page}");
    Ok(())
}

fn volumes(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[claim("data", "1Gi")])?;
    lab.apply("rome", &[pod("writer").on_node("rome-2").mounting("data", "/data").build()])?;
    lab.ready("rome", &["writer"])?;
    lab.kubectl(
        "rome",
        "exec writer -- curl -s -f -X PUT -d remembered http://localhost:8080/file/data/note",
    )?;
    let volume = lab.kubectl("rome", "get pvc data -o jsonpath={.spec.volumeName}")?;
    let path = lab.kubectl(
        "rome",
        &format!("get pv {volume} -o jsonpath={{.spec.hostPath.path}}{{.spec.local.path}}"),
    )?;
    let note = lab.playground(&["exec", "rome-2", "--", "cat", &format!("{path}/note")])?;
    ensure!(note == "remembered", "{note}");
    lab.kubectl("rome", "delete pod writer --wait")?;
    lab.apply("rome", &[pod("reader").mounting("data", "/data").build()])?;
    lab.ready("rome", &["reader"])?;
    let note = lab.kubectl("rome", "exec reader -- cat /data/note")?;
    ensure!(note == "remembered", "{note}");
    let place = lab.kubectl("rome", "get pod reader -o jsonpath={.spec.nodeName}")?;
    ensure!(place == "rome-2", "the data is on rome-2, the pod on {place}");
    Ok(())
}

fn host_network(lab: &Lab) -> Result<()> {
    lab.apply("milan", &[pod("host").on_node("milan-2").privileged_in_host_network().build()])?;
    lab.ready("milan", &["host"])?;
    let inside = lab.kubectl("milan", "exec host -- ip -4 addr show eth0")?;
    let node = lab.plan().node("milan-2").context("milan-2")?.1.address;
    ensure!(inside.contains(&node.to_string()), "{inside}");
    // What it changes there is the node's, not this machine's and not its neighbour's.
    lab.kubectl("milan", "exec host -- ip link add fabric0 type bridge")?;
    ensure!(lab.playground(&["exec", "milan-2", "--", "ip", "link", "show", "fabric0"]).is_ok());
    ensure!(lab.playground(&["exec", "milan-1", "--", "ip", "link", "show", "fabric0"]).is_err());
    ensure!(!std::path::Path::new("/sys/class/net/fabric0").exists());
    lab.kubectl("milan", "exec host -- ip link delete fabric0")?;
    Ok(())
}

fn streams(lab: &Lab) -> Result<()> {
    let logs = lab.kubectl("rome", "logs two")?;
    ensure!(logs.contains("serving on"), "{logs}");
    let words = ["exec", "two", "--", "sh", "-c", "echo $((6*7))"];
    ensure!(lab.kubectl_words("rome", &words)?.trim() == "42");
    let mut forward = lab
        .kubectl_command("rome")?
        .args(["port-forward", "pod/two", ":8080"])
        .stdout(Stdio::piped())
        .spawn()?;
    // The reader stays: kubectl ends when nobody listens to it any more.
    let mut words = BufReader::new(forward.stdout.take().context("its output")?);
    let mut line = String::new();
    words.read_line(&mut line)?;
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split_whitespace().next());
    let outcome = ask_from_here(&format!("127.0.0.1:{}", port.unwrap_or("0")));
    forward.kill()?;
    forward.wait()?;
    let page = outcome.with_context(|| format!("port-forward said {line:?}"))?;
    ensure!(page.contains("\"pod\":\"two\""), "{page}");
    Ok(())
}

fn top(lab: &Lab) -> Result<()> {
    let minute = Duration::from_mins(1);
    eventually(minute, "top nodes", || {
        let nodes = lab.kubectl("rome", "top nodes --no-headers")?;
        ensure!(nodes.lines().filter(|line| line.contains('%')).count() == 2, "{nodes}");
        Ok::<_, anyhow::Error>(())
    })?;
    eventually(minute, "top pods", || {
        let pods = lab.kubectl("rome", "top pods --no-headers")?;
        ensure!(pods.lines().any(|line| line.starts_with("two ")), "{pods}");
        Ok::<_, anyhow::Error>(())
    })
}

fn api_over_wan(lab: &Lab) -> Result<()> {
    let milan = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    lab.kubectl("rome", &format!("exec one -- demo wait-for {milan}:6443 --max-time 5"))?;
    Ok(())
}

fn up_again(lab: &Lab) -> Result<()> {
    let before = lab.kubectl("rome", "get nodes -o jsonpath={.items[*].metadata.uid}")?;
    lab.playground(&["up", "quick-start"])?;
    ensure!(lab.kubectl("rome", "get nodes -o jsonpath={.items[*].metadata.uid}")? == before);
    let error = lab.playground(&["up", "one"]).err().context("another topology was accepted")?;
    ensure!(error.to_string().contains("is up with another topology (quick-start)"), "{error}");
    ensure!(lab.kubectl("rome", "get nodes -o jsonpath={.items[*].metadata.uid}")? == before);
    Ok(())
}

fn load(lab: &Lab) -> Result<()> {
    let list = lab.playground(&["images"])?;
    let archive = list.lines().find_map(|line| line.split("kB").nth(1)).context("images")?.trim();
    lab.playground(&["load", "milan", archive])?;
    let error =
        lab.playground(&["load", "milan", "nowhere.tar"]).err().context("loaded nothing")?;
    ensure!(error.to_string().contains("there is no file nowhere.tar"), "{error}");
    Ok(())
}

fn cut_between(lab: &Lab) -> Result<()> {
    let milan = lab.plan().cluster("milan").context("milan")?.control_plane().address;
    let reach = format!("exec one -- demo wait-for {milan}:6443 --max-time 1");
    lab.playground(&["cut", "rome..milan"])?;
    lab.playground(&["cut", "rome..milan"])?;
    ensure!(lab.kubectl("rome", &reach).is_err(), "milan is reached through a cut");
    ensure!(lab.kubectl("milan", "get nodes").is_ok(), "the administrator is cut off too");
    lab.playground(&["heal", "rome..milan"])?;
    lab.playground(&["heal", "rome..milan"])?;
    lab.kubectl("rome", &reach)?;
    // The whole uplink: then this machine does not reach it either.
    lab.playground(&["cut", "rome"])?;
    ensure!(lab.kubectl("rome", "get nodes --request-timeout=2s").is_err());
    lab.playground(&["heal"])?;
    lab.kubectl("rome", "get nodes")?;
    Ok(())
}

fn cut_api(lab: &Lab) -> Result<()> {
    lab.playground(&["cut", "milan:api"])?;
    ensure!(lab.kubectl("milan", "get nodes --request-timeout=2s").is_err());
    ensure!(lab.playground(&["status"]).is_err(), "status calls that healthy");
    lab.playground(&["heal", "milan:api"])?;
    lab.kubectl("milan", "get nodes")?;
    Ok(())
}

fn stop_component(lab: &Lab) -> Result<()> {
    lab.playground(&["stop", "milan-1", "kube-scheduler"])?;
    eventually(SOON, "the scheduler ends", || {
        let shown =
            lab.playground(&["exec", "milan-1", "--", "pgrep", "-f", "^/engine/kube-scheduler"]);
        ensure!(shown.is_err(), "it runs");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.apply("milan", &[pod("patient").build()])?;
    lab.playground(&["start", "milan-1", "kube-scheduler"])?;
    lab.ready("milan", &["patient"])?;
    let error =
        lab.playground(&["stop", "milan-1", "kube-cheduler"]).err().context("stopped nothing")?;
    ensure!(error.to_string().contains("there are: containerd, kube-proxy, kubelet"), "{error}");
    Ok(())
}

fn kill_component(lab: &Lab) -> Result<()> {
    let pid = || lab.playground(&["exec", "rome-2", "--", "pgrep", "-f", "^/run/engine/kubelet"]);
    let before = pid()?;
    lab.playground(&["exec", "rome-2", "--", "kill", "-9", before.trim()])?;
    eventually(SOON, "the kubelet is back", || {
        let after = pid()?;
        ensure!(after != before, "it is the old one");
        Ok::<_, anyhow::Error>(())
    })?;
    ensure!(lab.ask("rome", "one", "http://two.nowhere/").is_err());
    lab.apply("rome", &[pod("after").on_node("rome-2").build()])?;
    lab.ready("rome", &["after"])
}

fn power(lab: &Lab) -> Result<()> {
    lab.playground(&["stop", "rome-2"])?;
    lab.playground(&["stop", "rome-2"])?;
    eventually(NODE_LOST, "rome-2 is NotReady", || {
        let node = lab.kubectl("rome", "get node rome-2 --no-headers")?;
        ensure!(node.contains("NotReady"), "{node}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.playground(&["start", "rome-2"])?;
    lab.playground(&["start", "rome-2"])?;
    lab.kubectl("rome", "wait --for=condition=Ready node/rome-2 --timeout=60s")?;
    eventually(Duration::from_mins(1), "its pod answers again", || {
        let address = lab.kubectl("rome", "get pod two -o jsonpath={.status.podIP}")?;
        lab.ask("rome", "one", &format!("http://{address}:8080/"))
    })?;
    Ok(())
}

fn evidence(lab: &Lab) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("evidence-{}", lab.prefix()));
    lab.playground(&["collect", &folder.display().to_string()])?;
    for (file, content) in [
        ("nodes/rome-2/logs/kubelet.log", "Started kubelet"),
        ("clusters/rome/pods.txt", "kube-apiserver-rome-1"),
        ("clusters/milan/events.txt", "Scheduled"),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
        ensure!(text.contains(content), "{file} lacks {content:?}");
    }
    let state = folder.join(format!("network/{}.rome-1.txt", lab.prefix()));
    ensure!(std::fs::read_to_string(state)?.contains("table ip playground"));
    std::fs::remove_dir_all(&folder)?;
    let log = lab.playground(&["logs", "rome-1", "kube-apiserver"])?;
    ensure!(log.contains("Serving securely"), "{} bytes of log", log.len());
    Ok(())
}

/// Asks from this machine, with the client that pods have.
fn ask_from_here(address: &str) -> Result<String> {
    let demo = places()?.target.join("release/demo");
    let output = Command::new(demo)
        .args(["curl", "-s", "-f", "--max-time", "5", &format!("http://{address}/")])
        .output()?;
    ensure!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
