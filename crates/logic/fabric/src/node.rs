//! What a node needs: an overlay to the other nodes, and routes by which packets for other clusters
//! reach the gateway, wherever it is.
//!
//! On the gateway's node, packets from other clusters reach pods of other nodes through the overlay,
//! too, and so come back the way they went.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use liqo_api::keys::link::{
    HOST_VETH, HOST_VETH_ADDRESS, OVERLAY, OVERLAY_FIRST_OCTET, ROUTING_TABLE,
};
use liqo_api::net::TunnelEndpoint;

use crate::nat;
use crate::peer::{Ground, Peer, Refusal, admit, key_of};
use crate::state::{Hop, Kind, Link, Mac, Rule, Side, State};

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address of this node.
    pub address: Ipv4Addr,
    /// The network identifier of the overlay.
    pub vni: u32,
    /// The port of the overlay.
    pub port: u16,
    /// The largest packet of the overlay.
    pub mtu: u32,
    /// What networks of peers must keep clear of.
    pub ground: Ground,
}

/// Another node of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// The hardware address of its overlay, once it has told.
    pub mac: Option<Mac>,
}

/// A pod of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its address.
    pub pod: Ipv4Addr,
    /// The address of its node.
    pub node: Ipv4Addr,
}

/// What a node has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// All of it.
    pub state: State,
    /// Tunnels that packets are led to, by namespace and name.
    pub routed: BTreeSet<(String, String)>,
    /// Tunnels for which nothing is set up, by namespace and name.
    pub refused: BTreeMap<(String, String), Refusal>,
}

/// Where the gateway is, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gateway {
    Here,
    At(Ipv4Addr),
}

/// What a node has to hold for these tunnels.
///
/// `has_cable` says whether the gateway's cable ends at this node; routes into it have to wait for
/// it. Tunnels without a gateway have to wait for one.
pub fn desired<'a>(
    endpoints: impl IntoIterator<Item = &'a TunnelEndpoint>,
    neighbours: &BTreeSet<Neighbour>,
    places: &BTreeSet<Place>,
    settings: &Settings,
    has_cable: bool,
) -> NodeState {
    let usable: Vec<&TunnelEndpoint> = endpoints
        .into_iter()
        .filter(|one| one.metadata.deletion_timestamp.is_none() && gateway_of(one).is_some())
        .collect();
    let (peers, refused) = admit(usable.iter().copied(), &BTreeMap::new(), &settings.ground);
    let mut state = overlay(neighbours, settings);
    let (mut routed, mut is_gateway) = (BTreeSet::new(), false);
    for endpoint in usable {
        let key = key_of(endpoint);
        let id = endpoint.spec.cluster_identity.cluster_id.parse().ok();
        let peer = id.and_then(|id| peers.get(&id)).filter(|_| !refused.contains_key(&key));
        let Some((peer, gateway)) = peer.zip(gateway_of(endpoint)) else { continue };
        let gateway =
            if gateway == settings.address { Gateway::Here } else { Gateway::At(gateway) };
        is_gateway |= gateway == Gateway::Here;
        lead(&mut state, peer, gateway, has_cable);
        routed.insert(key);
    }
    if is_gateway {
        lead_back(&mut state, places, settings);
    }
    state.filter = Some(nat::node(&peers, settings.mtu));
    NodeState { state, routed, refused }
}

/// The address of a node in the overlay.
pub fn overlay_address(node: Ipv4Addr) -> Ipv4Addr {
    let [_, b, c, d] = node.octets();
    Ipv4Addr::new(OVERLAY_FIRST_OCTET, b, c, d)
}

fn gateway_of(endpoint: &TunnelEndpoint) -> Option<Ipv4Addr> {
    endpoint.status.as_ref()?.gateway_ip.as_ref()?.parse().ok()
}

fn overlay(neighbours: &BTreeSet<Neighbour>, settings: &Settings) -> State {
    let Settings { address, vni, port, mtu, .. } = *settings;
    let mut state = State::default();
    let kind = Kind::Overlay { vni, port, local: address };
    state.links.insert(OVERLAY.to_owned(), Link { kind, mtu, arp: true, up: true });
    if let Ok(network) = Ipv4Net::new(overlay_address(address), 8) {
        state.addresses.insert((OVERLAY.to_owned(), network));
    }
    state.settings.insert(State::setting_of(OVERLAY, "rp_filter"), "2".to_owned());
    for neighbour in neighbours.iter().filter(|neighbour| neighbour.address != address) {
        let everyone = std::iter::once(Mac::default());
        for mac in everyone.chain(neighbour.mac) {
            state.forwards.insert((OVERLAY.to_owned(), mac, neighbour.address));
        }
    }
    state
}

