//! What happens when one side or the other takes its word back.
//!
//! ```text
//!  both told ──one takes it back──> tunnel deleted ──gateway and nodes let it go──> tunnel gone
//!                                        │                                            │
//!                                        └──too long──> words let go     words let go │
//!                                                                                     v
//!                                     neither side is told any more ──> networks are free
//! ```
//!
//! The networks of a peer stay taken for as long as anything may still send to them: while there is a
//! tunnel, or while the peer's word stands with our answer to it. What a peer or a user waits for is
//! never held up for long: a gateway that does not come back holds up networks, not namespaces.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use liqo_api::net::{NetworkConfig, TunnelEndpoint};

/// How long gateway and nodes may take to let a tunnel go before the rest goes on without them.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(20);

/// What both sides said, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair<'a> {
    /// What the peer was told.
    pub told: Option<&'a NetworkConfig>,
    /// What it told us.
    pub heard: Option<&'a NetworkConfig>,
    /// The tunnel to it.
    pub tunnel: Option<&'a TunnelEndpoint>,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The tunnel has to go.
    pub ends_tunnel: bool,
    /// What was told and is being taken back may go.
    pub lets_go: bool,
    /// The networks of the peer are free.
    pub frees_networks: bool,
    /// When to look again, if nothing happens before.
    pub again: Option<SignedDuration>,
}

/// Decides what to do about what both sides said.
pub fn decide(pair: Pair<'_>, now: Timestamp) -> Verdict {
    let stands = [is_standing(pair.told), is_standing(pair.heard)];
    let ends_tunnel = pair.tunnel.is_some() && stands.contains(&false);
    let leaving = pair.tunnel.and_then(|tunnel| leaving_since(tunnel.meta()));
    let left = leaving.map(|since| PATIENCE - now.duration_since(since));
    let is_overdue = left.is_some_and(|left| !left.is_positive());
    Verdict {
        ends_tunnel: ends_tunnel && leaving.is_none(),
        lets_go: pair.tunnel.is_none() || is_overdue,
        frees_networks: pair.tunnel.is_none() && !stands.contains(&true),
        again: left.filter(SignedDuration::is_positive),
    }
}

/// Whether a word stands, and is not about to be taken back.
pub fn is_standing(config: Option<&NetworkConfig>) -> bool {
    config.is_some_and(|config| config.metadata.deletion_timestamp.is_none())
}

fn leaving_since(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.deletion_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixtures::{at_rome, golden, tunnel};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn while_both_words_stand_nothing_ends() {
        let (told, heard, tunnel) = (golden(at_rome::LOCAL), golden(at_rome::REPLICA), tunnel());
        let pair = Pair { told: Some(&told), heard: Some(&heard), tunnel: Some(&tunnel) };
        let verdict = decide(pair, NOW);
        assert!(!verdict.ends_tunnel && !verdict.frees_networks);
        let verdict = decide(Pair { tunnel: None, ..pair }, NOW);
        assert!(!verdict.frees_networks && verdict.again.is_none());
    }

    #[test]
    fn one_word_taken_back_ends_the_tunnel_and_keeps_the_networks() {
        let (mut told, heard, tunnel) =
            (golden(at_rome::LOCAL), golden(at_rome::REPLICA), tunnel());
        let with = |told, heard| Pair { told, heard, tunnel: Some(&tunnel) };
        assert!(decide(with(None, Some(&heard)), NOW).ends_tunnel);
        assert!(decide(with(Some(&told), None), NOW).ends_tunnel);
        told.metadata.deletion_timestamp = Some(Time(NOW));
        let pair = Pair { told: Some(&told), heard: Some(&heard), tunnel: Some(&tunnel) };
        let verdict = decide(pair, NOW);
        assert!(verdict.ends_tunnel && !verdict.lets_go && !verdict.frees_networks);
        let gone = Pair { tunnel: None, ..pair };
        let verdict = decide(gone, NOW);
        assert!(verdict.lets_go && !verdict.frees_networks, "the peer goes by our answer");
    }

    #[test]
    fn networks_are_free_when_nobody_can_send_there() {
        let mut tunnel = tunnel();
        let pair = Pair { told: None, heard: None, tunnel: Some(&tunnel) };
        assert!(!decide(pair, NOW).frees_networks);
        assert!(decide(Pair::default(), NOW).frees_networks);
        let mut heard = golden(at_rome::REPLICA);
        heard.metadata.deletion_timestamp = Some(Time(NOW));
        let pair = Pair { told: None, heard: Some(&heard), tunnel: None };
        assert!(decide(pair, NOW).frees_networks && decide(pair, NOW).lets_go);
        tunnel.metadata.deletion_timestamp = Some(Time(NOW));
        assert!(!decide(Pair { tunnel: Some(&tunnel), ..pair }, NOW).frees_networks);
    }

    #[test]
    fn a_gateway_that_does_not_come_back_holds_up_nobody() {
        let (mut heard, mut tunnel) = (golden(at_rome::REPLICA), tunnel());
        heard.metadata.deletion_timestamp = Some(Time(NOW));
        tunnel.metadata.deletion_timestamp = Some(Time(NOW));
        let pair = Pair { told: None, heard: Some(&heard), tunnel: Some(&tunnel) };
        let soon = decide(pair, NOW + SignedDuration::from_secs(1));
        assert_eq!(soon.again, Some(PATIENCE - SignedDuration::from_secs(1)));
        assert!(!soon.lets_go && !soon.ends_tunnel, "it is told once");
        let late = decide(pair, NOW + PATIENCE);
        assert!(late.lets_go && !late.frees_networks && late.again.is_none());
    }
}
