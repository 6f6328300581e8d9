//! Which networks can be taken seriously, whoever tells them.
//!
//! What a peer tells of its networks ends up in routes and rules of our nodes. A peer that claims
//! the whole Internet, our loopback or our overlay is refused before anything follows from it.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use crate::overlap;

/// The shortest prefix that is taken seriously: the largest pool there is by default.
pub const SHORTEST: u8 = 8;

/// The longest prefix that is taken seriously: two hosts, a network and a broadcast address.
pub const LONGEST: u8 = 30;

/// Networks whose addresses mean something else already.
const SPECIAL: [(Ipv4Net, &str); 5] = [
    (special(0, 0, 8), "addresses of no host"),
    (special(127, 0, 8), "loopback"),
    (special(169, 254, 16), "link-local addresses and the ends of our tunnels"),
    (special(224, 0, 4), "multicast"),
    (special(240, 0, 4), "the overlay between our nodes"),
];

const fn special(first: u8, second: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), length)
}

/// What is wrong with a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Insane {
    /// It does not read as one.
    #[error("'{0}' is not an IPv4 network such as 10.200.0.0/16")]
    Unreadable(String),
    /// It is of the other family.
    #[error("{0} is an IPv6 network; clusters are connected over IPv4 only")]
    WrongFamily(String),
    /// It names a host rather than a network.
    #[error("{given} is an address within a network; the network is {network}")]
    HostBits {
        /// What was given.
        given: Ipv4Net,
        /// The network it lies in.
        network: Ipv4Net,
    },
    /// Nobody has so many addresses, or a use for so few.
    #[error("{0} has the wrong size; prefixes of {SHORTEST} to {LONGEST} bits are accepted")]
    Size(Ipv4Net),
    /// Its addresses mean something else already.
    #[error("{network} overlaps {special}, which stands for {meaning}")]
    Special {
        /// The network.
        network: Ipv4Net,
        /// The network that means something else.
        special: Ipv4Net,
        /// What it means.
        meaning: &'static str,
    },
}

/// Reads a network that can be taken seriously.
pub fn network(text: &str) -> Result<Ipv4Net, Insane> {
    match text.parse() {
        Ok(IpNet::V4(network)) => check(network),
        Ok(IpNet::V6(_)) => Err(Insane::WrongFamily(text.to_owned())),
        Err(_) => Err(Insane::Unreadable(text.to_owned())),
    }
}

/// Lets a network through that can be taken seriously.
pub fn check(given: Ipv4Net) -> Result<Ipv4Net, Insane> {
    if given.trunc() != given {
        return Err(Insane::HostBits { given, network: given.trunc() });
    }
    if !(SHORTEST..=LONGEST).contains(&given.prefix_len()) {
        return Err(Insane::Size(given));
    }
    match SPECIAL.into_iter().find(|(special, _)| overlap(*special, given)) {
        Some((special, meaning)) => Err(Insane::Special { network: given, special, meaning }),
        None => Ok(given),
    }
}

/// Whether an address can be that of a host elsewhere.
pub fn is_reachable(address: Ipv4Addr) -> bool {
    !SPECIAL.iter().any(|(special, _)| special.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_clusters_are_taken_seriously() {
        for text in ["10.200.0.0/16", "10.0.0.0/8", "100.64.0.0/10", "192.168.1.0/30"] {
            assert_eq!(network(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_hostile_peer_does_not_take_what_means_something_else() {
        for (text, want) in [
            ("0.0.0.0/0", "0.0.0.0/0 has the wrong size; prefixes of 8 to 30 bits are accepted"),
            ("10.0.0.0/7", "10.0.0.0/7 has the wrong size; prefixes of 8 to 30 bits are accepted"),
            ("127.0.0.0/8", "127.0.0.0/8 overlaps 127.0.0.0/8, which stands for loopback"),
            ("127.1.0.0/16", "127.1.0.0/16 overlaps 127.0.0.0/8, which stands for loopback"),
            ("225.0.0.0/8", "225.0.0.0/8 overlaps 224.0.0.0/4, which stands for multicast"),
            (
                "240.1.0.0/16",
                "240.1.0.0/16 overlaps 240.0.0.0/4, which stands for the overlay between our nodes",
            ),
            (
                "169.254.0.0/16",
                "169.254.0.0/16 overlaps 169.254.0.0/16, which stands for link-local addresses and \
                 the ends of our tunnels",
            ),
            ("0.1.0.0/16", "0.1.0.0/16 overlaps 0.0.0.0/8, which stands for addresses of no host"),
            (
                "10.0.0.1/32",
                "10.0.0.1/32 has the wrong size; prefixes of 8 to 30 bits are accepted",
            ),
            (
                "10.1.0.1/16",
                "10.1.0.1/16 is an address within a network; the network is 10.1.0.0/16",
            ),
            ("fd00::/64", "fd00::/64 is an IPv6 network; clusters are connected over IPv4 only"),
            ("", "'' is not an IPv4 network such as 10.200.0.0/16"),
            ("10.1.0.0", "'10.1.0.0' is not an IPv4 network such as 10.200.0.0/16"),
            ("10.1.0.0/33", "'10.1.0.0/33' is not an IPv4 network such as 10.200.0.0/16"),
        ] {
            assert_eq!(network(text).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn only_addresses_of_hosts_elsewhere_are_reachable() {
        let is = |text: &str| is_reachable(text.parse().unwrap());
        assert!(is("10.94.0.1") && is("8.8.8.8"));
        assert!(!is("127.0.0.1") && !is("0.0.0.0") && !is("224.0.0.1") && !is("255.255.255.255"));
    }
}
