//! Gateways that end in every way, while a connection is open and somebody knocks all the time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::fixtures::{DEMO, pod};
use liqo_testkit::{Count, Lab, Traffic, eventually};
use serde_json::json;

use super::{SOON, address, flows, narrow, on};

/// How long no packet may pass when a process ends; usually it is less than a second.
const MOMENT: Duration = Duration::from_secs(6);
/// The same when a node is lost: the Lease, and the time between two looks at it.
const LEASE: Duration = Duration::from_secs(25);

/// Gateways of both clusters are started again, one after the other and both at once.
pub fn restarted(lab: &Lab) -> Result<()> {
    for clusters in [&["milan"][..], &["rome"], &["rome", "milan"]] {
        restart(lab, clusters)?;
        flows(lab).with_context(|| format!("after a restart of {clusters:?}"))?;
    }
    narrow::is_wide(lab)
}

/// Starts the gateways of clusters again.
pub fn restart(lab: &Lab, clusters: &[&str]) -> Result<()> {
    let mut ending = vec![];
    for cluster in clusters {
        let gateways = "get pods -n liqo -l app.kubernetes.io/name=gateway -o name";
        let pods = lab.kubectl(cluster, gateways)?;
        let pods = pods.split_whitespace().collect::<Vec<_>>().join(" ");
        lab.kubectl(cluster, &format!("delete -n liqo {pods} --wait=false"))?;
        ending.push((cluster, pods));
    }
    for (cluster, pods) in ending {
        lab.kubectl(cluster, &format!("wait -n liqo --for=delete {pods} --timeout=60s"))?;
        let words = "rollout status -n liqo deployment/liqo-gateway --timeout=60s";
        lab.kubectl(cluster, words)?;
    }
    Ok(())
}

/// Ends the process of the active gateway without a word; the name of its pod.
fn kill(lab: &Lab) -> Result<String> {
    let (pod, node) = active(lab)?;
    on(lab, &node, "pkill -9 -f '^/usr/bin/liqo gateway'")?;
    Ok(pod)
}

/// The pod of the active gateway, and its node.
pub fn active(lab: &Lab) -> Result<(String, String)> {
    let columns = "custom-columns=P:.metadata.name,N:.spec.nodeName";
    let words = "get pods -n liqo -l net.liqo.io/gateway=active --no-headers";
    let pods = lab.kubectl("rome", &format!("{words} -o {columns}"))?;
    match pods.split_whitespace().collect::<Vec<_>>()[..] {
        [pod, node] => Ok((pod.to_owned(), node.to_owned())),
        _ => anyhow::bail!("one gateway is active, not {pods:?}"),
    }
}

pub fn killed(lab: &Lab) -> Result<()> {
    kill(lab)?;
    flows(lab)
}

/// A pod here, a pod there, and what flows between them from now on.
fn begin(lab: &Lab) -> Result<Traffic> {
    let door = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "door", "namespace": "liqo-demo" },
        "spec": {
            "nodeSelector": { "liqo.io/type": "virtual-node" },
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": DEMO, "args": ["serve", "--port", "80", "--udp"],
            }],
        },
    });
    lab.apply("rome", &[door])?;
    // The first node has the control plane, and is not lost.
    lab.apply("rome", &[pod("walker").on_node("rome-1").build()])?;
    lab.kubectl("rome", "wait -n liqo-demo --for=condition=Ready pod/door --timeout=60s")?;
    lab.ready("rome", &["walker"])?;
    let place = SocketAddr::new(address(lab, "door")?.parse()?, 80);
    let traffic = Traffic::begin(&lab.namespace_of_pod("rome", "default", "walker")?, place)?;
    eventually(SOON, "packets flow", || traffic.flows())?;
    Ok(traffic)
}

/// The very same connection goes on, and somebody answers again, in time.
fn goes_on(traffic: Traffic, since: Instant, limit: Duration) -> Result<()> {
    eventually(SOON, "packets flow again", || traffic.flows_again(since))?;
    let count = traffic.end()?;
    let Count { knocks, lost, silence } = count;
    ensure!(lost < knocks && silence < limit, "{count:?}: more than {limit:?}");
    Ok(())
}

