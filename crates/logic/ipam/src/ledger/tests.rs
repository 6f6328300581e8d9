//! Tests of the ledger: the networks of a cluster, and those of its peers.

use proptest::prelude::*;

use super::*;

const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const TURIN: &str = "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10";

#[test]
fn the_external_network_is_next_to_the_others() {
    for (pod, service, want) in [
        ("10.10.0.0/16", "10.96.0.0/12", "10.11.0.0/16"),
        ("10.200.0.0/16", "10.100.0.0/16", "10.101.0.0/16"),
        ("10.200.0.0/16", "10.94.0.0/16", "10.95.0.0/16"),
        ("10.201.0.0/16", "10.95.0.0/16", "10.94.0.0/16"),
        ("100.64.0.0/16", "10.96.0.0/12", "10.112.0.0/16"),
    ] {
        let own = opened(pod, service).own().unwrap();
        assert_eq!(own, networks(pod, want));
    }
}

#[test]
fn two_clusters_call_each_other_as_the_reference_does() {
    let mut rome = opened("10.200.0.0/16", "10.94.0.0/16");
    let mut milan = opened("10.201.0.0/16", "10.95.0.0/16");
    let of_milan = rome.admit(&id(MILAN), milan.own().unwrap()).unwrap();
    let of_rome = milan.admit(&id(TURIN), rome.own().unwrap()).unwrap();
    assert_eq!(of_milan, networks("10.201.0.0/16", "10.92.0.0/16"));
    assert_eq!(of_rome, networks("10.200.0.0/16", "10.92.0.0/16"));
}

#[test]
fn what_is_free_is_accepted_unchanged() {
    let mut ledger = rome();
    for (peer, pod, external) in [
        (MILAN, "10.50.0.0/16", "10.51.0.0/16"),
        // Outside of all pools.
        (TURIN, "100.64.0.0/16", "100.65.0.0/16"),
    ] {
        let asked = networks(pod, external);
        assert_eq!(ledger.admit(&id(peer), asked), Ok(asked));
    }
}

#[test]
fn what_is_taken_gets_another_prefix_of_its_size() {
    let mut ledger = rome();
    // Ours, and what the user reserves.
    let here = ledger.admit(&id(MILAN), networks("10.200.0.0/16", "172.30.0.0/24")).unwrap();
    assert_eq!(here, networks("10.201.0.0/16", "10.92.0.0/24"));
    // What another peer has, even outside of all pools.
    ledger.release(&id(MILAN));
    ledger.admit(&id(MILAN), networks("100.64.0.0/16", "10.50.0.0/16")).unwrap();
    let here = ledger.admit(&id(TURIN), networks("100.64.128.0/24", "10.50.3.0/24")).unwrap();
    assert_eq!(here, networks("10.51.0.0/24", "10.51.1.0/24"));
}

#[test]
fn a_whole_pool_is_given_away_only_if_nothing_else_is_left() {
    let mut ledger = opened("100.64.0.0/16", "100.65.0.0/16");
    // The external network lies in the first pool, so another /12 of it is given.
    let here = ledger.admit(&id(MILAN), networks("172.16.0.0/12", "100.70.0.0/16")).unwrap();
    assert_eq!(here.pod, net("10.16.0.0/12"));
    // There is no other /16 in a pool that is the whole world of this ledger.
    let mut small = Ledger { pools: vec![net("192.168.0.0/16")], ..Ledger::default() };
    small.pod = Some(net("100.64.0.0/16"));
    small.external = Some(net("100.65.0.0/16"));
    let asked = networks("192.168.0.0/16", "100.70.0.0/16");
    assert_eq!(small.admit(&id(MILAN), asked), Ok(asked));
    let next = small.admit(&id(TURIN), networks("192.168.7.0/24", "100.71.0.0/16"));
    assert_eq!(next, Err(Refusal::PoolExhausted { length: 24 }));
}

#[test]
fn a_peer_keeps_what_it_has() {
    let mut ledger = rome();
    let first = ledger.admit(&id(MILAN), networks("10.201.0.0/16", "10.94.0.0/16")).unwrap();
    let before = ledger.clone();
    let again = ledger.admit(&id(MILAN), networks("10.201.0.0/16", "10.94.0.0/16")).unwrap();
    assert_eq!((again, &ledger), (first, &before));
    // It has moved to another network of the same size: what it is called here stays.
    let moved = ledger.admit(&id(MILAN), networks("10.210.0.0/16", "10.94.0.0/16")).unwrap();
    assert_eq!(moved, first);
    // Of another size, it needs another place.
    let resized = ledger.admit(&id(MILAN), networks("10.210.0.0/20", "10.94.0.0/16")).unwrap();
    assert_eq!(resized, Networks { pod: net("10.210.0.0/20"), external: first.external });
}

