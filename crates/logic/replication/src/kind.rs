//! The kinds that are copied to peers, and when.

use std::fmt::Debug;

use kube_core::{NamespaceResourceScope, Resource};
use liqo_api::discovery::{PeeringType, Phase, ResourceRequest};
use liqo_api::net::NetworkConfig;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::NamespaceMap;

/// A kind that is copied to peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What the consumer wants.
    ResourceRequest,
    /// What the provider offers.
    ResourceOffer,
    /// Which namespaces of the consumer extend to the provider.
    NamespaceMap,
    /// How to reach the network of the other one.
    NetworkConfig,
}

impl Kind {
    /// Whether a peer is asked about this kind only once there is something to copy: the rights for
    /// it come with what else happens between clusters, and those for requests with the identity.
    pub fn awaits_source(self) -> bool {
        self != Self::ResourceRequest
    }

    /// Whether objects of this kind are copied in a phase.
    pub fn is_copied(self, phase: Phase, peering: PeeringType) -> bool {
        let both_ways = phase.is_incoming() || phase.is_outgoing();
        match self {
            Self::ResourceRequest => phase != Phase::None,
            Self::ResourceOffer => phase.is_incoming(),
            Self::NamespaceMap => phase.is_outgoing(),
            // Peers that talk through the tunnel were told how to build it by hand.
            Self::NetworkConfig => both_ways && peering == PeeringType::OutOfBand,
        }
    }
}

/// A resource that is copied to peers.
pub trait Copied: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Debug {
    /// Its kind.
    const KIND: Kind;
}

impl Copied for ResourceRequest {
    const KIND: Kind = Kind::ResourceRequest;
}

impl Copied for ResourceOffer {
    const KIND: Kind = Kind::ResourceOffer;
}

impl Copied for NamespaceMap {
    const KIND: Kind = Kind::NamespaceMap;
}

impl Copied for NetworkConfig {
    const KIND: Kind = Kind::NetworkConfig;
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{NamespaceMap, NetworkConfig, ResourceOffer, ResourceRequest};

    const ALL: [Kind; 4] = [ResourceRequest, ResourceOffer, NamespaceMap, NetworkConfig];

    #[test]
    fn the_phase_says_which_kinds_are_copied() {
        for (phase, want) in [
            (Phase::None, vec![]),
            (Phase::Authenticated, vec![ResourceRequest]),
            (Phase::Outgoing, vec![ResourceRequest, NamespaceMap, NetworkConfig]),
            (Phase::Incoming, vec![ResourceRequest, ResourceOffer, NetworkConfig]),
            (Phase::Bidirectional, ALL.to_vec()),
        ] {
            let copied =
                ALL.into_iter().filter(|kind| kind.is_copied(phase, PeeringType::OutOfBand));
            assert_eq!(copied.collect::<Vec<_>>(), want, "{phase:?}");
        }
    }

    #[test]
    fn networks_of_peers_behind_the_tunnel_are_not_copied() {
        assert!(!NetworkConfig.is_copied(Phase::Bidirectional, PeeringType::InBand));
        assert!(ResourceOffer.is_copied(Phase::Bidirectional, PeeringType::InBand));
    }
}
