//! The wires of a playground: which commands make its namespaces, cables, routes and filters.
//!
//! ```text
//! this machine ── wan0 bridge [prefix.wan] ── wan0 [prefix.lan.X] lan0 bridge ── eth0 [prefix.node]
//! ```
//!
//! Nothing is made in this machine's own namespace but the one interface `prefix-host`.

use std::fmt::Write as _;

use super::{
    ClusterPlan, LanPlan, NodePlan, Plan, host_link, slot_networks, wan_gateway, wan_network,
};
use crate::topology::Port;

/// One step of building a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Makes a network namespace.
    Namespace(String),
    /// Runs lines of `ip -batch`, in a namespace or in this machine's own.
    Ip(Option<String>, Vec<String>),
    /// Loads a script of `nft` in a namespace.
    Nft(String, String),
    /// Sets kernel parameters of a namespace.
    Sysctl(String, Vec<(&'static str, &'static str)>),
}

/// What every namespace that forwards needs.
const FORWARDING: [(&str, &str); 3] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
];

/// The WAN router and this machine's link to it.
pub fn wan(plan: &Plan) -> Vec<Step> {
    let namespace = plan.wan_namespace();
    let (ours, theirs) = host_link(plan.slot);
    let interface = plan.host_interface();
    let [public, private] = slot_networks(plan.slot);
    let mut inside = vec![
        "link set lo up".to_owned(),
        "link add wan0 type bridge".to_owned(),
        format!("addr add {}/24 dev wan0", wan_gateway(plan.slot)),
        "link set wan0 up".to_owned(),
        format!("addr add {theirs}/30 dev host0"),
        "link set host0 up".to_owned(),
    ];
    inside.extend(
        plan.lans.iter().map(|lan| {
            format!("route add {} via {} onlink dev wan0", lan.network, lan.wan_address)
        }),
    );
    vec![
        Step::Namespace(namespace.clone()),
        Step::Ip(
            None,
            vec![
                format!("link add {interface} type veth peer name host0 netns {namespace}"),
                format!("addr add {ours}/30 dev {interface}"),
                format!("link set {interface} up"),
                format!("route add {public} via {theirs} dev {interface}"),
                format!("route add {private} via {theirs} dev {interface}"),
            ],
        ),
        Step::Ip(Some(namespace.clone()), inside),
        Step::Nft(namespace.clone(), wan_filter(plan)),
        Step::Sysctl(namespace, FORWARDING.to_vec()),
    ]
}

/// A network's router.
pub fn lan(plan: &Plan, lan: &LanPlan, index: usize) -> Vec<Step> {
    let (namespace, wan) = (lan.namespace.clone(), plan.wan_namespace());
    let port = format!("lan{index}");
    vec![
        Step::Namespace(namespace.clone()),
        Step::Ip(
            Some(wan),
            vec![
                format!("link add {port} type veth peer name wan0 netns {namespace}"),
                format!("link set {port} master wan0 up"),
            ],
        ),
        Step::Ip(
            Some(namespace.clone()),
            vec![
                "link set lo up".to_owned(),
                "link add lan0 type bridge".to_owned(),
                format!("addr add {}/{} dev lan0", lan.gateway, lan.network.prefix_len()),
                "link set lan0 up".to_owned(),
                format!(
                    "addr add {}/{} dev wan0",
                    lan.wan_address,
                    wan_network(plan.slot).prefix_len()
                ),
                "link set wan0 up".to_owned(),
                format!("route add default via {}", wan_gateway(plan.slot)),
            ],
        ),
        Step::Nft(namespace.clone(), router_filter(plan, lan)),
        Step::Sysctl(namespace, FORWARDING.to_vec()),
    ]
}

/// A node's cable, its addresses, and the way to the pods of its fellow nodes.
pub fn node(plan: &Plan, cluster: &ClusterPlan, node: &NodePlan) -> Vec<Step> {
    let lan = plan.lan(&cluster.lan).expect("every cluster stands in a network");
    let namespace = node.namespace.clone();
    let mut inside = vec![
        "link set lo up".to_owned(),
        format!("addr add {}/{} dev eth0", node.address, lan.network.prefix_len()),
        "link set eth0 up".to_owned(),
        format!("route add default via {}", lan.gateway),
    ];
    inside.extend(
        cluster
            .nodes
            .iter()
            .filter(|other| other.name != node.name)
            .map(|other| format!("route add {} via {}", other.pod_cidr, other.address)),
    );
    vec![
        Step::Namespace(namespace.clone()),
        Step::Ip(
            Some(lan.namespace.clone()),
            vec![
                format!("link add {} type veth peer name eth0 netns {namespace}", node.cable),
                format!("link set {} master lan0 up", node.cable),
            ],
        ),
        Step::Ip(Some(namespace.clone()), inside),
        Step::Nft(namespace.clone(), node_filter(cluster)),
        Step::Sysctl(namespace, FORWARDING.to_vec()),
    ]
}