#[test]
fn hostile_networks_are_refused_and_change_nothing() {
    let mut ledger = rome();
    let before = ledger.clone();
    for (pod, external, want) in [
        ("0.0.0.0/0", "10.50.0.0/16", "cannot use its pod network"),
        ("10.50.0.0/16", "127.0.0.0/8", "cannot use its external network"),
        (
            "10.50.0.0/16",
            "10.50.128.0/17",
            "its pod network 10.50.0.0/16 overlaps its external network 10.50.128.0/17; choose \
             networks that have no address in common",
        ),
    ] {
        let error = ledger.admit(&id(MILAN), networks(pod, external)).unwrap_err();
        assert_eq!((error.to_string().as_str(), &ledger), (want, &before));
    }
}

#[test]
fn a_pool_without_room_is_named_with_what_to_do() {
    let mut ledger = rome();
    let error = ledger.admit(&id(MILAN), networks("10.0.0.0/8", "100.64.0.0/16")).unwrap_err();
    assert_eq!(
        (error.reason(), error.to_string().as_str()),
        (
            "PoolExhausted",
            "no pool has room for a network of size /8; add one with \
             networkManager.config.additionalPools, or unpeer from clusters that are not needed"
        )
    );
}

#[test]
fn what_peers_know_does_not_change() {
    let mut ledger = rome();
    let error = ledger.open(&settings("10.199.0.0/16", "10.94.0.0/16")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the pod network was 10.200.0.0/16 and is now to be 10.199.0.0/16; peers know the old one, \
         so set it back, or unpeer from all clusters, delete the IpamStorage and start again"
    );
    let error = ledger.open(&settings("10.200.0.0/16", "10.93.0.0/16")).unwrap_err();
    assert_eq!(error.reason(), "NetworkChanged");
}

#[test]
fn pools_that_are_known_already_are_no_news() {
    let mut ledger = rome();
    let more = Settings { additional_pools: vec![net("100.64.0.0/10")], ..rome_settings() };
    ledger.open(&more).unwrap();
    let before = ledger.clone();
    ledger.open(&more).unwrap();
    assert_eq!(ledger, before);
    let clash = Settings { additional_pools: vec![net("10.128.0.0/9")], ..rome_settings() };
    assert_eq!(ledger.open(&clash).unwrap_err().reason(), "OverlappingNetwork");
    ledger.admit(&id(MILAN), networks("203.0.113.0/24", "198.51.100.0/24")).unwrap();
    let clash = Settings { additional_pools: vec![net("203.0.113.0/24")], ..rome_settings() };
    assert_eq!(ledger.open(&clash).unwrap_err().reason(), "OverlappingNetwork");
}

#[test]
fn reserved_networks_come_and_go() {
    let mut ledger = rome();
    let none = Settings { reserved: vec![], ..rome_settings() };
    ledger.open(&none).unwrap();
    let asked = networks("172.30.0.0/24", "10.50.0.0/24");
    assert_eq!(ledger.admit(&id(MILAN), asked), Ok(asked), "it is free again");
    for taken in ["10.200.3.0/24", "10.94.0.0/24", "10.95.0.0/24", "172.30.0.0/16"] {
        let clash = Settings { reserved: vec![net(taken)], ..rome_settings() };
        assert_eq!(ledger.open(&clash).unwrap_err().reason(), "OverlappingNetwork", "{taken}");
    }
    let twice = vec![net("172.20.0.0/16"), net("172.20.1.0/24")];
    let clash = Settings { reserved: twice, ..rome_settings() };
    assert_eq!(ledger.open(&clash).unwrap_err().reason(), "OverlappingNetwork");
}

#[test]
fn own_networks_that_overlap_are_refused() {
    let refused = Ledger::default().open(&settings("10.96.0.0/16", "10.96.0.0/12")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the service network 10.96.0.0/12 overlaps the pod network 10.96.0.0/16; choose networks \
         that have no address in common"
    );
}

