//! Which networks and addresses of clusters are called what by whom, without ever colliding.
//!
//! Clusters choose the networks of their pods without asking each other, so two of them may have
//! the same. The [`Ledger`] of a cluster knows every network that is taken there, and gives the
//! networks of a peer that collide another prefix of the same size; bits within the prefix stay as
//! they are ([`mapped`]). Addresses that are not pods but must be reached by a peer are exported: each
//! gets an address of the cluster's *external network*, which stands for it everywhere else.
//!
//! | part | is |
//! | --- | --- |
//! | [`sanity`] | which networks can be taken seriously, whoever tells them |
//! | [`pool`] | where free networks come from, and which one is next |
//! | [`ledger`] | what is taken, and by whom; what a peer's networks are called here |
//! | [`exports`] | addresses of this cluster that peers reach under other ones |

pub mod exports;
pub mod ledger;
pub mod pool;
pub mod refusal;
pub mod sanity;
mod storage;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

pub use self::ledger::{Ledger, Networks, Settings};
pub use self::refusal::Refusal;
pub use self::storage::Unreadable;

/// The address of the tunnel within the gateway of every cluster; peers reach it under the first
/// usable address of the cluster's external network.
pub const TUNNEL: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);

/// Whether two networks have an address in common.
pub fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// What an address is called once its network has another prefix: the bits of the host stay.
pub fn mapped(address: Ipv4Addr, network: Ipv4Net) -> Ipv4Addr {
    let host = u32::from(address) & u32::from(network.hostmask());
    Ipv4Addr::from(u32::from(network.network()) | host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bits_of_the_host_stay() {
        let network = "10.92.0.0/16".parse().unwrap();
        assert_eq!(mapped(Ipv4Addr::new(10, 201, 3, 7), network), Ipv4Addr::new(10, 92, 3, 7));
    }

    proptest! {
        #[test]
        fn mapping_there_and_back_is_the_identity(
            here: u32, there: u32, host: u32, length in 1_u8..=32
        ) {
            let here = Ipv4Net::new(here.into(), length).unwrap().trunc();
            let there = Ipv4Net::new(there.into(), length).unwrap().trunc();
            let address = mapped(host.into(), here);
            prop_assert!(here.contains(&address));
            prop_assert!(there.contains(&mapped(address, there)));
            prop_assert_eq!(mapped(mapped(address, there), here), address);
        }
    }
}
