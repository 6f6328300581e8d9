//! What peers reach and what they do not, with real packets: beside those who proxy services, past
//! networks of other peers, through ways that are narrower than their ends.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

#[path = "fabric/lab.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod lab;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use lab::{Gateway, Lab, Place, Side, endpoint, mapping, node_settings};
use liqo_fabric::node;
use liqo_fabric::owned::Scope;
use liqo_fabric::state::State;
use liqo_netstate::{Kernel, Namespace};

const NODE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 4);
/// The address of the node among its pods.
const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
const POD: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 5);

/// What kube-proxy writes in its mode `iptables` for a service of one pod with a port of the node.
const SERVICES: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 10.96.0.1/32 -p udp -m udp --dport 7002 -j DNAT --to-destination 10.200.0.5:7000
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p udp -m udp --dport 30080 -j KUBE-MARK-MASQ
-A KUBE-NODEPORTS -p udp -m udp --dport 30080 -j DNAT --to-destination 10.200.0.5:7000
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
"#;

#[tokio::test]
async fn beside_iptables_peers_reach_pods_and_services_and_not_what_a_node_serves() {
    beside("iptables-nft").await;
}

#[tokio::test]
async fn beside_iptables_of_old_peers_reach_pods_and_services_and_not_what_a_node_serves() {
    beside("iptables-legacy").await;
}

async fn beside(iptables: &str) {
    let lab = Lab::new(iptables);
    let town = Town::new(&lab);
    lab.feed(&town.node.0, &format!("{iptables}-restore"), SERVICES).unwrap();
    let rules = || {
        let saved = lab.run(&town.node.0, &format!("{iptables}-save"));
        let is_rule = |line: &&str| line.starts_with('-');
        saved.lines().filter(is_rule).collect::<Vec<_>>().join("\n")
    };
    let tables = || ["ip rule", "nft -s list ruleset"].map(|line| lab.run(&town.node.0, line));
    let (others, before) = (rules(), tables());
    let kernel = Kernel::open(Namespace::open(&town.node.0).unwrap(), None).await.unwrap();
    settle(&kernel).await;
    let _pod = town.pod.echo(POD, 7000);
    let _node = town.node.echo(BRIDGE, 7001);

    // What is granted: pods, and a service that is shown, which the node leads to its pod.
    assert_eq!(town.peer.ask("10.200.0.5:7000").as_deref(), Some("10.51.0.7 hello"));
    assert_eq!(town.peer.ask("10.96.0.1:7002").as_deref(), Some("10.51.0.7 hello"));
    // What is not: the node by its address among pods, and what its ports lead to.
    assert_eq!(town.peer.ask("10.200.0.1:7001"), None);
    assert_eq!(town.peer.ask("10.200.0.1:30080"), None);
    // That is so whichever way it comes.
    let dropped = || lab.counted(&town.node.0, "ip liqo arrival");
    let so_far = dropped();
    lab.ip(&town.neighbour.0, "addr add 10.51.0.8/32 dev lo");
    lab.ip(&town.neighbour.0, "route add 10.200.0.0/24 via 172.30.0.4 src 10.51.0.8");
    assert_eq!(town.neighbour.ask("10.200.0.1:7001"), None);
    assert!(dropped() > so_far);
    // Nobody else notices.
    let neighbour = "route change 10.200.0.0/24 via 172.30.0.4 src 172.30.0.9";
    lab.ip(&town.neighbour.0, neighbour);
    assert_eq!(town.neighbour.ask("10.200.0.1:7001").as_deref(), Some("172.30.0.9 hello"));
    assert_eq!(town.neighbour.ask("172.30.0.4:30080").as_deref(), Some("10.200.0.1 hello"));
    let _peer = town.peer.echo(Ipv4Addr::new(10, 51, 0, 7), 7003);
    assert_eq!(town.pod.ask("10.51.0.7:7003").as_deref(), Some("10.200.0.5 hello"));

    // It is our table that keeps peers away.
    lab.nft(&town.node.0, "delete table ip liqo");
    assert_eq!(town.peer.ask("10.200.0.1:30080").as_deref(), Some("10.200.0.1 hello"));
    settle(&kernel).await;
    assert_eq!(rules(), others);
    kernel.settle(&Scope::node(), |_| State::default()).await.unwrap();
    assert_eq!(rules(), others);
    assert_eq!(tables(), before);
}

