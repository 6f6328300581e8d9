//! What is taken, and by whom; what a peer's networks are called here.
//!
//! Every decision follows from the networks that are taken: those of this cluster, those that the
//! user reserves, and those that peers have been given. A call that is refused changes nothing.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use k8s_openapi::ByteString;
use liqo_api::names::ClusterId;

use crate::exports::Exports;
use crate::pool::{self, DEFAULT};
use crate::refusal::Refusal;
use crate::sanity::{self, Insane};
use crate::{mapped, overlap};

const POD: &str = "the pod network";
const SERVICE: &str = "the service network";
const EXTERNAL: &str = "the external network";
const RESERVED: &str = "the reserved network";
const POOL: &str = "the pool";
const PEER: &str = "the network of a peer";

/// The two networks of a cluster that others see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// The network of its pods.
    pub pod: Ipv4Net,
    /// The network under which it exports other addresses.
    pub external: Ipv4Net,
}

/// The prefixes that a peer gave to our networks; nothing where it uses our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// That of our pods.
    pub pod: Option<Ipv4Net>,
    /// That of our external network.
    pub external: Option<Ipv4Net>,
}

/// What the user says of this cluster's networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The network of its pods.
    pub pod: Ipv4Net,
    /// The network of its services.
    pub service: Ipv4Net,
    /// Networks that peers may be given besides the usual ones.
    pub additional_pools: Vec<Ipv4Net>,
    /// Networks that no peer is ever given.
    pub reserved: Vec<Ipv4Net>,
}

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// What its networks are called here.
    pub(crate) here: Networks,
    /// What ours are called there, once it said so.
    pub(crate) there: Option<Prefixes>,
}

/// Every network and address that is taken in a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub(crate) pools: Vec<Ipv4Net>,
    pub(crate) reserved: Vec<Ipv4Net>,
    pub(crate) pod: Option<Ipv4Net>,
    pub(crate) service: Option<Ipv4Net>,
    pub(crate) external: Option<Ipv4Net>,
    pub(crate) peers: BTreeMap<ClusterId, Peer>,
    pub(crate) exports: Exports,
    /// Somebody else's record, which is kept as it is and never read.
    pub(crate) prefixes: BTreeMap<String, ByteString>,
}

impl Ledger {
    /// Begins with what the user says; also with what was said before, as long as nothing that peers
    /// know has changed.
    pub fn open(&mut self, settings: &Settings) -> Result<(), Refusal> {
        let mut opened = self.clone();
        if opened.pools.is_empty() {
            opened.pools = DEFAULT.iter().filter_map(|pool| pool.parse().ok()).collect();
        }
        let pod = opened.settle(POD, opened.pod, settings.pod)?;
        opened.pod = Some(pod);
        let service = opened.settle(SERVICE, opened.service, settings.service)?;
        opened.service = Some(service);
        for pool in &settings.additional_pools {
            opened.add_pool(*pool)?;
        }
        opened.reserve(&settings.reserved)?;
        if opened.external.is_none() {
            let taken: Vec<Ipv4Net> = opened.taken(None).map(|(_, network)| network).collect();
            let external = pool::next(&opened.pools, &taken, pod.prefix_len());
            let exhausted = Refusal::PoolExhausted { length: pod.prefix_len() };
            opened.external = Some(external.ok_or(exhausted)?);
        }
        *self = opened;
        Ok(())
    }

    /// The networks of this cluster, once it is open.
    pub fn own(&self) -> Result<Networks, Refusal> {
        let own = self.pod.zip(self.external);
        own.map(|(pod, external)| Networks { pod, external }).ok_or(Refusal::NotOpen)
    }

    /// The peers that hold networks.
    pub fn peers(&self) -> impl Iterator<Item = &ClusterId> {
        self.peers.keys()
    }

    /// What the networks of a peer are called here, if it holds any.
    pub fn peer(&self, peer: &ClusterId) -> Option<Networks> {
        self.peers.get(peer).map(|peer| peer.here)
    }

    /// Gives the networks of a peer a place: their own if it is free, or another of the same size.
    ///
    /// A peer that holds networks keeps them for as long as it asks for the same sizes.
    pub fn admit(&mut self, peer: &ClusterId, asked: Networks) -> Result<Networks, Refusal> {
        self.own()?;
        for (what, network) in
            [("its pod network", asked.pod), ("its external network", asked.external)]
        {
            sanity::check(network).map_err(|source| Refusal::Insane { what, source })?;
        }
        if overlap(asked.pod, asked.external) {
            return Err(refuse_overlap(
                "its pod network",
                asked.pod,
                "its external network",
                asked.external,
            ));
        }
        let known = self.peers.get(peer).copied();
        let keep = |held: Option<Ipv4Net>, asked: Ipv4Net| {
            held.filter(|held| held.prefix_len() == asked.prefix_len())
        };
        let held = [
            keep(known.map(|known| known.here.pod), asked.pod),
            keep(known.map(|known| known.here.external), asked.external),
        ];
        let mut taken: Vec<Ipv4Net> = self.taken(Some(peer)).map(|(_, network)| network).collect();
        taken.extend(held.iter().flatten());
        let [pod, external] = held;
        let pod = match pod {
            Some(pod) => pod,
            None => self.place(asked.pod, &taken)?,
        };
        taken.push(pod);
        let external = match external {
            Some(external) => external,
            None => self.place(asked.external, &taken)?,
        };
        let here = Networks { pod, external };
        let there = known.and_then(|known| known.there);
        self.peers.insert(peer.clone(), Peer { here, there });
        Ok(here)
    }

