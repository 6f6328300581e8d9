//! What a consumer may use of what it was offered.

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::{Lab, eventually};
use serde_json::{Value, json};

use crate::{SOON, deployment};

/// Two pods of which each may use more than half of what is offered do not run at once.
pub fn enforced(lab: &Lab) -> Result<()> {
    let install = |enforced: bool| {
        lab.liqoctl(
            "milan",
            &format!(
                "install kubeadm --cluster-name milan --service-type NodePort \
                 --set controllerManager.config.enableResourceEnforcement={enforced}"
            ),
        )
    };
    install(true)?;
    let path = "jsonpath={.status.allocatable.memory}";
    let offered = lab.kubectl("rome", &format!("get node liqo-milan -o {path}"))?;
    let unit = offered.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number = offered.strip_suffix(unit).unwrap_or(&offered);
    let number: u64 = number.parse().with_context(|| offered.clone())?;
    let most = format!("{}{unit}", number / 5 * 3);
    let pod = |name: &str, limits: &Value| {
        let mut spec = deployment(name)["spec"]["template"]["spec"].clone();
        spec["containers"][0]["resources"] =
            json!({"limits": limits, "requests": {"cpu": "1m", "memory": "1Mi"}});
        let metadata = json!({"name": name, "namespace": "shop"});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let most = json!({"cpu": "10m", "memory": most});
    lab.apply("rome", &[pod("first", &most)])?;
    lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/first --timeout=120s")?;
    lab.apply("rome", &[pod("second", &most), pod("boundless", &json!({"cpu": "10m"}))])?;
    for (name, reason) in [("second", "memory"), ("boundless", "limit")] {
        eventually(SOON, "the reason is shown", || {
            let shown = lab.kubectl("rome", &format!("get pod -n shop {name} -o json"))?;
            let shown: Value = serde_json::from_str(&shown)?;
            let why = shown["status"]["message"].as_str().unwrap_or_default();
            ensure!(shown["status"]["reason"] == "OffloadingBackOff", "{}", shown["status"]);
            ensure!(why.contains(reason), "{why}");
            Ok::<_, anyhow::Error>(())
        })?;
    }
    lab.kubectl("rome", "delete pod -n shop first boundless")?;
    lab.kubectl("rome", "wait -n shop --for=condition=Ready pod/second --timeout=120s")?;
    lab.kubectl("rome", "delete pod -n shop second")?;
    install(false)?;
    Ok(())
}
