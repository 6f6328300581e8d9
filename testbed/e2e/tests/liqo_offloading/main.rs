//! Namespaces reach over clusters: pods run there, are seen here, and what they need goes along.

mod adverse;
mod quota;
mod shortcut;

use std::io::{BufRead as _, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, Scenario, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);
const LATE: Duration = Duration::from_mins(3);
const IMAGE: &str = "localhost/playground/demo:v1";

fn main() -> ExitCode {
    Scenario::on("pair")
        .fact("two clusters are peered", prepare)
        .fact("a namespace is offloaded, and has a twin", offload)
        .fact("a pod runs there and is seen here", pod_runs)
        .fact("kubectl reaches into it: logs, exec, cp, port-forward", kubectl)
        .fact("a terminal reaches into it, and what it says is followed", terminal)
        .fact("kubectl debug adds a container to it, and reaches into that", debug)
        .fact("kubectl top knows it", top)
        .fact("what pods need goes along, and stays as it is here", reflection)
        .fact("a pod that is killed there comes back, and here it is the same", killed_there)
        .fact("what the other cluster does not allow is said here", refused_there)
        .fact("what goes wrong over there is told here", warned_there)
        .fact("clusters that do not see each other agree when they do again", split_brain)
        .fact("a virtual kubelet that is killed misses nothing", killed_kubelet)
        .fact("a slow API server over there is waited for", adverse::slow)
        .fact("who may not read Events over there misses nothing else", adverse::silent)
        .fact("a strategy says where pods may run, and moves them if asked to", policies)
        .fact("pods that have no choice need no scheduler, if asked to", shortcut::skipped)
        .fact("a namespace that cannot be had there is told", conflict)
        .fact("no more is used there than was offered, once that is enforced", quota::enforced)
        .fact("pods come home with their namespace", unoffload)
        .fact("unpeering sends pods home", unpeer)
        .run()
}

fn prepare(lab: &Lab) -> Result<()> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let words = format!("install kubeadm --cluster-name {cluster} --service-type NodePort");
        lab.liqoctl(cluster, &words)?;
    }
    lab.liqoctl("rome", &lab.peer_command("milan")?)?;
    Ok(())
}

fn offload(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace shop")?;
    let said = lab.liqoctl("rome", "offload namespace shop")?;
    let twin = twin(lab)?;
    ensure!(twin.starts_with("shop-rome-"), "{twin}");
    ensure!(said.contains(&twin), "{said}");
    let phase = "get namespaceoffloading -n shop offloading -o jsonpath={.status.offloadingPhase}";
    ensure!(lab.kubectl("rome", phase)? == "Ready");
    let label = "get namespace shop -o jsonpath={.metadata.labels.liqo\\.io/scheduling-enabled}";
    ensure!(lab.kubectl("rome", label)? == "true");
    lab.kubectl("milan", &format!("get namespace {twin}"))?;
    Ok(())
}

/// What the namespace is called in milan.
fn twin(lab: &Lab) -> Result<String> {
    let words =
        "get namespaceoffloading -n shop offloading -o jsonpath={.status.remoteNamespaceName}";
    lab.kubectl("rome", words)
}

/// A Deployment of one pod that has to go to milan.
fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"liqo.io/type": "virtual-node"},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": IMAGE, "args": ["serve"]}],
                },
            },
        },
    })
}

/// The one pod of an app in a namespace.
fn pod_of(lab: &Lab, cluster: &str, namespace: &str, app: &str) -> Result<Value> {
    let text = lab.kubectl(cluster, &format!("get pods -n {namespace} -l app={app} -o json"))?;
    let mut list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array_mut().context("a list")?;
    ensure!(items.len() == 1, "{} pods of {app} in {cluster}", items.len());
    Ok(items.remove(0))
}