#[tokio::test]
async fn peers_do_not_reach_each_other_through_us() {
    let lab = Lab::new("third");
    let [rome, milan] = Gateway::pair(&lab).await;
    // Rome has a second peer, to which it would send through the very same cable.
    let sides = [Side::MILAN_SEEN_FROM_ROME, Side::OSLO_SEEN_FROM_ROME];
    rome.settle(&sides.map(|side| endpoint(&side)), &sides.map(|side| mapping(&side))).await;
    // Milan sends what it likes, with a source that is its own.
    lab.nft(&milan.inside, "delete table ip liqo");
    lab.ip(&milan.inside, "route add 10.71.0.0/16 dev liqo.tunnel");
    milan.node.lead_to(&lab, "10.71.0.0/16");
    lab.nft(
        &milan.inside,
        "table ip forge { \
         chain out { type nat hook postrouting priority 100; oifname \"liqo.tunnel\" \
         snat to 10.51.0.9; }; \
         chain back { type filter hook prerouting priority -300; iifname \"liqo.tunnel\" \
         ip daddr 10.71.0.0/16 counter; }; \
         }",
    );
    let back = || lab.counted(&milan.inside, "ip forge back");
    assert_eq!(milan.pod.ask("10.71.0.9:7000"), None);
    assert_eq!(back(), 0, "rome passes it on");
    // It is the filter that keeps them apart.
    lab.nft(&rome.inside, "delete table ip liqo");
    assert_eq!(milan.pod.ask("10.71.0.9:7000"), None);
    assert!(back() > 0, "nothing came to rome");
}

#[tokio::test]
async fn large_requests_and_answers_pass_though_nobody_says_what_fits() {
    let lab = Lab::new("large");
    let [rome, milan] = Gateway::pair(&lab).await;
    // Pods believe that 1500 bytes fit, and the tunnel takes 1340.
    for place in [&rome.inside, &rome.node.0, &milan.inside, &milan.node.0] {
        lab.nft(
            place,
            "table ip quiet { chain c { type filter hook output priority 0; \
             icmp type destination-unreachable drop; }; }",
        );
    }
    let [there, here] = [[10, 200, 0, 9], [10, 200, 0, 5]].map(Ipv4Addr::from);
    for size in [64 << 10, 1 << 20] {
        rome.pod.connect(&milan.pod, (there, 7100), "10.51.0.9:7100").exchange(size);
        milan.pod.connect(&rome.pod, (here, 7100), "10.61.0.5:7100").exchange(size);
    }
}

