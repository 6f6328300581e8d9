//! What a NamespaceOffloading says of itself: conditions for every cluster, and a phase for all.
//!
//! ```text
//!  to go ──────────────────────> Terminating     as many ready as asked ──> Ready
//!  no cluster is asked ────────> NoClusterSelected    all failed ─────────> AllFailed
//!  everything else ────────────> InProgress           some failed ────────> SomeFailed
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use liqo_api::Time;
use liqo_api::condition::{remote_namespace_is, set};
use liqo_api::keys::reason;
use liqo_api::offloading::{
    ConditionStatus, OffloadingPhase, RemoteNamespaceCondition,
    RemoteNamespaceConditionType as Kind,
};
use liqo_api::virtualkubelet::MappingPhase;

/// Conditions of all clusters, by the names of their NamespaceMaps.
pub type Conditions = BTreeMap<String, Vec<RemoteNamespaceCondition>>;

/// The conditions of a namespace in one cluster, from those before.
///
/// `asked` says whether the cluster is asked for the namespace, `phase` what it answered.
pub fn conditions(
    before: &[RemoteNamespaceCondition],
    asked: bool,
    phase: Option<MappingPhase>,
    now: Timestamp,
) -> Vec<RemoteNamespaceCondition> {
    let mut conditions = before.to_vec();
    let mut say = |kind, status, reason: &str, message: &str| {
        set(
            &mut conditions,
            RemoteNamespaceCondition::new(kind, status, reason, message, Time(now)),
        );
    };
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    if asked {
        let message = "The remote cluster has been selected through the ClusterSelector field";
        say(Kind::OffloadingRequired, yes, reason::CLUSTER_SELECTED, message);
    } else {
        let message = "The remote cluster has not been selected through the ClusterSelector field";
        say(Kind::OffloadingRequired, no, reason::CLUSTER_NOT_SELECTED, message);
    }
    match phase {
        Some(MappingPhase::Accepted) => {
            let message = "Namespace correctly offloaded to the remote cluster";
            say(Kind::Ready, yes, reason::NAMESPACE_CREATED, message);
        }
        Some(MappingPhase::CreationLoopBackOff) => {
            let message = "The remote cluster cannot create the namespace, and tries again: most \
                           likely it has one of that name already";
            say(Kind::Ready, no, reason::CREATION_LOOP_BACK_OFF, message);
        }
        Some(MappingPhase::Terminating) => {
            let message = "The remote cluster is removing the namespace";
            say(Kind::Ready, no, reason::TERMINATING, message);
        }
        None if asked => {
            let message = "The remote cluster has been asked for the namespace";
            say(Kind::Ready, no, reason::CREATING, message);
        }
        None => conditions.retain(|condition| condition.kind != Kind::Ready),
    }
    conditions.sort_by_key(|condition| condition.kind);
    conditions
}

/// Sums conditions up.
pub fn phase(conditions: &Conditions, is_ending: bool) -> OffloadingPhase {
    let asked = || {
        let all = conditions.values();
        all.filter(|conditions| remote_namespace_is(conditions, Kind::OffloadingRequired))
    };
    let failed = |conditions: &&Vec<RemoteNamespaceCondition>| {
        conditions.iter().any(|one| one.reason.as_deref() == Some(reason::CREATION_LOOP_BACK_OFF))
    };
    let ready = asked().filter(|conditions| remote_namespace_is(conditions, Kind::Ready)).count();
    let (asked, failed) = (asked().count(), asked().filter(failed).count());
    if is_ending {
        OffloadingPhase::Terminating
    } else if asked == 0 {
        OffloadingPhase::NoClusterSelected
    } else if ready == asked {
        OffloadingPhase::Ready
    } else if failed == asked {
        OffloadingPhase::AllFailed
    } else if failed > 0 {
        OffloadingPhase::SomeFailed
    } else {
        OffloadingPhase::InProgress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MappingPhase::{Accepted, CreationLoopBackOff, Terminating};

    #[test]
    fn conditions_say_what_was_asked_and_what_came_of_it() {
        for (asked, phase, want) in [
            (true, Some(Accepted), "True ClusterSelected, True NamespaceCreated"),
            (true, Some(CreationLoopBackOff), "True ClusterSelected, False CreationLoopBackOff"),
            (true, None, "True ClusterSelected, False Creating"),
            (false, Some(Terminating), "False ClusterNotSelected, False Terminating"),
            (false, None, "False ClusterNotSelected"),
        ] {
            assert_eq!(told(&conditions(&[], asked, phase, at(0))), want);
        }
    }

    #[test]
    fn what_did_not_change_keeps_its_time() {
        let before = conditions(&[], true, None, at(0));
        let after = conditions(&before, true, Some(Accepted), at(5));
        assert_eq!(after[0], before[0]);
        assert_eq!(after[1].last_transition_time, Some(Time(at(5))));
        assert_eq!(conditions(&after, true, Some(Accepted), at(9)), after);
    }

    #[test]
    fn a_cluster_that_is_done_with_is_not_ready_nor_unready() {
        let before = conditions(&[], false, Some(Terminating), at(0));
        assert_eq!(told(&conditions(&before, false, None, at(1))), "False ClusterNotSelected");
    }

    #[test]
    fn the_phase_sums_up() {
        let of = |states: &[(bool, Option<MappingPhase>)]| {
            let states = states.iter().enumerate();
            let all = states
                .map(|(index, (asked, phase))| {
                    (index.to_string(), conditions(&[], *asked, *phase, at(0)))
                })
                .collect();
            phase(&all, false)
        };
        let (ready, failed, waiting, other) = (
            (true, Some(Accepted)),
            (true, Some(CreationLoopBackOff)),
            (true, None),
            (false, None),
        );
        assert_eq!(of(&[]), OffloadingPhase::NoClusterSelected);
        assert_eq!(of(&[other]), OffloadingPhase::NoClusterSelected);
        assert_eq!(of(&[ready, other]), OffloadingPhase::Ready);
        assert_eq!(of(&[ready, waiting]), OffloadingPhase::InProgress);
        assert_eq!(of(&[ready, failed]), OffloadingPhase::SomeFailed);
        assert_eq!(of(&[waiting, failed]), OffloadingPhase::SomeFailed);
        assert_eq!(of(&[failed, other]), OffloadingPhase::AllFailed);
        assert_eq!(phase(&Conditions::new(), true), OffloadingPhase::Terminating);
    }

    fn told(conditions: &[RemoteNamespaceCondition]) -> String {
        let texts = conditions
            .iter()
            .map(|one| format!("{:?} {}", one.status, one.reason.as_deref().unwrap_or_default()));
        texts.collect::<Vec<_>>().join(", ")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