fn name_of(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().context("a name")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn pod_runs(lab: &Lab) -> Result<()> {
    lab.apply("rome", &[deployment("web")])?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=60s")?;
    let here = pod_of(lab, "rome", "shop", "web")?;
    ensure!(here["spec"]["nodeName"] == "liqo-milan", "{here:#}");
    let there = pod_of(lab, "milan", &twin(lab)?, "web")?;
    ensure!(name_of(&there)? == name_of(&here)?, "{there:#}");
    let node = there["spec"]["nodeName"].as_str().unwrap_or_default();
    ensure!(node.starts_with("milan-"), "it runs on a real node: {node}");
    let node_address =
        lab.kubectl("rome", "get node liqo-milan -o jsonpath={.status.addresses[0].address}")?;
    ensure!(here["status"]["hostIP"] == node_address.as_str(), "{here:#}");
    ensure!(here["status"]["podIP"] == there["status"]["podIP"], "{here:#}");
    let events =
        lab.kubectl("rome", "get events -n shop --field-selector reason=SuccessfulReflection")?;
    ensure!(events.contains(name_of(&here)?), "{events}");
    Ok(())
}

fn kubectl(lab: &Lab) -> Result<()> {
    let pod = pod_of(lab, "rome", "shop", "web")?;
    let pod = name_of(&pod)?;
    let log = lab.kubectl("rome", &format!("logs -n shop {pod} --tail=5 --timestamps"))?;
    ensure!(!log.trim().is_empty(), "nothing was logged");
    let said = lab.kubectl("rome", &format!("exec -n shop {pod} -- hostname"))?;
    ensure!(said.trim() == pod, "{said}");
    let words = format!("exec -n shop {pod} -- sh -c");
    let mut failing = lab.kubectl_command("rome")?;
    let status = failing.args(words.split_whitespace()).arg("exit 7").output()?.status;
    ensure!(status.code() == Some(7), "{status:?}");
    let mut child = lab
        .kubectl_command("rome")?
        .args(["exec", "-i", "-n", "shop", pod, "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    std::io::Write::write_all(&mut child.stdin.take().context("it is piped")?, b"across\n")?;
    let output = child.wait_with_output()?;
    ensure!(output.stdout == b"across\n", "{output:?}");
    lab.kubectl_words(
        "rome",
        &["exec", "-n", "shop", pod, "--", "sh", "-c", "echo far > /tmp/far"],
    )?;
    let copy = tempfile::NamedTempFile::new()?;
    lab.kubectl("rome", &format!("cp shop/{pod}:/tmp/far {}", copy.path().display()))?;
    ensure!(std::fs::read_to_string(copy.path())? == "far\n");
    let missing = lab.kubectl("rome", "logs -n shop nobody");
    ensure!(missing.is_err_and(|error| error.to_string().contains("not found")));
    forward(lab, pod)
}

fn terminal(lab: &Lab) -> Result<()> {
    let talker = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "talker", "namespace": "shop"},
        "spec": {
            "nodeSelector": {"liqo.io/type": "virtual-node"},
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "talker", "image": IMAGE, "stdin": true,
                "command": ["sh", "-c", "while read -r line; do echo heard $line; done"],
            }],
        },
    });
    lab.apply("rome", &[talker])?;
    lab.kubectl("rome", "wait -n shop pod/talker --for=condition=Ready --timeout=60s")?;
    hears(lab, &["talker"])?;
    // Under a terminal, the process over there has one as well.
    let kubectl = lab.kubectl_command("rome")?;
    let program = kubectl.get_program().to_string_lossy().into_owned();
    let words: Vec<_> = kubectl.get_args().map(|word| word.to_string_lossy()).collect();
    let line = format!("exec {program} {} exec -it -n shop talker -- sh -c tty", words.join(" "));
    let mut under = std::process::Command::new("script");
    under.args(["-qec", &line, "/dev/null"]);
    under.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    under.envs(kubectl.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = under.spawn().context("run kubectl under a terminal")?;
    // The terminal lasts as long as somebody may type.
    let keyboard = child.stdin.take();
    let output = child.wait_with_output()?;
    drop(keyboard);
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{output:?}");
    ensure!(said.contains("/dev/pts/"), "{said}");
    lab.kubectl("rome", "delete pod -n shop talker")?;
    Ok(())
}

/// What is typed arrives, and so does the answer.
fn hears(lab: &Lab, whom: &[&str]) -> Result<()> {
    let mut child = lab
        .kubectl_command("rome")?
        .args(["attach", "-i", "-n", "shop"])
        .args(whom)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut typed = child.stdin.take().context("it is piped")?;
    std::io::Write::write_all(&mut typed, b"hello\n")?;
    let mut lines = BufReader::new(child.stdout.take().context("it is piped")?).lines();
    let heard = lines.next().context("it says something")??;
    child.kill()?;
    child.wait()?;
    ensure!(heard == "heard hello", "{heard}");
    Ok(())
}