#[tokio::test]
async fn nothing_larger_than_a_narrow_way_takes_is_sent_there() {
    let lab = Lab::new("thin");
    let [mut rome, milan] = Gateway::pair(&lab).await;
    let [there, here] = [[10, 200, 0, 9], [10, 200, 0, 5]].map(Ipv4Addr::from);
    let before = rome.pod.connect(&milan.pod, (there, 7100), "10.51.0.9:7100");
    before.exchange(64 << 10);
    // The node believes only those who come from where it would send to.
    lab.run(&rome.node.0, "sysctl -qw net.ipv4.conf.all.rp_filter=1");
    lab.ip(&rome.node.0, "route add default via 10.200.0.5");
    // The way loses what is longer, without a word; a train of packets is not what is meant.
    lab.ip(&rome.pod.0, "link set eth0 gso_max_segs 1");
    let lossy = "table ip thin { chain c { type filter hook prerouting priority -450; \
                 iifname liqo.tunnel meta length > 1000 counter drop; }; }";
    lab.nft(&milan.inside, lossy);
    let to_milan = Side::MILAN_SEEN_FROM_ROME;
    rome.widths = [(to_milan.id.parse().unwrap(), 1000)].into();
    let both = (endpoint(&to_milan), mapping(&to_milan));
    assert!(rome.settle(std::slice::from_ref(&both.0), std::slice::from_ref(&both.1)).await > 0);
    let again = rome.settle(std::slice::from_ref(&both.0), std::slice::from_ref(&both.1)).await;
    assert_eq!(again, 0, "it is as it has to be");
    // One that exists is told, and a new one does not have to be.
    before.exchange(64 << 10);
    lab.nft(
        &rome.inside,
        "table ip quiet { chain c { type filter hook output priority 0; \
         icmp type destination-unreachable drop; }; }",
    );
    rome.pod.connect(&milan.pod, (there, 7101), "10.51.0.9:7101").exchange(1 << 20);
    milan.pod.connect(&rome.pod, (here, 7101), "10.61.0.5:7101").exchange(1 << 20);
    let lost = lab.counted(&milan.inside, "ip thin c");
    assert_eq!(lost, 0, "packets were too long");
    // Datagrams may be cut, once their sender knows that it has to.
    lab.nft(&rome.inside, "delete table ip quiet");
    let _echo = milan.pod.echo(there, 7000);
    assert!(rome.pod.socket(0).ask_with("10.51.0.9:7000", &[b'x'; 1300]).is_some());
    assert_eq!(lab.counted(&milan.inside, "ip thin c"), 0, "a datagram was too long");
}

#[tokio::test]
async fn a_connection_goes_on_through_a_gateway_that_has_never_heard_of_it() {
    let lab = Lab::new("heir");
    let [rome, milan] = Gateway::pair(&lab).await;
    let [there, here] = [[10, 200, 0, 9], [10, 200, 0, 5]].map(Ipv4Addr::from);
    let out = rome.pod.connect(&milan.pod, (there, 7100), "10.51.0.9:7100");
    let back = milan.pod.connect(&rome.pod, (here, 7101), "10.61.0.5:7101");
    for gateway in [&rome, &milan] {
        for line in [&out, &back] {
            line.exchange(64 << 10);
        }
        // One that takes over remembers no connections.
        lab.run(&gateway.inside, "conntrack -F");
    }
    for line in [&out, &back] {
        line.exchange(64 << 10);
    }
}

#[tokio::test]
async fn connections_that_the_kernel_remembers_are_counted() {
    let lab = Lab::new("count");
    let [rome, milan] = Gateway::pair(&lab).await;
    let kernel = Kernel::open(Namespace::open(&rome.inside).unwrap(), None).await.unwrap();
    let before = kernel.remembered().await.unwrap().unwrap();
    assert!(before.limit > 0, "{before:?}");
    let _echo = milan.pod.echo(Ipv4Addr::new(10, 200, 0, 9), 7000);
    for port in 6000..6010 {
        assert!(rome.pod.socket(port).ask("10.51.0.9:7000").is_some());
    }
    let after = kernel.remembered().await.unwrap().unwrap();
    assert!(after.count >= before.count + 10, "{before:?} {after:?}");
}

/// A machine that remembers more is not filled: that would take all of its memory.
const ENOUGH: u64 = 1 << 19;

