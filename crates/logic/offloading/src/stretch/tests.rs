//! Namespaces and clusters, and what comes of them.

use liqo_api::offloading::OffloadingPhase;
use serde_json::{Value, json};

use super::*;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

#[test]
fn selected_clusters_are_asked_and_others_are_not() {
    let (south, north) = (labels("south"), labels("north"));
    let (milan, naples) = (map("milan-ee0b4a", None, None), map("naples-5eada1", None, None));
    let offloading = offloading(&json!([{ "matchExpressions": [
        { "key": "region", "operator": "In", "values": ["south"] },
    ]}]));
    let places = [place(&milan, Some(&north)), place(&naples, Some(&south))];
    let decision = decide(&offloading, &home(), &places, at(0));
    assert!(decision.enabled);
    assert_eq!(decision.changes, [(1, Some("shop-rome-2f55ef".to_owned()))]);
    assert_eq!(decision.status.remote_namespace_name.as_deref(), Some("shop-rome-2f55ef"));
    assert_eq!(decision.status.offloading_phase, Some(OffloadingPhase::InProgress));
    assert_eq!(decision.status.observed_generation, Some(3));
    let reasons: Vec<_> = decision.status.remote_namespaces_conditions["milan-ee0b4a"]
        .iter()
        .map(|one| one.reason.clone().unwrap())
        .collect();
    assert_eq!(reasons, ["ClusterNotSelected"]);
}

#[test]
fn what_is_asked_already_is_not_asked_again() {
    let node = labels("south");
    let milan = map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted"));
    let decision = decide(&offloading(&json!([])), &home(), &[place(&milan, Some(&node))], at(0));
    assert_eq!(decision.changes, []);
    assert_eq!(decision.status.offloading_phase, Some(OffloadingPhase::Ready));
}

#[test]
fn a_cluster_that_is_no_longer_selected_gives_the_namespace_back() {
    let node = labels("north");
    let milan = map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted"));
    let offloading = offloading(&json!([{ "matchExpressions": [
        { "key": "region", "operator": "In", "values": ["south"] },
    ]}]));
    let decision = decide(&offloading, &home(), &[place(&milan, Some(&node))], at(0));
    assert_eq!(decision.changes, [(0, None)]);
    assert_eq!(decision.status.offloading_phase, Some(OffloadingPhase::NoClusterSelected));
}

#[test]
fn a_cluster_without_a_node_is_left_as_it_is() {
    let asked = map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted"));
    let not_asked = map("naples-5eada1", None, None);
    let places = [place(&asked, None), place(&not_asked, None)];
    assert_eq!(decide(&offloading(&json!([])), &home(), &places, at(0)).changes, []);
}

#[test]
fn a_selector_without_sense_changes_nothing_and_is_told() {
    let node = labels("south");
    let milan = map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted"));
    let wrong = offloading(&json!([{ "matchExpressions": [{ "key": "a", "operator": "Like" }] }]));
    let decision = decide(&wrong, &home(), &[place(&milan, Some(&node))], at(0));
    assert_eq!(decision.changes, []);
    assert!(decision.problem.unwrap().to_string().contains("'Like' is no operator"));
}

#[test]
fn pods_that_stay_need_no_label() {
    let mut local = offloading(&json!([]));
    local.spec.pod_offloading_strategy = PodOffloadingStrategy::Local;
    assert!(!decide(&local, &home(), &[], at(0)).enabled);
}

#[test]
fn an_end_waits_until_every_cluster_has_let_go() {
    let node = labels("south");
    let mut ending = offloading(&json!([]));
    ending.metadata.deletion_timestamp = Some(liqo_api::Time(at(0)));
    let told = |map: &NamespaceMap, is_given_up| {
        let place = Place { is_given_up, ..place(map, Some(&node)) };
        decide(&ending, &home(), &[place], at(1))
    };
    let first = told(&map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted")), false);
    assert_eq!((first.enabled, first.is_over), (false, false));
    assert_eq!(first.changes, [(0, None)]);
    assert_eq!(first.status.offloading_phase, Some(OffloadingPhase::Terminating));
    let second = told(&map("milan-ee0b4a", None, Some("Terminating")), false);
    assert_eq!((second.changes.as_slice(), second.is_over), (&[][..], false));
    assert!(told(&map("milan-ee0b4a", None, None), false).is_over);
    // Somebody who never answers holds nothing up, but is asked for nothing any more.
    let silent = told(&map("milan-ee0b4a", Some("shop-rome-2f55ef"), Some("Accepted")), true);
    assert_eq!(silent.changes, [(0, None)]);
    assert!(silent.is_over);
    assert_eq!(silent.left_behind, ["milan-ee0b4a"]);
}

#[test]
fn an_end_without_clusters_is_over_at_once() {
    let mut ending = offloading(&json!([]));
    ending.metadata.deletion_timestamp = Some(liqo_api::Time(at(0)));
    assert!(decide(&ending, &home(), &[], at(1)).is_over);
}

fn place<'a>(map: &'a NamespaceMap, node: Option<&'a BTreeMap<String, String>>) -> Place<'a> {
    Place { map, node: node.map(|labels| ("liqo-node", labels)), is_given_up: false }
}

fn labels(region: &str) -> BTreeMap<String, String> {
    [("region".to_owned(), region.to_owned())].into()
}

fn map(name: &str, asked: Option<&str>, phase: Option<&str>) -> NamespaceMap {
    let current = phase.map(|phase| json!({"phase": phase, "remoteNamespace": "shop-rome-2f55ef"}));
    let entry = |value: Option<Value>| value.map_or(json!({}), |value| json!({ "shop": value }));
    serde_json::from_value(json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "NamespaceMap",
        "metadata": { "name": name, "namespace": "tenant" },
        "spec": { "desiredMapping": entry(asked.map(Value::from)) },
        "status": { "currentMapping": entry(current) },
    }))
    .unwrap()
}

fn offloading(terms: &Value) -> NamespaceOffloading {
    serde_json::from_value(json!({
        "apiVersion": "offloading.liqo.io/v1alpha1",
        "kind": "NamespaceOffloading",
        "metadata": { "name": "offloading", "namespace": "shop", "generation": 3 },
        "spec": { "clusterSelector": { "nodeSelectorTerms": terms } },
    }))
    .unwrap()
}

fn home() -> Cluster {
    Cluster { id: ROME.parse().unwrap(), name: "rome".parse().unwrap() }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
