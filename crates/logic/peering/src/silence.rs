//! A peer whose API server is silent may be somewhere else by now, and says so with an identity.
//!
//! Identities come with the address of the API server that they are good for. Asking for one again
//! finds an API server that moved; the pauses between questions grow with the silence, since one
//! that is just down is still where it was.

use jiff::{SignedDuration, Timestamp};
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus as Status, PeeringConditionType as Kind,
};

/// Since when the API server of a peer is silent.
pub fn since(foreign: &ForeignCluster) -> Option<Timestamp> {
    let conditions = &foreign.status.as_ref()?.peering_conditions;
    let found = conditions.iter().find(|condition| condition.kind == Kind::ApiServerStatus)?;
    let moment = found.last_transition_time.as_ref()?.0;
    (found.status == Status::Error).then_some(moment)
}

/// When to ask again, if the last answer came at a known moment.
pub fn ask_again(
    since: Timestamp,
    answered: Option<Timestamp>,
    pause: SignedDuration,
) -> Timestamp {
    let answered = answered.filter(|answered| *answered > since).unwrap_or(since);
    let pause = pause.max(answered.duration_since(since));
    answered.checked_add(pause).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: SignedDuration = SignedDuration::from_secs(30);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_silent_peer_is_asked_after_a_pause() {
        assert_eq!(ask_again(at(100), None, PAUSE), at(130));
        assert_eq!(ask_again(at(100), Some(at(40)), PAUSE), at(130), "that was before");
    }

    #[test]
    fn pauses_grow_with_the_silence() {
        assert_eq!(ask_again(at(100), Some(at(130)), PAUSE), at(160));
        assert_eq!(ask_again(at(100), Some(at(160)), PAUSE), at(220));
        assert_eq!(ask_again(at(100), Some(at(220)), PAUSE), at(340));
    }
}
