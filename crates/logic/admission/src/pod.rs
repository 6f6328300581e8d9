//! Pods of namespaces that extend to other clusters: where they may run.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    Toleration,
};
use liqo_api::keys::{label, taint};
use liqo_api::offloading::{NamespaceOffloadingSpec, PodOffloadingStrategy};

/// A pod as it enters its namespace.
pub fn placed(pod: &Pod, offloading: &NamespaceOffloadingSpec) -> Pod {
    let mut pod = pod.clone();
    if offloading.pod_offloading_strategy == PodOffloadingStrategy::Local {
        return pod;
    }
    if nobody_applies(&pod) {
        pod.metadata.managed_fields = None;
    }
    let spec = pod.spec.get_or_insert_default();
    let ours = toleration();
    let tolerations = spec.tolerations.get_or_insert_default();
    if !tolerations.contains(&ours) {
        tolerations.push(ours);
    }
    if let Some(imposed) = imposed(offloading) {
        let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
        let node: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
        let required = &mut node.required_during_scheduling_ignored_during_execution;
        *required = Some(match required.take() {
            Some(own) => both(&own, &imposed),
            None => imposed,
        });
    }
    pod
}

/// Whether the record of who wrote which field of a new pod says no more than who made it.
///
/// API servers send it along with every change of the pod, as a third of it, and compute it anew with
/// every change; none is kept of an object that comes without. Whoever applies the pod later meets
/// "before-first-apply" as the owner of all that is there. Records of those who apply are theirs:
/// by them it is known what they have given up.
fn nobody_applies(pod: &Pod) -> bool {
    let records = pod.metadata.managed_fields.iter().flatten();
    let is_controlled =
        pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    is_controlled && records.into_iter().all(|one| one.operation.as_deref() == Some("Update"))
}

fn toleration() -> Toleration {
    Toleration {
        key: Some(taint::KEY.to_owned()),
        operator: Some(taint::OPERATOR.to_owned()),
        effect: Some(taint::EFFECT.to_owned()),
        ..Toleration::default()
    }
}

/// The nodes that the namespace's strategy leaves; nothing when it leaves all.
fn imposed(offloading: &NamespaceOffloadingSpec) -> Option<NodeSelector> {
    let selector = offloading.cluster_selector.clone().unwrap_or_default();
    let mut terms = selector.node_selector_terms;
    match offloading.pod_offloading_strategy {
        PodOffloadingStrategy::Local => return None,
        PodOffloadingStrategy::Remote => {
            if terms.is_empty() {
                terms.push(NodeSelectorTerm::default());
            }
            for term in &mut terms {
                term.match_expressions.get_or_insert_default().push(virtual_node("In"));
            }
        }
        PodOffloadingStrategy::LocalAndRemote => {
            if terms.is_empty() {
                return None;
            }
            terms.push(NodeSelectorTerm {
                match_expressions: Some(vec![virtual_node("NotIn")]),
                match_fields: None,
            });
        }
    }
    Some(NodeSelector { node_selector_terms: terms })
}

fn virtual_node(operator: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: label::TYPE.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![label::TYPE_VIRTUAL_NODE.to_owned()]),
    }
}

/// Nodes that both select: terms are alternatives, so each of one is joined with each of the other.
fn both(own: &NodeSelector, imposed: &NodeSelector) -> NodeSelector {
    let joined = own.node_selector_terms.iter().flat_map(|own| {
        imposed.node_selector_terms.iter().map(|imposed| NodeSelectorTerm {
            match_expressions: join(
                own.match_expressions.as_ref(),
                imposed.match_expressions.as_ref(),
            ),
            match_fields: join(own.match_fields.as_ref(), imposed.match_fields.as_ref()),
        })
    });
    NodeSelector { node_selector_terms: joined.collect() }
}

type Requirements = Vec<NodeSelectorRequirement>;