#[tokio::test]
async fn where_there_is_no_room_for_connections_those_that_exist_go_on() {
    let lab = Lab::new("full");
    let [rome, milan] = Gateway::pair(&lab).await;
    let kernel = Kernel::open(Namespace::open(&rome.inside).unwrap(), None).await.unwrap();
    let there = Ipv4Addr::new(10, 200, 0, 9);
    let before = rome.pod.connect(&milan.pod, (there, 7100), "10.51.0.9:7100");
    before.exchange(64 << 10);
    let _echo = milan.pod.echo(there, 7000);
    let room = kernel.remembered().await.unwrap().unwrap();
    assert!(room.count < room.limit, "{room:?}");
    if room.limit > ENOUGH {
        return;
    }
    let flows: String = (room.count..room.limit)
        .map(|number| {
            let number = u32::try_from(number).unwrap();
            let [from, to] = [10 << 24 | number, 11 << 24 | number].map(Ipv4Addr::from);
            format!(
                "-A -t 60 -u SEEN_REPLY,ASSURED -s {from} -d {to} -r {to} -q {from} -p udp \
                 --sport 1 --dport 2 --reply-port-src 2 --reply-port-dst 1\n"
            )
        })
        .collect();
    lab.feed(&rome.inside, "conntrack -R -", &flows).unwrap();
    let full = kernel.remembered().await.unwrap().unwrap();
    assert!(full.count * 100 >= full.limit * 99, "{full:?}");
    assert_eq!(rome.pod.ask("10.51.0.9:7000"), None, "a new one finds no room");
    before.exchange(64 << 10);
    lab.run(&rome.inside, "conntrack -F");
    assert!(rome.pod.ask("10.51.0.9:7000").is_some(), "there is room again");
    before.exchange(64 << 10);
}

/// A node that is the gateway's, with a pod; a peer at the far end of the cable; a neighbour.
struct Town {
    node: Place,
    pod: Place,
    peer: Place,
    neighbour: Place,
}

impl Town {
    fn new(lab: &Lab) -> Self {
        let [node, pod, peer, neighbour] =
            ["node", "pod", "peer", "neighbour"].map(|name| lab.namespace(name));
        for set in ["all.rp_filter=0", "default.rp_filter=0", "all.forwarding=1"] {
            lab.run(&node, &format!("sysctl -qw net.ipv4.conf.{set}"));
        }
        let join = |name: &str, other: &str, at: &Path| {
            let (own, theirs) = ("02:00:00:00:01:01", "02:00:00:00:01:02");
            let at = at.display();
            let end = format!("peer name {other} address {theirs} netns {at}");
            lab.ip(&node, &format!("link add {name} address {own} type veth {end}"));
            lab.ip(&node, &format!("link set {name} up"));
        };
        join("cni0", "eth0", &pod);
        join("eth0", "eth0", &neighbour);
        join("liqo.host", "gw", &peer);
        let set = |at: &PathBuf, lines: &[&str]| lines.iter().for_each(|line| lab.ip(at, line));
        set(
            &node,
            &[
                "addr add 10.200.0.1/24 dev cni0",
                "addr add 172.30.0.4/24 dev eth0",
                "neigh add 169.254.100.1 lladdr 02:00:00:00:01:02 dev liqo.host nud permanent",
            ],
        );
        set(
            &pod,
            &[
                "addr add 10.200.0.5/24 dev eth0",
                "link set eth0 up",
                "route add default via 10.200.0.1",
            ],
        );
        set(&neighbour, &["addr add 172.30.0.9/24 dev eth0", "link set eth0 up"]);
        set(
            &peer,
            &[
                "addr add 10.51.0.7/32 dev lo",
                "link set gw up",
                "neigh add 169.254.100.2 lladdr 02:00:00:00:01:01 dev gw nud permanent",
                "route add 10.0.0.0/8 via 169.254.100.2 dev gw onlink src 10.51.0.7",
            ],
        );
        let [node, pod, peer, neighbour] = [node, pod, peer, neighbour].map(Place);
        Self { node, pod, peer, neighbour }
    }
}

/// Makes a node hold what it has to for a peer whose tunnel ends here.
async fn settle(kernel: &Kernel) {
    let mut milan = endpoint(&Side::MILAN_SEEN_FROM_ROME);
    let status = serde_json::json!({ "gatewayIP": NODE.to_string() });
    milan.status = serde_json::from_value(status).unwrap();
    let settings = node_settings(NODE);
    let want = node::desired([&milan], &BTreeSet::new(), &BTreeSet::new(), &settings, true);
    assert!(want.refused.is_empty(), "{:?}", want.refused);
    kernel.settle(&Scope::node(), |_| want.state.clone()).await.unwrap();
}