fn debug(lab: &Lab) -> Result<()> {
    let before = pod_of(lab, "rome", "shop", "web")?;
    let pod = name_of(&before)?;
    let image = format!("--image={IMAGE}");
    let words = ["debug", "-i", "--attach=false", "--profile=baseline", "-n", "shop", pod];
    let container = [image.as_str(), "--target=main", "-c", "doctor", "--", "sh", "-c"];
    let script = "echo here; while read -r line; do echo heard $line; done";
    lab.kubectl_words("rome", &[&words[..], &container, &[script]].concat())?;
    eventually(SOON, "the container runs, and is seen here", || {
        let here = pod_of(lab, "rome", "shop", "web")?;
        let status = &here["status"]["ephemeralContainerStatuses"][0];
        ensure!(status["name"] == "doctor" && status["state"]["running"].is_object(), "{status:#}");
        Ok::<_, anyhow::Error>(())
    })?;
    let there = pod_of(lab, "milan", &twin(lab)?, "web")?;
    let added = &there["spec"]["ephemeralContainers"][0];
    ensure!(added["targetContainerName"] == "main", "{added:#}");
    let log = lab.kubectl("rome", &format!("logs -n shop {pod} -c doctor"))?;
    ensure!(log.contains("here"), "{log}");
    hears(lab, &[pod, "-c", "doctor"])?;
    let after = pod_of(lab, "rome", "shop", "web")?;
    ensure!(after["metadata"]["uid"] == before["metadata"]["uid"] && is_ready(&after), "{after:#}");
    Ok(())
}

