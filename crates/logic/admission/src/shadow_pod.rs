//! ShadowPods: pods that another cluster runs here, each in a namespace of that cluster's.

use k8s_openapi::api::core::v1::{Container, Namespace, PodSpec};
use liqo_api::keys::label;
use liqo_api::virtualkubelet::ShadowPod;

use crate::Verdict;

/// Whether a ShadowPod may be created in a namespace.
pub fn validate_new(pod: &ShadowPod, namespace: &Namespace) -> Verdict {
    let Some(origin) = origin(pod) else { return nobody() };
    let labels = namespace.metadata.labels.as_ref();
    let tenant = labels.and_then(|labels| labels.get(label::REMOTE_CLUSTER_ID));
    if tenant.map(String::as_str) == Some(origin) {
        return Verdict::Allowed;
    }
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    Verdict::Denied(format!("namespace {name} is not for pods of cluster {origin}"))
}

/// Whether a ShadowPod may become another one: as a Pod may, and no other cluster's.
pub fn validate_change(old: &ShadowPod, new: &ShadowPod) -> Verdict {
    let (Some(before), Some(after)) = (origin(old), origin(new)) else { return nobody() };
    if before != after {
        return Verdict::Denied(format!(
            "the label {} cannot become another cluster's: it is {before}",
            label::ORIGIN
        ));
    }
    if fixed(&old.spec.pod) != fixed(&new.spec.pod) {
        return Verdict::denied(
            "of a ShadowPod's spec.pod, only images, activeDeadlineSeconds and tolerations can \
             change; delete it and create another",
        );
    }
    Verdict::Allowed
}

fn origin(pod: &ShadowPod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(label::ORIGIN).map(String::as_str).filter(|origin| !origin.is_empty())
}

fn nobody() -> Verdict {
    Verdict::Denied(format!("a ShadowPod needs the label {} of its cluster", label::ORIGIN))
}

/// A pod without what may change.
fn fixed(spec: &PodSpec) -> PodSpec {
    let without_image = |container: &Container| Container { image: None, ..container.clone() };
    let mut spec = spec.clone();
    spec.active_deadline_seconds = None;
    spec.tolerations = None;
    spec.containers = spec.containers.iter().map(without_image).collect();
    let init = spec.init_containers.as_ref();
    spec.init_containers = init.map(|list| list.iter().map(without_image).collect());
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_is_made_in_a_namespace_of_its_cluster_only() {
        let namespace = |labels: Value| -> Namespace {
            serde_json::from_value(json!({ "metadata": { "name": "shop", "labels": labels } }))
                .unwrap()
        };
        let hosted = namespace(json!({ "liqo.io/remote-cluster-id": "rome" }));
        assert_eq!(validate_new(&pod(Some("rome"), &json!({})), &hosted), Verdict::Allowed);
        for (origin, namespace) in [
            (Some("milan"), &hosted),
            (None, &hosted),
            (Some(""), &hosted),
            (Some("rome"), &namespace(json!({}))),
        ] {
            let verdict = validate_new(&pod(origin, &json!({})), namespace);
            assert!(matches!(verdict, Verdict::Denied(_)), "{origin:?}");
        }
    }

    #[test]
    fn a_pod_changes_as_pods_do() {
        let old = json!({ "containers": [{ "name": "a", "image": "a:1" }] });
        let image =
            json!({ "containers": [{ "name": "a", "image": "a:2" }], "activeDeadlineSeconds": 5 });
        let command = json!({ "containers": [{ "name": "a", "image": "a:1", "command": ["b"] }] });
        let change =
            |from, to, spec: &Value| validate_change(&pod(Some(from), &old), &pod(Some(to), spec));
        assert_eq!(change("rome", "rome", &image), Verdict::Allowed);
        assert!(matches!(change("rome", "rome", &command), Verdict::Denied(_)));
        assert!(matches!(change("rome", "milan", &old), Verdict::Denied(_)));
    }

    fn pod(origin: Option<&str>, spec: &Value) -> ShadowPod {
        let mut spec = spec.clone();
        if spec.get("containers").is_none() {
            spec["containers"] = json!([]);
        }
        let labels = origin.map(|origin| json!({ "virtualkubelet.liqo.io/origin": origin }));
        serde_json::from_value(json!({
            "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
            "kind": "ShadowPod",
            "metadata": { "name": "a", "labels": labels },
            "spec": { "pod": spec },
        }))
        .unwrap()
    }
}
