//! Pods that run in another cluster, against the same pods asked for there directly.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use liqo_testkit::{Lab, eventually};
use serde_json::{Value, json};

use crate::economy::Economy;
use crate::pods::{self, Run};
use crate::processes::Processes;
use crate::{clusters, middle, settle};

/// The clusters of the preset `quick-start`, but with control planes that need not be small: cleaning up
/// memory all the time takes them so much of the machine that everything else waits.
const CLUSTERS: &str = "
clusters:
  - {name: rome, podCIDR: 10.10.0.0/16, serviceCIDR: 10.11.0.0/16, nodes: 2, qps: 100}
  - {name: milan, podCIDR: 10.20.0.0/16, serviceCIDR: 10.21.0.0/16, nodes: 2, qps: 100}
";
/// The namespace, which is called the same in both clusters.
const NAMESPACE: &str = "bench";
/// Sends all pods of the namespace to the other cluster.
const OFFLOAD: &str = "offload namespace bench --namespace-mapping-strategy EnforceSameName \
     --pod-offloading-strategy Remote";
/// How often pods are started each way.
const ROUNDS: usize = 3;
/// The same for pods that really run, whose rounds differ more.
const REAL_ROUNDS: usize = 5;
/// From how many pods on once is enough.
const MANY: usize = 2_000;
/// How many statuses are changed when all pods are there.
const CHANGES: u32 = 100;
/// How long what pods leave may take to go.
const CLEAN: Duration = Duration::from_mins(10);
/// How many Services are looked for in the other cluster.
const SERVICES: usize = 100;

/// The figures for pods that really run, as lines.
pub fn real() -> Result<Vec<String>> {
    let lab = peered(clusters(CLUSTERS)?)?;
    let template = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "sleeper", "image": "localhost/playground/demo:v1",
                        "command": ["demo", "serve"]}],
    });
    // What one round leaves to clean up must not cost the next.
    let (there, away, mut cost) = both_ways(&lab, 100, REAL_ROUNDS, &template)?;
    let mut lines = compared("100 real pods", &there, &away);
    lines.append(&mut cost);
    settle()?;
    lines.extend(services(&lab)?);
    Ok(lines)
}

/// The figures for pods that only pretend, as lines.
pub fn fake(count: usize) -> Result<Vec<String>> {
    let lab = peered(Lab::up("scale")?)?;
    // kwok would report on pods of the node's own network every other second, for ever.
    let here =
        r#"{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"milan-1"}}}}}"#;
    lab.kubectl("milan", &format!("patch daemonset -n liqo liqo-route --type merge -p {here}"))?;
    // Only the nodes that pretend take the pods.
    lab.kubectl("milan", "cordon milan-1")?;
    lab.kubectl("milan", "taint nodes -l type=kwok kwok.x-k8s.io/node-")?;
    let mut template = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "none", "image": "none"}],
    });
    settle()?;
    let before = Processes::of(lab.prefix(), "rome")?;
    let rounds = if count > MANY { 1 } else { ROUNDS };
    let (there, away, mut lines) = both_ways(&lab, count, rounds, &template)?;
    let mut all = compared(&format!("{count} fake pods"), &there, &away);
    all.append(&mut lines);
    if count <= MANY {
        // A kubelet would ask for a token where pods are asked for directly, but nobody does for a node
        // that only pretends: only without tokens do both ways mean the same.
        template["automountServiceAccountToken"] = json!(false);
        let (there, away, _) = both_ways(&lab, count, rounds, &template)?;
        all.extend(compared("without tokens", &there, &away));
        // Where there is one cluster to go to, nobody has to choose.
        lab.liqoctl("rome", &format!("{OFFLOAD} --skip-scheduler"))?;
        template["automountServiceAccountToken"] = json!(true);
        let (there, away, mut lines) = both_ways(&lab, count, rounds, &template)?;
        all.extend(compared("no scheduler", &there, &away));
        all.append(&mut lines);
    }
    let after = Processes::of(lab.prefix(), "rome")?;
    all.push(format!(
        "virtual kubelet            {:>8.1} MB PSS before, {:.1} when they were gone",
        kubelet(&before)?,
        kubelet(&after)?
    ));
    let start = Instant::now();
    settle()?;
    let later = Processes::of(lab.prefix(), "rome")?;
    let used = later.one("virtual-kubelet")?.cpu - after.one("virtual-kubelet")?.cpu;
    let wall = u64::try_from(start.elapsed().as_millis())?;
    all.push(format!("  idle                     {:>8.2} % of a core", percent(used, wall)));
    all.extend(services(&lab)?);
    Ok(all)
}