/// Private addresses mean nothing in the WAN; only this machine, the administrator's, reaches them.
fn wan_filter(plan: &Plan) -> String {
    let [_, private] = slot_networks(plan.slot);
    let (ours, _) = host_link(plan.slot);
    format!(
        "table ip playground {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ip daddr {ours} accept
    ip saddr {private} drop
    ip daddr {private} ip saddr != {ours} drop
  }}
}}
"
    )
}

fn router_filter(plan: &Plan, lan: &LanPlan) -> String {
    let (ours, _) = host_link(plan.slot);
    let closed = lan.lan.nat || lan.lan.inbound.is_some();
    let policy = if closed { "drop" } else { "accept" };
    let mut allowed = String::new();
    for port in lan.lan.inbound.iter().flatten() {
        let _ = writeln!(allowed, "    iifname \"wan0\" {} accept", matching(*port));
    }
    let mut script = format!(
        "table ip playground {{
  chain forward {{
    type filter hook forward priority filter; policy {policy};
    ct state established,related accept
    iifname \"lan0\" accept
    ip saddr {ours} accept
    ct status dnat accept
{allowed}  }}
"
    );
    if lan.lan.nat {
        let mut forwards = String::new();
        for forward in &lan.lan.forwards {
            let node = plan.node(&forward.to).map(|(_, node)| node.address);
            let target = node.expect("a topology forwards only to its own nodes");
            let _ = writeln!(
                forwards,
                "    iifname \"wan0\" {} dnat to {target}",
                matching(forward.port)
            );
        }
        let _ = write!(
            script,
            "  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    ip saddr {ours} accept
{forwards}  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip daddr {ours} accept
    oifname \"wan0\" masquerade
  }}
"
        );
    }
    script.push_str("}\n");
    script
}

/// Pods leave their cluster under their node's address, as with any common network plugin.
fn node_filter(cluster: &ClusterPlan) -> String {
    let pods = cluster.cluster.pod_cidr;
    format!(
        "table ip playground {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname \"eth0\" ip saddr {pods} ip daddr != {pods} masquerade
  }}
}}
"
    )
}

fn matching(port: Port) -> String {
    format!("{} dport {}", port.protocol, port.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    fn preset(name: &str) -> Plan {
        Plan::new("pg", 0, name, &Topology::load(name).unwrap()).unwrap()
    }

    #[test]
    fn a_node_reaches_the_pods_of_its_fellows_directly_and_the_rest_by_the_router() {
        let plan = preset("quick-start");
        let (cluster, rome_2) = plan.node("rome-2").unwrap();
        let steps = node(&plan, cluster, rome_2);
        let Step::Ip(Some(namespace), lines) = &steps[2] else { panic!("{steps:?}") };
        assert_eq!(namespace, "pg.rome-2");
        insta::assert_snapshot!(lines.join("\n"), @r"
        link set lo up
        addr add 198.18.1.12/24 dev eth0
        link set eth0 up
        route add default via 198.18.1.1
        route add 10.10.0.0/24 via 198.18.1.11
        ");
    }

    #[test]
    fn a_translating_router_lets_in_only_what_it_forwards() {
        let plan = preset("both-nat");
        let milan = plan.lan("milan").unwrap();
        insta::assert_snapshot!(router_filter(&plan, milan), @r#"
        table ip playground {
          chain forward {
            type filter hook forward priority filter; policy drop;
            ct state established,related accept
            iifname "lan0" accept
            ip saddr 198.18.15.1 accept
            ct status dnat accept
          }
          chain prerouting {
            type nat hook prerouting priority dstnat; policy accept;
            ip saddr 198.18.15.1 accept
            iifname "wan0" tcp dport 6443 dnat to 198.19.2.11
            iifname "wan0" tcp dport 32443 dnat to 198.19.2.11
            iifname "wan0" udp dport 32871 dnat to 198.19.2.11
          }
          chain postrouting {
            type nat hook postrouting priority srcnat; policy accept;
            ip daddr 198.18.15.1 accept
            oifname "wan0" masquerade
          }
        }
        "#);
    }

    #[test]
    fn an_open_router_forwards_everything() {
        let plan = preset("quick-start");
        let script = router_filter(&plan, plan.lan("rome").unwrap());
        assert!(script.contains("policy accept") && !script.contains("masquerade"), "{script}");
    }

    #[test]
    fn a_firewall_lets_in_only_the_named_ports() {
        let mut plan = preset("quick-start");
        plan.lans[0].lan.inbound = Some(vec!["tcp/6443".parse().unwrap()]);
        let script = router_filter(&plan, &plan.lans[0]);
        assert!(script.contains("policy drop"), "{script}");
        assert!(script.contains("iifname \"wan0\" tcp dport 6443 accept"), "{script}");
    }
}
