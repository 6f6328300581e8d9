//! Who may lead, as a function of what was seen and when. No time passes in here.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// What a candidate may do with a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Somebody else leads.
    Wait,
    /// It is free or stale.
    Take,
    /// It is ours.
    Renew,
}

/// The Lease as this process has seen it, and since when.
#[derive(Debug, Default)]
pub(super) struct Observed(Option<(LeaseSpec, Instant)>);

impl Observed {
    /// Notes what the Lease says now.
    pub fn see(&mut self, spec: Option<&LeaseSpec>, now: Instant) {
        match (spec, &self.0) {
            (Some(spec), Some((seen, _))) if spec == seen => {}
            (spec, _) => self.0 = spec.map(|spec| (spec.clone(), now)),
        }
    }

    /// What a candidate may do.
    pub fn next(&self, identity: &str, now: Instant) -> Move {
        let Some((spec, since)) = &self.0 else { return Move::Take };
        let length = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or(0);
        match spec.holder_identity.as_deref() {
            None | Some("") => Move::Take,
            Some(holder) if holder == identity => Move::Renew,
            Some(_) if now.duration_since(*since) >= Duration::from_secs(length) => Move::Take,
            Some(_) => Move::Wait,
        }
    }

    /// Whether the Lease was seen in somebody's hands.
    pub fn is_held_by(&self, identity: &str) -> bool {
        let holder = self.0.as_ref().and_then(|(spec, _)| spec.holder_identity.as_deref());
        holder == Some(identity)
    }
}

/// The Lease as somebody takes it from whoever had it.
pub(super) fn taken(
    before: Option<&LeaseSpec>,
    identity: &str,
    length: Duration,
    now: Timestamp,
) -> LeaseSpec {
    let transitions = before.and_then(|before| before.lease_transitions);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds(length)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions.map_or(0, |count| count.saturating_add(1))),
        ..LeaseSpec::default()
    }
}

/// The Lease as its holder renews it.
pub(super) fn renewed(before: Option<&LeaseSpec>, length: Duration, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        lease_duration_seconds: Some(seconds(length)),
        renew_time: Some(MicroTime(now)),
        ..before.cloned().unwrap_or_default()
    }
}

/// The Lease as its holder gives it up.
pub(super) fn released(before: LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..before
    }
}

fn seconds(length: Duration) -> i32 {
    i32::try_from(length.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(7);

    #[test]
    fn a_lease_that_nobody_holds_is_taken() {
        let now = Instant::now();
        assert_eq!(Observed::default().next("me", now), Move::Take);
        let free = released(held("other", 0), at(0));
        assert_eq!(seen(&[(&free, now)]).next("me", now), Move::Take);
    }

    #[test]
    fn ones_own_lease_is_renewed() {
        let now = Instant::now();
        let observed = seen(&[(&held("me", 0), now)]);
        assert_eq!(observed.next("me", now + LENGTH * 2), Move::Renew);
        assert!(observed.is_held_by("me"));
    }

    #[test]
    fn a_lease_is_stale_when_nothing_changed_for_its_length_here() {
        let start = Instant::now();
        // What the holder's clock says does not matter.
        let observed = seen(&[(&held("other", 0), start), (&held("other", 0), start + LENGTH / 2)]);
        assert_eq!(observed.next("me", start + LENGTH / 2), Move::Wait);
        assert_eq!(observed.next("me", start + LENGTH), Move::Take);
    }

    #[test]
    fn a_renewal_is_respected() {
        let start = Instant::now();
        let observed = seen(&[(&held("other", 0), start), (&held("other", 2), start + LENGTH / 2)]);
        assert_eq!(observed.next("me", start + LENGTH), Move::Wait);
        assert_eq!(observed.next("me", start + LENGTH / 2 + LENGTH), Move::Take);
    }

    #[test]
    fn changes_of_hands_are_counted() {
        let first = taken(None, "a", LENGTH, at(0));
        let second = taken(Some(&first), "b", LENGTH, at(1));
        assert_eq!((first.lease_transitions, second.lease_transitions), (Some(0), Some(1)));
        let renewal = renewed(Some(&second), LENGTH, at(2));
        assert_eq!(
            (renewal.lease_transitions, renewal.acquire_time),
            (Some(1), second.acquire_time)
        );
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn held(by: &str, second: i64) -> LeaseSpec {
        taken(None, by, LENGTH, at(second))
    }

    fn seen(specs: &[(&LeaseSpec, Instant)]) -> Observed {
        let mut observed = Observed::default();
        for (spec, instant) in specs {
            observed.see(Some(spec), *instant);
        }
        observed
    }
}
