//! The status that a pod here has from the one there.
//!
//! It is that of the pod there, except for what means something else here: addresses, the number of
//! restarts, and what the API server and the scheduler of this cluster have said.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{label, node};
use liqo_replication::patch;
use serde_json::{Map, Value, json};

use crate::lean::HomePod;

/// What this cluster says of a pod, and the other one cannot know.
const OURS: [&str; 5] = [
    "extendedResourceClaimStatus",
    "nominatedNodeName",
    "observedGeneration",
    "qosClass",
    "resourceClaimStatuses",
];
/// The condition that somebody here has asked for the pod's place.
const DISRUPTION: &str = "DisruptionTarget";
/// The condition that a scheduler has found a place.
const SCHEDULED: &str = "PodScheduled";

/// Why containers do not run yet, when all is well.
const BEING_MADE: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// What is to be said of a pod in place of what the other cluster says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The address of the node that it runs on, as seen here.
    pub node: IpAddr,
    /// Its own addresses, as seen here; none when they are not told.
    pub addresses: Vec<IpAddr>,
    /// Restarts that the pod there does not know of.
    pub restarts: i64,
}

/// The addresses of a pod in the other cluster.
pub fn addresses(remote: &Value) -> Vec<IpAddr> {
    let listed = remote.get("podIPs").and_then(Value::as_array).into_iter().flatten();
    let listed: Vec<IpAddr> = listed.filter_map(|item| address(item.get("ip"))).collect();
    if listed.is_empty() { address(remote.get("podIP")).into_iter().collect() } else { listed }
}

fn address(value: Option<&Value>) -> Option<IpAddr> {
    value?.as_str()?.parse().ok()
}

/// The status of a pod here, from the status of the pod there and the one it has.
pub fn home(remote: &Value, have: &Value, translation: &Translation) -> Value {
    let mut status: Map<String, Value> = remote.as_object().cloned().unwrap_or_default();
    for field in OURS {
        status.remove(field);
        if let Some(value) = have.get(field) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    let single = translation.addresses.first();
    place_addresses(&mut status, "podIP", "podIPs", single, &translation.addresses);
    // A pod has a host once a node there has taken it.
    let host = status.get("hostIP").map(|_| translation.node);
    place_addresses(&mut status, "hostIP", "hostIPs", host.as_ref(), host.as_slice());
    if let Some(Value::Array(containers)) = status.get_mut("containerStatuses") {
        for container in containers {
            let known = container.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
            if translation.restarts > 0
                && let Value::Object(container) = container
            {
                let count = known.saturating_add(translation.restarts);
                container.insert("restartCount".to_owned(), count.into());
            }
        }
    }
    let conditions = conditions(status.get("conditions"), have.get("conditions"));
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Value::Object(status)
}

fn place_addresses(
    status: &mut Map<String, Value>,
    one: &str,
    all: &str,
    single: Option<&IpAddr>,
    list: &[IpAddr],
) {
    status.remove(one);
    status.remove(all);
    if let Some(single) = single {
        status.insert(one.to_owned(), json!(single));
        let list = list.iter().map(|address| json!({ "ip": address })).collect();
        status.insert(all.to_owned(), list);
    }
}

/// The conditions of the pod there, with what is known better here.
fn conditions(remote: Option<&Value>, have: Option<&Value>) -> Vec<Value> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (remote, have) = (list(remote), list(have));
    let is = |condition: &Value, kind: &str| condition.get("type") == Some(&json!(kind));
    let mut conditions: Vec<Value> = remote
        .into_iter()
        .map(|mut condition| {
            // It counts the changes of another object.
            if let Value::Object(fields) = &mut condition {
                fields.remove("observedGeneration");
            }
            // A place was found when the pod was bound here, not when it was there.
            let ours = have
                .iter()
                .find(|ours| is(ours, SCHEDULED) && is(&condition, SCHEDULED) && is_true(ours));
            match ours {
                Some(ours) if is_true(&condition) => ours.clone(),
                Some(_) | None => condition,
            }
        })
        .collect();
    if !conditions.iter().any(|condition| is(condition, DISRUPTION)) {
        conditions.extend(have.iter().find(|condition| is(condition, DISRUPTION)).cloned());
    }
    conditions
}

fn is_true(condition: &Value) -> bool {
    condition.get("status") == Some(&json!("True"))
}

/// Why a pod does not run in the other cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It never did.
    BackOff,
    /// It did, and does not any more.
    Aborted,
}

