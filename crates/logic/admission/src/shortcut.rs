//! Pods that only one node may take, bound to it as they enter, where that is asked for.
//!
//! A scheduler is there to choose. Where the namespace leaves its pods a single node there is nothing to
//! choose, and two requests and an Event are spared. Whatever else a scheduler has to see to (volumes,
//! other pods, gates, claims, ports of the host, groups) stays with it, and so does a node that takes
//! no new pods now. It does not see whether there is room: that is for the other cluster to say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Node, NodeSelector, Pod, PodSpec, Taint, Toleration};
use liqo_api::keys::{annotation, node};
use liqo_api::offloading::{NamespaceOffloading, PodOffloadingStrategy};
use liqo_offloading::selector::Selector;

/// The scheduler that does nothing for a pod that this would spare it.
const USUAL: &str = "default-scheduler";

/// Whether pods of a namespace are bound as they enter, where that can be.
pub fn is_wanted(offloading: &NamespaceOffloading) -> bool {
    let annotations = offloading.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(annotation::SKIP_SCHEDULER));
    let strategy = offloading.spec.pod_offloading_strategy;
    strategy == PodOffloadingStrategy::Remote && value.is_some_and(|value| value == "true")
}

/// A pod that was placed, bound to the only one of all virtual nodes that may take it, if there is one.
pub fn bound<'a>(mut pod: Pod, nodes: impl IntoIterator<Item = &'a Node>) -> Pod {
    if let Some(spec) = &mut pod.spec
        && needs_no_scheduler(spec)
        && let Some(node) = only_node(spec, nodes)
    {
        spec.node_name = Some(node.to_owned());
    }
    pod
}

/// Whether all that a scheduler would do for a pod is to look for a node by what nodes say of themselves.
fn needs_no_scheduler(spec: &PodSpec) -> bool {
    fn is_none<T>(list: Option<&Vec<T>>) -> bool {
        list.is_none_or(Vec::is_empty)
    }
    let is_usual = spec.scheduler_name.as_deref().is_none_or(|name| name == USUAL);
    let is_free = spec.node_name.as_deref().is_none_or(str::is_empty);
    let of_others = |affinity: &Affinity| {
        affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some()
    };
    let mut volumes = spec.volumes.iter().flatten();
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    is_usual
        && is_free
        && is_none(spec.scheduling_gates.as_ref())
        && is_none(spec.resource_claims.as_ref())
        && is_none(spec.topology_spread_constraints.as_ref())
        && spec.scheduling_group.is_none()
        && !spec.affinity.as_ref().is_some_and(of_others)
        && !volumes.any(|it| it.persistent_volume_claim.is_some() || it.ephemeral.is_some())
        && !containers.any(|container| {
            container.ports.iter().flatten().any(|port| port.host_port.is_some_and(|port| port > 0))
        })
}

/// The node that a pod selects, if it selects just one, and that one takes it.
fn only_node<'a>(spec: &PodSpec, nodes: impl IntoIterator<Item = &'a Node>) -> Option<&'a str> {
    let required = required(spec);
    // What makes no sense is for the API server or the scheduler to complain about.
    let selector = Selector::read(required).ok()?;
    let labels = spec.node_selector.as_ref();
    let mut selected = nodes.into_iter().filter(|node| {
        let has = node.metadata.labels.as_ref();
        let name = node.metadata.name.as_deref().unwrap_or_default();
        selector.selects(name, has.unwrap_or(&BTreeMap::new()))
            && labels.into_iter().flatten().all(|(label, value)| {
                has.and_then(|has| has.get(label)).is_some_and(|other| other == value)
            })
    });
    let (Some(node), None) = (selected.next(), selected.next()) else { return None };
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    takes_pods(node, tolerations).then_some(node.metadata.name.as_deref()).flatten()
}

fn required(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Whether a node takes new pods with these tolerations now.
fn takes_pods(place: &Node, tolerations: &[Toleration]) -> bool {
    let conditions = place.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|one| one.type_ == node::READY && one.status == "True");
    let spec = place.spec.as_ref();
    let is_cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    let is_leaving = place.metadata.deletion_timestamp.is_some();
    let mut taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let tolerates = |taint: &Taint| tolerations.iter().any(|one| tolerates(one, taint));
    is_ready
        && !is_cordoned
        && !is_leaving
        && taints.all(|taint| taint.effect == "PreferNoSchedule" || tolerates(taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any = |wanted: Option<&str>, found: &str| match wanted {
        None | Some("") => true,
        Some(wanted) => wanted == found,
    };
    any(toleration.effect.as_deref(), &taint.effect)
        && match toleration.operator.as_deref() {
            Some("Exists") => any(toleration.key.as_deref(), &taint.key),
            None | Some("" | "Equal") => {
                let value = |value: Option<&String>| value.cloned().unwrap_or_default();
                toleration.key.as_ref() == Some(&taint.key)
                    && value(toleration.value.as_ref()) == value(taint.value.as_ref())
            }
            Some(_) => false,
        }
}

#[cfg(test)]
mod tests;
