//! A ShadowPod: the Pod that is kept alive for it, also while nobody can reach its owner.
//!
//! ```text
//!            no pod, and it is not over                      a pod of ours
//!  ShadowPod ─────────────────────────> made ──> Pod ──────────────────────> labels and annotations
//!                ^                      │ refused              │ deleted      follow, its phase comes
//!                └──────────────────────┴──────────────────────┘             back
//!                    the reason is written on the ShadowPod
//! ```
//!
//! A Pod of the same name that was not made for the ShadowPod is never touched.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use liqo_api::keys::{annotation, label};
use liqo_api::virtualkubelet::PodPhase;
use liqo_peering::controller;
use liqo_replication::carried::Carried;
use serde_json::{Map, Value};

use crate::slim::{SlimPod, SlimShadow};

/// The longest reason that is written on a ShadowPod.
const LONGEST_ERROR: usize = 1024;

type Texts = BTreeMap<String, String>;

/// Whose a Pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The ShadowPod's.
    This,
    /// That of another ShadowPod, which had the same name; it goes with it.
    Earlier,
    /// Somebody else's.
    Stranger,
}

/// Whose a Pod of the same name is.
pub fn owner(shadow: &ObjectMeta, pod: &ObjectMeta) -> Owner {
    let mut owners = pod.owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) if Some(&owner.uid) == shadow.uid.as_ref() => Owner::This,
        Some(owner) if owner.kind == "ShadowPod" => Owner::Earlier,
        Some(_) | None => Owner::Stranger,
    }
}

/// Whether a pod has come to its end for good.
pub fn is_over(restart_policy: Option<&str>, phase: PodPhase) -> bool {
    match phase {
        PodPhase::Succeeded => matches!(restart_policy, Some("Never" | "OnFailure")),
        PodPhase::Failed => restart_policy == Some("Never"),
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => false,
    }
}

/// The Pod that is made for a ShadowPod, with fields of a Kubernetes that is newer than this.
///
/// Whatever the ShadowPod says, no credentials of this cluster are mounted into it unless it asks
/// for that; who may ask is decided before. Containers for those who look for an error come later,
/// see [`added`].
pub fn pod(shadow: &SlimShadow) -> serde_json::Result<Carried<Pod>> {
    const TOKENS: &str = "automountServiceAccountToken";
    let mut spec = shadow.spec.pod.whole()?;
    if spec.get(TOKENS).is_none_or(Value::is_null) {
        spec.insert(TOKENS.to_owned(), false.into());
    }
    spec.remove("ephemeralContainers");
    let metadata = ObjectMeta {
        name: shadow.metadata.name.clone(),
        namespace: shadow.metadata.namespace.clone(),
        labels: Some(labels(&shadow.metadata)),
        annotations: Some(annotations(&shadow.metadata)).filter(|all| !all.is_empty()),
        owner_references: Some(vec![controller(shadow)]),
        ..ObjectMeta::default()
    };
    Ok(Carried::new(metadata, spec.into()))
}

/// The strategic merge patch that adds to a running Pod the containers that its ShadowPod has got
/// since; nothing when it has them, or has come to its end.
pub fn added(shadow: &SlimShadow, pod: &SlimPod) -> Option<Value> {
    let is_at_its_end = matches!(pod.phase(), PodPhase::Succeeded | PodPhase::Failed)
        || pod.metadata.deletion_timestamp.is_some();
    if is_at_its_end {
        return None;
    }
    let is_missing = |container: &Value| !pod.added().any(|name| container["name"] == name);
    let missing: Vec<Value> = shadow.spec.pod.added().into_iter().filter(is_missing).collect();
    (!missing.is_empty()).then(|| {
        serde_json::json!({
            "metadata": { "uid": pod.metadata.uid },
            "spec": { "ephemeralContainers": missing },
        })
    })
}

fn labels(shadow: &ObjectMeta) -> Texts {
    let mut labels = shadow.labels.clone().unwrap_or_default();
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_SHADOW_POD.to_owned());
    labels
}

fn annotations(shadow: &ObjectMeta) -> Texts {
    let mut annotations = shadow.annotations.clone().unwrap_or_default();
    annotations.remove(annotation::SHADOW_POD_ERROR);
    annotations
}

/// The names of labels and annotations that the Pod of a ShadowPod has because of it.
pub fn names(shadow: &ObjectMeta) -> Names {
    let names = |texts: Texts| texts.into_keys().collect();
    Names { labels: names(labels(shadow)), annotations: names(annotations(shadow)) }
}

