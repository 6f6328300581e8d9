//! Tests of exported addresses.

use proptest::prelude::*;

use super::*;
use crate::ledger::Settings;

const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const TURIN: &str = "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10";

#[test]
fn a_pod_is_known_under_the_prefix_that_the_peer_gave() {
    let mut ledger = peered(Some("10.77.0.0/16"), None);
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.200.3.7")), Ok(ip("10.77.3.7")));
    assert!(ledger.exports.0.is_empty(), "nothing has to be exported for it");
    let mut ledger = peered(None, None);
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.200.3.7")), Ok(ip("10.200.3.7")));
}

#[test]
fn other_addresses_are_exported_in_order() {
    let mut ledger = peered(None, Some("10.92.0.0/16"));
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")), Ok(ip("10.92.0.2")));
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("192.0.2.9")), Ok(ip("10.92.0.3")));
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")), Ok(ip("10.92.0.2")), "again");
    assert_eq!(ledger.map_endpoint(&id(MILAN), TUNNEL), Ok(ip("10.92.0.1")));
}

#[test]
fn a_nat_mapping_looks_as_users_know_it() {
    let mut ledger = peered(None, Some("10.92.0.0/16"));
    ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")).unwrap();
    let spec = ledger.nat_mapping(&id(MILAN)).unwrap();
    assert_eq!(
        (spec.cluster_id.as_str(), spec.pod_cidr.as_str(), spec.external_cidr.as_str()),
        (MILAN, "10.201.0.0/16", "10.92.0.0/16")
    );
    let mappings: Vec<_> = spec.cluster_mappings.into_iter().collect();
    let text = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(mappings, [text("10.94.0.1", "10.92.0.2"), text("169.254.0.1", "10.92.0.1")]);
}

#[test]
fn one_address_stands_for_an_export_to_all_peers() {
    let mut ledger = peered(None, Some("10.92.0.0/16"));
    admit(&mut ledger, TURIN, "10.60.0.0/16", "10.61.0.0/16", Prefixes::default());
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")), Ok(ip("10.92.0.2")));
    assert_eq!(ledger.map_endpoint(&id(TURIN), ip("10.94.0.1")), Ok(ip("10.95.0.2")));
    ledger.unmap_endpoint(&id(MILAN), ip("10.94.0.1")).unwrap();
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("192.0.2.9")), Ok(ip("10.92.0.3")));
    ledger.unmap_endpoint(&id(TURIN), ip("10.94.0.1")).unwrap();
    assert_eq!(ledger.map_endpoint(&id(TURIN), ip("192.0.2.8")), Ok(ip("10.95.0.2")), "free again");
}

#[test]
fn an_address_that_was_never_exported_is_taken_back_without_a_word() {
    let mut ledger = peered(None, None);
    assert_eq!(ledger.unmap_endpoint(&id(MILAN), ip("192.0.2.9")), Ok(()));
}

#[test]
fn before_a_peer_has_answered_nothing_is_exported_to_it() {
    let mut ledger = rome();
    let unknown = Refusal::UnknownPeer(id(MILAN));
    assert_eq!(ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")), Err(unknown));
    let asked = networks("10.201.0.0/16", "10.94.0.0/16");
    ledger.admit(&id(MILAN), asked).unwrap();
    for refused in [
        ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")).unwrap_err(),
        ledger.unmap_endpoint(&id(MILAN), ip("10.94.0.1")).unwrap_err(),
        ledger.unmap_endpoint(&id(TURIN), ip("10.94.0.1")).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("must be initialized first"), "{refused}");
    }
    assert_eq!(ledger.nat_mapping(&id(MILAN)), None);
}

#[test]
fn addresses_without_a_meaning_elsewhere_are_refused() {
    let mut ledger = peered(None, None);
    let refused = ledger.map_endpoint(&id(MILAN), ip("127.0.0.1")).unwrap_err();
    assert_eq!(refused, Refusal::Meaningless(ip("127.0.0.1")));
}

#[test]
fn a_peer_that_renames_our_network_gets_the_new_names() {
    let mut ledger = peered(None, Some("10.92.0.0/16"));
    ledger.map_endpoint(&id(MILAN), ip("10.94.0.1")).unwrap();
    let told = Prefixes { pod: None, external: Some(net("10.33.0.0/16")) };
    ledger.learn(&id(MILAN), told).unwrap();
    let spec = ledger.nat_mapping(&id(MILAN)).unwrap();
    assert_eq!(spec.cluster_mappings["10.94.0.1"], "10.33.0.2");
    assert_eq!(spec.cluster_mappings["169.254.0.1"], "10.33.0.1");
}

#[test]
fn a_full_external_network_is_named() {
    let mut ledger = Ledger::default();
    let settings = Settings {
        pod: net("10.200.0.0/30"),
        service: net("10.94.0.0/16"),
        additional_pools: vec![],
        reserved: vec![],
    };
    ledger.open(&settings).unwrap();
    admit(&mut ledger, MILAN, "10.60.0.0/16", "10.61.0.0/16", Prefixes::default());
    ledger.map_endpoint(&id(MILAN), ip("192.0.2.1")).unwrap();
    let refused = ledger.map_endpoint(&id(MILAN), ip("192.0.2.2")).unwrap_err();
    assert_eq!(refused.reason(), "AddressesExhausted");
}

proptest! {
    #[test]
    fn no_two_addresses_are_called_the_same(addresses in prop::collection::btree_set(any::<u32>(), 1..40)) {
        let mut ledger = peered(Some("10.77.0.0/16"), Some("10.92.0.0/16"));
        let mut names = BTreeSet::new();
        let mut count = 0;
        for address in addresses {
            if let Ok(name) = ledger.map_endpoint(&id(MILAN), address.into()) {
                names.insert(name);
                count += 1;
            }
        }
        prop_assert_eq!(names.len(), count);
    }
}

fn peered(pod: Option<&str>, external: Option<&str>) -> Ledger {
    let mut ledger = rome();
    let told = Prefixes { pod: pod.map(net), external: external.map(net) };
    admit(&mut ledger, MILAN, "10.201.0.0/16", "10.94.0.0/16", told);
    ledger
}

fn admit(ledger: &mut Ledger, peer: &str, pod: &str, external: &str, told: Prefixes) {
    ledger.admit(&id(peer), networks(pod, external)).unwrap();
    ledger.learn(&id(peer), told).unwrap();
}

fn rome() -> Ledger {
    let mut ledger = Ledger::default();
    let settings = Settings {
        pod: net("10.200.0.0/16"),
        service: net("10.94.0.0/16"),
        additional_pools: vec![],
        reserved: vec![],
    };
    ledger.open(&settings).unwrap();
    ledger
}

fn networks(pod: &str, external: &str) -> Networks {
    Networks { pod: net(pod), external: net(external) }
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn id(text: &str) -> ClusterId {
    text.parse().unwrap()
}