fn join(first: Option<&Requirements>, second: Option<&Requirements>) -> Option<Requirements> {
    let all: Vec<_> = first.into_iter().chain(second).flatten().cloned().collect();
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_that_stays_home_is_left_alone() {
        let pod = pod(&json!({}));
        assert_eq!(placed(&pod, &offloading("Local", &json!([]))), pod);
    }

    #[test]
    fn a_pod_that_may_leave_tolerates_virtual_nodes_once() {
        let offloading = offloading("LocalAndRemote", &json!([]));
        let once = placed(&pod(&json!({})), &offloading);
        let spec = once.spec.clone().unwrap();
        assert_eq!(
            serde_json::to_value(&spec.tolerations).unwrap(),
            json!([{
                "key": "virtual-node.liqo.io/not-allowed",
                "operator": "Exists",
                "effect": "NoExecute",
            }])
        );
        assert_eq!(spec.affinity, None, "all nodes are left");
        assert_eq!(placed(&once, &offloading), once);
    }

    #[test]
    fn a_pod_that_must_leave_selects_virtual_nodes() {
        assert_eq!(
            terms(&json!({}), "Remote", &json!([])),
            json!([{ "matchExpressions": [virtual_nodes("In")] }])
        );
        let region = json!({ "key": "region", "operator": "In", "values": ["south"] });
        assert_eq!(
            terms(&json!({}), "Remote", &json!([{ "matchExpressions": [region] }])),
            json!([{ "matchExpressions": [region, virtual_nodes("In")] }])
        );
    }

    #[test]
    fn a_selector_of_clusters_leaves_the_nodes_at_home() {
        let region = json!({ "key": "region", "operator": "Exists" });
        assert_eq!(
            terms(&json!({}), "LocalAndRemote", &json!([{ "matchExpressions": [region] }])),
            json!([
                { "matchExpressions": [region] },
                { "matchExpressions": [virtual_nodes("NotIn")] },
            ])
        );
    }

    #[test]
    fn what_a_pod_asks_for_itself_still_counts() {
        let [a, b, c] = ["a", "b", "c"].map(|key| json!({ "key": key, "operator": "Exists" }));
        let field = json!({ "key": "metadata.name", "operator": "In", "values": ["n"] });
        let own = json!([{ "matchExpressions": [a] }, { "matchFields": [field] }]);
        let clusters = json!([{ "matchExpressions": [b] }, { "matchExpressions": [c] }]);
        let at = virtual_nodes("In");
        assert_eq!(
            terms(&own, "Remote", &clusters),
            json!([
                { "matchExpressions": [a, b, at] },
                { "matchExpressions": [a, c, at] },
                { "matchExpressions": [b, at], "matchFields": [field] },
                { "matchExpressions": [c, at], "matchFields": [field] },
            ])
        );
    }

    #[test]
    fn of_pods_that_a_controller_made_nobody_remembers_who_wrote_which_field() {
        let record = |operation: &str| json!({ "manager": "m", "operation": operation });
        let kept = |controller: bool, records: Value| {
            let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a",
                                "uid": "u", "controller": controller });
            let mut pod = pod(&json!({}));
            pod.metadata = serde_json::from_value(json!({
                "ownerReferences": [owner], "managedFields": records,
            }))
            .unwrap();
            placed(&pod, &offloading("Remote", &json!([]))).metadata.managed_fields.is_some()
        };
        assert!(!kept(true, json!([record("Update")])));
        assert!(kept(true, json!([record("Update"), record("Apply")])), "somebody applies it");
        assert!(kept(false, json!([record("Update")])), "somebody made it by hand");
    }

    /// The node selector terms of a pod with terms of its own, or with none.
    fn terms(own: &Value, strategy: &str, clusters: &Value) -> Value {
        let pod = placed(&pod(own), &offloading(strategy, clusters));
        let spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"]
            .clone()
    }

    fn pod(terms: &Value) -> Pod {
        let required = json!({ "nodeSelectorTerms": terms });
        let affinity = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        } });
        let affinity = if terms.is_array() { affinity } else { Value::Null };
        serde_json::from_value(json!({ "spec": { "containers": [], "affinity": affinity } }))
            .unwrap()
    }

    fn offloading(strategy: &str, terms: &Value) -> NamespaceOffloadingSpec {
        serde_json::from_value(json!({
            "podOffloadingStrategy": strategy,
            "clusterSelector": { "nodeSelectorTerms": terms },
        }))
        .unwrap()
    }

    fn virtual_nodes(operator: &str) -> Value {
        json!({ "key": "liqo.io/type", "operator": operator, "values": ["virtual-node"] })
    }
}
