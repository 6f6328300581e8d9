//! What is known of a peer, checked before any of it reaches the kernel.
//!
//! Networks and keys of a peer are its own words. One that would lead packets of this node astray
//! is refused with a reason, and nothing is set up for that peer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ipnet::Ipv4Net;
use liqo_api::keys::{link, secret};
use liqo_api::names::{Cluster, ClusterId, InvalidName};
use liqo_api::net::{
    InvalidNetwork, NatMappingSpec, TunnelEndpoint, TunnelEndpointSpec, network, translation,
};

/// A peer whose words make sense here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub cluster: Cluster,
    /// Its public key.
    pub key: [u8; 32],
    /// Where its gateway is: an address or a name.
    pub endpoint: String,
    /// The port of its gateway.
    pub port: u16,
    /// Its pods, as they are known here.
    pub pods: Ipv4Net,
    /// What else it shows, as it is known here.
    pub externals: Ipv4Net,
    /// The pods of this cluster.
    pub own_pods: Ipv4Net,
    /// The same as the peer knows them.
    pub own_pods_there: Ipv4Net,
    /// The addresses that it may reach besides pods: those it uses, and what they stand for.
    pub shown: BTreeMap<Ipv4Addr, Ipv4Addr>,
}

/// What the networks of peers must keep clear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    /// Networks that the node itself is on.
    pub networks: Vec<Ipv4Net>,
}

