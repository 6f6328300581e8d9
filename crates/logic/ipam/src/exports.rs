//! Addresses of this cluster that peers reach under other ones, besides those of its pods.
//!
//! One address of the external network stands for an exported address, whichever peers use it; each
//! peer may know the external network under a prefix of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use liqo_api::names::ClusterId;
use liqo_api::net::NatMappingSpec;

use crate::ledger::{Ledger, Networks, Prefixes};
use crate::refusal::Refusal;
use crate::sanity::is_reachable;
use crate::{TUNNEL, mapped};

/// An address, and who reaches it how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// What stands for it in our external network.
    pub(crate) address: Ipv4Addr,
    /// What each peer calls that.
    pub(crate) peers: BTreeMap<ClusterId, Ipv4Addr>,
}

/// Every exported address, by its original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports(pub(crate) BTreeMap<Ipv4Addr, Export>);

impl Exports {
    /// A peer calls our external network something else now.
    pub(crate) fn rename(&mut self, peer: &ClusterId, network: Ipv4Net) {
        for export in self.0.values_mut() {
            let renamed = mapped(export.address, network);
            export.peers.entry(peer.clone()).and_modify(|known| *known = renamed);
        }
    }

    /// A peer reaches nothing any more.
    pub(crate) fn forget(&mut self, peer: &ClusterId) {
        self.0.retain(|_, export| {
            let was_there = export.peers.remove(peer).is_some();
            !(was_there && export.peers.is_empty())
        });
    }

    /// The lowest address that stands for nothing; the first usable one is the tunnel's.
    fn free(&self, network: Ipv4Net) -> Option<Ipv4Addr> {
        let used: BTreeSet<Ipv4Addr> = self.0.values().map(|export| export.address).collect();
        network.hosts().skip(1).find(|address| !used.contains(address))
    }
}

impl Ledger {
    /// What an address that is reached from here is called by a peer; it is exported if it is none of
    /// our pods. The same question has the same answer until the address is taken back.
    pub fn map_endpoint(
        &mut self,
        peer: &ClusterId,
        address: Ipv4Addr,
    ) -> Result<Ipv4Addr, Refusal> {
        let own = self.own()?;
        if !self.peers.contains_key(peer) {
            return Err(Refusal::UnknownPeer(peer.clone()));
        }
        let there = self.prefixes_at(peer)?;
        if self.is_own_pod(address) {
            return Ok(mapped(address, there.pod.unwrap_or(own.pod)));
        }
        let network = there.external.unwrap_or(own.external);
        if address == TUNNEL {
            return Ok(mapped(tunnel(own), network));
        }
        if !is_reachable(address) {
            return Err(Refusal::Meaningless(address));
        }
        let free = match self.exports.0.get(&address) {
            Some(export) => export.address,
            None => self
                .exports
                .free(own.external)
                .ok_or(Refusal::AddressesExhausted { network: own.external })?,
        };
        let export = self
            .exports
            .0
            .entry(address)
            .or_insert_with(|| Export { address: free, peers: BTreeMap::new() });
        let called = mapped(export.address, network);
        export.peers.insert(peer.clone(), called);
        Ok(called)
    }

    /// A peer does not need an address any more; one that it never had is no problem.
    pub fn unmap_endpoint(&mut self, peer: &ClusterId, address: Ipv4Addr) -> Result<(), Refusal> {
        self.prefixes_at(peer)?;
        if let Some(export) = self.exports.0.get_mut(&address) {
            export.peers.remove(peer);
            if export.peers.is_empty() {
                self.exports.0.remove(&address);
            }
        }
        Ok(())
    }

    /// What the gateway has to translate for a peer, once it said what it calls our networks.
    pub fn nat_mapping(&self, peer: &ClusterId) -> Option<NatMappingSpec> {
        let own = self.own().ok()?;
        let there = self.prefixes_at(peer).ok()?;
        let network = there.external.unwrap_or(own.external);
        let exported = self.exports.0.iter().filter_map(|(address, export)| {
            Some((address.to_string(), export.peers.get(peer)?.to_string()))
        });
        let tunnel = (TUNNEL.to_string(), mapped(tunnel(own), network).to_string());
        Some(NatMappingSpec {
            cluster_id: peer.to_string(),
            pod_cidr: self.peer(peer)?.pod.to_string(),
            external_cidr: network.to_string(),
            cluster_mappings: exported.chain([tunnel]).collect(),
        })
    }

    fn prefixes_at(&self, peer: &ClusterId) -> Result<Prefixes, Refusal> {
        let known = self.peers.get(peer).and_then(|known| known.there);
        known.ok_or_else(|| Refusal::NotInitialized(peer.clone()))
    }
}

/// The address of our external network that stands for the end of the tunnel.
fn tunnel(own: Networks) -> Ipv4Addr {
    own.external.hosts().next().unwrap_or_else(|| own.external.network())
}

#[cfg(test)]
mod tests;