/// Names of labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Names {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl Names {
    /// Those that a manager has written, by the records of the API server.
    pub fn written_by(manager: &str, records: &[ManagedFieldsEntry]) -> Self {
        let mut names = Self::default();
        let own = records.iter().filter(|record| record.manager.as_deref() == Some(manager));
        for fields in own.filter_map(|record| record.fields_v1.as_ref()) {
            let metadata = &fields.0["f:metadata"];
            for (list, found) in
                [("f:labels", &mut names.labels), ("f:annotations", &mut names.annotations)]
            {
                let keys = metadata[list].as_object().into_iter().flat_map(Map::keys);
                found.extend(keys.filter_map(|key| key.strip_prefix("f:")).map(str::to_owned));
            }
        }
        names
    }
}

/// The merge patch that makes the labels and annotations of a Pod follow its ShadowPod; nothing
/// when they do.
///
/// Of those that the Pod has and the ShadowPod has not, only `written` ones go: others are
/// somebody else's.
pub fn change(shadow: &ObjectMeta, pod: &ObjectMeta, written: &Names) -> Option<Value> {
    let lists = [
        ("labels", labels(shadow), &pod.labels, &written.labels),
        ("annotations", annotations(shadow), &pod.annotations, &written.annotations),
    ];
    let mut metadata = Map::new();
    for (list, want, have, written) in lists {
        let none = Texts::new();
        let have = have.as_ref().unwrap_or(&none);
        let is_gone = |name: &&String| have.contains_key(*name) && !want.contains_key(*name);
        let gone = written.iter().filter(is_gone).map(|name| (name.clone(), Value::Null));
        let new = want.iter().filter(|(name, value)| have.get(*name) != Some(*value));
        let new = new.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let changes: Map<_, _> = gone.chain(new).collect();
        if !changes.is_empty() {
            metadata.insert(list.to_owned(), changes.into());
        }
    }
    (!metadata.is_empty()).then(|| {
        metadata.insert("uid".to_owned(), pod.uid.clone().into());
        Value::Object([("metadata".to_owned(), Value::Object(metadata))].into_iter().collect())
    })
}

