//! Peers as they are wanted, as they are, and the difference between two sets of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use ipnet::Ipv4Net;

use crate::key::PublicKey;

/// A peer as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub public_key: PublicKey,
    /// Where it listens. Without one it has to speak first, and is answered where it spoke from.
    pub endpoint: Option<SocketAddr>,
    /// Which addresses are behind it: packets to these go there, and only these come from there.
    pub allowed: Vec<Ipv4Net>,
    /// How often to speak even if there is nothing to say, which keeps a NAT's mapping alive.
    pub keepalive: Option<Duration>,
}

/// A peer as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Who it is.
    pub public_key: PublicKey,
    /// Where it spoke from last, or where it is thought to listen.
    pub endpoint: Option<SocketAddr>,
    /// When keys were last agreed upon.
    pub last_handshake: Option<SystemTime>,
    /// Bytes that came from it, encrypted.
    pub received: u64,
    /// Bytes that went to it, encrypted.
    pub sent: u64,
}

/// One step from the peers of before to the peers of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The peer is gone.
    Remove(PublicKey),
    /// The peer is new.
    Add(Peer),
    /// Something about the peer is different; what is `None` stays.
    Update(Update),
}

/// What is different about a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) public_key: PublicKey,
    /// A new place. That a peer has none any more is no change: the last one keeps being used.
    pub(crate) endpoint: Option<SocketAddr>,
    pub(crate) allowed: Option<Vec<Ipv4Net>>,
    pub(crate) keepalive: Option<Option<Duration>>,
}

/// Peers by key, with duplicates resolved: of two peers with one key, or of two that claim the same
/// network, the later one in the list has it.
pub(crate) fn resolve(peers: &[Peer]) -> BTreeMap<PublicKey, Peer> {
    let mut resolved: BTreeMap<PublicKey, Peer> = BTreeMap::new();
    for peer in peers {
        for other in resolved.values_mut() {
            other.allowed.retain(|network| !claims(peer, *network));
        }
        let mut peer = peer.clone();
        for network in &mut peer.allowed {
            *network = network.trunc();
        }
        peer.allowed.sort();
        peer.allowed.dedup();
        resolved.insert(peer.public_key, peer);
    }
    resolved
}

/// The steps from one set of peers to another. Peers go before others come, so that a network that
/// changes hands is free when it is claimed.
pub(crate) fn changes(
    have: &BTreeMap<PublicKey, Peer>,
    want: &BTreeMap<PublicKey, Peer>,
) -> Vec<Change> {
    let gone = have.keys().filter(|key| !want.contains_key(key)).copied().map(Change::Remove);
    let kept = want.values().filter_map(|new| match have.get(&new.public_key) {
        None => Some(Change::Add(new.clone())),
        Some(old) if old == new => None,
        Some(old) => Some(Change::Update(Update {
            public_key: new.public_key,
            endpoint: new.endpoint.filter(|_| new.endpoint != old.endpoint),
            allowed: (new.allowed != old.allowed).then(|| new.allowed.clone()),
            keepalive: (new.keepalive != old.keepalive).then_some(new.keepalive),
        })),
    });
    gone.chain(kept).collect()
}

/// A keepalive in the seconds that WireGuard counts in; a part of one counts whole.
pub(crate) fn seconds(keepalive: Option<Duration>) -> u16 {
    keepalive.map_or(0, |every| {
        let whole = every.as_secs() + u64::from(every.subsec_nanos() > 0);
        u16::try_from(whole).unwrap_or(u16::MAX)
    })
}