/// The status of a pod that does not run in the other cluster.
pub fn rejected(have: &Value, rejection: Rejection, message: &str, now: Timestamp) -> Value {
    let (phase, reason) = match rejection {
        Rejection::BackOff => ("Pending", node::OFFLOADING_BACK_OFF),
        Rejection::Aborted => ("Failed", node::OFFLOADING_ABORTED),
    };
    let mut status = have.as_object().cloned().unwrap_or_default();
    status.insert("phase".to_owned(), phase.into());
    status.insert("reason".to_owned(), reason.into());
    status.insert("message".to_owned(), message.into());
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for condition in items(status.get_mut("conditions")).filter(|condition| is_true(condition)) {
        if let Value::Object(condition) = condition {
            condition.insert("status".to_owned(), "False".into());
            condition.insert("reason".to_owned(), reason.into());
            condition.insert("lastTransitionTime".to_owned(), now.clone().into());
        }
    }
    for container in items(status.get_mut("containerStatuses")) {
        if let Value::Object(container) = container {
            container.insert("ready".to_owned(), false.into());
        }
    }
    Value::Object(status)
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// The change from one status of a pod to another, for this very pod; none when it has it.
pub fn change(pod: &ObjectMeta, have: &Value, want: &Value) -> Option<Value> {
    Some(patch::of_field(pod, "status", patch::between(have, want)?))
}

/// The same for a pod that runs elsewhere, which is marked as such with it: whoever counts what runs
/// here never takes it for one of them.
pub fn marked_change(pod: &HomePod, have: &Value, want: &Value) -> Option<Value> {
    let mut change = change(&pod.metadata, have, want)?;
    if !pod.is_marked() {
        change["metadata"]["labels"] = json!({ label::SHADOW_POD: label::TRUE });
    }
    Some(change)
}

/// What a change of a status may wait for, a moment at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: somebody looks at it, or acts on it.
    Not,
    /// The next change of the same pod, which often makes this one needless: it is leaving, and about to
    /// be gone.
    ForNext,
    /// The same: its containers are being made, and it is about to run.
    ForStart,
    /// Pods that start at the same time, if there are many: whoever made all of them counts them with
    /// each change, so that a few together cost less than each on its own.
    ForOthers,
}

/// What a change from one status of a pod to another may wait for.
pub fn wait(pod: &HomePod, have: &Value, want: &Value) -> Wait {
    let phase = |status: &Value| status.get("phase").cloned().unwrap_or_default();
    let is_ending = phase(want) == "Succeeded" || phase(want) == "Failed";
    if want == have {
        return Wait::Not;
    }
    if pod.is_leaving() {
        // Others act on how a pod has ended.
        return if is_ending { Wait::Not } else { Wait::ForNext };
    }
    let is_worrying = have.get("reason").is_some() || want.get("reason").is_some();
    if phase(have) != "Pending" || is_ending || is_worrying {
        return Wait::Not;
    }
    if phase(want) == "Running" {
        return Wait::ForOthers;
    }
    let lists = ["containerStatuses", "initContainerStatuses"].into_iter();
    let mut containers =
        lists.filter_map(|list| want.get(list)?.as_array()).flatten().map(|container| {
            container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default()
        });
    let is_being_made = containers.all(|reason| BEING_MADE.contains(&reason));
    if is_being_made { Wait::ForStart } else { Wait::Not }
}

/// How often a pod has been made anew in the other cluster, as far as containers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarts {
    /// The pod there that was seen last.
    pub pod: String,
    /// What is added to its own count.
    pub more: i64,
}

impl Restarts {
    /// Counts on when another pod has taken the place of the last one.
    ///
    /// What was shown never goes down: the restarts of the last pod count as well. Whoever has seen
    /// no pod before goes by what is shown; of a pod without containers there is nothing to say.
    pub fn next(last: Option<&Self>, pod: &str, remote: &Value, have: &Value) -> Option<Self> {
        let (there, shown) = (first_count(remote), first_count(have));
        let more = match (last, there) {
            (Some(last), _) if last.pod == pod => last.more,
            (Some(last), _) => shown.unwrap_or(last.more).max(last.more).saturating_add(1),
            (None, None) => return None,
            (None, Some(there)) => shown.unwrap_or_default().saturating_sub(there).max(0),
        };
        Some(Self { pod: pod.to_owned(), more })
    }
}

fn first_count(status: &Value) -> Option<i64> {
    status.pointer("/containerStatuses/0/restartCount")?.as_i64()
}

#[cfg(test)]
mod tests;