/// The merge patch that writes on a ShadowPod why it has no Pod, or wipes that out; nothing when it
/// says so already.
pub fn told(shadow: &ObjectMeta, error: Option<&str>) -> Option<Value> {
    let annotations = shadow.annotations.as_ref();
    let had = annotations.and_then(|all| all.get(annotation::SHADOW_POD_ERROR));
    let error: Option<String> = error.map(|error| error.chars().take(LONGEST_ERROR).collect());
    (had != error.as_ref()).then(|| {
        serde_json::json!({ "metadata": {
            "uid": shadow.uid,
            "annotations": { annotation::SHADOW_POD_ERROR: error },
        } })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_what_the_shadow_says() {
        let shadow = shadow(&json!({ "note": "x", "liqo.io/shadowpod-error": "old" }));
        let pod = pod(&shadow).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&pod).unwrap(), @r#"
        {
          "apiVersion": "v1",
          "kind": "Pod",
          "metadata": {
            "annotations": {
              "note": "x"
            },
            "labels": {
              "app": "a",
              "liqo.io/managed-by": "shadowpod"
            },
            "name": "a",
            "namespace": "shop",
            "ownerReferences": [
              {
                "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "ShadowPod",
                "name": "a",
                "uid": "1"
              }
            ]
          },
          "spec": {
            "automountServiceAccountToken": false,
            "containers": [
              {
                "image": "b",
                "name": "a"
              }
            ]
          }
        }
        "#);
    }

    #[test]
    fn a_pod_has_what_is_newer_than_this_program() {
        let spec = |more: Value| {
            let mut shadow = json!({
                "metadata": { "name": "a", "uid": "1" },
                "spec": { "pod": {
                    "containers": [{ "name": "a", "someday": { "new": [1] } }], "tomorrow": 0.5,
                } },
            });
            shadow["spec"]["pod"]["automountServiceAccountToken"] = more;
            pod(&serde_json::from_value(shadow).unwrap()).unwrap().spec
        };
        let made = spec(Value::Null);
        assert_eq!(made["containers"][0]["someday"]["new"], json!([1]));
        assert_eq!(made["tomorrow"], json!(0.5));
        assert_eq!(made["automountServiceAccountToken"], json!(false));
        assert_eq!(spec(true.into())["automountServiceAccountToken"], json!(true));
    }

    #[test]
    fn containers_are_added_to_a_running_pod_once_and_not_when_it_is_made() {
        let debuggers = json!([{ "name": "one", "image": "a" }, { "name": "two", "someday": 1 }]);
        let mut shadow = serde_json::to_value(json!({
            "metadata": { "name": "a", "uid": "1" },
            "spec": { "pod": { "containers": [], "ephemeralContainers": debuggers } },
        }))
        .unwrap();
        let with: SlimShadow = serde_json::from_value(shadow.clone()).unwrap();
        shadow["spec"]["pod"]["ephemeralContainers"].take();
        let without: SlimShadow = serde_json::from_value(shadow).unwrap();
        assert_eq!(pod(&with).unwrap().spec.get("ephemeralContainers"), None);

        let running = |names: &[&str], phase: &str| -> SlimPod {
            let containers: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            serde_json::from_value(json!({
                "metadata": { "name": "a", "uid": "p" },
                "spec": { "ephemeralContainers": containers },
                "status": { "phase": phase },
            }))
            .unwrap()
        };
        let patch = added(&with, &running(&["one"], "Running")).unwrap();
        let two = json!([{ "name": "two", "someday": 1 }]);
        assert_eq!(
            patch,
            json!({ "metadata": { "uid": "p" }, "spec": { "ephemeralContainers": two } })
        );
        assert_eq!(added(&with, &running(&["two", "one", "mine"], "Running")), None);
        assert_eq!(added(&without, &running(&[], "Running")), None);
        assert_eq!(added(&with, &running(&[], "Succeeded")), None);
    }

    #[test]
    fn what_is_over_stays_over() {
        use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};
        for phase in [Pending, Running, Unknown] {
            assert!(!is_over(Some("Never"), phase));
        }
        let over = |policy| [Succeeded, Failed].map(|phase| is_over(policy, phase));
        assert_eq!(over(Some("Never")), [true, true]);
        assert_eq!(over(Some("OnFailure")), [true, false]);
        assert_eq!(over(Some("Always")), [false, false]);
        assert_eq!(over(None), [false, false]);
    }

    #[test]
    fn a_pod_belongs_to_one_shadow() {
        let shadow = shadow(&json!({})).metadata;
        let of = |kind: &str, uid: &str| -> ObjectMeta {
            let owner = json!({ "apiVersion": "x", "kind": kind, "name": "a", "uid": uid, "controller": true });
            serde_json::from_value(json!({ "ownerReferences": [owner] })).unwrap()
        };
        assert_eq!(owner(&shadow, &of("ShadowPod", "1")), Owner::This);
        assert_eq!(owner(&shadow, &of("ShadowPod", "0")), Owner::Earlier);
        assert_eq!(owner(&shadow, &of("ReplicaSet", "0")), Owner::Stranger);
        assert_eq!(owner(&shadow, &ObjectMeta::default()), Owner::Stranger);
    }

    #[test]
    fn labels_follow_and_those_of_others_stay() {
        let shadow = shadow(&json!({ "note": "new" })).metadata;
        let pod: ObjectMeta = serde_json::from_value(json!({
            "uid": "p",
            "labels": { "app": "a", "liqo.io/managed-by": "shadowpod", "old": "x", "mesh": "on" },
            "annotations": { "note": "old" },
        }))
        .unwrap();
        let fields = json!({ "f:metadata": { "f:labels": { ".": {}, "f:old": {}, "f:app": {} } } });
        let records: Vec<ManagedFieldsEntry> = serde_json::from_value(json!([
            { "manager": "shadow-pod", "fieldsV1": fields },
            { "manager": "mesh", "fieldsV1": { "f:metadata": { "f:labels": { "f:mesh": {} } } } },
        ]))
        .unwrap();
        let written = Names::written_by("shadow-pod", &records);
        assert_eq!(
            change(&shadow, &pod, &written).unwrap(),
            json!({ "metadata": {
                "uid": "p", "labels": { "old": null }, "annotations": { "note": "new" },
            } })
        );
        let same = ObjectMeta {
            labels: Some(labels(&shadow)),
            annotations: Some(annotations(&shadow)),
            ..pod
        };
        assert_eq!(change(&shadow, &same, &written), None);
    }

    #[test]
    fn a_reason_is_written_once_and_wiped_out() {
        let clean = shadow(&json!({})).metadata;
        let patch = told(&clean, Some("no room")).unwrap();
        assert_eq!(patch["metadata"]["annotations"]["liqo.io/shadowpod-error"], "no room");
        let marked = shadow(&json!({ "liqo.io/shadowpod-error": "no room" })).metadata;
        assert_eq!(told(&marked, Some("no room")), None);
        let patch = told(&marked, None).unwrap();
        assert_eq!(patch["metadata"]["annotations"]["liqo.io/shadowpod-error"], Value::Null);
        assert_eq!(told(&clean, None), None);
    }

    fn shadow(annotations: &Value) -> SlimShadow {
        serde_json::from_value(json!({
            "metadata": {
                "name": "a", "namespace": "shop", "uid": "1",
                "labels": { "app": "a" }, "annotations": annotations,
            },
            "spec": { "pod": { "containers": [{ "name": "a", "image": "b" }] } },
        }))
        .unwrap()
    }
}
