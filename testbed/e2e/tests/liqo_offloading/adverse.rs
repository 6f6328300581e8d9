//! Providers that make it hard: one whose API server takes its time, and one that does not tell what
//! happens.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, eventually};
use serde_json::{Value, json};

use crate::{LATE, deployment, is_ready, pod_of, twin};

/// What is asked of an API server that is slow takes longer; nothing of it is lost or done twice.
pub fn slow(lab: &Lab) -> Result<()> {
    let twin = twin(lab)?;
    let before = pod_of(lab, "rome", "shop", "web")?;
    let brake = Brake::on(lab, "milan")?;
    let note = |said: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "slowly", "namespace": "shop"}, "data": {"said": said},
        })
    };
    lab.apply("rome", &[note("first")])?;
    lab.kubectl("rome", "scale -n shop deployment/web --replicas=5")?;
    lab.apply("rome", &[note("last")])?;
    lab.kubectl("rome", "rollout status -n shop deployment/web --timeout=300s")?;
    eventually(LATE, "the last word is there", || {
        let words = format!("get configmap -n {twin} slowly -o jsonpath={{.data.said}}");
        let said = lab.kubectl("milan", &words)?;
        ensure!(said == "last", "{said}");
        Ok::<_, anyhow::Error>(())
    })?;
    let there = lab.kubectl("milan", &format!("get pods -n {twin} -l app=web --no-headers"))?;
    ensure!(there.lines().count() == 5, "{there}");
    lab.kubectl("rome", "delete configmap -n shop slowly")?;
    lab.kubectl("rome", "scale -n shop deployment/web --replicas=1")?;
    eventually(LATE, "the others are gone", || {
        pod_of(lab, "milan", &twin, "web")?;
        let words = format!("get configmap -n {twin} slowly --ignore-not-found");
        let left = lab.kubectl("milan", &words)?;
        ensure!(left.is_empty(), "{left}");
        Ok::<_, anyhow::Error>(())
    })?;
    ensure!(brake.held()?, "the API server was not slow");
    drop(brake);
    eventually(LATE, "the one that is left is as it was", || {
        let now = pod_of(lab, "rome", "shop", "web")?;
        ensure!(is_ready(&now), "{now:#}");
        if now["metadata"]["uid"] == before["metadata"]["uid"] {
            let restarts =
                |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
            ensure!(restarts(&now) == restarts(&before), "it was restarted");
        }
        Ok::<_, anyhow::Error>(())
    })
}

/// Who may not read Events over there misses them, and nothing else.
pub fn silent(lab: &Lab) -> Result<()> {
    const ROLE: &str = "liqo-virtual-kubelet-remote";
    let role: Value =
        serde_json::from_str(&lab.kubectl("milan", &format!("get clusterrole {ROLE} -o json"))?)?;
    let mut less = role.clone();
    let rules = less["rules"].as_array_mut().context("rules")?;
    let mut lists = rules.iter_mut().filter_map(|rule| rule["resources"].as_array_mut());
    let list = lists.find(|list| list.contains(&json!("events"))).context("a rule on Events")?;
    list.retain(|resource| resource != "events");
    let write = |role: &Value| {
        let change =
            json!([{"op": "replace", "path": "/rules", "value": role["rules"]}]).to_string();
        lab.kubectl_words("milan", &["patch", "clusterrole", ROLE, "--type=json", "-p", &change])
    };
    write(&less)?;
    let meanwhile = || -> Result<()> {
        // A virtual kubelet that starts now has never read any.
        lab.kubectl("rome", "delete pod -A -l app.kubernetes.io/name=virtual-kubelet")?;
        let spec = deployment("mute")["spec"]["template"]["spec"].clone();
        let metadata = json!({"name": "mute", "namespace": "shop"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        lab.apply("rome", &[pod])?;
        lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/mute --timeout=120s")?;
        lab.kubectl("rome", "exec -n shop mute -- demo --help")?;
        lab.kubectl("rome", "delete pod -n shop mute")?;
        Ok(())
    };
    let meanwhile = meanwhile();
    write(&role)?;
    meanwhile
}

/// Keeps the API server of a cluster from more than a tenth of a core, a second at a time; let go with
/// the value.
struct Brake {
    group: PathBuf,
    period: String,
    throttled: u64,
}

impl Brake {
    fn on(lab: &Lab, cluster: &str) -> Result<Self> {
        let group = group_of(lab, cluster)?;
        let period = fs::read_to_string(group.join("cpu.cfs_period_us")).context("its period")?;
        let brake = Self { throttled: throttled(&group)?, group, period };
        fs::write(brake.group.join("cpu.cfs_period_us"), "1000000").context("brake it")?;
        fs::write(brake.group.join("cpu.cfs_quota_us"), "100000").context("brake it")?;
        Ok(brake)
    }

    /// Whether it had to wait.
    fn held(&self) -> Result<bool> {
        Ok(throttled(&self.group)? > self.throttled)
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        let _ = fs::write(self.group.join("cpu.cfs_quota_us"), "-1");
        let _ = fs::write(self.group.join("cpu.cfs_period_us"), self.period.trim());
    }
}

/// In how many periods those of a control group had to wait.
fn throttled(group: &std::path::Path) -> Result<u64> {
    let counts = fs::read_to_string(group.join("cpu.stat")).context("its counts")?;
    let count = counts.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    count.context("nr_throttled")?.trim().parse().context("a number")
}

/// The control group that an API server's CPU time is counted in.
fn group_of(lab: &Lab, cluster: &str) -> Result<PathBuf> {
    let here = format!("-{}/{cluster}-", lab.prefix());
    for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let groups = read("cgroup");
        if !read("cmdline").starts_with("/engine/kube-apiserver\0") || !groups.contains(&here) {
            continue;
        }
        let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let (_, path) = lines
            .find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"))
            .context("a group of the cpu controller")?;
        return Ok(PathBuf::from("/sys/fs/cgroup/cpu").join(path.trim_start_matches('/')));
    }
    anyhow::bail!("no API server of {cluster} is running")
}