/// Waits until another gateway than this one is active, and everything says so.
fn relieved(lab: &Lab, before: &str) -> Result<()> {
    let (pod, node) = eventually(SOON, "the other gateway is active", || {
        let (pod, node) = active(lab)?;
        ensure!(pod != before, "{pod} still is");
        Ok((pod, node))
    })?;
    let host = format!("get pod -n liqo {pod} -o jsonpath={{.status.hostIP}}");
    let host = lab.kubectl("rome", &host)?;
    let told = "get tunnelendpoints -A -o jsonpath={.items[0].status.gatewayIP}";
    eventually(SOON, "the tunnel says where its gateway is", || {
        let told = lab.kubectl("rome", told)?;
        ensure!(told == host, "{told} instead of {host}");
        Ok(())
    })?;
    measures(lab, &node, &host, 1)
}

/// The metric of a gateway says whether it is active.
fn measures(lab: &Lab, node: &str, host: &str, active: u8) -> Result<()> {
    let wanted = format!("liqo_gateway_is_active {active}");
    eventually(SOON, &wanted, || {
        let said = on(lab, node, &format!("curl -s -m 2 http://{host}:5872/metrics"))?;
        ensure!(said.lines().any(|line| line == wanted), "{said}");
        Ok(())
    })
}

pub fn stand_by(lab: &Lab) -> Result<()> {
    lab.kubectl("rome", "scale -n liqo deployment/liqo-gateway --replicas=2")?;
    lab.kubectl("rome", "rollout status -n liqo deployment/liqo-gateway --timeout=60s")?;
    let traffic = begin(lab)?;
    let since = Instant::now();
    let before = kill(lab)?;
    relieved(lab, &before)?;
    goes_on(traffic, since, MOMENT)?;
    flows(lab)
}

/// Has the gateway on the second node be active, and all of them in place.
fn on_second(lab: &Lab) -> Result<String> {
    if active(lab)?.1 != "rome-2" {
        lab.kubectl("rome", &format!("delete pod -n liqo {} --wait=false", active(lab)?.0))?;
    }
    eventually(SOON, "the gateway of rome-2 is active", || {
        let (pod, node) = active(lab)?;
        ensure!(node == "rome-2", "it is on {node}");
        let there = "get deployment -n liqo liqo-gateway -o jsonpath={.status.readyReplicas}";
        let there = lab.kubectl("rome", there)?;
        ensure!(there == "2", "{there} gateways are ready");
        Ok(pod)
    })
}

/// The gateway of the second node stands by, and says so.
fn stands_by_again(lab: &Lab) -> Result<()> {
    let words = "get pods -n liqo -l net.liqo.io/gateway=standby \
                 --field-selector spec.nodeName=rome-2,status.phase=Running \
                 -o jsonpath={.items[*].status.hostIP}";
    let host = eventually(SOON, "the gateway of rome-2 stands by", || {
        let host = lab.kubectl("rome", words)?;
        ensure!(!host.is_empty() && !host.contains(' '), "{host:?}");
        Ok(host)
    })?;
    measures(lab, "rome-2", &host, 0)?;
    let (_, node) = active(lab)?;
    ensure!(node == "rome-1", "{node} is active");
    flows(lab)
}

/// The node of the active gateway is cut off, and goes on believing for a while that it is active.
pub fn cut(lab: &Lab) -> Result<()> {
    let before = on_second(lab)?;
    let traffic = begin(lab)?;
    let since = Instant::now();
    lab.playground(&["cut", "rome-2"])?;
    let over = relieved(lab, &before).and_then(|()| goes_on(traffic, since, LEASE));
    lab.playground(&["heal", "rome-2"])?;
    over?;
    stands_by_again(lab)
}

/// The node of the active gateway loses its power.
pub fn unplugged(lab: &Lab) -> Result<()> {
    let before = on_second(lab)?;
    let traffic = begin(lab)?;
    let since = Instant::now();
    lab.playground(&["stop", "rome-2"])?;
    let over = relieved(lab, &before).and_then(|()| goes_on(traffic, since, LEASE));
    lab.playground(&["start", "rome-2"])?;
    over?;
    stands_by_again(lab)?;
    // What else was there is back, too.
    lab.kubectl("rome", "rollout status -n liqo daemonset/liqo-route --timeout=60s")?;
    lab.kubectl("rome", "wait -n liqo --for=condition=Ready pods --all --timeout=60s").map(drop)
}
