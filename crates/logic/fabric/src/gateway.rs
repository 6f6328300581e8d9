//! What a gateway needs: a namespace of its own with the tunnels, joined to its node by a cable.
//!
//! ```text
//!          node                    │              gateway's namespace
//!  pods ── routes of the node ── liqo.host ═══ liqo.gateway ── filter ── liqo.tunnel ══> peers
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use liqo_api::keys::link::{
    GATEWAY_VETH, GATEWAY_VETH_ADDRESS, HOST_VETH, HOST_VETH_ADDRESS, TUNNEL, TUNNEL_ADDRESS,
};
use liqo_api::keys::secret;
use liqo_api::names::ClusterId;
use liqo_api::net::{NatMapping, NatMappingSpec, TunnelEndpoint};

use crate::nat;
use crate::peer::{Ground, Peer, Refusal, admit};
use crate::state::{Hop, Kind, Link, MAIN_TABLE, Mac, State};

/// What is the same for all peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest packet of tunnels, and of the cable.
    pub mtu: u32,
    /// What networks of peers must keep clear of.
    pub ground: Ground,
}

/// The largest packets of those peers to whom less passes than to others.
pub type Widths = BTreeMap<ClusterId, u32>;

/// What gateways have told of that.
pub fn told_widths<'a>(endpoints: impl IntoIterator<Item = &'a TunnelEndpoint>) -> Widths {
    let told = endpoints.into_iter().filter_map(|endpoint| {
        let connection = endpoint.status.as_ref()?.connection.as_ref()?;
        let width = connection.peer_configuration.get(secret::TUNNEL_MTU)?.parse().ok()?;
        Some((endpoint.spec.cluster_identity.cluster_id.parse().ok()?, width))
    });
    told.collect()
}

/// What is only known once the cable is there: the hardware addresses of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Of the end on the node.
    pub node: Option<Mac>,
    /// Of the end in the gateway.
    pub gateway: Option<Mac>,
}

/// What a gateway has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayState {
    /// On its node.
    pub outside: State,
    /// In its own namespace.
    pub inside: State,
    /// The far ends of tunnels.
    pub peers: BTreeMap<ClusterId, Peer>,
    /// Tunnels for which nothing is set up, by namespace and name.
    pub refused: BTreeMap<(String, String), Refusal>,
}

/// What a gateway has to hold for these tunnels; those on their way out are not among them.
pub fn desired<'a>(
    endpoints: impl IntoIterator<Item = &'a TunnelEndpoint>,
    mappings: impl IntoIterator<Item = &'a NatMapping>,
    settings: &Settings,
    widths: &Widths,
    ends: Ends,
) -> GatewayState {
    let staying = endpoints.into_iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    let (peers, refused) = admit(staying, &by_peer(mappings), &settings.ground);
    let outside = outside(settings.mtu, ends);
    let mut inside = inside(settings.mtu, ends);
    let narrow: Widths = widths
        .iter()
        .filter(|(id, width)| peers.contains_key(id) && **width < settings.mtu)
        .map(|(id, width)| (id.clone(), *width))
        .collect();
    for (id, peer) in &peers {
        for network in peer.networks() {
            let hop = Hop { mtu: narrow.get(id).copied(), ..Hop::out_of(TUNNEL) };
            inside.routes.insert((MAIN_TABLE, network), hop);
        }
    }
    inside.filter = Some(nat::gateway(&peers, settings.mtu, &narrow));
    GatewayState { outside, inside, peers, refused }
}

/// The mappings of each peer; of several for one, the first by name.
fn by_peer<'a>(
    mappings: impl IntoIterator<Item = &'a NatMapping>,
) -> BTreeMap<ClusterId, NatMappingSpec> {
    let mut mappings: Vec<&NatMapping> = mappings.into_iter().collect();
    mappings.sort_by(|one, other| other.metadata.name.cmp(&one.metadata.name));
    let specs = mappings.into_iter().map(|mapping| &mapping.spec);
    specs.filter_map(|spec| Some((spec.peer().ok()?, spec.clone()))).collect()
}

