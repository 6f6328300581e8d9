//! Tests of what becomes of claims.

use serde_json::{Value, json};

use super::*;
use crate::place::tests::place;

const ONE: &str = "9f0f3a5e-5c39-4c62-8f0e-0a8a3d1a9a11";
const OTHER: &str = "9f0f3a5e-5c39-4c62-8f0e-0a8a3d1a9a22";

#[test]
fn a_claim_that_was_placed_on_the_virtual_node_is_provided_for() {
    assert_eq!(look(Some(&claim(json!({}))), None), Decision::Provide);
    let old = json!({"metadata": {"annotations": {
        "volume.kubernetes.io/storage-provisioner": null,
        "volume.beta.kubernetes.io/storage-provisioner": "liqo.io/storage",
    }}});
    assert_eq!(look(Some(&claim(old)), None), Decision::Provide, "also by the older annotation");
    let half_way = twin(&claim(json!({})), &place(), None);
    assert_eq!(look(Some(&claim(json!({}))), Some(&half_way.metadata)), Decision::Provide);
}

#[test]
fn other_claims_are_left_alone() {
    let elsewhere = json!({"volume.kubernetes.io/selected-node": "liqo-turin"});
    let nowhere = json!({"volume.kubernetes.io/selected-node": null});
    let foreign = json!({"volume.kubernetes.io/storage-provisioner": "rancher.io/local-path"});
    for change in [
        json!({"metadata": {"annotations": elsewhere}}),
        json!({"metadata": {"annotations": nowhere}}),
        json!({"metadata": {"annotations": foreign}}),
        json!({"metadata": {"deletionTimestamp": "2026-11-16T07:00:00Z"}}),
        json!({"spec": {"storageClassName": "local-path"}}),
        json!({"spec": {"storageClassName": null}}),
        json!({"spec": {"volumeName": "pvc-1"}}),
    ] {
        assert_eq!(look(Some(&claim(change.clone())), None), Decision::Nothing, "{change}");
    }
}

#[test]
fn a_claim_that_has_its_volume_keeps_its_twin_as_it_is() {
    let bound = claim(json!({"spec": {"volumeName": "pvc-1"}}));
    let twin = twin(&bound, &place(), None);
    assert_eq!(look(Some(&bound), Some(&twin.metadata)), Decision::Nothing);
    assert_eq!(look(Some(&bound), None), Decision::Nothing, "data that is gone stays gone");
}

#[test]
fn a_twin_goes_with_its_claim() {
    let twin = twin(&claim(json!({})), &place(), None).metadata;
    assert_eq!(look(None, Some(&twin)), Decision::Remove { gone: Some(ONE.to_owned()) });
    let mut unsigned = twin.clone();
    unsigned.annotations = None;
    assert_eq!(look(None, Some(&unsigned)), Decision::Remove { gone: None });
    let leaving = leaving(twin);
    assert_eq!(look(None, Some(&leaving)), Decision::Nothing);
    assert_eq!(look(None, None), Decision::Nothing);
}

#[test]
fn a_claim_does_not_get_the_data_of_one_that_had_its_name() {
    let twin = twin(&claim(json!({})), &place(), None).metadata;
    let next = claim(json!({"metadata": {"uid": OTHER}}));
    assert_eq!(look(Some(&next), Some(&twin)), Decision::Remove { gone: Some(ONE.to_owned()) });
    assert_eq!(look(Some(&next), Some(&leaving(twin))), Decision::Nothing, "not before it is gone");
}

#[test]
fn a_claim_that_was_placed_elsewhere_in_time_leaves_no_twin() {
    let twin = twin(&claim(json!({})), &place(), None).metadata;
    for node in [json!("liqo-turin"), Value::Null] {
        let node = json!({"volume.kubernetes.io/selected-node": node});
        let moved = claim(json!({"metadata": {"annotations": node}}));
        assert_eq!(look(Some(&moved), Some(&twin)), Decision::Remove { gone: None });
    }
}

#[test]
fn a_claim_of_somebody_else_stays_as_it_is() {
    let foreign = ObjectMeta::default();
    assert_eq!(look(Some(&claim(json!({}))), Some(&foreign)), Decision::Taken);
    assert_eq!(look(None, Some(&foreign)), Decision::Nothing);
    let elsewhere = json!({"volume.kubernetes.io/selected-node": "liqo-turin"});
    let elsewhere = claim(json!({"metadata": {"annotations": elsewhere}}));
    assert_eq!(look(Some(&elsewhere), Some(&foreign)), Decision::Nothing);
}