fn claims(peer: &Peer, network: Ipv4Net) -> bool {
    peer.allowed.iter().any(|claimed| claimed.trunc() == network)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(key: u8, networks: &[&str]) -> Peer {
        Peer {
            public_key: PublicKey([key; 32]),
            endpoint: None,
            allowed: networks.iter().map(|network| network.parse().unwrap()).collect(),
            keepalive: None,
        }
    }

    fn diff(have: &[Peer], want: &[Peer]) -> Vec<Change> {
        changes(&resolve(have), &resolve(want))
    }

    #[test]
    fn nothing_changes_when_nothing_changed() {
        let peers = [peer(1, &["10.1.0.0/16", "10.2.0.0/16"]), peer(2, &["10.3.0.0/16"])];
        let again = [peer(2, &["10.3.0.0/16"]), peer(1, &["10.2.0.0/16", "10.1.0.0/16"])];
        assert_eq!(diff(&peers, &again), []);
    }

    #[test]
    fn a_peer_with_a_new_key_leaves_no_old_entry() {
        let steps = diff(&[peer(1, &["10.1.0.0/16"])], &[peer(2, &["10.1.0.0/16"])]);
        assert_eq!(
            steps,
            [Change::Remove(PublicKey([1; 32])), Change::Add(peer(2, &["10.1.0.0/16"]))]
        );
    }

    #[test]
    fn only_what_is_different_is_told() {
        let old = peer(1, &["10.1.0.0/16"]);
        let place = "192.0.2.1:5871".parse().unwrap();
        let new = Peer { endpoint: Some(place), ..old.clone() };
        let update = Update {
            public_key: old.public_key,
            endpoint: Some(place),
            allowed: None,
            keepalive: None,
        };
        assert_eq!(diff(&[old], &[new]), [Change::Update(update)]);
    }

    #[test]
    fn a_network_belongs_to_the_last_that_claims_it() {
        let resolved = resolve(&[peer(1, &["10.1.0.0/16"]), peer(2, &["10.1.2.3/16"])]);
        assert!(resolved[&PublicKey([1; 32])].allowed.is_empty());
        assert_eq!(resolved[&PublicKey([2; 32])], peer(2, &["10.1.0.0/16"]));
    }

    #[test]
    fn a_keepalive_is_never_rounded_to_none() {
        assert_eq!(seconds(None), 0);
        assert_eq!(seconds(Some(Duration::from_millis(1))), 1);
        assert_eq!(seconds(Some(Duration::from_secs(25))), 25);
        assert_eq!(seconds(Some(Duration::from_secs(1 << 20))), u16::MAX);
    }

    prop_compose! {
        fn any_peer()(
            key in 0u8..4,
            networks in proptest::collection::vec((0u8..4, 8u8..18), 0..4),
            port in proptest::option::of(1u16..4),
            keepalive in proptest::option::of(1u64..3),
        ) -> Peer {
            let allowed = networks.iter().map(|(net, length)| {
                Ipv4Net::new(std::net::Ipv4Addr::new(10, *net, 0, 0), *length).unwrap()
            });
            Peer {
                public_key: PublicKey([key; 32]),
                endpoint: port.map(|port| SocketAddr::from(([192, 0, 2, 1], port))),
                allowed: allowed.collect(),
                keepalive: keepalive.map(Duration::from_secs),
            }
        }
    }

    /// What a tunnel does with the steps.
    fn apply(have: &mut BTreeMap<PublicKey, Peer>, steps: Vec<Change>) {
        for step in steps {
            match step {
                Change::Remove(key) => assert!(have.remove(&key).is_some()),
                Change::Add(peer) => assert!(have.insert(peer.public_key, peer).is_none()),
                Change::Update(update) => {
                    let peer = have.get_mut(&update.public_key).unwrap();
                    peer.endpoint = update.endpoint.or(peer.endpoint);
                    peer.allowed = update.allowed.unwrap_or(peer.allowed.clone());
                    peer.keepalive = update.keepalive.unwrap_or(peer.keepalive);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_steps_lead_to_what_is_wanted(
            have in proptest::collection::vec(any_peer(), 0..6),
            want in proptest::collection::vec(any_peer(), 0..6),
        ) {
            let (mut have, want) = (resolve(&have), resolve(&want));
            let steps = changes(&have, &want);
            apply(&mut have, steps);
            for (key, peer) in &want {
                let got = &have[key];
                prop_assert_eq!(&got.allowed, &peer.allowed);
                prop_assert_eq!(got.keepalive, peer.keepalive);
                prop_assert!(peer.endpoint.is_none() || got.endpoint == peer.endpoint);
            }
            prop_assert_eq!(have.len(), want.len());
        }

        #[test]
        fn no_network_is_claimed_twice(peers in proptest::collection::vec(any_peer(), 0..6)) {
            let resolved = resolve(&peers);
            let all: Vec<_> = resolved.values().flat_map(|peer| peer.allowed.clone()).collect();
            let mut once = all.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(all.len(), once.len());
        }
    }
}
