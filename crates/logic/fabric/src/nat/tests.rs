//! The packet filter, as people read it.

use insta::assert_snapshot;

use super::*;
use crate::fixtures::{InWords as _, MILAN, ROME, endpoint, mapping};
use crate::peer::{Ground, admit};

#[test]
fn a_gateway_translates_and_keeps_peers_where_they_belong() {
    let endpoint = endpoint(MILAN, "milan")
        .pods("10.200.0.0/16", "10.51.0.0/16")
        .known_there_as("10.60.0.0/16");
    let mappings = BTreeMap::from([(MILAN.parse().unwrap(), mapping(MILAN).spec)]);
    let (peers, _) = admit([&endpoint], &mappings, &Ground::default());
    assert_snapshot!(gateway(&peers, 1340, &BTreeMap::new()).script);
}

#[test]
fn a_gateway_without_peers_lets_nothing_through() {
    let filter = gateway(&BTreeMap::new(), 1340, &BTreeMap::new());
    assert!(filter.script.contains("oifname \"liqo.tunnel\" counter drop"), "{}", filter.script);
    assert_eq!(filter.flows, BTreeSet::new());
}

#[test]
fn peers_that_share_the_beginning_of_their_identifier_share_nothing() {
    let (peers, refused) = two();
    assert!(refused.is_empty(), "{refused:?}");
    let filter = gateway(&peers, 1340, &BTreeMap::new());
    for id in [MILAN, ROME] {
        let chain = format!("\tchain from-{id} {{");
        assert_eq!(filter.script.matches(&chain).count(), 1);
    }
    assert_eq!(filter.flows.len(), 2);
}

#[test]
fn connections_are_marked_anew_when_they_are_translated_in_another_way() {
    let read = |endpoint| {
        let (peers, _) = admit([&endpoint], &BTreeMap::new(), &Ground::default());
        gateway(&peers, 1340, &BTreeMap::new())
    };
    let one = read(endpoint(MILAN, "milan"));
    let other = read(endpoint(MILAN, "milan").known_there_as("10.60.0.0/16"));
    assert!(one.flows.is_disjoint(&other.flows));
    assert_ne!(one.digest, other.digest);
    assert_eq!(one, read(endpoint(MILAN, "milan")));
}

#[test]
fn a_node_trusts_the_overlay_and_keeps_peers_from_its_own_addresses() {
    let (peers, _) = two();
    assert_snapshot!(node(&peers, 1340).script);
}

#[test]
fn a_listed_table_tells_what_it_was_made_from() {
    let (peers, _) = two();
    let made = gateway(&peers, 1340, &BTreeMap::new());
    let read = listed(&made.script).unwrap();
    assert_eq!((read.digest, read.flows), (made.digest, made.flows));
    assert_eq!(listed("table ip liqo {\n}\n"), None);
}

fn two() -> (BTreeMap<ClusterId, Peer>, BTreeMap<(String, String), crate::peer::Refusal>) {
    let milan = endpoint(MILAN, "milan");
    let rome = endpoint(ROME, "rome")
        .pods("10.201.0.0/16", "10.71.0.0/16")
        .externals("10.94.0.0/16", "10.72.0.0/16");
    admit([&milan, &rome], &BTreeMap::new(), &Ground::default())
}