fn lead(state: &mut State, peer: &Peer, gateway: Gateway, has_cable: bool) {
    let hop = match gateway {
        Gateway::Here => Hop::through(HOST_VETH_ADDRESS, HOST_VETH),
        Gateway::At(node) => Hop::through(overlay_address(node), OVERLAY),
    };
    for net in peer.networks() {
        if gateway != Gateway::Here || has_cable {
            state.routes.insert((ROUTING_TABLE, net), hop.clone());
        }
        state.rules.insert(Rule { side: Side::To, net, table: ROUTING_TABLE });
        if gateway == Gateway::Here {
            state.rules.insert(Rule { side: Side::From, net, table: ROUTING_TABLE });
        }
    }
}

fn lead_back(state: &mut State, places: &BTreeSet<Place>, settings: &Settings) {
    for Place { pod, node } in places {
        if *node != settings.address && *pod != settings.address {
            let hop = Hop::through(overlay_address(*node), OVERLAY);
            state.routes.insert((ROUTING_TABLE, Ipv4Net::from(*pod)), hop);
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::fixtures::{InWords as _, MILAN, endpoint};
    use crate::owned::Scope;
    use crate::plan::{Shown, plan};

    #[test]
    fn the_gateways_node_leads_into_the_cable_and_back_through_the_overlay() {
        assert_snapshot!(shown("172.30.0.2", true), @r"
        + link liqo.vxlan: overlay 18952 on 172.30.0.2, port 4879, mtu 1340, up
        ~ net.ipv4.conf.liqo.vxlan.rp_filter = 2
        + address 240.30.0.2/8 dev liqo.vxlan
        + 00:00:00:00:00:00 at 172.30.0.4 dev liqo.vxlan
        + 02:00:00:00:00:04 at 172.30.0.4 dev liqo.vxlan
        + route 10.92.0.0/16 via 169.254.100.1 dev liqo.host table 18952
        + route 10.200.1.7/32 via 240.30.0.4 dev liqo.vxlan table 18952
        + route 10.201.0.0/16 via 169.254.100.1 dev liqo.host table 18952
        + rule from 10.92.0.0/16 lookup 18952
        + rule from 10.201.0.0/16 lookup 18952
        + rule to 10.92.0.0/16 lookup 18952
        + rule to 10.201.0.0/16 lookup 18952
        ");
    }

    #[test]
    fn other_nodes_lead_to_the_gateways_node() {
        assert_snapshot!(shown("172.30.0.4", false), @r"
        + link liqo.vxlan: overlay 18952 on 172.30.0.4, port 4879, mtu 1340, up
        ~ net.ipv4.conf.liqo.vxlan.rp_filter = 2
        + address 240.30.0.4/8 dev liqo.vxlan
        + 00:00:00:00:00:00 at 172.30.0.2 dev liqo.vxlan
        + route 10.92.0.0/16 via 240.30.0.2 dev liqo.vxlan table 18952
        + route 10.201.0.0/16 via 240.30.0.2 dev liqo.vxlan table 18952
        + rule to 10.92.0.0/16 lookup 18952
        + rule to 10.201.0.0/16 lookup 18952
        ");
    }

    #[test]
    fn routes_wait_for_the_cable_and_tunnels_for_their_gateway() {
        let state = at("172.30.0.2", &endpoint(MILAN, "milan").through("172.30.0.2"), false);
        assert_eq!(state.state.routes.len(), 1, "only the way back to a pod");
        assert_eq!(state.state.rules.len(), 4);
        let state = at("172.30.0.2", &endpoint(MILAN, "milan"), true);
        assert!(state.state.rules.is_empty() && state.routed.is_empty());
    }

    #[test]
    fn a_tunnel_that_is_refused_leads_nowhere() {
        let endpoint = endpoint(MILAN, "milan").pods("224.0.0.0/16", "None").through("172.30.0.2");
        let state = at("172.30.0.4", &endpoint, false);
        assert_eq!((state.refused.len(), state.routed.len(), state.state.routes.len()), (1, 0, 0));
    }

    fn shown(node: &str, has_cable: bool) -> String {
        let state = at(node, &endpoint(MILAN, "milan").through("172.30.0.2"), has_cable);
        assert_eq!(state.routed.len(), 1);
        let mut state = state.state;
        state.filter = None;
        Shown(&plan(&Scope::node(), &state, &State::default())).to_string()
    }

    fn at(node: &str, endpoint: &TunnelEndpoint, has_cable: bool) -> NodeState {
        let settings = Settings {
            address: node.parse().unwrap(),
            vni: 18952,
            port: 4879,
            mtu: 1340,
            ground: Ground::default(),
        };
        let neighbours = BTreeSet::from([
            Neighbour { address: Ipv4Addr::new(172, 30, 0, 2), mac: None },
            Neighbour { address: Ipv4Addr::new(172, 30, 0, 4), mac: Some(Mac([2, 0, 0, 0, 0, 4])) },
        ]);
        let places = [([10, 200, 0, 5], 2), ([10, 200, 1, 7], 4)]
            .map(|(pod, node)| Place { pod: pod.into(), node: Ipv4Addr::new(172, 30, 0, node) });
        desired([endpoint], &neighbours, &BTreeSet::from(places), &settings, has_cable)
    }
}
