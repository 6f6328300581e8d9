//! Gateways and nodes in network namespaces: what is wanted is there, is repaired, is left alone
//! where it is somebody else's, and goes without a trace. Packets are really translated.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

#[path = "fabric/lab.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod lab;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use lab::{Gateway, Lab, Side, endpoint, mapping, node_settings};
use liqo_fabric::node::{self, Neighbour, Place};
use liqo_fabric::owned::Scope;
use liqo_fabric::plan::{Shown, plan};
use liqo_fabric::state::State;
use liqo_netstate::{Kernel, Namespace, Observed};
use tokio::time::timeout;

#[tokio::test]
async fn a_node_settles_is_repaired_and_leaves_no_trace() {
    let lab = Lab::new("node");
    let at = lab.namespace("a");
    // What others have made is there before, between and after.
    lab.ip(&at, "link add eth0 type veth peer name eth0-out");
    lab.ip(&at, "addr add 172.30.0.4/24 dev eth0");
    lab.ip(&at, "link set eth0 up");
    lab.ip(&at, "rule add to 10.99.0.0/16 lookup 99");
    lab.ip(&at, "route add 10.99.0.0/16 via 172.30.0.1 table 99");
    lab.nft(&at, "table ip other { chain c { type filter hook input priority 0; counter; }; }");
    lab.nft(&at, "table inet liqo { chain c { type filter hook input priority 0; counter; }; }");
    let before = lab.dump(&at);

    let kernel = Kernel::open(Namespace::open(&at).unwrap(), None).await.unwrap();
    let uplink = kernel.uplink(Ipv4Addr::new(172, 30, 0, 4)).await.unwrap().unwrap();
    assert_eq!((uplink.link.as_str(), uplink.mtu), ("eth0", 1500));
    let scope = Scope::node();
    let mut milan = endpoint(&Side::MILAN_SEEN_FROM_ROME);
    milan.status =
        serde_json::from_value(serde_json::json!({ "gatewayIP": "172.30.0.2" })).unwrap();
    let neighbours = [
        Neighbour {
            address: Ipv4Addr::new(172, 30, 0, 2),
            mac: Some("02:00:00:00:00:02".parse().unwrap()),
        },
        Neighbour { address: Ipv4Addr::new(172, 30, 0, 3), mac: None },
    ];
    let want = node::desired(
        [&milan],
        &BTreeSet::from(neighbours),
        &BTreeSet::from([Place {
            pod: Ipv4Addr::new(10, 200, 1, 1),
            node: Ipv4Addr::new(172, 30, 0, 2),
        }]),
        &node_settings(Ipv4Addr::new(172, 30, 0, 4)),
        false,
    );
    assert!(kernel.settle(&scope, |_| want.state.clone()).await.unwrap() > 0);
    assert_eq!(kernel.settle(&scope, |_| want.state.clone()).await.unwrap(), 0, "nothing is left");

    let mut changes = kernel.changes(&scope, &[]).await.unwrap();
    for damage in [
        "ip rule del to 10.51.0.0/16 lookup 18952",
        "ip route del 10.51.0.0/16 table 18952",
        "ip route flush table 18952",
        "ip link del liqo.vxlan",
        "ip addr del 240.30.0.4/8 dev liqo.vxlan",
        "bridge fdb del 00:00:00:00:00:00 dev liqo.vxlan dst 172.30.0.3",
        "bridge fdb add 02:00:00:00:00:09 dev liqo.vxlan dst 172.30.0.9",
        "ip link set liqo.vxlan down",
        "ip rule add to 10.77.0.0/16 lookup 18952",
        "nft delete table ip liqo",
        "nft flush chain ip liqo arrival",
        "nft flush table ip liqo",
    ] {
        lab.run(&at, damage);
        timeout(Duration::from_secs(10), changes.next()).await.unwrap();
        let mut repaired = kernel.settle(&scope, |_| want.state.clone()).await.unwrap();
        // A change may be told before another that belongs to it.
        while let Ok(()) = timeout(Duration::from_millis(50), changes.next()).await {
            repaired += kernel.settle(&scope, |_| want.state.clone()).await.unwrap();
        }
        assert!(repaired > 0, "{damage}");
        let rest = plan(
            &scope,
            &want.state,
            &kernel.observe(&scope, &want.state.settings).await.unwrap().state,
        );
        assert!(rest.is_empty(), "after {damage}:\n{}", Shown(&rest));
    }

    // What was seen already is not looked at again, and what was done is.
    let (_, seen) = kernel.settle_from(&scope, None, |_| want.state.clone()).await.unwrap();
    lab.run(&at, "ip route flush table 18952");
    let from_seen = async |seen: Option<Observed>, want: &State| {
        kernel.settle_from(&scope, seen, |_| want.clone()).await.unwrap()
    };
    assert_eq!(from_seen(Some(seen.clone()), &want.state).await, (0, seen.clone()));
    let (repaired, now) = from_seen(None, &want.state).await;
    assert!(repaired > 0 && now == seen);
    let (taken, now) = from_seen(Some(seen.clone()), &State::default()).await;
    assert!(taken > 0 && now.state == State::default() && now != seen);
    assert_eq!(lab.dump(&at), before);
}

