//! Sets conditions: what changed is stamped with a time, what did not keeps its own.
//!
//! The time comes with the new condition, so that the same observation always gives the same list.
//! Conditions stay in the order in which they were first set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::discovery::{PeeringCondition, PeeringConditionStatus, PeeringConditionType};
use crate::offloading::{ConditionStatus, RemoteNamespaceCondition, RemoteNamespaceConditionType};

/// What is common to the conditions of all resources.
pub trait Condition {
    /// Whether both are about the same aspect.
    fn is_about_the_same(&self, other: &Self) -> bool;

    /// Whether both say the same of it, whatever their time.
    fn says_the_same(&self, other: &Self) -> bool;
}

/// Puts a condition in the place of the one about the same aspect, and says whether that changed
/// anything.
///
/// A condition that says what is already known is dropped, and its time with it.
pub fn set<C: Condition>(conditions: &mut Vec<C>, new: C) -> bool {
    match conditions.iter_mut().find(|old| old.is_about_the_same(&new)) {
        Some(old) if old.says_the_same(&new) => return false,
        Some(old) => *old = new,
        None => conditions.push(new),
    }
    true
}

/// How far an aspect of a peering has come; one that was never set has not begun.
pub fn peering_status(
    conditions: &[PeeringCondition],
    kind: PeeringConditionType,
) -> PeeringConditionStatus {
    conditions
        .iter()
        .find(|condition| condition.kind == kind)
        .map_or(PeeringConditionStatus::None, |condition| condition.status)
}

/// Whether an aspect of a namespace in another cluster is known to hold.
pub fn remote_namespace_is(
    conditions: &[RemoteNamespaceCondition],
    kind: RemoteNamespaceConditionType,
) -> bool {
    conditions
        .iter()
        .any(|condition| condition.kind == kind && condition.status == ConditionStatus::True)
}

impl PeeringCondition {
    /// A condition that begins now.
    pub fn new(
        kind: PeeringConditionType,
        status: PeeringConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Time,
    ) -> Self {
        Self {
            kind,
            status,
            last_transition_time: Some(now),
            reason: Some(reason.into()),
            message: Some(message.into()),
        }
    }
}

impl Condition for PeeringCondition {
    fn is_about_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (self.status, &self.reason, &self.message) == (other.status, &other.reason, &other.message)
    }
}

impl RemoteNamespaceCondition {
    /// A condition that begins now.
    pub fn new(
        kind: RemoteNamespaceConditionType,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Time,
    ) -> Self {
        Self {
            kind,
            status,
            last_transition_time: Some(now),
            reason: Some(reason.into()),
            message: Some(message.into()),
        }
    }
}

impl Condition for RemoteNamespaceCondition {
    fn is_about_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind
    }

    /// A new message alone is not worth a write.
    fn says_the_same(&self, other: &Self) -> bool {
        (self.status, &self.reason) == (other.status, &other.reason)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::reason;

    #[test]
    fn a_condition_that_was_never_set_has_not_begun() {
        let status = peering_status(&[], PeeringConditionType::OutgoingPeering);

        assert_eq!(status, PeeringConditionStatus::None);
    }

    #[test]
    fn conditions_stay_in_the_order_they_were_first_set() {
        let mut conditions = Vec::new();
        set(&mut conditions, network(PeeringConditionStatus::Pending, "connecting", 1));
        set(&mut conditions, authentication(2));
        set(&mut conditions, network(PeeringConditionStatus::Established, "connected", 3));

        let order: Vec<_> = conditions.iter().map(|condition| condition.kind).collect();
        assert_eq!(
            order,
            [PeeringConditionType::NetworkStatus, PeeringConditionType::AuthenticationStatus]
        );
        assert_eq!(
            peering_status(&conditions, PeeringConditionType::NetworkStatus),
            PeeringConditionStatus::Established
        );
    }

    #[test]
    fn a_peering_transition_is_a_new_status_reason_or_message() {
        let old = network(PeeringConditionStatus::Pending, "connecting", 1);
        let mut conditions = vec![old.clone()];

        assert!(!set(&mut conditions, network(PeeringConditionStatus::Pending, "connecting", 2)));
        assert_eq!(conditions, [old]);
        assert!(set(&mut conditions, network(PeeringConditionStatus::Pending, "still", 3)));
        assert_eq!(conditions, [network(PeeringConditionStatus::Pending, "still", 3)]);
    }

    #[test]
    fn a_new_message_alone_is_no_transition_of_a_namespace() {
        let mut conditions = vec![ready(ConditionStatus::False, reason::CREATING, "wait", 1)];

        assert!(!set(
            &mut conditions,
            ready(ConditionStatus::False, reason::CREATING, "wait on", 2)
        ));
        assert!(!remote_namespace_is(&conditions, RemoteNamespaceConditionType::Ready));
        assert!(set(
            &mut conditions,
            ready(ConditionStatus::True, reason::NAMESPACE_CREATED, "done", 3)
        ));
        assert!(remote_namespace_is(&conditions, RemoteNamespaceConditionType::Ready));
    }

    proptest! {
        #[test]
        fn setting_twice_changes_nothing_the_second_time(
            messages in prop::collection::vec("[ab]", 1..5),
            later in 10_i64..20,
        ) {
            let mut conditions = Vec::new();
            for (message, second) in messages.iter().zip(1..) {
                set(&mut conditions, network(PeeringConditionStatus::Pending, message, second));
            }
            let before = conditions.clone();
            let last = messages.last().unwrap();

            prop_assert_eq!(conditions.len(), 1);
            prop_assert!(!set(
                &mut conditions,
                network(PeeringConditionStatus::Pending, last, later)
            ));
            prop_assert_eq!(conditions, before);
        }
    }

    fn network(status: PeeringConditionStatus, message: &str, second: i64) -> PeeringCondition {
        let reason = reason::TUNNEL_ENDPOINT_CONNECTING;
        PeeringCondition::new(
            PeeringConditionType::NetworkStatus,
            status,
            reason,
            message,
            at(second),
        )
    }

    fn authentication(second: i64) -> PeeringCondition {
        PeeringCondition::new(
            PeeringConditionType::AuthenticationStatus,
            PeeringConditionStatus::Established,
            reason::IDENTITY_ACCEPTED,
            "accepted",
            at(second),
        )
    }

    fn ready(
        status: ConditionStatus,
        reason: &str,
        message: &str,
        second: i64,
    ) -> RemoteNamespaceCondition {
        RemoteNamespaceCondition::new(
            RemoteNamespaceConditionType::Ready,
            status,
            reason,
            message,
            at(second),
        )
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }
}
