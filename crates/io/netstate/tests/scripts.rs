//! Whatever peers say, what is made of it is a script that the packet filter takes: one peer must not
//! be able to keep it from being loaded for all.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

#[path = "fabric/lab.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod lab;

use std::collections::BTreeSet;

use lab::{Lab, node_settings};
use liqo_api::net::{NatMapping, TunnelEndpoint};
use liqo_fabric::gateway::{self, Ends, Settings};
use liqo_fabric::node;
use liqo_fabric::peer::Ground;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_peers_say_keeps_the_filter_from_being_loaded(
        peers in prop::collection::vec((any_tunnel(), any_mapping()), 0..5),
    ) {
        let lab = Lab::new("script");
        let at = lab.namespace("a");
        let (tunnels, mappings): (Vec<_>, Vec<_>) = peers.into_iter().unzip();
        let settings = Settings { mtu: 1340, ground: Ground::default() };
        let ids = tunnels.iter().map(|tunnel| tunnel.spec.cluster_identity.cluster_id.parse());
        let narrow = ids.flatten().map(|id| (id, 1232)).collect();
        let gateway = gateway::desired(&tunnels, &mappings, &settings, &narrow, Ends::default());
        prop_assert_eq!(gateway.peers.len() + gateway.refused.len(), names(&tunnels).len());
        let mut endpoints = tunnels;
        for endpoint in &mut endpoints {
            let status = json!({ "gatewayIP": "172.30.0.2" });
            endpoint.status = serde_json::from_value(status).unwrap();
        }
        let none = BTreeSet::new();
        let here = node_settings([172, 30, 0, 2].into());
        let node = node::desired(&endpoints, &none, &BTreeSet::new(), &here, true);
        for filter in [gateway.inside.filter, node.state.filter] {
            let script = filter.unwrap().script;
            let loaded = lab.feed(&at, "nft -c -f -", &script);
            prop_assert!(loaded.is_ok(), "{}\n{}", loaded.unwrap_err(), script);
        }
    }
}

/// Tunnels are known by their names; of those with the same one, all count once.
fn names(tunnels: &[TunnelEndpoint]) -> BTreeSet<Option<String>> {
    tunnels.iter().map(|tunnel| tunnel.metadata.name.clone()).collect()
}

fn any_tunnel() -> impl Strategy<Value = TunnelEndpoint> {
    let own = (any_id(), any_word(), any_translation(), any_translation());
    let remote = (any_network(), any_translation(), any_network(), any_translation());
    (own, remote, any::<u64>()).prop_map(|((id, name, pods, externals), remote, number)| {
        let (remote_pods, pods_here, remote_externals, externals_here) = remote;
        let object = json!({
            "metadata": { "name": format!("t{number}"), "namespace": "liqo-tenant-x" },
            "spec": {
                "clusterIdentity": { "clusterID": id, "clusterName": name },
                "localPodCIDR": "10.200.0.0/16",
                "localNATPodCIDR": pods,
                "localExternalCIDR": "10.95.0.0/16",
                "localNATExternalCIDR": externals,
                "remotePodCIDR": remote_pods,
                "remoteNATPodCIDR": pods_here,
                "remoteExternalCIDR": remote_externals,
                "remoteNATExternalCIDR": externals_here,
                "endpointIP": "172.30.0.3",
                "backendType": "wireguard",
                "backend_config": {
                    "port": "5871",
                    "publicKey": "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
                },
            },
        });
        serde_json::from_value(object).unwrap()
    })
}

fn any_mapping() -> impl Strategy<Value = NatMapping> {
    let address = || prop_oneof![any_address(), any_word()];
    let pairs = prop::collection::btree_map(address(), address(), 0..6);
    (any_id(), pairs).prop_map(|(id, pairs)| {
        let object = json!({
            "metadata": { "name": "natmapping-x" },
            "spec": {
                "clusterID": id,
                "podCIDR": "10.51.0.0/16",
                "externalCIDR": "10.62.0.0/16",
                "clusterMappings": pairs,
            },
        });
        serde_json::from_value(object).unwrap()
    })
}

fn any_id() -> impl Strategy<Value = String> {
    let digits = (0..4_u8).prop_map(|digit| format!("2cb4110a-c5e6-4a52-851d-d0e0d86c917{digit}"));
    prop_oneof![9 => digits, 1 => any_word()]
}

/// Words that mean something to others.
fn any_word() -> impl Strategy<Value = String> {
    let words = ["milan", "rome", "", "\"; }", "liqo", "10.62.0.0/16", "drop\n}", "ünder", "a b"];
    select(words.to_vec()).prop_map(str::to_owned)
}

fn any_network() -> impl Strategy<Value = String> {
    let networks = [
        "10.200.0.0/16",
        "10.51.0.0/16",
        "10.51.128.0/17",
        "10.52.0.0/16",
        "10.62.0.0/16",
        "10.0.0.0/8",
        "192.168.7.0/30",
        "172.20.0.0/24",
        "0.0.0.0/0",
        "224.0.0.0/4",
        "10.51.0.9/16",
        "10.51.0.0",
        "::/0",
    ];
    select(networks.to_vec()).prop_map(str::to_owned)
}

fn any_translation() -> impl Strategy<Value = String> {
    prop_oneof![Just("None".to_owned()), Just(String::new()), any_network()]
}

fn any_address() -> impl Strategy<Value = String> {
    (select(vec!["10.62.0", "10.51.0", "169.254.0", "10.96.0"]), 0..4_u8)
        .prop_map(|(network, host)| format!("{network}.{host}"))
}