/// Why nothing is set up for a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It says who it is in a way that makes no sense.
    #[error("its identity is not valid: {0}")]
    Identity(#[from] InvalidName),
    /// A network does not read as one.
    #[error("{0}")]
    Network(#[from] InvalidNetwork),
    /// The tunnel is of a kind that nobody here knows.
    #[error("tunnels of type '{0}' are not known here; only wireguard is")]
    Backend(String),
    /// The key cannot be one.
    #[error("its public key is not 32 bytes in base64")]
    Key,
    /// The port cannot be one.
    #[error("its port '{0}' is not a number from 1 to 65535")]
    Port(String),
    /// A network would lead away packets that are not for the peer.
    #[error("its network {network} overlaps {with}, {what}; have it remapped or exclude it")]
    Overlap {
        /// The network.
        network: Ipv4Net,
        /// What it overlaps.
        with: Ipv4Net,
        /// What that is.
        what: String,
    },
    /// A network and its translation are of different sizes.
    #[error("{network} cannot be translated to {translation}, which is of another size")]
    Size {
        /// The network.
        network: Ipv4Net,
        /// Its translation.
        translation: Ipv4Net,
    },
    /// Another tunnel for the same peer is older.
    #[error("an older TunnelEndpoint is for the same cluster")]
    Repeated,
}

/// Networks that belong to nobody's pods.
const RESERVED: [(Ipv4Addr, u8, &str); 4] = [
    (Ipv4Addr::UNSPECIFIED, 8, "which means this machine"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "which is loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "which is link-local and used by gateways"),
    (Ipv4Addr::new(224, 0, 0, 0), 3, "which is multicast and the overlay of nodes"),
];

impl Peer {
    /// Reads a peer from what the network manager wrote.
    pub fn read(
        spec: &TunnelEndpointSpec,
        mapping: Option<&NatMappingSpec>,
        ground: &Ground,
    ) -> Result<Self, Refusal> {
        if spec.backend_type != link::BACKEND_WIREGUARD {
            return Err(Refusal::Backend(spec.backend_type.clone()));
        }
        let identity = &spec.cluster_identity;
        let cluster =
            Cluster { id: identity.cluster_id.parse()?, name: identity.cluster_name.parse()? };
        let own_pods = network(&spec.local_pod_cidr)?.trunc();
        let own_externals = network(&spec.local_external_cidr)?.trunc();
        let own_pods_there = translated(own_pods, &spec.local_nat_pod_cidr)?;
        let own_externals_there = translated(own_externals, &spec.local_nat_external_cidr)?;
        let remote = |own: &str, here: &str| translated(network(own)?.trunc(), here);
        let pods = remote(&spec.remote_pod_cidr, &spec.remote_nat_pod_cidr)?;
        let externals = remote(&spec.remote_external_cidr, &spec.remote_nat_external_cidr)?;

        for network in [pods, externals, own_pods_there, own_externals_there] {
            keep_clear(network, &reserved())?;
        }
        let mut own = vec![
            (own_pods, "the network of this cluster's pods".to_owned()),
            (own_externals, "the external network of this cluster".to_owned()),
        ];
        let is_node = |network: &Ipv4Net| (*network, "a network of this node".to_owned());
        own.extend(ground.networks.iter().map(is_node));
        keep_clear(pods, &own)?;
        keep_clear(externals, &own)?;
        keep_clear(externals, &[(pods, "the network of its pods".to_owned())])?;
        let shown = mapping.map(|mapping| shown(mapping, own_externals_there)).unwrap_or_default();
        Ok(Self {
            cluster,
            key: key(spec)?,
            endpoint: spec.endpoint_ip.clone(),
            port: port(spec)?,
            pods,
            externals,
            own_pods,
            own_pods_there,
            shown,
        })
    }

    /// The networks behind the tunnel, as they are known here.
    pub fn networks(&self) -> [Ipv4Net; 2] {
        [self.pods, self.externals]
    }

    /// The address of its gateway inside the tunnel: the first of what it shows.
    pub fn probe(&self) -> Ipv4Addr {
        first_host(self.externals)
    }
}

/// The first address that a host of a network may have.
pub fn first_host(network: Ipv4Net) -> Ipv4Addr {
    network.hosts().next().unwrap_or_else(|| network.network())
}

/// The peers that can be set up together, by cluster, and why others cannot.
///
/// Older tunnels win over newer ones, so that nobody takes a network that is in use.
pub fn admit<'a>(
    endpoints: impl IntoIterator<Item = &'a TunnelEndpoint>,
    mappings: &BTreeMap<ClusterId, NatMappingSpec>,
    ground: &Ground,
) -> (BTreeMap<ClusterId, Peer>, BTreeMap<(String, String), Refusal>) {
    let mut endpoints: Vec<&TunnelEndpoint> = endpoints.into_iter().collect();
    endpoints.sort_by_key(|endpoint| {
        let metadata = &endpoint.metadata;
        let age = metadata.creation_timestamp.as_ref().map(|time| time.0);
        (age.is_none(), age, metadata.uid.clone(), metadata.name.clone())
    });
    let (mut peers, mut refused) = (BTreeMap::<ClusterId, Peer>::new(), BTreeMap::new());
    for endpoint in endpoints {
        let id = endpoint.spec.cluster_identity.cluster_id.parse::<ClusterId>();
        let mapping = id.as_ref().ok().and_then(|id| mappings.get(id));
        let peer = Peer::read(&endpoint.spec, mapping, ground);
        match peer.and_then(|peer| beside(&peers, &peer).map(|()| peer)) {
            Ok(peer) => {
                peers.insert(peer.cluster.id.clone(), peer);
            }
            Err(refusal) => {
                refused.insert(key_of(endpoint), refusal);
            }
        }
    }
    (peers, refused)
}

/// Namespace and name of a tunnel.
pub fn key_of(endpoint: &TunnelEndpoint) -> (String, String) {
    let metadata = &endpoint.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn beside(peers: &BTreeMap<ClusterId, Peer>, peer: &Peer) -> Result<(), Refusal> {
    if peers.contains_key(&peer.cluster.id) {
        return Err(Refusal::Repeated);
    }
    let taken: Vec<(Ipv4Net, String)> = peers
        .values()
        .flat_map(|other| other.networks().map(|net| (net, format!("of {}", other.cluster.name))))
        .collect();
    peer.networks().into_iter().try_for_each(|network| keep_clear(network, &taken))
}

fn reserved() -> Vec<(Ipv4Net, String)> {
    let networks = RESERVED.map(|(address, length, what)| {
        Ipv4Net::new(address, length).map(|network| (network, what.to_owned()))
    });
    networks.into_iter().flatten().collect()
}

fn keep_clear(network: Ipv4Net, others: &[(Ipv4Net, String)]) -> Result<(), Refusal> {
    let overlaps = |other: &Ipv4Net| other.contains(&network) || network.contains(other);
    match others.iter().find(|(other, _)| overlaps(other)) {
        Some((with, what)) => Err(Refusal::Overlap { network, with: *with, what: what.clone() }),
        None => Ok(()),
    }
}

fn translated(own: Ipv4Net, text: &str) -> Result<Ipv4Net, Refusal> {
    let Some(translation) = translation(text)? else { return Ok(own) };
    if translation.prefix_len() != own.prefix_len() {
        return Err(Refusal::Size { network: own, translation });
    }
    Ok(translation.trunc())
}

/// Addresses outside what the peer knows as ours are nobody's, and lead nowhere.
fn shown(mapping: &NatMappingSpec, there: Ipv4Net) -> BTreeMap<Ipv4Addr, Ipv4Addr> {
    let pairs = mapping.cluster_mappings.iter().filter_map(|(original, used)| {
        let (original, used) = (original.parse().ok()?, used.parse().ok()?);
        there.contains(&used).then_some((used, original))
    });
    let mut seen = BTreeSet::new();
    // Two originals cannot be behind one address: the first stays.
    pairs.filter(|(used, _): &(Ipv4Addr, Ipv4Addr)| seen.insert(*used)).collect()
}

fn key(spec: &TunnelEndpointSpec) -> Result<[u8; 32], Refusal> {
    let text = spec.backend_config.get(secret::WIREGUARD_PUBLIC_KEY).ok_or(Refusal::Key)?;
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| Refusal::Key)?;
    bytes.try_into().map_err(|_| Refusal::Key)
}

fn port(spec: &TunnelEndpointSpec) -> Result<u16, Refusal> {
    let text = spec.backend_config.get(secret::TUNNEL_PORT).cloned().unwrap_or_default();
    match text.parse() {
        Ok(port) if port != 0 => Ok(port),
        Ok(_) | Err(_) => Err(Refusal::Port(text)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::fixtures::{InWords as _, MILAN, ROME, endpoint, mapping};

    #[test]
    fn a_peer_is_read_as_it_is_known_here() {
        let endpoint = endpoint(MILAN, "milan").pods("10.200.0.0/16", "10.51.0.0/16");
        let peer = Peer::read(&endpoint.spec, Some(&mapping(MILAN).spec), &Ground::default());
        let peer = peer.unwrap();
        assert_eq!(peer.pods.to_string(), "10.51.0.0/16");
        assert_eq!(peer.externals.to_string(), "10.92.0.0/16");
        assert_eq!(peer.probe().to_string(), "10.92.0.1");
        let shown: Vec<String> =
            peer.shown.iter().map(|(used, original)| format!("{used} {original}")).collect();
        assert_eq!(shown, ["10.93.0.1 169.254.0.1", "10.93.0.2 10.94.0.1"]);
    }

    #[test]
    fn networks_that_would_lead_packets_astray_are_refused_with_a_reason() {
        let ground = Ground { networks: vec!["172.30.0.0/24".parse().unwrap()] };
        for (network, reason) in [
            ("0.0.0.0/0", "which means this machine"),
            ("127.0.0.0/16", "which is loopback"),
            ("169.254.0.0/16", "which is link-local and used by gateways"),
            ("224.0.0.0/16", "which is multicast and the overlay of nodes"),
            ("240.30.0.0/16", "which is multicast and the overlay of nodes"),
            ("172.30.0.0/16", "a network of this node"),
            ("172.30.0.0/30", "a network of this node"),
            ("10.200.7.0/24", "the network of this cluster's pods"),
            ("10.0.0.0/8", "the network of this cluster's pods"),
        ] {
            let endpoint = endpoint(MILAN, "milan").pods(network, "None");
            let refusal = Peer::read(&endpoint.spec, None, &ground).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{network}: {refusal}");
        }
    }

    #[test]
    fn a_translation_of_another_size_is_refused() {
        let endpoint = endpoint(MILAN, "milan").pods("10.201.0.0/16", "10.51.0.0/20");
        let refusal = Peer::read(&endpoint.spec, None, &Ground::default()).unwrap_err();
        assert!(matches!(refusal, Refusal::Size { .. }), "{refusal}");
    }

    #[test]
    fn keys_and_ports_that_cannot_be_are_refused() {
        let mut spec = endpoint(MILAN, "milan").spec;
        spec.backend_config.insert("port".to_owned(), "0".to_owned());
        assert_eq!(read(&spec), Err(Refusal::Port("0".to_owned())));
        spec.backend_config.insert("publicKey".to_owned(), "c2hvcnQ=".to_owned());
        assert_eq!(read(&spec), Err(Refusal::Key));
        spec.backend_type = "ipsec".to_owned();
        assert_eq!(read(&spec), Err(Refusal::Backend("ipsec".to_owned())));
    }

    #[test]
    fn of_two_peers_with_the_same_network_the_older_one_stays() {
        let old = endpoint(ROME, "rome").created("2026-11-15T20:02:35Z");
        let new = endpoint(MILAN, "milan").created("2026-11-15T21:02:35Z");
        let (peers, refused) = admit([&new, &old], &BTreeMap::new(), &Ground::default());
        assert_eq!(peers.keys().map(ClusterId::as_str).collect::<Vec<_>>(), [ROME]);
        let refusal = refused.values().next().unwrap().to_string();
        assert!(refusal.contains("overlaps 10.201.0.0/16, of rome"), "{refusal}");
    }

    #[test]
    fn an_address_outside_what_the_peer_knows_is_not_shown() {
        let mut mapping = mapping(MILAN).spec;
        mapping.cluster_mappings.insert("10.94.0.9".to_owned(), "10.201.0.5".to_owned());
        let there = "10.93.0.0/16".parse().unwrap();
        assert_eq!(shown(&mapping, there).len(), 2);
    }

    proptest! {
        #[test]
        fn those_that_are_admitted_have_no_address_in_common_with_anybody(
            asked in prop::collection::vec((any_network(), any_network(), any_network()), 0..6)
        ) {
            let ground = Ground { networks: vec!["172.30.0.0/24".parse().unwrap()] };
            let endpoints: Vec<TunnelEndpoint> = asked.iter().enumerate().map(|(number, asked)| {
                let id = format!("2cb4110a-c5e6-4a52-851d-d0e0d86c917{number}");
                let endpoint = endpoint(&id, &format!("p{number}"));
                endpoint.pods(&asked.0, "None").externals(&asked.1, "None").known_there_as(&asked.2)
            }).collect();
            let (peers, refused) = admit(&endpoints, &BTreeMap::new(), &ground);
            prop_assert_eq!(peers.len() + refused.len(), endpoints.len());
            let mut taken: Vec<Ipv4Net> = reserved().into_iter().map(|(net, _)| net).collect();
            taken.extend(&ground.networks);
            taken.extend(["10.200.0.0/16", "10.95.0.0/16"].map(|net| net.parse::<Ipv4Net>().unwrap()));
            for network in peers.values().flat_map(Peer::networks) {
                let common = taken.iter().find(|other| other.contains(&network) || network.contains(*other));
                prop_assert_eq!(common, None, "{}", network);
                taken.push(network);
            }
        }

        #[test]
        fn no_text_makes_it_stumble(
            texts in prop::collection::vec(prop::option::weighted(0.2, any_text()), 11)
        ) {
            let mut spec = endpoint(MILAN, "milan").spec;
            let [mut key, mut port] =
                ["publicKey", "port"].map(|name| spec.backend_config[name].clone());
            let fields = [
                &mut spec.cluster_identity.cluster_id,
                &mut spec.cluster_identity.cluster_name,
                &mut spec.local_pod_cidr,
                &mut spec.local_nat_pod_cidr,
                &mut spec.local_nat_external_cidr,
                &mut spec.remote_pod_cidr,
                &mut spec.remote_nat_pod_cidr,
                &mut spec.remote_external_cidr,
                &mut spec.endpoint_ip,
                &mut key,
                &mut port,
            ];
            for (field, text) in fields.into_iter().zip(texts) {
                *field = text.unwrap_or_else(|| field.clone());
            }
            spec.backend_config.extend([("publicKey".to_owned(), key), ("port".to_owned(), port)]);
            let _ = read(&spec);
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![any_network(), "None|[0-9./:a-z-]{0,24}", ".{0,12}"]
    }

    fn any_network() -> impl Strategy<Value = String> {
        let firsts = vec!["10.200", "10.95", "10.51", "10.52", "172.30", "127.0", "224.0", "11.0"];
        let lengths = vec![8, 12, 16, 17, 24, 30, 32];
        (select(firsts), 0..4_u8, select(lengths))
            .prop_map(|(first, third, length)| format!("{first}.{third}.0/{length}"))
    }

    fn read(spec: &TunnelEndpointSpec) -> Result<(), Refusal> {
        Peer::read(spec, None, &Ground::default()).map(drop)
    }
}
