//! What a node's pods use, as a kubelet tells it: from what the metrics API of the other cluster says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use liqo_sharing::quantity::Quantity;
use serde::{Deserialize, Serialize};

/// What a list of the metrics API says.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodMetricsList {
    /// One for each pod.
    #[serde(default)]
    pub items: Vec<PodMetrics>,
}

/// What a pod uses, as the metrics API says it.
#[derive(Clone, Debug, Deserialize)]
pub struct PodMetrics {
    /// The pod, and when the answer was made.
    pub metadata: ObjectMeta,
    /// When it was measured.
    pub timestamp: Time,
    /// Its containers.
    #[serde(default)]
    pub containers: Vec<ContainerMetrics>,
}

/// What a container uses.
#[derive(Clone, Debug, Deserialize)]
pub struct ContainerMetrics {
    /// The container.
    pub name: String,
    /// How much of what.
    #[serde(default)]
    pub usage: BTreeMap<String, Text>,
}

/// What a kubelet says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    node: NodeStats,
    pods: Vec<PodStats>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeStats {
    node_name: String,
    start_time: Time,
    cpu: Cpu,
    memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStats {
    pod_ref: PodReference,
    start_time: Time,
    containers: Vec<ContainerStats>,
    cpu: Cpu,
    memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PodReference {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStats {
    name: String,
    start_time: Time,
    cpu: Cpu,
    memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    time: Time,
    usage_nano_cores: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    time: Time,
    usage_bytes: u64,
    working_set_bytes: u64,
}

/// How much is used.
#[derive(Clone, Copy, Default)]
struct Usage {
    cpu: Quantity,
    memory: Quantity,
}

impl Usage {
    fn of(container: &ContainerMetrics) -> Self {
        // What cannot be read is not counted.
        let amount = |name: &str| {
            container.usage.get(name).and_then(|text| text.0.parse().ok()).unwrap_or(Quantity::ZERO)
        };
        Self { cpu: amount("cpu"), memory: amount("memory") }
    }

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.plus(other.cpu), memory: self.memory.plus(other.memory) }
    }

    fn at(self, time: &Time) -> (Cpu, Memory) {
        let bytes = whole(self.memory.in_billionths() / 1_000_000_000);
        let cpu = Cpu { time: time.clone(), usage_nano_cores: whole(self.cpu.in_billionths()) };
        // What containers have mapped is what they work with: the metrics API tells no more.
        let memory = Memory { time: time.clone(), usage_bytes: bytes, working_set_bytes: bytes };
        (cpu, memory)
    }
}

/// What the pods of a node use; `metrics` has the namespaces of this cluster.
///
/// Only pods of the node count: `pods` says which there are, and since when.
pub fn summary(
    node: &str,
    since: Timestamp,
    pods: &[ObjectMeta],
    metrics: &[(String, PodMetrics)],
) -> Summary {
    let by_name: BTreeMap<(&str, &str), &ObjectMeta> = pods
        .iter()
        .filter_map(|pod| Some(((pod.namespace.as_deref()?, pod.name.as_deref()?), pod)))
        .collect();
    let mut all = Usage::default();
    let mut latest = Time(since);
    let mut stats = Vec::new();
    for (namespace, measured) in metrics {
        let name = measured.metadata.name.clone().unwrap_or_default();
        let Some(pod) = by_name.get(&(namespace.as_str(), name.as_str())) else { continue };
        let start = pod.creation_timestamp.clone().unwrap_or(Time(since));
        let usages: Vec<Usage> = measured.containers.iter().map(Usage::of).collect();
        let usage = usages.iter().copied().fold(Usage::default(), Usage::plus);
        all = all.plus(usage);
        latest = Time(latest.0.max(measured.timestamp.0));
        let containers = measured.containers.iter().zip(usages).map(|(container, usage)| {
            let (cpu, memory) = usage.at(&measured.timestamp);
            let name = container.name.clone();
            ContainerStats { name, start_time: start.clone(), cpu, memory }
        });
        let containers = containers.collect();
        let (cpu, memory) = usage.at(&measured.timestamp);
        let uid = pod.uid.clone().unwrap_or_default();
        let pod_ref = PodReference { name, namespace: namespace.clone(), uid };
        stats.push(PodStats { pod_ref, start_time: start, containers, cpu, memory });
    }
    let (cpu, memory) = all.at(&latest);
    let node = NodeStats { node_name: node.to_owned(), start_time: Time(since), cpu, memory };
    Summary { node, pods: stats }
}

/// A number of something there cannot be less than nothing of.
fn whole(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_add_up_to_pods_and_pods_to_the_node() {
        let metrics = [
            measured("shop", "web", &[("main", "1500000n", "10Mi"), ("proxy", "2m", "1Ki")]),
            measured("shop", "db", &[("main", "1", "100")]),
        ];
        let pods = [pod("shop", "web"), pod("shop", "db")];
        let summary = serde_json::to_value(summary("liqo-milan", at(0), &pods, &metrics)).unwrap();

        assert_eq!(summary["node"]["nodeName"], "liqo-milan");
        assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 1_003_500_000);
        assert_eq!(summary["node"]["memory"]["workingSetBytes"], 10_486_784 + 100);
        let web = &summary["pods"][0];
        assert_eq!(web["podRef"], json!({"name": "web", "namespace": "shop", "uid": "uid-web"}));
        assert_eq!(web["startTime"], "1970-01-01T00:01:00Z");
        assert_eq!(
            web["cpu"],
            json!({"time": "1970-01-01T00:02:00Z", "usageNanoCores": 3_500_000})
        );
        assert_eq!(
            web["containers"][1]["memory"],
            json!({"time": "1970-01-01T00:02:00Z", "usageBytes": 1024, "workingSetBytes": 1024})
        );
    }

    #[test]
    fn pods_that_the_node_does_not_have_do_not_count() {
        let metrics = [measured("shop", "web", &[("main", "1", "1")])];
        let pods = [pod("other", "web"), pod("shop", "db")];
        let summary = serde_json::to_value(summary("liqo-milan", at(0), &pods, &metrics)).unwrap();
        assert_eq!(summary["pods"], json!([]));
        assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 0);
    }

    #[test]
    fn the_answer_of_the_metrics_api_is_understood() {
        let list: PodMetricsList = serde_json::from_value(json!({
            "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{
                "metadata": {"name": "web", "namespace": "shop-rome",
                             "creationTimestamp": "2026-11-16T07:00:00Z"},
                "timestamp": "2026-11-16T06:59:50Z", "window": "15.2s",
                "containers": [{"name": "main", "usage": {"cpu": "1n", "memory": "4Ki"}}],
            }],
        }))
        .unwrap();
        assert_eq!(list.items[0].containers[0].usage["memory"].0, "4Ki");
    }

    fn measured(
        namespace: &str,
        name: &str,
        use_of: &[(&str, &str, &str)],
    ) -> (String, PodMetrics) {
        let containers = use_of.iter().map(|(name, cpu, memory)| ContainerMetrics {
            name: (*name).to_owned(),
            usage: [("cpu", cpu), ("memory", memory)]
                .map(|(name, text)| (name.to_owned(), Text((*text).to_owned())))
                .into(),
        });
        let metrics = PodMetrics {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            timestamp: Time(at(120)),
            containers: containers.collect(),
        };
        (namespace.to_owned(), metrics)
    }

    fn pod(namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid-{name}")),
            creation_timestamp: Some(Time(at(60))),
            ..ObjectMeta::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
