//! Which pods are bound, and which are left to a scheduler.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pod::placed;

#[test]
fn nobody_is_bound_unless_somebody_asks_and_pods_must_leave() {
    let offloading = |strategy: &str, annotations: Value| -> NamespaceOffloading {
        serde_json::from_value(json!({
            "apiVersion": "offloading.liqo.io/v1alpha1", "kind": "NamespaceOffloading",
            "metadata": {"name": "offloading", "annotations": annotations},
            "spec": {"podOffloadingStrategy": strategy},
        }))
        .unwrap()
    };
    let asked = json!({"liqo.io/skip-scheduler": "true"});
    assert!(is_wanted(&offloading("Remote", asked.clone())));
    assert!(!is_wanted(&offloading("LocalAndRemote", asked)), "there is something to choose");
    assert!(!is_wanted(&offloading("Remote", json!({"liqo.io/skip-scheduler": "false"}))));
    assert!(!is_wanted(&offloading("Remote", json!({}))));
}

#[test]
fn a_pod_is_bound_to_the_only_node_that_may_take_it() {
    assert_eq!(taken(&json!({}), &[node("milan")]), Some("milan".to_owned()));
    assert_eq!(taken(&json!({}), &[node("milan"), node("naples")]), None, "there is a choice");
    assert_eq!(taken(&json!({}), &[]), None);
    let south = json!({"nodeSelector": {"region": "naples"}});
    assert_eq!(taken(&south, &[node("milan"), node("naples")]), Some("naples".to_owned()));
    let terms = json!([{"matchExpressions": [
        {"key": "region", "operator": "NotIn", "values": ["naples"]},
    ]}]);
    let required = json!({"nodeSelectorTerms": terms});
    let north = json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }}});
    assert_eq!(taken(&north, &[node("milan"), node("naples")]), Some("milan".to_owned()));
}

#[test]
fn a_node_that_takes_no_pods_is_left_to_the_scheduler() {
    let with = |path: &str, value: Value| {
        let mut node = node("milan");
        *node.pointer_mut(path).unwrap() = value;
        taken(&json!({}), &[node])
    };
    assert_eq!(with("/status/conditions/0/status", json!("Unknown")), None);
    assert_eq!(with("/status/conditions", json!([])), None);
    assert_eq!(with("/spec/unschedulable", json!(true)), None);
    assert_eq!(with("/metadata/deletionTimestamp", json!("2026-11-16T00:00:00Z")), None);
    let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
    assert_eq!(with("/spec/taints", taint("dedicated", "NoSchedule")), None);
    assert_eq!(with("/spec/taints", taint("dedicated", "NoExecute")), None);
    let soft = taint("dedicated", "PreferNoSchedule");
    assert_eq!(with("/spec/taints", soft), Some("milan".to_owned()));
}

#[test]
fn taints_are_tolerated_as_schedulers_see_it() {
    let taint: Taint =
        serde_json::from_value(json!({"key": "a", "value": "b", "effect": "NoExecute"})).unwrap();
    for (toleration, want) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "a", "operator": "Exists"}), true),
        (json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}), false),
        (json!({"key": "c", "operator": "Exists"}), false),
        (json!({"key": "a", "value": "b"}), true),
        (json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}), true),
        (json!({"key": "a", "value": "c"}), false),
        (json!({"key": "a"}), false),
        (json!({"key": "a", "operator": "Gt", "value": "1"}), false),
    ] {
        let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
        assert_eq!(tolerates(&read, &taint), want, "{toleration}");
    }
}

#[test]
fn what_takes_more_than_a_look_at_nodes_is_left_to_the_scheduler() {
    let container = |more: Value| json!([{"name": "main", "ports": [more]}]);
    for more in [
        json!({"schedulerName": "own"}),
        json!({"nodeName": "other"}),
        json!({"schedulingGates": [{"name": "later"}]}),
        json!({"schedulingGroup": {"podGroupName": "gang"}}),
        json!({"resourceClaims": [{"name": "gpu"}]}),
        json!({"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        ]}),
        json!({"affinity": {"podAntiAffinity": {}}}),
        json!({"affinity": {"podAffinity": {}}}),
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
        json!({"volumes": [{"name": "data", "ephemeral": {}}]}),
        json!({"containers": container(json!({"containerPort": 80, "hostPort": 80}))}),
        json!({"initContainers": container(json!({"containerPort": 80, "hostPort": 80}))}),
    ] {
        assert_ne!(taken(&more, &[node("milan")]).as_deref(), Some("milan"), "{more}");
    }
    for more in [
        json!({"schedulerName": "default-scheduler", "nodeName": ""}),
        json!({"schedulingGates": [], "priority": 7}),
        json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "c", "configMap": {}}]}),
        json!({"containers": container(json!({"containerPort": 80}))}),
    ] {
        assert_eq!(taken(&more, &[node("milan")]), Some("milan".to_owned()), "{more}");
    }
}

proptest! {
    /// Whatever nodes there are: a pod is never bound to one of several, nor to one that takes none.
    #[test]
    fn nobody_is_bound_where_a_scheduler_would_choose(
        ready in proptest::collection::vec(any::<bool>(), 0..4),
    ) {
        let nodes: Vec<Value> = ready.iter().enumerate().map(|(index, ready)| {
            let mut node = node(&format!("node-{index}"));
            node["status"]["conditions"][0]["status"] =
                json!(if *ready { "True" } else { "False" });
            node
        }).collect();
        let want = (ready == [true]).then(|| "node-0".to_owned());
        prop_assert_eq!(taken(&json!({}), &nodes), want);
    }
}

/// The node that a pod is bound to as it enters, with more in its specification.
fn taken(more: &Value, nodes: &[Value]) -> Option<String> {
    let mut spec = json!({"containers": [{"name": "main"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
    let remote = serde_json::from_value(json!({"podOffloadingStrategy": "Remote"})).unwrap();
    let nodes: Vec<Node> =
        nodes.iter().map(|node| serde_json::from_value(node.clone()).unwrap()).collect();
    bound(placed(&pod, &remote), &nodes).spec.unwrap().node_name.filter(|name| !name.is_empty())
}

/// A virtual node that takes pods.
fn node(name: &str) -> Value {
    let taint = json!({"key": "virtual-node.liqo.io/not-allowed", "value": "true",
                       "effect": "NoExecute"});
    json!({
        "metadata": {"name": name, "labels": {"liqo.io/type": "virtual-node", "region": name},
                     "deletionTimestamp": null},
        "spec": {"taints": [taint], "unschedulable": false},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}