#[tokio::test]
async fn clusters_with_the_same_networks_reach_each_other_and_no_more() {
    let lab = Lab::new("nat");
    let [rome, milan] = Gateway::pair(&lab).await;
    // Both clusters have 10.200.0.0/16; rome knows milan's pods as 10.51.0.0/16, milan knows
    // rome's as 10.61.0.0/16.
    let echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7000);
    let answer = rome.pod.ask("10.51.0.9:7000");
    assert_eq!(answer.as_deref(), Some("10.61.0.5 hello"), "{}", lab.dump(&milan.inside));
    drop(echo);

    // The node of the asking side has no address there, and gets one that stands for it.
    let echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7001);
    assert_eq!(rome.node.ask("10.51.0.9:7001").as_deref(), Some("10.61.0.0 hello"));
    drop(echo);

    // What is shown can be reached, what is not cannot.
    let service = milan.node.echo(Ipv4Addr::new(10, 96, 0, 1), 7002);
    assert_eq!(rome.pod.ask("10.52.0.2:7002").as_deref(), Some("10.61.0.5 hello"));
    assert_eq!(rome.pod.ask("10.52.0.3:7002"), None);
    drop(service);

    // Nodes and services of a peer are out of reach, whatever it sends.
    lab.ip(&rome.inside, "route add 172.30.0.0/16 dev liqo.tunnel");
    lab.ip(&rome.inside, "route add 10.96.0.0/16 dev liqo.tunnel");
    lab.nft(&rome.inside, "delete table ip liqo");
    lab.nft(
        &rome.inside,
        "table ip forge { chain c { type nat hook postrouting priority 100; snat to 10.61.0.5; }; }",
    );
    let node = milan.node.echo(Ipv4Addr::new(10, 96, 0, 1), 7003);
    assert_eq!(rome.pod.ask("10.96.0.1:7003"), None);
    drop(node);
    let echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7004);
    assert_eq!(rome.pod.ask("10.51.0.9:7004").as_deref(), Some("10.61.0.5 hello"));
    // A source that is not the peer's own is dropped.
    lab.nft(&rome.inside, "delete table ip forge");
    lab.nft(
        &rome.inside,
        "table ip forge { chain c { type nat hook postrouting priority 100; snat to 10.77.0.5; }; }",
    );
    assert_eq!(rome.pod.ask("10.51.0.9:7004"), None);
    drop(echo);
}

#[tokio::test]
async fn a_connection_that_never_pauses_follows_a_new_translation() {
    let lab = Lab::new("flow");
    let [rome, milan] = Gateway::pair(&lab).await;
    let echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7000);
    let socket = rome.pod.socket(6000);
    assert_eq!(socket.ask("10.51.0.9:7000").as_deref(), Some("10.61.0.5 hello"));
    // Milan gives rome's pods another network.
    let [mut to_milan, mut to_rome] = [Side::MILAN_SEEN_FROM_ROME, Side::ROME_SEEN_FROM_MILAN];
    to_milan.own_pods_there = "10.71.0.0/16";
    to_rome.pods_here = "10.71.0.0/16";
    milan.node.lead_to(&lab, "10.71.0.0/16");
    rome.settle(&[endpoint(&to_milan)], &[mapping(&to_milan)]).await;
    milan.settle(&[endpoint(&to_rome)], &[mapping(&to_rome)]).await;
    assert_eq!(socket.ask("10.51.0.9:7000").as_deref(), Some("10.71.0.5 hello"));
    drop(echo);
}

#[tokio::test]
async fn a_connection_that_began_without_a_peer_reaches_it_once_it_is_there() {
    let lab = Lab::new("anew");
    let [rome, milan] = Gateway::pair(&lab).await;
    let echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7000);
    let gateway = lab::Place(rome.inside.clone()).socket(6000);
    let pod = rome.pod.socket(6001);
    rome.settle(&[], &[]).await;
    assert_eq!([&gateway, &pod].map(|socket| socket.ask("10.51.0.9:7000")), [None, None]);
    let side = Side::MILAN_SEEN_FROM_ROME;
    rome.settle(&[endpoint(&side)], &[mapping(&side)]).await;
    assert_eq!(gateway.ask("10.51.0.9:7000").as_deref(), Some("10.61.0.0 hello"));
    assert_eq!(pod.ask("10.51.0.9:7000").as_deref(), Some("10.61.0.5 hello"));
    drop(echo);
}

#[tokio::test]
async fn a_gateway_is_repaired_and_leaves_no_trace() {
    let lab = Lab::new("gw");
    let at = lab.namespace("a");
    let before = lab.dump(&at);
    let gateway = Gateway::new(&lab, "a", &at).await;
    lab.ip(&gateway.inside, "tuntap add liqo.tunnel mode tun");
    let side = Side::MILAN_SEEN_FROM_ROME;
    gateway.settle(&[endpoint(&side)], &[mapping(&side)]).await;
    assert_eq!(gateway.settle(&[endpoint(&side)], &[mapping(&side)]).await, 0);
    for (place, damage) in [
        (&at, "ip link del liqo.host"),
        (&at, "ip neigh del 169.254.100.1 dev liqo.host"),
        (&at, "ip link set liqo.host address 02:00:00:00:00:77"),
        (&gateway.inside, "ip route del default"),
        (&gateway.inside, "ip route del 10.51.0.0/16"),
        (&gateway.inside, "ip addr del 169.254.0.1/32 dev liqo.tunnel"),
        (&gateway.inside, "sysctl -qw net.ipv4.ip_forward=0"),
        (&gateway.inside, "nft flush ruleset"),
    ] {
        lab.run(place, damage);
        assert!(gateway.settle(&[endpoint(&side)], &[mapping(&side)]).await > 0, "{damage}");
        assert_eq!(gateway.settle(&[endpoint(&side)], &[mapping(&side)]).await, 0, "{damage}");
    }
    gateway.remove().await;
    assert_eq!(lab.dump(&at), before);
}

#[tokio::test]
async fn a_namespace_that_is_missing_is_named() {
    let lab = Lab::new("miss");
    let path = lab.path("nowhere");
    let text = Namespace::open(&path).unwrap_err().to_string();
    assert_eq!(text, format!("cannot open the network namespace {}", path.display()));
}
