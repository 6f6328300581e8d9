//! How far an offloading has come, for somebody who waits for it.

use liqo_api::condition::remote_namespace_is;
use liqo_api::offloading::{
    NamespaceOffloading, OffloadingPhase, RemoteNamespaceCondition,
    RemoteNamespaceConditionType as Kind,
};

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// These clusters are waited for; none when nobody has looked at it yet.
    Waiting(Vec<String>),
    /// It is done: the name elsewhere, and the clusters.
    Done(String, Vec<String>),
    /// It is done, and no cluster is selected.
    Nowhere,
    /// These clusters cannot have the namespace, for these reasons.
    Failed(Vec<(String, String)>),
}

/// How far a generation of a NamespaceOffloading has come.
pub fn of(offloading: &NamespaceOffloading, generation: Option<i64>) -> Progress {
    let status = offloading.status.clone().unwrap_or_default();
    if status.observed_generation < generation {
        return Progress::Waiting(vec![]);
    }
    let asked = || {
        let all = status.remote_namespaces_conditions.iter();
        all.filter(|(_, conditions)| remote_namespace_is(conditions, Kind::OffloadingRequired))
    };
    let is_ready =
        |conditions: &[RemoteNamespaceCondition]| remote_namespace_is(conditions, Kind::Ready);
    match status.offloading_phase {
        Some(OffloadingPhase::Ready) => Progress::Done(
            status.remote_namespace_name.clone().unwrap_or_default(),
            asked().map(|(name, _)| name.clone()).collect(),
        ),
        Some(OffloadingPhase::NoClusterSelected) => Progress::Nowhere,
        Some(OffloadingPhase::SomeFailed | OffloadingPhase::AllFailed) => {
            let failed = asked().filter(|(_, conditions)| !is_ready(conditions));
            let why = |conditions: &[RemoteNamespaceCondition]| {
                let ready = conditions.iter().find(|one| one.kind == Kind::Ready);
                ready.and_then(|one| one.message.clone()).unwrap_or_default()
            };
            Progress::Failed(failed.map(|(name, list)| (name.clone(), why(list))).collect())
        }
        Some(OffloadingPhase::InProgress | OffloadingPhase::Terminating) | None => {
            let waiting = status.remote_namespaces_conditions.iter();
            let waiting = waiting.filter(|(_, conditions)| {
                let is_asked = remote_namespace_is(conditions, Kind::OffloadingRequired);
                let is_ending = status.offloading_phase == Some(OffloadingPhase::Terminating);
                is_ending || is_asked && !is_ready(conditions)
            });
            Progress::Waiting(waiting.map(|(name, _)| name.clone()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_was_not_looked_at_yet_is_waited_for() {
        let old = offloading(&json!({ "observedGeneration": 1, "offloadingPhase": "Ready" }));
        assert_eq!(of(&old, Some(2)), Progress::Waiting(vec![]));
        assert_eq!(of(&offloading(&json!({})), Some(1)), Progress::Waiting(vec![]));
    }

    #[test]
    fn the_phase_says_what_is_told() {
        let of = |phase: &str| {
            let conditions = json!({
                "milan-ee0b4a": [required("True"), ready("False", "taken")],
                "naples-5eada1": [required("True"), ready("True", "fine")],
                "turin-0a0a0a": [required("False")],
            });
            let status = json!({
                "observedGeneration": 1, "offloadingPhase": phase, "remoteNamespaceName": "shop",
                "remoteNamespacesConditions": conditions,
            });
            of(&offloading(&status), Some(1))
        };
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let both = texts(&["milan-ee0b4a", "naples-5eada1"]);
        assert_eq!(of("Ready"), Progress::Done("shop".to_owned(), both));
        assert_eq!(of("NoClusterSelected"), Progress::Nowhere);
        let taken = ("milan-ee0b4a".to_owned(), "taken".to_owned());
        assert_eq!(of("SomeFailed"), Progress::Failed(vec![taken]));
        assert_eq!(of("InProgress"), Progress::Waiting(texts(&["milan-ee0b4a"])));
        let all = texts(&["milan-ee0b4a", "naples-5eada1", "turin-0a0a0a"]);
        assert_eq!(of("Terminating"), Progress::Waiting(all));
    }

    fn required(status: &str) -> Value {
        json!({ "type": "OffloadingRequired", "status": status })
    }

    fn ready(status: &str, message: &str) -> Value {
        json!({ "type": "Ready", "status": status, "message": message })
    }

    fn offloading(status: &Value) -> NamespaceOffloading {
        serde_json::from_value(json!({
            "apiVersion": "offloading.liqo.io/v1alpha1",
            "kind": "NamespaceOffloading",
            "metadata": { "name": "offloading", "namespace": "shop" },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }
}