/// A port of the pod is a port here.
fn forward(lab: &Lab, pod: &str) -> Result<()> {
    let mut child = lab
        .kubectl_command("rome")?
        .args(["port-forward", "-n", "shop", pod, ":8080"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("it is piped")?).lines();
    let line = lines.next().context("it says where")??;
    let address = line.split_whitespace().nth(2).context("an address")?.to_owned();
    let asked = ask(&address);
    child.kill()?;
    child.wait()?;
    let answer = asked.with_context(|| line)?;
    ensure!(answer.contains(pod), "{answer}");
    Ok(())
}

/// What a web server says.
fn ask(address: &str) -> Result<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn top(lab: &Lab) -> Result<()> {
    eventually(LATE, "its usage is known", || {
        let usage = lab.kubectl("rome", "top pod -n shop --no-headers")?;
        ensure!(usage.starts_with("web-"), "{usage}");
        Ok::<_, anyhow::Error>(())
    })
}

fn reflection(lab: &Lab) -> Result<()> {
    let twin = twin(lab)?;
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "red"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"word": "sesame"}}),
        json!({"apiVersion": "v1", "kind": "Service", "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}],
        }}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {
            "rules": [{"host": "shop.example", "http": {"paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "goods", "port": {"number": 80}}},
            }]}}],
        }}),
    ];
    let kinds = ["configmap", "secret", "service", "ingress"];
    for mut object in objects {
        object["metadata"] =
            json!({"name": "goods", "namespace": "shop", "labels": {"of": "test"}});
        lab.apply("rome", &[object])?;
    }
    for kind in kinds {
        eventually(SOON, "the copy is there", || {
            lab.kubectl("milan", &format!("get {kind} -n {twin} goods"))
        })?;
    }
    let read = |path: &str| -> Result<String> {
        lab.kubectl("milan", &format!("get configmap -n {twin} goods -o jsonpath={{{path}}}"))
    };
    let becomes = |path: &str, want: &str| {
        eventually(SOON, "the copy follows", || {
            let now = read(path)?;
            ensure!(now == want, "{now}");
            Ok::<_, anyhow::Error>(())
        })
    };
    becomes(".metadata.labels.of", "test")?;
    let paint = |cluster: &str, namespace: &str, colour: &str| {
        let change = json!({"data": {"colour": colour}}).to_string();
        lab.kubectl_words(cluster, &["patch", "configmap", "-n", namespace, "goods", "-p", &change])
    };
    paint("rome", "shop", "blue")?;
    becomes(".data.colour", "blue")?;
    paint("milan", &twin, "green")?;
    becomes(".data.colour", "blue")?;
    // The pod here is the endpoint there, without a copy of the slice naming it twice.
    eventually(SOON, "the service has its endpoint", || {
        let words =
            format!("get endpointslices -n {twin} -l kubernetes.io/service-name=goods -o json");
        let list: Value = serde_json::from_str(&lab.kubectl("milan", &words)?)?;
        let slices = list["items"].as_array().context("a list")?;
        let count: usize =
            slices.iter().filter_map(|slice| Some(slice["endpoints"].as_array()?.len())).sum();
        ensure!(count == 1, "{count} endpoints: {list:#}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("rome", "annotate configmap -n shop goods liqo.io/skip-reflection=true")?;
    lab.kubectl("rome", "delete secret,service,ingress -n shop goods")?;
    for kind in kinds {
        eventually(SOON, "the copy is gone", || {
            let left =
                lab.kubectl("milan", &format!("get {kind} -n {twin} goods --ignore-not-found"))?;
            ensure!(left.is_empty(), "{left}");
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(())
}

/// Waits until the pod here is ready again, on behalf of another pod there.
fn comes_back(lab: &Lab, before: &Value) -> Result<()> {
    let twin = twin(lab)?;
    eventually(LATE, "the pod runs again", || {
        let there = pod_of(lab, "milan", &twin, "web")?;
        ensure!(there["metadata"]["uid"] != before["metadata"]["uid"], "it is the old one");
        let here = pod_of(lab, "rome", "shop", "web")?;
        ensure!(is_ready(&here) && here["status"]["podIP"] == there["status"]["podIP"], "{here:#}");
        Ok::<_, anyhow::Error>(())
    })
}

fn killed_there(lab: &Lab) -> Result<()> {
    let (here, twin) = (pod_of(lab, "rome", "shop", "web")?, twin(lab)?);
    let there = pod_of(lab, "milan", &twin, "web")?;
    lab.kubectl("milan", &format!("delete pod -n {twin} {}", name_of(&there)?))?;
    comes_back(lab, &there)?;
    let after = pod_of(lab, "rome", "shop", "web")?;
    ensure!(after["metadata"]["uid"] == here["metadata"]["uid"], "the pod here is another one");
    let restarts = &after["status"]["containerStatuses"][0]["restartCount"];
    ensure!(restarts.as_i64() == Some(1), "{restarts}");
    Ok(())
}

fn refused_there(lab: &Lab) -> Result<()> {
    let twin = twin(lab)?;
    lab.kubectl(
        "milan",
        &format!("label namespace {twin} pod-security.kubernetes.io/enforce=baseline"),
    )?;
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bold", "namespace": "shop"},
        "spec": deployment("bold")["spec"]["template"]["spec"].clone(),
    });
    pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    lab.apply("rome", &[pod])?;
    eventually(SOON, "the reason is shown", || {
        let shown = lab.kubectl("rome", "get pod -n shop bold --no-headers")?;
        ensure!(shown.contains("OffloadingBackOff"), "{shown}");
        let why = lab.kubectl("rome", "get pod -n shop bold -o jsonpath={.status.message}")?;
        ensure!(why.contains("PodSecurity") && why.contains("privileged"), "{why}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("milan", &format!("label namespace {twin} pod-security.kubernetes.io/enforce-"))?;
    lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/bold --timeout=120s")?;
    lab.kubectl("rome", "delete pod -n shop bold")?;
    let left = lab.kubectl("milan", &format!("get pod,shadowpod -n {twin} -o name"))?;
    ensure!(!left.contains("bold"), "{left}");
    Ok(())
}

fn warned_there(lab: &Lab) -> Result<()> {
    let mut spec = deployment("lost")["spec"]["template"]["spec"].clone();
    spec["containers"][0]["image"] = json!("localhost/playground/nobody-has-this:v1");
    spec["containers"][0]["imagePullPolicy"] = json!("Never");
    let metadata = json!({"name": "lost", "namespace": "shop"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    lab.apply("rome", &[pod])?;
    eventually(SOON, "the warning is told", || {
        let told = lab.kubectl("rome", "describe pod -n shop lost")?;
        let (_, events) = told.split_once("Events:").context("events")?;
        ensure!(events.contains("kubelet") && events.contains("ErrImageNeverPull"), "{told}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.kubectl("rome", "delete pod -n shop lost")?;
    Ok(())
}

fn split_brain(lab: &Lab) -> Result<()> {
    let (here, twin) = (pod_of(lab, "rome", "shop", "web")?, twin(lab)?);
    let there = pod_of(lab, "milan", &twin, "web")?;
    lab.playground(&["cut", "rome..milan"])?;
    let meanwhile =
        || -> Result<()> {
            lab.kubectl("milan", &format!("delete pod -n {twin} {}", name_of(&there)?))?;
            eventually(SOON, "the pod runs again over there", || {
                let now = pod_of(lab, "milan", &twin, "web")?;
                ensure!(
                    now["metadata"]["uid"] != there["metadata"]["uid"] && is_ready(&now),
                    "{now:#}"
                );
                Ok::<_, anyhow::Error>(())
            })?;
            lab.apply("rome", &[json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "late", "namespace": "shop"}, "data": {"said": "while cut"},
        })])
        };
    let meanwhile = meanwhile();
    lab.playground(&["heal"])?;
    meanwhile?;
    comes_back(lab, &there)?;
    let after = pod_of(lab, "rome", "shop", "web")?;
    ensure!(after["metadata"]["uid"] == here["metadata"]["uid"], "the pod here is another one");
    eventually(LATE, "what was made meanwhile is there", || {
        lab.kubectl("milan", &format!("get configmap -n {twin} late"))
    })?;
    Ok(())
}

fn killed_kubelet(lab: &Lab) -> Result<()> {
    let before = pod_of(lab, "rome", "shop", "web")?;
    let kubelet = "get pods -A -l app.kubernetes.io/name=virtual-kubelet --no-headers";
    let pod = lab.kubectl("rome", kubelet)?;
    let mut words = pod.split_whitespace();
    let (namespace, name) = words.next().zip(words.next()).context("a virtual kubelet")?;
    let kill = format!("delete pod -n {namespace} {name} --grace-period=0 --force --wait=false");
    lab.kubectl("rome", &kill)?;
    lab.kubectl("rome", "delete configmap -n shop late")?;
    lab.kubectl("rome", "scale -n shop deployment/web --replicas=3")?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=120s")?;
    let twin = twin(lab)?;
    eventually(SOON, "what went meanwhile is gone there", || {
        let left =
            lab.kubectl("milan", &format!("get configmap -n {twin} late --ignore-not-found"))?;
        ensure!(left.is_empty(), "{left}");
        Ok::<_, anyhow::Error>(())
    })?;
    let there = lab.kubectl("milan", &format!("get pods -n {twin} -l app=web --no-headers"))?;
    ensure!(there.lines().count() == 3, "{there}");
    let first = format!(
        "get pod -n shop {} -o jsonpath={{.status.containerStatuses[0].restartCount}}",
        name_of(&before)?
    );
    let restarts = before["status"]["containerStatuses"][0]["restartCount"].to_string();
    ensure!(lab.kubectl("rome", &first)? == restarts, "it was restarted");
    lab.kubectl("rome", "scale -n shop deployment/web --replicas=1")?;
    eventually(SOON, "the others are gone", || pod_of(lab, "milan", &twin, "web"))?;
    eventually(SOON, "the others are gone here, too", || pod_of(lab, "rome", "shop", "web"))?;
    Ok(())
}

fn policies(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace far")?;
    lab.liqoctl(
        "rome",
        "offload namespace far --pod-offloading-strategy Remote --namespace-mapping-strategy \
         EnforceSameName --selector kubernetes.io/hostname=liqo-milan",
    )?;
    lab.kubectl("milan", "get namespace far")?;
    let mut spec = deployment("free")["spec"]["template"]["spec"].clone();
    spec.as_object_mut().context("a specification")?.remove("nodeSelector");
    let metadata = json!({"name": "free", "namespace": "far"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    lab.apply("rome", &[pod])?;
    lab.kubectl("rome", "wait -n far --for=condition=Ready pod/free --timeout=60s")?;
    let node = lab.kubectl("rome", "get pod -n far free -o jsonpath={.spec.nodeName}")?;
    ensure!(node == "liqo-milan", "{node}");
    lab.liqoctl(
        "rome",
        "offload namespace far --pod-offloading-strategy Local --evict-violating-pods \
         --selector kubernetes.io/hostname=liqo-milan",
    )?;
    lab.kubectl("rome", "wait -n far --for=delete pod/free --timeout=60s")?;
    let unmatched = lab
        .liqoctl_command(
            "rome",
            "offload namespace far --pod-offloading-strategy Local -l nothing=here",
        )
        .output()?;
    ensure!(unmatched.status.success(), "{unmatched:?}");
    let phase = "get namespaceoffloading -n far offloading -o jsonpath={.status.offloadingPhase}";
    ensure!(lab.kubectl("rome", phase)? == "NoClusterSelected");
    lab.liqoctl("rome", "unoffload namespace far")?;
    lab.kubectl("rome", "delete namespace far")?;
    Ok(())
}

fn conflict(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "create namespace taken")?;
    lab.kubectl("milan", "create namespace taken")?;
    let words = "offload namespace taken --namespace-mapping-strategy EnforceSameName --timeout 3s";
    let failed = lab.liqoctl_command("rome", words).output()?;
    let said = String::from_utf8_lossy(&failed.stdout);
    ensure!(failed.status.code() == Some(1) && said.contains("milan"), "{said}");
    let phase = "get namespaceoffloading -n taken offloading -o jsonpath={.status.offloadingPhase}";
    ensure!(lab.kubectl("rome", phase)? == "AllFailed");
    lab.kubectl("milan", "delete namespace taken")?;
    eventually(SOON, "the name is free, and taken", || {
        let now = lab.kubectl("rome", phase)?;
        ensure!(now == "Ready", "{now}");
        Ok::<_, anyhow::Error>(())
    })?;
    lab.liqoctl("rome", "unoffload namespace taken")?;
    ensure!(lab.kubectl("milan", "get namespace taken").is_err(), "the twin is still there");
    Ok(())
}

/// Lets the Deployment go wherever it likes.
fn anywhere(lab: &Lab) -> Result<()> {
    let change = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}).to_string();
    let words = ["patch", "deployment", "-n", "shop", "web", "--type=merge", "-p", &change];
    lab.kubectl_words("rome", &words)?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=60s")?;
    Ok(())
}

/// Waits until the pods that run do so here.
fn at_home(lab: &Lab) -> Result<()> {
    let nodes = "get pods -n shop -l app=web --field-selector status.phase=Running \
                 -o jsonpath={.items[*].spec.nodeName}";
    eventually(SOON, "all pods are at home", || {
        let nodes = lab.kubectl("rome", nodes)?;
        ensure!(nodes.split_whitespace().count() == 2, "{nodes}");
        ensure!(nodes.split_whitespace().all(|node| node.starts_with("rome-")), "{nodes}");
        Ok::<_, anyhow::Error>(())
    })
}

fn unoffload(lab: &Lab) -> Result<()> {
    let twin = twin(lab)?;
    lab.kubectl("rome", "scale -n shop deployment/web --replicas=2")?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=60s")?;
    lab.liqoctl("rome", "unoffload namespace shop")?;
    ensure!(lab.kubectl("milan", &format!("get namespace {twin}")).is_err(), "the twin is there");
    anywhere(lab)?;
    at_home(lab)?;
    // Those that ran there are over, and say so.
    let over = "get pods -n shop -l app=web --field-selector status.phase=Failed --no-headers";
    let over = lab.kubectl("rome", over)?;
    ensure!(over.lines().all(|line| line.contains("OffloadingAborted")), "{over}");
    let label = "get namespace shop -o jsonpath={.metadata.labels.liqo\\.io/scheduling-enabled}";
    ensure!(lab.kubectl("rome", label)?.is_empty(), "the label is still there");
    Ok(())
}

fn unpeer(lab: &Lab) -> Result<()> {
    lab.liqoctl("rome", "offload namespace shop")?;
    lab.kubectl("rome", "cordon rome-1")?;
    lab.kubectl("rome", "rollout restart -n shop deployment/web")?;
    let moved = lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=60s");
    lab.kubectl("rome", "uncordon rome-1")?;
    moved?;
    lab.liqoctl("rome", "unpeer out-of-band milan")?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=120s")?;
    at_home(lab)?;
    eventually(SOON, "nothing is left in milan", || {
        let left = lab.kubectl("milan", "get shadowpods,namespacemaps -A -o name")?;
        ensure!(left.is_empty(), "{left}");
        let spaces = lab.kubectl("milan", "get namespaces -o name")?;
        ensure!(!spaces.contains("shop-rome"), "{spaces}");
        Ok::<_, anyhow::Error>(())
    })
}