/// Pods asked for where they run, and in the other cluster, in turns; and what the last of these cost.
fn both_ways(
    lab: &Lab,
    count: usize,
    rounds: usize,
    template: &Value,
) -> Result<(Vec<Run>, Vec<Run>, Vec<String>)> {
    let (mut there, mut away, mut lines) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        let (run, vanilla) = direct(lab, count, template)?;
        there.push(run);
        settle()?;
        let (run, cost) = offloaded(lab, count, template)?;
        away.push(run);
        lines = vec![format!("  API servers, asked there {vanilla:>8.1} s of CPU")];
        lines.extend(cost);
        settle()?;
    }
    Ok((there, away, lines))
}

/// Two clusters that share a namespace, all of whose pods go to milan.
fn peered(lab: Lab) -> Result<Lab> {
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let words = format!(
            "install kubeadm --cluster-name {cluster} --service-type NodePort \
             --sharing-percentage 90"
        );
        lab.liqoctl(cluster, &words)?;
    }
    lab.liqoctl("rome", &lab.peer_command("milan")?)?;
    lab.kubectl("rome", &format!("create namespace {NAMESPACE}"))?;
    lab.liqoctl("rome", OFFLOAD)?;
    lab.kubectl("milan", "create namespace direct")?;
    Ok(lab)
}

/// Pods asked for where they run; and the CPU time of API servers, in seconds.
fn direct(lab: &Lab, count: usize, template: &Value) -> Result<(Run, f64)> {
    let client = lab.client("milan")?;
    let before = Economy::of(lab)?;
    lab.block_on(pods::run(&client, "direct", count, template, async || {
        Ok(Economy::of(lab)?.since(&before).servers())
    }))
}

/// Pods asked for in the other cluster; and what that cost.
fn offloaded(lab: &Lab, count: usize, template: &Value) -> Result<(Run, Vec<String>)> {
    let (rome, milan) = (lab.client("rome")?, lab.client("milan")?);
    let before = Economy::of(lab)?;
    let (run, lines) = lab.block_on(pods::run(&rome, NAMESPACE, count, template, async || {
        let spent = Economy::of(lab)?.since(&before);
        let mut lines = spent.lines(count);
        let now = Processes::of(lab.prefix(), "rome")?;
        lines.push(format!(
            "virtual kubelet            {:>8.1} MB PSS with {count} pods",
            kubelet(&now)?
        ));
        settle()?;
        let took = pods::statuses(&rome, &milan, NAMESPACE, CHANGES).await?;
        lines.push(format!("  status comes home in     {}", usual_and_late(took)));
        Ok(lines)
    }))?;
    // What is still cleaned up must not cost whoever is measured next.
    eventually(CLEAN, "tokens of pods that are gone go as well", || {
        let left = lab.kubectl("milan", &format!("get secrets -n {NAMESPACE} -o name"))?;
        ensure!(left.is_empty(), "{} are left", left.lines().count());
        Ok::<_, anyhow::Error>(())
    })?;
    Ok((run, lines))
}

fn compared(what: &str, there: &[Run], away: &[Run]) -> Vec<String> {
    let line = |name: &str, time: fn(&Run) -> Duration| {
        let middle = |runs: &[Run]| middle(runs.iter().map(time).collect());
        let (there, away) = (middle(there).as_secs_f64(), middle(away).as_secs_f64());
        format!("{what:<14} {name:<11} {:>8.2} × ({away:.1} s against {there:.1} s)", away / there)
    };
    vec![line("ready", |run| run.ready), line("gone", |run| run.gone)]
}

/// How long Services with endpoints take to be seen in the other cluster.
fn services(lab: &Lab) -> Result<Vec<String>> {
    let (rome, milan) = (lab.client("rome")?, lab.client("milan")?);
    let took = lab.block_on(pods::services(&rome, &milan, NAMESPACE, SERVICES))?;
    Ok(vec![format!("Service and slice there in {}", usual_and_late(took))])
}

/// The middle, and what only one in a hundred exceeds.
fn usual_and_late(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let (usual, late) = (at(50).as_millis(), at(99).as_millis());
    format!("{usual:>8} ms  (p99 {late}, of {})", times.len())
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn kubelet(processes: &Processes) -> Result<f64> {
    Ok(processes.one("virtual-kubelet")?.memory as f64 / 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with two digits")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}
