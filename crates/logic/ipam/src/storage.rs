//! The ledger as it is kept in the cluster: the resource `IpamStorage`.
//!
//! Its field `prefixes` is the private record of another allocator, in a format of the language it
//! is written in. Everything it says follows from the other fields, so it is carried along as it is,
//! and left empty in a new ledger.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use liqo_api::names::{ClusterId, InvalidName};
use liqo_api::net::{
    ClusterMapping, EndpointMapping, InvalidNetwork, IpamStorageSpec, NatMappingConfigured,
    Subnets, network, translation, translation_text,
};

use crate::exports::{Export, Exports};
use crate::ledger::{Ledger, Networks, Peer, Prefixes};

/// A stored ledger that does not read as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A network.
    #[error(transparent)]
    Network(#[from] InvalidNetwork),
    /// An address.
    #[error("'{0}' is not an IPv4 address")]
    Address(String),
    /// A peer.
    #[error(transparent)]
    Peer(#[from] InvalidName),
}

impl TryFrom<&IpamStorageSpec> for Ledger {
    type Error = Unreadable;

    fn try_from(stored: &IpamStorageSpec) -> Result<Self, Unreadable> {
        let some = |text: &str| (!text.is_empty()).then(|| network(text)).transpose();
        let all = |texts: &[String]| texts.iter().map(|text| network(text)).collect();
        let peer = |(id, subnets): (&String, &Subnets)| Ok((id.parse()?, read_peer(subnets)?));
        let export = |(address, mapping): (&String, &EndpointMapping)| {
            Ok((read_address(address)?, read_export(mapping)?))
        };
        let pools: Result<Vec<Ipv4Net>, InvalidNetwork> = all(&stored.pools);
        let reserved: Result<Vec<Ipv4Net>, InvalidNetwork> = all(&stored.reserved_subnets);
        let peers: Result<BTreeMap<ClusterId, Peer>, Unreadable> =
            stored.cluster_subnets.iter().map(peer).collect();
        let exports: Result<BTreeMap<Ipv4Addr, Export>, Unreadable> =
            stored.endpoint_mappings.iter().map(export).collect();
        Ok(Self {
            pools: pools?,
            reserved: reserved?,
            pod: some(&stored.pod_cidr)?,
            service: some(&stored.service_cidr)?,
            external: some(&stored.external_cidr)?,
            peers: peers?,
            exports: Exports(exports?),
            prefixes: stored.prefixes.clone(),
        })
    }
}

impl From<&Ledger> for IpamStorageSpec {
    fn from(ledger: &Ledger) -> Self {
        let texts = |networks: &[Ipv4Net]| networks.iter().map(Ipv4Net::to_string).collect();
        let text = |network: Option<Ipv4Net>| network.map(|it| it.to_string()).unwrap_or_default();
        let ready = ledger.peers.iter().filter(|(_, peer)| peer.there.is_some());
        Self {
            prefixes: ledger.prefixes.clone(),
            pools: texts(&ledger.pools),
            reserved_subnets: texts(&ledger.reserved),
            cluster_subnets: ledger
                .peers
                .iter()
                .map(|(id, peer)| (id.to_string(), write_peer(peer)))
                .collect(),
            external_cidr: text(ledger.external),
            pod_cidr: text(ledger.pod),
            service_cidr: text(ledger.service),
            endpoint_mappings: ledger
                .exports
                .0
                .iter()
                .map(|(address, export)| (address.to_string(), write_export(export)))
                .collect(),
            nat_mappings_configured: ready
                .map(|(id, _)| (id.to_string(), NatMappingConfigured {}))
                .collect(),
        }
    }
}

fn read_peer(stored: &Subnets) -> Result<Peer, InvalidNetwork> {
    let here = Networks {
        pod: network(&stored.remote_pod_cidr)?,
        external: network(&stored.remote_external_cidr)?,
    };
    let (pod, external) = (&stored.local_nat_pod_cidr, &stored.local_nat_external_cidr);
    // An empty text is no answer yet, unlike the word that says that nothing is translated.
    let there = if pod.is_empty() || external.is_empty() {
        None
    } else {
        Some(Prefixes { pod: translation(pod)?, external: translation(external)? })
    };
    Ok(Peer { here, there })
}

fn write_peer(peer: &Peer) -> Subnets {
    let text = |of: fn(Prefixes) -> Option<Ipv4Net>| {
        peer.there.map(|there| translation_text(of(there))).unwrap_or_default()
    };
    Subnets {
        local_nat_pod_cidr: text(|there| there.pod),
        remote_pod_cidr: peer.here.pod.to_string(),
        local_nat_external_cidr: text(|there| there.external),
        remote_external_cidr: peer.here.external.to_string(),
    }
}

fn read_export(stored: &EndpointMapping) -> Result<Export, Unreadable> {
    let peers = stored
        .cluster_mappings
        .iter()
        .map(|(id, mapping)| Ok((id.parse()?, read_address(&mapping.external_cidr_natted_ip)?)));
    let peers: Result<BTreeMap<ClusterId, Ipv4Addr>, Unreadable> = peers.collect();
    Ok(Export { address: read_address(&stored.external_cidr_original_ip)?, peers: peers? })
}

fn write_export(export: &Export) -> EndpointMapping {
    let peers = export.peers.iter().map(|(id, address)| {
        (id.to_string(), ClusterMapping { external_cidr_natted_ip: address.to_string() })
    });
    EndpointMapping {
        external_cidr_original_ip: export.address.to_string(),
        cluster_mappings: peers.collect(),
    }
}

fn read_address(text: &str) -> Result<Ipv4Addr, Unreadable> {
    text.parse().map_err(|_| Unreadable::Address(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::ledger::Settings;

    const PEER: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn a_ledger_reads_as_it_was_written() {
        let mut ledger = open();
        let peer = PEER.parse().unwrap();
        let asked = Networks {
            pod: "10.201.0.0/16".parse().unwrap(),
            external: "10.94.0.0/16".parse().unwrap(),
        };
        ledger.admit(&peer, asked).unwrap();
        assert_eq!(again(&ledger), ledger, "before the peer has answered");
        assert_eq!(spec(&ledger).nat_mappings_configured.len(), 0);
        let told = Prefixes { pod: None, external: Some("10.92.0.0/16".parse().unwrap()) };
        ledger.learn(&peer, told).unwrap();
        ledger.map_endpoint(&peer, Ipv4Addr::new(10, 94, 0, 1)).unwrap();
        assert_eq!(again(&ledger), ledger);
    }

    #[test]
    fn a_ledger_says_what_users_know() {
        let mut ledger = open();
        let peer = PEER.parse().unwrap();
        let asked = Networks {
            pod: "10.201.0.0/16".parse().unwrap(),
            external: "10.94.0.0/16".parse().unwrap(),
        };
        ledger.admit(&peer, asked).unwrap();
        let told = Prefixes { pod: None, external: Some("10.92.0.0/16".parse().unwrap()) };
        ledger.learn(&peer, told).unwrap();
        ledger.map_endpoint(&peer, Ipv4Addr::new(10, 94, 0, 1)).unwrap();
        let spec = spec(&ledger);
        assert_eq!(spec.pools, ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"]);
        let subnets = &spec.cluster_subnets[PEER];
        assert_eq!(
            [
                &subnets.local_nat_pod_cidr,
                &subnets.remote_pod_cidr,
                &subnets.local_nat_external_cidr,
                &subnets.remote_external_cidr
            ],
            ["None", "10.201.0.0/16", "10.92.0.0/16", "10.92.0.0/16"]
        );
        let mapping = &spec.endpoint_mappings["10.94.0.1"];
        assert_eq!(mapping.external_cidr_original_ip, "10.95.0.2");
        assert_eq!(mapping.cluster_mappings[PEER].external_cidr_natted_ip, "10.92.0.2");
        assert!(spec.nat_mappings_configured.contains_key(PEER));
        assert!(spec.prefixes.is_empty());
    }

    #[test]
    fn the_record_of_another_allocator_is_kept_as_it_is() {
        let mut stored = spec(&open());
        stored.prefixes.insert("10.0.0.0/8".to_owned(), ByteString(vec![0x0f, 0xff, 0x81]));
        assert_eq!(spec(&Ledger::try_from(&stored).unwrap()), stored);
    }

    #[test]
    fn an_empty_storage_is_an_empty_ledger() {
        assert_eq!(Ledger::try_from(&IpamStorageSpec::default()), Ok(Ledger::default()));
    }

    #[test]
    fn what_does_not_read_is_named() {
        let mut stored = spec(&open());
        stored.pools.push("10.0.0.0".to_owned());
        let error = Ledger::try_from(&stored).unwrap_err();
        assert_eq!(error.to_string(), "'10.0.0.0' is not an IPv4 network such as 10.200.0.0/16");
    }

    fn open() -> Ledger {
        let mut ledger = Ledger::default();
        let settings = Settings {
            pod: "10.200.0.0/16".parse().unwrap(),
            service: "10.94.0.0/16".parse().unwrap(),
            additional_pools: vec![],
            reserved: vec!["172.30.0.0/24".parse().unwrap()],
        };
        ledger.open(&settings).unwrap();
        ledger
    }

    fn spec(ledger: &Ledger) -> IpamStorageSpec {
        ledger.into()
    }

    fn again(ledger: &Ledger) -> Ledger {
        Ledger::try_from(&spec(ledger)).unwrap()
    }
}
