//! How a node is emptied: asking first, and in the end without asking.
//!
//! Pods are evicted, which respects their disruption budgets. A budget that never allows it must
//! not hold a whole peering for ever: after some time pods are deleted. Whoever deletes a pod waits
//! for its kubelet to say that its containers have ended; of a pod that never started, that can be
//! said at once.

use std::time::Duration;

/// What is done about a pod that has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is asked to leave; its disruption budget may say no.
    Evict,
    /// It is told to leave.
    Delete,
    /// It is leaving, and it is known that nothing of it runs: it may vanish.
    Confirm,
    /// It is leaving; its end is waited for.
    Await,
}

/// A pod of the node, as far as its departure is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Whether somebody has asked for its end.
    pub is_leaving: bool,
    /// Whether a container of it may be running somewhere.
    pub has_started: bool,
}

/// What is done about a pod after the node has been leaving for some time.
pub fn step(pod: Guest, leaving_for: Duration, patience: Duration) -> Step {
    if pod.is_leaving {
        return if pod.has_started && leaving_for < patience * 2 {
            Step::Await
        } else {
            Step::Confirm
        };
    }
    if leaving_for < patience { Step::Evict } else { Step::Delete }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    #[test]
    fn pods_are_asked_before_they_are_told() {
        let pod = pod(false, true);
        assert_eq!(step(pod, Duration::ZERO, PATIENCE), Step::Evict);
        assert_eq!(step(pod, PATIENCE, PATIENCE), Step::Delete);
    }

    #[test]
    fn the_end_of_a_pod_is_waited_for_but_not_for_ever() {
        assert_eq!(step(pod(true, true), PATIENCE, PATIENCE), Step::Await);
        assert_eq!(step(pod(true, true), PATIENCE * 2, PATIENCE), Step::Confirm);
        assert_eq!(step(pod(true, false), Duration::ZERO, PATIENCE), Step::Confirm);
    }

    fn pod(is_leaving: bool, has_started: bool) -> Guest {
        Guest { is_leaving, has_started }
    }
}
