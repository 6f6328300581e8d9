//! Why something is not done about networks and addresses, and what would help.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use liqo_api::names::ClusterId;

use crate::sanity::Insane;

/// Why something is not done, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A network makes no sense.
    #[error("cannot use {what}")]
    Insane {
        /// Whose network it is.
        what: &'static str,
        /// What is wrong with it.
        source: Insane,
    },
    /// Two networks have addresses in common that must not.
    #[error(
        "{what} {network} overlaps {other_what} {other}; choose networks that have no address in \
         common"
    )]
    Overlap {
        /// What the network is.
        what: &'static str,
        /// The network.
        network: Ipv4Net,
        /// What is in its way.
        other_what: &'static str,
        /// The network that is in its way.
        other: Ipv4Net,
    },
    /// A network of this cluster is not the one that peers know.
    #[error(
        "{what} was {before} and is now to be {now}; peers know the old one, so set it back, or \
         unpeer from all clusters, delete the IpamStorage and start again"
    )]
    Changed {
        /// What the network is.
        what: &'static str,
        /// What it was.
        before: Ipv4Net,
        /// What it is to be.
        now: Ipv4Net,
    },
    /// No pool has room.
    #[error(
        "no pool has room for a network of size /{length}; add one with \
         networkManager.config.additionalPools, or unpeer from clusters that are not needed"
    )]
    PoolExhausted {
        /// The length of the prefix that was asked for.
        length: u8,
    },
    /// All addresses of the external network are taken.
    #[error("all addresses of the external network {network} are taken")]
    AddressesExhausted {
        /// The network.
        network: Ipv4Net,
    },
    /// A network that a peer uses for ours has another size.
    #[error("the peer calls {what} {network}, which has not the size of our {own}")]
    WrongSize {
        /// What the network is.
        what: &'static str,
        /// What the peer calls it.
        network: Ipv4Net,
        /// What it is here.
        own: Ipv4Net,
    },
    /// Nobody knows the networks of this peer.
    #[error(
        "the networks of cluster {0} are not known here; is it peered, and its network set up?"
    )]
    UnknownPeer(ClusterId),
    /// The peer has not said yet what it calls our networks.
    // `liqoctl` of other versions looks for these words.
    #[error("the mappings of cluster {0} must be initialized first: its network is not set up yet")]
    NotInitialized(ClusterId),
    /// The cluster's own networks are not known yet.
    #[error("the networks of this cluster must be initialized first")]
    NotOpen,
    /// An address that nobody can reach from elsewhere.
    #[error("the address {0} has no meaning outside of its machine, so no peer can reach it")]
    Meaningless(Ipv4Addr),
    /// An address of the wrong family.
    #[error(
        "the address {0} is not an IPv4 address; networks of peers are connected over IPv4 only"
    )]
    WrongFamily(IpAddr),
}

impl Refusal {
    /// One word for events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Insane { .. } => "InvalidNetwork",
            Self::Overlap { .. } => "OverlappingNetwork",
            Self::Changed { .. } => "NetworkChanged",
            Self::PoolExhausted { .. } => "PoolExhausted",
            Self::AddressesExhausted { .. } => "AddressesExhausted",
            Self::WrongSize { .. } => "WrongSize",
            Self::UnknownPeer(_) => "UnknownPeer",
            Self::NotInitialized(_) | Self::NotOpen => "NotInitialized",
            Self::Meaningless(_) | Self::WrongFamily(_) => "InvalidAddress",
        }
    }
}