#[test]
fn a_twin_asks_for_the_same_of_a_class_over_there() {
    let more = json!({"metadata": {"annotations": {
        "note": "mine",
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": "liqo.io/storage",
        "volume.beta.kubernetes.io/storage-class": "liqo",
    }}});
    let want = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop-rome",
            "labels": {
                "app": "web",
                "virtualkubelet.liqo.io/origin": place().home.id,
                "virtualkubelet.liqo.io/destination": place().remote.id,
            },
            "annotations": {
                "note": "mine",
                "virtualkubelet.liqo.io/home-claim-uid": ONE,
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "disk",
            "volumeMode": "Filesystem",
        },
    });
    let twin = |class| serde_json::to_value(twin(&claim(more.clone()), &place(), class)).unwrap();
    assert_eq!(twin(Some("disk")), want);
    assert_eq!(twin(None)["spec"].get("storageClassName"), None, "the default one over there");
}

#[test]
fn a_volume_here_keeps_pods_in_the_other_cluster() {
    let want = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": format!("pvc-{ONE}"),
            "annotations": {"pv.kubernetes.io/provisioned-by": "liqo.io/storage"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": "shop", "name": "data", "uid": ONE,
            },
            "hostPath": {"path": "/tmp/liqo-placeholder"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                "key": "kubernetes.io/hostname", "operator": "In", "values": ["liqo-milan"],
            }]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "liqo",
            "volumeMode": "Filesystem",
        },
    });
    let made = volume(&claim(json!({})), &class(json!({})), &place());
    assert_eq!(serde_json::to_value(made).unwrap(), want);
    let retain = class(json!({"reclaimPolicy": "Retain"}));
    let raw = claim(json!({"spec": {"volumeMode": "Block"}}));
    let spec = volume(&raw, &retain, &place()).spec.unwrap();
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Retain"));
    assert_eq!(spec.volume_mode.as_deref(), Some("Block"));
    let copied = twin(&raw, &place(), None).spec.unwrap();
    assert_eq!(copied.volume_mode.as_deref(), Some("Block"));
}

#[test]
fn a_volume_goes_with_its_claim_unless_it_is_kept_or_not_from_here() {
    let made = volume(&claim(json!({})), &class(json!({})), &place());
    assert!(goes_with(&made, ONE, &place()));
    assert!(!goes_with(&made, OTHER, &place()));
    let elsewhere = Place { node: "liqo-turin".to_owned(), ..place() };
    assert!(!goes_with(&made, ONE, &elsewhere));
    let retain = class(json!({"reclaimPolicy": "Retain"}));
    assert!(!goes_with(&volume(&claim(json!({})), &retain, &place()), ONE, &place()));
    let mut foreign = made;
    foreign.metadata.annotations = None;
    assert!(!goes_with(&foreign, ONE, &place()));
}

#[test]
fn storage_is_offered_or_insisted_on() {
    let offered = |class: &str| Storage::Offered(Some(class.to_owned()));
    assert_eq!(Storage::of(false, None, None), Storage::Refused);
    assert_eq!(Storage::of(false, Some("disk"), None), Storage::Refused);
    assert_eq!(Storage::of(false, None, Some("fast")), offered("fast"));
    assert_eq!(Storage::of(false, Some("disk"), Some("fast")), offered("disk"));
    assert_eq!(Storage::of(true, Some(""), Some("fast")), offered("fast"));
    assert_eq!(Storage::of(true, None, None), Storage::Offered(None));
}

#[test]
fn a_class_says_whether_claims_wait_for_their_first_pod() {
    assert!(is_bound_late(&class(json!({}))));
    assert!(!is_bound_late(&class(json!({"volumeBindingMode": "Immediate"}))));
    assert!(!is_bound_late(&class(json!({"volumeBindingMode": null}))));
}

fn look(claim: Option<&PersistentVolumeClaim>, there: Option<&ObjectMeta>) -> Decision {
    decide(claim, there, &place(), "liqo")
}

fn leaving(mut twin: ObjectMeta) -> ObjectMeta {
    twin.deletion_timestamp = serde_json::from_str("\"2026-11-16T07:00:00Z\"").unwrap();
    twin
}

fn class(change: Value) -> StorageClass {
    let class = json!({
        "metadata": {"name": "liqo"},
        "provisioner": "liqo.io/storage",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    serde_json::from_value(merged(class, change)).unwrap()
}

fn claim(change: Value) -> PersistentVolumeClaim {
    let claim = json!({
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "uid": ONE,
            "labels": {"app": "web"},
            "annotations": {
                "volume.kubernetes.io/storage-provisioner": "liqo.io/storage",
                "volume.kubernetes.io/selected-node": "liqo-milan",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "liqo",
        },
    });
    serde_json::from_value(merged(claim, change)).unwrap()
}

fn merged(mut value: Value, change: Value) -> Value {
    match (&mut value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                let field = fields.remove(&key).unwrap_or_default();
                if !change.is_null() {
                    fields.insert(key, merged(field, change));
                }
            }
        }
        (_, change) => value = change,
    }
    value
}