#[test]
fn what_a_peer_calls_us_has_our_size() {
    let mut ledger = rome();
    ledger.admit(&id(MILAN), networks("10.201.0.0/16", "10.94.0.0/16")).unwrap();
    let told = |pod: &str| Prefixes { pod: Some(net(pod)), external: None };
    assert_eq!(ledger.learn(&id(MILAN), told("10.77.0.0/16")), Ok(()));
    let error = ledger.learn(&id(MILAN), told("10.77.0.0/24")).unwrap_err();
    assert_eq!(error.reason(), "WrongSize");
    let error = ledger.learn(&id(MILAN), told("224.0.0.0/16")).unwrap_err();
    assert_eq!(error.reason(), "InvalidNetwork");
    let error = ledger.learn(&id(TURIN), told("10.77.0.0/16")).unwrap_err();
    assert_eq!(error, Refusal::UnknownPeer(id(TURIN)));
}

#[test]
fn a_pod_of_a_peer_is_known_by_its_host_bits() {
    let mut ledger = rome();
    let pod = Ipv4Addr::new(10, 200, 3, 7);
    assert_eq!(ledger.home_pod(&id(MILAN), pod), Err(Refusal::UnknownPeer(id(MILAN))));
    ledger.admit(&id(MILAN), networks("10.200.0.0/16", "10.50.0.0/16")).unwrap();
    assert_eq!(ledger.home_pod(&id(MILAN), pod), Ok(Ipv4Addr::new(10, 201, 3, 7)));
    assert!(ledger.is_own_pod(pod) && !ledger.is_own_pod(Ipv4Addr::new(10, 201, 3, 7)));
}

proptest! {
    #[test]
    fn nothing_ever_overlaps(asked in prop::collection::vec((0..5_usize, any_network(), any_network()), 1..24)) {
        let mut ledger = rome();
        for (peer, pod, external) in asked {
            let before = ledger.clone();
            let asked = Networks { pod, external };
            if let Ok(here) = ledger.admit(&peers()[peer], asked) {
                prop_assert_eq!(here.pod.prefix_len(), pod.prefix_len());
                prop_assert_eq!(here.external.prefix_len(), external.prefix_len());
                let mut twin = before.clone();
                prop_assert_eq!(twin.admit(&peers()[peer], asked), Ok(here), "deterministic");
                prop_assert_eq!(ledger.clone().admit(&peers()[peer], asked), Ok(here), "idempotent");
            } else {
                prop_assert_eq!(&ledger, &before);
            }
            let taken: Vec<Ipv4Net> = ledger.taken(None).map(|(_, network)| network).collect();
            for (index, one) in taken.iter().enumerate() {
                for other in taken.iter().skip(index + 1) {
                    prop_assert!(!overlap(*one, *other), "{one} overlaps {other}");
                }
            }
        }
    }

    #[test]
    fn a_release_is_as_if_the_peer_had_never_come(
        pod in any_network(), external in any_network(), address: u32
    ) {
        let mut ledger = rome();
        ledger.admit(&id(TURIN), networks("10.60.0.0/16", "10.61.0.0/16")).unwrap();
        let before = ledger.clone();
        prop_assume!(ledger.admit(&id(MILAN), Networks { pod, external }).is_ok());
        ledger.learn(&id(MILAN), Prefixes::default()).unwrap();
        let _ = ledger.map_endpoint(&id(MILAN), address.into());
        prop_assert!(ledger.release(&id(MILAN)));
        prop_assert_eq!(ledger, before);
    }
}

/// Networks of which many collide.
fn any_network() -> impl Strategy<Value = Ipv4Net> {
    let pools = prop_oneof![Just("10.192.0.0/12"), Just("192.168.0.0/16"), Just("100.64.0.0/10")];
    (pools, any::<u32>(), 12_u8..=30).prop_map(|(pool, bits, length)| {
        let address = mapped(bits.into(), net(pool));
        Ipv4Net::new(address, length).unwrap().trunc()
    })
}

fn peers() -> Vec<ClusterId> {
    let text = |digit| format!("2cb4110a-c5e6-4a52-851d-d0e0d86c917{digit}");
    (0..5).map(|digit| text(digit).parse().unwrap()).collect()
}

fn rome() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.open(&rome_settings()).unwrap();
    ledger
}

fn rome_settings() -> Settings {
    Settings { reserved: vec![net("172.30.0.0/24")], ..settings("10.200.0.0/16", "10.94.0.0/16") }
}

fn opened(pod: &str, service: &str) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.open(&settings(pod, service)).unwrap();
    ledger
}

fn settings(pod: &str, service: &str) -> Settings {
    Settings { pod: net(pod), service: net(service), additional_pools: vec![], reserved: vec![] }
}

fn networks(pod: &str, external: &str) -> Networks {
    Networks { pod: net(pod), external: net(external) }
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn id(text: &str) -> ClusterId {
    text.parse().unwrap()
}
