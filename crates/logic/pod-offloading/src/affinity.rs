//! How pods keep apart from each other in the other cluster, by an annotation of theirs.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label};
use serde_json::{Value, json};

/// Labels that differ between pods that belong together.
const OF_ONE_POD: [&str; 3] =
    [label::CONTROLLER_REVISION_HASH, label::POD_TEMPLATE_HASH, label::STATEFUL_SET_POD];

/// The affinity that a pod has in the other cluster, if it has any.
pub fn remote(pod: &ObjectMeta, home: Option<&Value>) -> Option<Value> {
    let annotations = pod.annotations.as_ref()?;
    let term = || {
        let chosen = annotations.get(annotation::ANTI_AFFINITY_LABELS);
        let labels = labels(pod.labels.as_ref(), chosen.map(String::as_str));
        json!({ "labelSelector": { "matchLabels": labels }, "topologyKey": label::HOSTNAME })
    };
    let rule = match annotations.get(annotation::ANTI_AFFINITY_PRESET)?.as_str() {
        annotation::ANTI_AFFINITY_PROPAGATE => home?.get("podAntiAffinity")?.clone(),
        annotation::ANTI_AFFINITY_SOFT => {
            let term = json!({ "weight": 1, "podAffinityTerm": term() });
            json!({ "preferredDuringSchedulingIgnoredDuringExecution": [term] })
        }
        annotation::ANTI_AFFINITY_HARD => {
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term()] })
        }
        _ => return None,
    };
    Some(json!({ "podAntiAffinity": rule }))
}

/// The labels that say which pods keep apart: those that were chosen, or all that pods share.
fn labels(
    labels: Option<&BTreeMap<String, String>>,
    chosen: Option<&str>,
) -> BTreeMap<String, String> {
    let counts = |key: &str| match chosen {
        Some(chosen) => chosen.split(',').any(|one| one.trim() == key),
        None => !OF_ONE_POD.contains(&key),
    };
    let labels = labels.into_iter().flatten().filter(|(key, _)| counts(key));
    labels.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_preset_pods_are_placed_freely() {
        assert_eq!(remote(&pod(&[]), Some(&own())), None);
        assert_eq!(remote(&pod(&[("liqo.io/anti-affinity-preset", "odd")]), Some(&own())), None);
    }

    #[test]
    fn a_pod_may_keep_its_own_rule() {
        let pod = pod(&[("liqo.io/anti-affinity-preset", "propagate")]);
        let want = json!({"podAntiAffinity": {"own": true}});
        assert_eq!(remote(&pod, Some(&own())), Some(want));
        assert_eq!(remote(&pod, Some(&json!({"podAffinity": {}}))), None);
    }

    #[test]
    fn pods_with_the_same_labels_may_be_asked_or_made_to_keep_apart() {
        let term = json!({
            "labelSelector": {"matchLabels": {"app": "web", "tier": "front"}},
            "topologyKey": "kubernetes.io/hostname",
        });
        let soft = json!({"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "podAffinityTerm": term}],
        }});
        let hard = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
        }});
        let preset = |value| remote(&pod(&[("liqo.io/anti-affinity-preset", value)]), None);
        assert_eq!(preset("soft"), Some(soft));
        assert_eq!(preset("hard"), Some(hard));
    }

    #[test]
    fn the_labels_that_count_may_be_chosen() {
        let pod = pod(&[
            ("liqo.io/anti-affinity-preset", "hard"),
            ("liqo.io/anti-affinity-labels", "tier, pod-template-hash,missing"),
        ]);
        let affinity = remote(&pod, None).unwrap();
        let term =
            &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(
            term["labelSelector"]["matchLabels"],
            json!({"tier": "front", "pod-template-hash": "1"})
        );
    }

    fn own() -> Value {
        json!({"nodeAffinity": {}, "podAntiAffinity": {"own": true}})
    }

    fn pod(annotations: &[(&str, &str)]) -> ObjectMeta {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        ObjectMeta {
            labels: Some(map(&[
                ("app", "web"),
                ("tier", "front"),
                ("pod-template-hash", "1"),
                ("controller-revision-hash", "2"),
                ("statefulset.kubernetes.io/pod-name", "web-0"),
            ])),
            annotations: Some(map(annotations)),
            ..ObjectMeta::default()
        }
    }
}