fn outside(mtu: u32, ends: Ends) -> State {
    let mut state = State::default();
    let cable = Kind::Cable { peer: GATEWAY_VETH.to_owned() };
    state.links.insert(HOST_VETH.to_owned(), Link { kind: cable, mtu, arp: false, up: true });
    on_cable(&mut state, HOST_VETH, HOST_VETH_ADDRESS, ends.gateway);
    state
}

fn inside(mtu: u32, ends: Ends) -> State {
    let mut state = State::default();
    let end = Link { kind: Kind::Given, mtu, arp: false, up: true };
    // Nobody makes this end alone, and it asks for no hardware addresses because the other does not.
    let cable = Kind::Cable { peer: HOST_VETH.to_owned() };
    state.links.insert(GATEWAY_VETH.to_owned(), Link { kind: cable, ..end.clone() });
    state.links.insert(TUNNEL.to_owned(), end);
    on_cable(&mut state, GATEWAY_VETH, GATEWAY_VETH_ADDRESS, ends.node);
    let everywhere = Ipv4Net::default();
    let hop = Hop::through(GATEWAY_VETH_ADDRESS, GATEWAY_VETH);
    state.routes.insert((MAIN_TABLE, everywhere), hop);
    state.addresses.insert((TUNNEL.to_owned(), Ipv4Net::from(TUNNEL_ADDRESS)));
    // It says itself when a packet is too long for the way, and a node believes only those who speak
    // from where it would send to.
    state.addresses.insert((GATEWAY_VETH.to_owned(), Ipv4Net::from(HOST_VETH_ADDRESS)));
    state.settings.insert("net/ipv4/ip_forward".to_owned(), "1".to_owned());
    state
}

