//! Pods that are where the strategy or the selector of their namespace would not let them go.
//!
//! Pods are placed when they are created; what is changed later leaves them where they are. Who
//! wants them moved says so on the NamespaceOffloading, and they are evicted, which respects their
//! disruption budgets. Pods that would only come back to the same node are left alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use liqo_api::keys::annotation;
use liqo_api::offloading::{NamespaceOffloading, PodOffloadingStrategy};

use crate::selector::Selector;

/// The annotation of a pod that a kubelet reads from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The virtual nodes, by name, with their labels.
pub type VirtualNodes = BTreeMap<String, BTreeMap<String, String>>;

/// Whether pods that are in the wrong place are to be evicted.
pub fn is_wanted(offloading: &NamespaceOffloading) -> bool {
    let annotations = offloading.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(annotation::EVICT_VIOLATING_PODS));
    offloading.metadata.deletion_timestamp.is_none() && value.is_some_and(|value| value == "true")
}

/// Why a pod may not be where it is; nothing when it may, or when evicting it would not help.
pub fn violation(
    pod: &Pod,
    strategy: PodOffloadingStrategy,
    selector: &Selector,
    nodes: &VirtualNodes,
) -> Option<String> {
    let node = pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())?;
    if is_over(pod) || comes_back(pod) {
        return None;
    }
    match (nodes.get(node), strategy) {
        (Some(_), PodOffloadingStrategy::Local) => {
            Some(format!("it runs on {node}, and pods of its namespace stay in this cluster"))
        }
        (Some(labels), PodOffloadingStrategy::Remote | PodOffloadingStrategy::LocalAndRemote)
            if !selector.selects(node, labels) =>
        {
            Some(format!("it runs on {node}, which the cluster selector does not select"))
        }
        (None, PodOffloadingStrategy::Remote) => {
            Some(format!("it runs on {node}, and pods of its namespace run in other clusters"))
        }
        (Some(_) | None, _) => None,
    }
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed"))
}

fn comes_back(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let is_daemon = owners.into_iter().any(|owner| owner.kind == "DaemonSet");
    let annotations = pod.metadata.annotations.as_ref();
    is_daemon || annotations.is_some_and(|annotations| annotations.contains_key(MIRROR))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use PodOffloadingStrategy::{Local, LocalAndRemote, Remote};

    #[test]
    fn a_pod_is_in_the_wrong_place_when_it_would_not_be_placed_there() {
        for (node, strategy, want) in [
            ("worker", Local, false),
            ("worker", LocalAndRemote, false),
            ("worker", Remote, true),
            ("liqo-milan", Local, true),
            ("liqo-milan", LocalAndRemote, false),
            ("liqo-milan", Remote, false),
            ("liqo-naples", LocalAndRemote, true),
            ("liqo-naples", Remote, true),
        ] {
            let found = why(&json!({ "spec": spec(node) }), strategy);
            assert_eq!(found.is_some(), want, "{node} {strategy:?}");
        }
    }

    #[test]
    fn pods_that_end_or_come_back_are_left_alone() {
        let spec = spec("worker");
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u" });
        for pod in [
            json!({ "spec": { "containers": [] } }),
            json!({ "spec": spec, "status": { "phase": "Succeeded" } }),
            json!({ "spec": spec, "metadata": { "deletionTimestamp": "2026-11-16T00:00:00Z" } }),
            json!({ "spec": spec, "metadata": { "ownerReferences": [owner] } }),
            json!({ "spec": spec, "metadata": { "annotations": { MIRROR: "x" } } }),
        ] {
            assert_eq!(why(&pod, Remote), None, "{pod}");
        }
    }

    #[test]
    fn nothing_is_evicted_unless_somebody_asks() {
        let offloading = |annotations: Value| -> NamespaceOffloading {
            let metadata = json!({ "name": "offloading", "annotations": annotations });
            let (version, kind) = ("offloading.liqo.io/v1alpha1", "NamespaceOffloading");
            let object =
                json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": {} });
            serde_json::from_value(object).unwrap()
        };
        assert!(!is_wanted(&offloading(json!({}))));
        assert!(!is_wanted(&offloading(json!({ "liqo.io/evict-violating-pods": "false" }))));
        assert!(is_wanted(&offloading(json!({ "liqo.io/evict-violating-pods": "true" }))));
    }

    fn why(pod: &Value, strategy: PodOffloadingStrategy) -> Option<String> {
        let selector = json!({ "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "region", "operator": "In", "values": ["north"] },
        ]}]});
        let selector = Selector::read(Some(&serde_json::from_value(selector).unwrap())).unwrap();
        let node = |region: &str| [("region".to_owned(), region.to_owned())].into();
        let nodes = [("liqo-milan", "north"), ("liqo-naples", "south")];
        let nodes = nodes.map(|(name, region)| (name.to_owned(), node(region))).into();
        violation(&serde_json::from_value(pod.clone()).unwrap(), strategy, &selector, &nodes)
    }

    fn spec(node: &str) -> Value {
        json!({ "containers": [], "nodeName": node })
    }
}
