//! What is read of pods: where they are, and who they are; the rest never stays in memory.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt as _;
use liqo_api::keys::{annotation, component, label};
use liqo_fabric::node::{Neighbour, Place};

/// The phases of pods that have ended.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

/// Which labels a pod that has a [`place`] may not have.
pub(crate) fn labels() -> String {
    format!("!{}", label::SHADOW_POD)
}

/// What is so of each pod that has a [`place`]: of the others, whose changes are most of all, an API
/// server need not tell.
pub(crate) fn fields() -> String {
    let has_ended = ENDED.map(|phase| format!("status.phase!={phase}"));
    format!("status.podIP!=,{}", has_ended.join(","))
}

/// Forgets what nobody reads.
pub(crate) fn trim(pod: &mut Pod) {
    pod.spec = None;
    pod.metadata.owner_references = None;
    let read = [label::APP_NAME, label::APP_COMPONENT, label::SHADOW_POD];
    if let Some(labels) = &mut pod.metadata.labels {
        labels.retain(|key, _| read.contains(&key.as_str()));
    }
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key == annotation::VXLAN_MAC);
    }
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        pod_ip: status.pod_ip,
        host_ip: status.host_ip,
        ..PodStatus::default()
    });
}

/// Where a pod is; nothing for one that has no address, has ended, or runs in another cluster.
pub(crate) fn place(pod: &Pod) -> Option<Place> {
    let status = pod.status.as_ref()?;
    let has_ended = status.phase.as_deref().is_some_and(|phase| ENDED.contains(&phase));
    if has_ended || pod.labels().contains_key(label::SHADOW_POD) {
        return None;
    }
    let address = |text: &Option<String>| text.as_ref()?.parse::<Ipv4Addr>().ok();
    Some(Place { pod: address(&status.pod_ip)?, node: address(&status.host_ip)? })
}

/// All of a pod that routes follow from; nothing when that is nothing.
pub(crate) fn facts(pod: &Pod, namespace: &str) -> Option<(Place, Option<Neighbour>)> {
    let neighbour = if is_route(pod, namespace) { neighbour(pod) } else { None };
    Some((place(pod)?, neighbour))
}

/// Whether a pod keeps the routes of a node, whatever the release is called.
pub(crate) fn is_route(pod: &Pod, namespace: &str) -> bool {
    let is = |key: &str, value: &str| pod.labels().get(key).is_some_and(|found| found == value);
    pod.namespace().as_deref() == Some(namespace)
        && is(label::APP_NAME, component::ROUTE)
        && is(label::APP_COMPONENT, component::MODULE_NETWORKING)
}

/// The node of a pod that keeps its routes; nothing while that pod has no address, or is on its way
/// out.
pub(crate) fn neighbour(pod: &Pod) -> Option<Neighbour> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let Place { pod: address, .. } = place(pod)?;
    let mac = pod.annotations().get(annotation::VXLAN_MAC);
    Some(Neighbour { address, mac: mac.and_then(|mac| mac.parse().ok()) })
}

/// All nodes with somebody to keep their routes; of two on one node, the one that told more.
pub(crate) fn neighbours<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> BTreeSet<Neighbour> {
    let found: BTreeSet<Neighbour> = pods.into_iter().filter_map(neighbour).collect();
    let told: BTreeSet<Ipv4Addr> =
        found.iter().filter(|one| one.mac.is_some()).map(|one| one.address).collect();
    found.into_iter().filter(|one| one.mac.is_some() || !told.contains(&one.address)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_are_elsewhere_or_over_have_no_place() {
        assert!(place(&pod("Running", &json!({}))).is_some());
        assert!(place(&pod("Succeeded", &json!({}))).is_none());
        assert!(place(&pod("Running", &json!({ "liqo.io/shadowPod": "true" }))).is_none());
    }

    #[test]
    fn only_pods_that_may_have_a_place_are_asked_for() {
        assert_eq!(labels(), "!liqo.io/shadowPod");
        assert_eq!(fields(), "status.podIP!=,status.phase!=Succeeded,status.phase!=Failed");
    }

    #[test]
    fn a_route_pod_is_known_whatever_the_release_is_called() {
        let labels = json!({
            "app.kubernetes.io/name": "route",
            "app.kubernetes.io/component": "networking",
            "app.kubernetes.io/instance": "other-route",
        });
        let mut pod = pod("Running", &labels);
        assert!(is_route(&pod, "liqo") && !is_route(&pod, "default"));
        trim(&mut pod);
        assert!(is_route(&pod, "liqo"));
        let address = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(neighbour(&pod), Some(Neighbour { address, mac: None }));
    }

    #[test]
    fn routes_follow_from_little_of_a_pod() {
        let mut one = pod("Pending", &json!({ "app": "a" }));
        let facts_of = |pod: &Pod| facts(pod, "liqo").map(|(place, near)| (place.pod, near));
        let before = facts_of(&one);
        assert_eq!(before, Some((Ipv4Addr::new(10, 0, 0, 1), None)));
        one.metadata.labels = None;
        one.status.as_mut().unwrap().phase = Some("Running".to_owned());
        assert_eq!(facts_of(&one), before);
        one.status.as_mut().unwrap().pod_ip = None;
        assert_eq!(facts_of(&one), None);
    }

    fn pod(phase: &str, labels: &serde_json::Value) -> Pod {
        let pod = json!({
            "metadata": { "name": "a", "namespace": "liqo", "labels": labels },
            "status": { "phase": phase, "podIP": "10.0.0.1", "hostIP": "172.30.0.2" },
        });
        serde_json::from_value(pod).unwrap()
    }
}