/// What one end of the cable knows of the other.
fn on_cable(state: &mut State, link: &str, other: Ipv4Addr, mac: Option<Mac>) {
    state.routes.insert((MAIN_TABLE, Ipv4Net::from(other)), Hop::out_of(link));
    if let Some(mac) = mac {
        state.neighbours.insert((link.to_owned(), other), mac);
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::fixtures::{InWords as _, MILAN, ROME, endpoint, mapping};
    use crate::owned::Scope;
    use crate::plan::{Shown, plan};
    use crate::state::Filter;

    #[test]
    fn a_gateway_begins_with_a_cable_and_ends_with_routes_into_the_tunnel() {
        let state = gateway(&[endpoint(MILAN, "milan")]);
        let without_script = |mut state: State| {
            state.filter = state.filter.map(|filter| Filter { script: String::new(), ..filter });
            state
        };
        let outside = plan(&Scope::gateway_outside(), &state.outside, &State::default());
        let mut have = State::default();
        for name in [GATEWAY_VETH, TUNNEL] {
            let link = Link {
                kind: Kind::Cable { peer: HOST_VETH.to_owned() },
                mtu: 1500,
                arp: true,
                up: false,
            };
            have.links.insert(name.to_owned(), link);
        }
        let inside = plan(&Scope::gateway_inside(), &without_script(state.inside), &have);
        assert_snapshot!(format!("{}--\n{}", Shown(&outside), Shown(&inside)));
    }

    #[test]
    fn nothing_is_set_up_for_a_peer_that_is_refused() {
        let good = endpoint(MILAN, "milan");
        let bad = endpoint(ROME, "rome").pods("127.0.0.0/16", "None");
        let state = gateway(&[good.clone(), bad]);
        assert_eq!(state.refused.len(), 1);
        assert_eq!(GatewayState { refused: BTreeMap::new(), ..state }, gateway(&[good]));
    }

    #[test]
    fn a_tunnel_on_its_way_out_is_not_held() {
        let mut leaving = endpoint(MILAN, "milan").created("2026-11-15T20:02:35Z");
        leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
        assert_eq!(gateway(&[leaving]), gateway(&[]));
    }

    #[test]
    fn a_peer_with_a_narrow_way_gets_smaller_packets_and_others_do_not() {
        let endpoints = [
            endpoint(MILAN, "milan").pods("10.201.0.0/16", "10.51.0.0/16"),
            endpoint(ROME, "rome").externals("10.94.0.0/16", "10.52.0.0/16"),
        ];
        let settings = Settings { mtu: 1340, ground: Ground::default() };
        let narrow = Widths::from([(MILAN.parse().unwrap(), 1232), (ROME.parse().unwrap(), 1340)]);
        let state = desired(&endpoints, [], &settings, &narrow, Ends::default());
        assert!(state.refused.is_empty(), "{:?}", state.refused);
        let mtus: Vec<_> = state
            .inside
            .routes
            .iter()
            .filter(|(_, hop)| hop.link == TUNNEL)
            .map(|((_, to), hop)| format!("{to} {:?}", hop.mtu))
            .collect();
        let want = [
            "10.51.0.0/16 Some(1232)",
            "10.52.0.0/16 None",
            "10.92.0.0/16 Some(1232)",
            "10.201.0.0/16 None",
        ];
        assert_eq!(mtus, want);
        let script = state.inside.filter.unwrap().script;
        let clamps: Vec<_> = script.lines().filter(|line| line.contains("size set 1192")).collect();
        assert_eq!(clamps.len(), 2, "{script}");
        assert!(clamps.iter().all(|line| line.contains("{ 10.51.0.0/16, 10.92.0.0/16 }")));
    }

    #[test]
    fn what_was_told_of_narrow_ways_is_read_again() {
        let mut milan = endpoint(MILAN, "milan").through("172.30.0.2");
        let connection = serde_json::json!({ "peerConfiguration": { "mtu": "1232" } });
        milan.status.as_mut().unwrap().connection = serde_json::from_value(connection).unwrap();
        let told = told_widths([&milan, &endpoint(ROME, "rome")]);
        assert_eq!(told, Widths::from([(MILAN.parse().unwrap(), 1232)]));
    }

    #[test]
    fn one_more_peer_touches_nothing_of_sixteen_others() {
        let peers = |count: u8| -> Vec<TunnelEndpoint> {
            let peer = |number: u8| {
                endpoint(&format!("2cb4110a-c5e6-4a52-851d-d0e0d86c91{number:02}"), "peer")
                    .pods("10.201.0.0/16", &format!("10.{number}.0.0/16"))
                    .externals("10.94.0.0/16", &format!("10.{}.0.0/16", 100 + number))
            };
            (1..=count).map(peer).collect()
        };
        let [few, more] = [16, 17].map(|count| gateway(&peers(count)));
        assert_eq!((few.peers.len(), more.peers.len()), (16, 17));
        let given = |mut state: State| {
            // The kernel holds what it was given.
            let filter = state.filter.take();
            state.filter = filter.map(|filter| Filter { script: String::new(), ..filter });
            state
        };
        let steps = |from: &GatewayState, to: &GatewayState| -> Vec<String> {
            let steps = plan(&Scope::gateway_inside(), &to.inside, &given(from.inside.clone()));
            steps.iter().map(|step| step.to_string().lines().next().unwrap().to_owned()).collect()
        };
        let one = "10.17.0.0/16 dev liqo.tunnel";
        let other = "10.117.0.0/16 dev liqo.tunnel";
        let mark = format!("{:#010x}", nat::mark(more.peers.values().last().unwrap()));
        assert_eq!(
            steps(&few, &more),
            [
                format!("+ route {one}"),
                format!("+ route {other}"),
                "~ packet filter".to_owned(),
                "- connections marked 0x00000000".to_owned()
            ]
        );
        assert_eq!(
            steps(&more, &few),
            [
                format!("- route {one}"),
                format!("- route {other}"),
                "~ packet filter".to_owned(),
                format!("- connections marked {mark}"),
                "- connections marked 0x00000000".to_owned()
            ]
        );
        assert_eq!(plan(&Scope::gateway_outside(), &more.outside, &few.outside), []);
    }

    fn gateway(endpoints: &[TunnelEndpoint]) -> GatewayState {
        let settings = Settings { mtu: 1340, ground: Ground::default() };
        let ends =
            Ends { node: Some(Mac([2, 0, 0, 0, 0, 1])), gateway: Some(Mac([2, 0, 0, 0, 0, 2])) };
        desired(endpoints, &[mapping(MILAN)], &settings, &Widths::new(), ends)
    }
}
