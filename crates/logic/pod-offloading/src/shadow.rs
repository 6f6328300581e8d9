//! The ShadowPod of a pod, and what of it follows the pod later.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_reflection::Place;
use liqo_replication::carried::Carried;
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::spec;

/// The ShadowPod of a pod.
pub fn shadow(
    pod: &ObjectMeta,
    spec: &Value,
    place: &Place,
    access: &Access,
) -> Carried<ShadowPod> {
    let spec = spec::remote(pod, spec, place, access);
    Carried::new(metadata(pod, place), json!({ "pod": spec }))
}

/// The metadata of the ShadowPod of a pod.
///
/// It says which pod it is for: one that comes back under the same name is another one.
pub fn metadata(pod: &ObjectMeta, place: &Place) -> ObjectMeta {
    let mut metadata = place.metadata(pod, pod.name.clone().unwrap_or_default());
    metadata.labels.get_or_insert_default().remove(label::SHADOW_POD);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.remove(annotation::SHADOW_POD_ERROR);
    if let Some(uid) = &pod.uid {
        annotations.insert(annotation::HOME_POD_UID.to_owned(), uid.clone());
    }
    metadata
}

/// Whether a ShadowPod is that of an earlier pod of the same name.
pub fn is_of_another(shadow: &ObjectMeta, pod: &ObjectMeta) -> bool {
    let of = shadow.annotations.as_ref().and_then(|all| all.get(annotation::HOME_POD_UID));
    of.is_some_and(|of| Some(of) != pod.uid.as_ref())
}

/// Why the other cluster could not make a pod of a ShadowPod.
pub fn error(shadow: &ObjectMeta) -> Option<&str> {
    let annotations = shadow.annotations.as_ref()?;
    annotations.get(annotation::SHADOW_POD_ERROR).map(String::as_str)
}

/// The change that gives a ShadowPod the labels and annotations that its pod has now; none when it
/// has them.
pub fn relabel(shadow: &ObjectMeta, pod: &ObjectMeta, place: &Place) -> Option<Value> {
    let want = metadata(pod, place);
    let labels = change(shadow.labels.as_ref(), want.labels.as_ref(), &[]);
    // The first is the other cluster's to write; the second is missing from what others made.
    let theirs = [annotation::SHADOW_POD_ERROR, annotation::HOME_POD_UID];
    let annotations = change(shadow.annotations.as_ref(), want.annotations.as_ref(), &theirs);
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let metadata = json!({ "uid": shadow.uid, "labels": labels, "annotations": annotations });
    Some(json!({ "metadata": metadata }))
}

fn change(
    have: Option<&BTreeMap<String, String>>,
    want: Option<&BTreeMap<String, String>>,
    theirs: &[&str],
) -> Map<String, Value> {
    let (none, other) = (BTreeMap::new(), BTreeMap::new());
    let (have, want) = (have.unwrap_or(&none), want.unwrap_or(&other));
    let gone = have.keys().filter(|key| !want.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let new = want.iter().filter(|(key, value)| have.get(*key) != Some(value));
    let new = new.map(|(key, value)| (key.clone(), Value::from(value.clone())));
    new.chain(gone).filter(|(key, _)| !theirs.contains(&key.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{golden_home, golden_shadow, home_pod, metadata as of, place};

    #[test]
    fn a_shadow_has_the_labels_of_its_pod_and_says_whose_it_is() {
        let home = golden_home();
        let access = Access::token_api("10.92.0.2".parse().unwrap(), 443);
        let shadow = shadow(&of(&home), &home["spec"], &place(), &access);
        let shadow = serde_json::to_value(shadow).unwrap();
        let golden = golden_shadow();
        assert_eq!(shadow["metadata"]["labels"], golden["metadata"]["labels"]);
        assert_eq!(shadow["metadata"]["namespace"], json!("shop-rome"));
        assert_eq!(shadow["spec"], golden["spec"]);
        assert_eq!(shadow["kind"], json!("ShadowPod"));
    }

    #[test]
    fn labels_and_annotations_follow_the_pod() {
        let mut pod = home_pod().metadata;
        let mut shadow = metadata(&pod, &place());
        shadow.uid = Some("s".to_owned());
        assert_eq!(relabel(&shadow, &pod, &place()), None);
        shadow.labels.as_mut().unwrap().insert("theirs".to_owned(), "1".to_owned());
        let annotations = shadow.annotations.get_or_insert_default();
        annotations.insert("liqo.io/shadowpod-error".to_owned(), "no room".to_owned());
        pod.annotations.get_or_insert_default().insert("note".to_owned(), "new".to_owned());
        let want = json!({"metadata": {
            "uid": "s", "labels": {"theirs": null}, "annotations": {"note": "new"},
        }});
        assert_eq!(relabel(&shadow, &pod, &place()), Some(want));
        assert_eq!(error(&shadow), Some("no room"));
    }

    #[test]
    fn a_pod_that_comes_back_under_its_name_is_another_one() {
        let mut pod = home_pod().metadata;
        let shadow = metadata(&pod, &place());
        assert!(!is_of_another(&shadow, &pod));
        pod.uid = Some("new".to_owned());
        assert!(is_of_another(&shadow, &pod));
        let of_others = ObjectMeta { annotations: None, ..shadow };
        assert!(!is_of_another(&of_others, &pod), "those that do not say are taken as they are");
    }
}
