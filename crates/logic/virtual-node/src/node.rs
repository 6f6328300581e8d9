//! The node itself: labels, annotations and taint.
//!
//! Others write to nodes, too: the taints are a list that Kubernetes keeps adding to and taking
//! from, so ours is put in without touching the rest. A node that is new has it from the first moment:
//! whatever tolerates it not would be there before it otherwise.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kube_core::ObjectMeta;
use liqo_api::keys::{finalizer, label, taint};
use liqo_api::sharing::ResourceOffer;

use crate::Settings;

/// The node as it comes into being: what never changes about it, and no pods yet.
///
/// What may change is written by [`wanted`]: who made a node would own it for ever.
pub fn new(settings: &Settings) -> Node {
    let labels = own_labels(settings).map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = ObjectMeta {
        name: Some(settings.name.clone()),
        labels: Some(labels.into()),
        finalizers: Some(vec![finalizer::VIRTUAL_NODE.to_owned()]),
        ..ObjectMeta::default()
    };
    let spec = NodeSpec { taints: missing_taint(&Node::default()), ..NodeSpec::default() };
    Node { metadata, spec: Some(spec), status: None }
}

fn own_labels(settings: &Settings) -> [(&str, &str); 8] {
    [
        (label::HOSTNAME, settings.name.as_str()),
        (label::NODE_ROLE, label::ROLE_AGENT),
        (label::OS, "linux"),
        (label::ARCH, "amd64"),
        (label::TYPE, label::TYPE_VIRTUAL_NODE),
        (label::REMOTE_CLUSTER_ID, settings.provider.as_str()),
        (label::EXCLUDE_LOAD_BALANCERS, label::TRUE),
        (label::EXCLUDE_BALANCER_ALPHA, label::TRUE),
    ]
}

/// What we want to be written on the node.
pub fn wanted(settings: &Settings, offer: &ResourceOffer) -> Node {
    let own = own_labels(settings).into_iter().chain([(label::STORAGE_AVAILABLE, storage(offer))]);
    // What the user says of a node counts more than what the other cluster says of itself, and
    // neither can make it something else than a virtual node of that cluster.
    let mut labels = offer.spec.labels.clone();
    labels.extend(settings.labels.clone());
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let annotations = Some(settings.annotations.clone()).filter(|map| !map.is_empty());
    let metadata = ObjectMeta {
        name: Some(settings.name.clone()),
        labels: Some(labels),
        annotations,
        ..ObjectMeta::default()
    };
    Node { metadata, ..Node::default() }
}

fn storage(offer: &ResourceOffer) -> &'static str {
    if offer.spec.storage_classes.is_empty() { label::FALSE } else { label::TRUE }
}

/// The taints a node should have, unless ours is among those it has.
pub fn missing_taint(node: &Node) -> Option<Vec<Taint>> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let ours = |had: &Taint| had.key == taint::KEY && had.effect == taint::EFFECT;
    if taints.iter().any(ours) {
        return None;
    }
    let ours = Taint {
        key: taint::KEY.to_owned(),
        value: Some(taint::VALUE.to_owned()),
        effect: taint::EFFECT.to_owned(),
        time_added: None,
    };
    Some(taints.into_iter().chain([ours]).collect())
}

/// Whether pods may still be placed on the node.
pub fn is_cordoned(node: &Node) -> bool {
    let NodeSpec { unschedulable, .. } = node.spec.clone().unwrap_or_default();
    unschedulable == Some(true)
}

/// Whether a node is the virtual node of a cluster, not one that has its name by chance.
pub fn is_ours(node: &Node, settings: &Settings) -> bool {
    let labels = node.metadata.labels.as_ref();
    let is = |key, value| labels.and_then(|labels| labels.get(key)).is_some_and(|had| had == value);
    is(label::TYPE, label::TYPE_VIRTUAL_NODE)
        && is(label::REMOTE_CLUSTER_ID, settings.provider.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{offer, settings};

    #[test]
    fn a_node_tells_what_the_other_cluster_is() {
        let mut settings = settings();
        settings.labels.insert("zone".to_owned(), "a".to_owned());
        settings.annotations.insert("note".to_owned(), "b".to_owned());
        let node = serde_json::to_value(wanted(&settings, &offer(&[]))).unwrap();
        assert_eq!(
            node["metadata"],
            json!({
                "name": "liqo-milan",
                "annotations": { "note": "b" },
                "labels": {
                    "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/hostname": "liqo-milan",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/role": "agent",
                    "liqo.io/remote-cluster-id": "2cb4110a-c5e6-4a52-851d-d0e0d86c9174",
                    "liqo.io/type": "virtual-node",
                    "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                    "region": "south",
                    "storage.liqo.io/available": "true",
                    "zone": "a",
                },
            })
        );
    }

    #[test]
    fn a_new_node_is_tainted_and_held_from_the_first_moment() {
        let node = new(&settings());
        assert!(is_ours(&node, &settings()));
        assert_eq!(missing_taint(&node), None);
        assert_eq!(node.metadata.finalizers.unwrap(), [finalizer::VIRTUAL_NODE]);
        let (labels, wanted) = (node.metadata.labels.unwrap(), wanted(&settings(), &offer(&[])));
        let wanted = wanted.metadata.labels.unwrap();
        assert!(labels.iter().all(|(key, value)| wanted.get(key) == Some(value)), "{labels:?}");
    }

    #[test]
    fn an_offer_cannot_disguise_its_node() {
        let mut offer = offer(&[]);
        offer.spec.labels.insert(label::TYPE.to_owned(), "physical".to_owned());
        let node = wanted(&settings(), &offer);
        assert!(is_ours(&node, &settings()));
        assert!(!is_ours(&Node::default(), &settings()));
    }

    #[test]
    fn the_taint_is_added_to_those_of_others_and_only_once() {
        let not_ready = Taint {
            key: "node.kubernetes.io/not-ready".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        let with = |taints| Node {
            spec: Some(NodeSpec { taints: Some(taints), ..NodeSpec::default() }),
            ..Node::default()
        };
        let taints = missing_taint(&with(vec![not_ready.clone()])).unwrap();
        assert_eq!((taints.len(), &taints[0]), (2, &not_ready));
        assert_eq!(taints[1].key, "virtual-node.liqo.io/not-allowed");
        assert_eq!(missing_taint(&with(taints)), None);
        assert_eq!(missing_taint(&Node::default()).unwrap().len(), 1);
    }
}