    /// Notes what a peer calls our networks.
    pub fn learn(&mut self, peer: &ClusterId, told: Prefixes) -> Result<(), Refusal> {
        let own = self.own()?;
        for (what, told, own) in [
            ("our pod network", told.pod, own.pod),
            ("our external network", told.external, own.external),
        ] {
            let Some(network) = told else { continue };
            sanity::check(network).map_err(|source| Refusal::Insane { what, source })?;
            if network.prefix_len() != own.prefix_len() {
                return Err(Refusal::WrongSize { what, network, own });
            }
        }
        let known = self.peers.get_mut(peer).ok_or_else(|| Refusal::UnknownPeer(peer.clone()))?;
        known.there = Some(told);
        self.exports.rename(peer, told.external.unwrap_or(own.external));
        Ok(())
    }

    /// Takes back all that a peer holds; false when it held nothing.
    pub fn release(&mut self, peer: &ClusterId) -> bool {
        self.exports.forget(peer);
        self.peers.remove(peer).is_some()
    }

    /// What a pod of a peer is called here.
    pub fn home_pod(&self, peer: &ClusterId, address: Ipv4Addr) -> Result<Ipv4Addr, Refusal> {
        let known = self.peers.get(peer).ok_or_else(|| Refusal::UnknownPeer(peer.clone()))?;
        Ok(mapped(address, known.here.pod))
    }

    /// Whether an address is one of our own pods.
    pub fn is_own_pod(&self, address: Ipv4Addr) -> bool {
        self.pod.is_some_and(|pod| pod.contains(&address))
    }

    fn settle(
        &self,
        what: &'static str,
        before: Option<Ipv4Net>,
        now: Ipv4Net,
    ) -> Result<Ipv4Net, Refusal> {
        match before {
            Some(before) if before != now => Err(Refusal::Changed { what, before, now }),
            Some(before) => Ok(before),
            None => {
                sanity::check(now).map_err(|source| Refusal::Insane { what, source })?;
                self.expect_free(what, now)?;
                Ok(now)
            }
        }
    }

    /// A pool that is known already is no news.
    fn add_pool(&mut self, pool: Ipv4Net) -> Result<(), Refusal> {
        if self.pools.contains(&pool) {
            return Ok(());
        }
        let what = "the additional pool";
        sanity::check(pool).map_err(|source| Refusal::Insane { what, source })?;
        let pools = self.pools.iter().map(|other| (POOL, *other));
        let peers = self.taken(None).filter(|(kind, _)| *kind == PEER);
        let in_the_way = pools.chain(peers).find(|(_, other)| overlap(*other, pool));
        if let Some((other_what, other)) = in_the_way {
            return Err(refuse_overlap(what, pool, other_what, other));
        }
        self.pools.push(pool);
        Ok(())
    }

    /// What is not reserved any more is free; what is reserved already is no news.
    fn reserve(&mut self, networks: &[Ipv4Net]) -> Result<(), Refusal> {
        self.reserved.retain(|known| networks.contains(known));
        for network in networks {
            if self.reserved.contains(network) {
                continue;
            }
            if network.trunc() != *network {
                let source = Insane::HostBits { given: *network, network: network.trunc() };
                return Err(Refusal::Insane { what: RESERVED, source });
            }
            self.expect_free(RESERVED, *network)?;
            self.reserved.push(*network);
        }
        Ok(())
    }

    fn expect_free(&self, what: &'static str, network: Ipv4Net) -> Result<(), Refusal> {
        match self.taken(None).find(|(_, other)| overlap(*other, network)) {
            Some((other_what, other)) => Err(refuse_overlap(what, network, other_what, other)),
            None => Ok(()),
        }
    }

    /// Where a network goes that has no place yet.
    fn place(&self, asked: Ipv4Net, taken: &[Ipv4Net]) -> Result<Ipv4Net, Refusal> {
        let length = asked.prefix_len();
        let is_taken = taken.iter().any(|other| overlap(*other, asked));
        // Who asks for a whole pool leaves nothing to others, unless it cannot be avoided.
        let is_pool = self.pools.contains(&asked);
        let swallows = !is_pool && self.pools.iter().any(|pool| asked.contains(pool));
        if !is_taken && !is_pool && !swallows {
            return Ok(asked);
        }
        let others: Vec<Ipv4Net> = taken.iter().copied().chain([asked]).collect();
        match pool::next(&self.pools, &others, length) {
            Some(network) => Ok(network),
            None if is_pool && !is_taken => Ok(asked),
            None => Err(Refusal::PoolExhausted { length }),
        }
    }

    /// Everything that is taken, but not by one of the peers.
    fn taken(&self, but: Option<&ClusterId>) -> impl Iterator<Item = (&'static str, Ipv4Net)> {
        let own = [(POD, self.pod), (SERVICE, self.service), (EXTERNAL, self.external)];
        let own = own.into_iter().filter_map(|(what, network)| Some((what, network?)));
        let reserved = self.reserved.iter().map(|network| (RESERVED, *network));
        let others = self.peers.iter().filter(move |(id, _)| but != Some(id));
        let peers = others.flat_map(|(_, peer)| {
            [peer.here.pod, peer.here.external].map(|network| (PEER, network))
        });
        own.chain(reserved).chain(peers)
    }
}

fn refuse_overlap(
    what: &'static str,
    network: Ipv4Net,
    other_what: &'static str,
    other: Ipv4Net,
) -> Refusal {
    Refusal::Overlap { what, network, other_what, other }
}

#[cfg(test)]
mod tests;
