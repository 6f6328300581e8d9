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
        return match presumption(&pod.spec.pod) {
            Some(why) => Verdict::Denied(why),
            None => Verdict::Allowed,
        };
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
             change, and ephemeralContainers be added; delete it and create another",
        );
    }
    if !only_adds(&old.spec.pod, &new.spec.pod) {
        return Verdict::denied(
            "the ephemeralContainers of a ShadowPod can neither be changed nor removed; add others",
        );
    }
    Verdict::Allowed
}

/// What a pod asks for that pods of other clusters are never given, and no virtual kubelet asks for.
///
/// These are ways out of the pod's namespace that no policy of pods would see: the host's own
/// namespaces, a node that the scheduler did not choose, rank before this cluster's own pods, and
/// credentials of this cluster. What a pod may do on its node otherwise is left to the policies of
/// this cluster, which see the Pod as they see any other.
pub fn presumption(spec: &PodSpec) -> Option<String> {
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let other_account =
        |text: &Option<String>| text.as_deref().is_some_and(|text| !matches!(text, "" | "default"));
    let takes_tokens = spec.volumes.iter().flatten().any(|volume| {
        let sources =
            volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        sources.into_iter().any(|source| source.service_account_token.is_some())
    });
    let asked = [
        ("hostNetwork", spec.host_network == Some(true)),
        ("hostPID", spec.host_pid == Some(true)),
        ("hostIPC", spec.host_ipc == Some(true)),
        ("nodeName", is_set(&spec.node_name)),
        ("priorityClassName", is_set(&spec.priority_class_name)),
        ("priority", spec.priority.is_some()),
        ("serviceAccountName", other_account(&spec.service_account_name)),
        ("serviceAccount", other_account(&spec.service_account)),
        ("automountServiceAccountToken", spec.automount_service_account_token == Some(true)),
        ("a serviceAccountToken of this cluster", takes_tokens),
    ];
    let asked: Vec<&str> =
        asked.into_iter().filter_map(|(name, is_asked)| is_asked.then_some(name)).collect();
    (!asked.is_empty()).then(|| format!("pods of other clusters cannot have {}", asked.join(", ")))
}

fn origin(pod: &ShadowPod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(label::ORIGIN).map(String::as_str).filter(|origin| !origin.is_empty())
}

fn nobody() -> Verdict {
    Verdict::Denied(format!("a ShadowPod needs the label {} of its cluster", label::ORIGIN))
}

/// Whether the containers that were added to a running pod are still all there, as they were.
fn only_adds(old: &PodSpec, new: &PodSpec) -> bool {
    let all = new.ephemeral_containers.as_deref().unwrap_or_default();
    old.ephemeral_containers.iter().flatten().all(|container| all.contains(container))
}

/// A pod without what may change.
fn fixed(spec: &PodSpec) -> PodSpec {
    let without_image = |container: &Container| Container { image: None, ..container.clone() };
    let mut spec = spec.clone();
    spec.active_deadline_seconds = None;
    spec.tolerations = None;
    spec.ephemeral_containers = None;
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
    fn a_pod_cannot_have_what_is_this_clusters_own() {
        let token = json!({ "serviceAccountToken": { "path": "token" } });
        let volume = json!({ "name": "a", "projected": { "sources": [token] } });
        for wrong in [
            json!({ "hostNetwork": true }),
            json!({ "hostPID": true }),
            json!({ "hostIPC": true }),
            json!({ "nodeName": "master" }),
            json!({ "priorityClassName": "system-node-critical" }),
            json!({ "priority": 2_000_000_000 }),
            json!({ "serviceAccountName": "admin" }),
            json!({ "automountServiceAccountToken": true }),
            json!({ "volumes": [volume] }),
        ] {
            let why = presumption(&pod(None, &wrong).spec.pod);
            assert!(why.is_some_and(|why| why.starts_with("pods of other clusters")), "{wrong}");
        }
        let fine = json!({
            "hostNetwork": false, "automountServiceAccountToken": false, "nodeName": "",
            "serviceAccountName": "default",
        });
        assert_eq!(presumption(&pod(None, &fine).spec.pod), None);
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

    #[test]
    fn containers_are_added_to_a_pod_and_stay() {
        let with = |debuggers: Value| {
            pod(Some("rome"), &json!({ "containers": [], "ephemeralContainers": debuggers }))
        };
        let one = json!({ "name": "one", "image": "a" });
        let two = json!({ "name": "two", "image": "b" });
        let other = json!({ "name": "one", "image": "b" });
        let (none, first) = (pod(Some("rome"), &json!({})), with(json!([one])));
        let both = with(json!([one, two]));
        assert_eq!(validate_change(&none, &first), Verdict::Allowed);
        assert_eq!(validate_change(&first, &both), Verdict::Allowed);
        for (old, new) in [(&first, &none), (&both, &first), (&first, &with(json!([other, two])))] {
            assert!(matches!(validate_change(old, new), Verdict::Denied(_)), "{new:?}");
        }
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
