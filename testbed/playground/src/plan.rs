//! Everything that follows from a topology, as a value: names and addresses.
//!
//! A playground owns a *slot*, one sixteenth of the benchmarking range 198.18.0.0/15 that nobody
//! routes (RFC 2544). Its lower half plays the public Internet, its upper half private networks:
//!
//! ```text
//! 198.18.S+0.0/24   the WAN                     198.18.S+15.0/30  this machine's own link
//! 198.18.S+n.0/24   network n                   198.19.S+n.0/24   network n, behind a NAT
//! ```

pub mod network;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::topology::{Cluster, Lan, Topology};

/// How many playgrounds fit beside each other on a machine.
pub const SLOTS: u8 = 16;

/// The port of every API server.
pub const API_PORT: u16 = 6443;

/// A playground: what is to exist on this machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// What all its names start with.
    pub prefix: String,
    /// Which part of the address range it has.
    pub slot: u8,
    /// The preset or file it comes from.
    pub origin: String,
    /// What was asked for.
    pub topology: Topology,
    /// The networks.
    pub lans: Vec<LanPlan>,
    /// The clusters.
    pub clusters: Vec<ClusterPlan>,
}

/// A network and its router.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LanPlan {
    /// What was asked for.
    pub lan: Lan,
    /// The router's network namespace.
    pub namespace: String,
    /// The router's address in the WAN.
    pub wan_address: Ipv4Addr,
    /// The network's addresses.
    pub network: Ipv4Net,
    /// The router's address in the network.
    pub gateway: Ipv4Addr,
}

/// A cluster and its nodes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClusterPlan {
    /// What was asked for.
    pub cluster: Cluster,
    /// The network it stands in.
    pub lan: String,
    /// Its nodes; the first one runs the control plane.
    pub nodes: Vec<NodePlan>,
    /// The address of the service `kubernetes`.
    pub kubernetes_ip: Ipv4Addr,
    /// The address of the service `kube-dns`.
    pub dns_ip: Ipv4Addr,
    /// The router's address, when that is what others see of the cluster.
    pub public_address: Option<Ipv4Addr>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct NodePlan {
    /// Its name in Kubernetes.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// The router's end of its cable.
    pub cable: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Where its pods get their addresses from.
    pub pod_cidr: Ipv4Net,
    /// Whether it runs the control plane.
    pub control_plane: bool,
}

/// Why a prefix cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the prefix {0:?} must be 1 to 8 lowercase letters and digits, a letter first")]
pub struct BadPrefix(String);

impl Plan {
    /// Lays a topology out.
    pub fn new(
        prefix: &str,
        slot: u8,
        origin: &str,
        topology: &Topology,
    ) -> Result<Self, BadPrefix> {
        check_prefix(prefix)?;
        let lans: Vec<LanPlan> = (1..)
            .zip(topology.all_lans())
            .map(|(index, lan)| {
                let network = third_byte(if lan.nat { 19 } else { 18 }, slot, index);
                LanPlan {
                    namespace: format!("{prefix}.lan.{}", lan.name),
                    wan_address: host(wan_network(slot), 10 + u32::from(index)),
                    network,
                    gateway: host(network, 1),
                    lan,
                }
            })
            .collect();
        let mut taken = vec![10; lans.len()];
        let clusters = (0..)
            .zip(&topology.clusters)
            .map(|(index, cluster)| {
                let position = lans
                    .iter()
                    .position(|lan| lan.lan.name == topology.lan_of(cluster))
                    .expect("all_lans covers every cluster");
                cluster_plan(prefix, index, cluster, &lans[position], &mut taken[position])
            })
            .collect();
        Ok(Self {
            prefix: prefix.to_owned(),
            slot,
            origin: origin.to_owned(),
            topology: topology.clone(),
            lans,
            clusters,
        })
    }

    /// The WAN router's network namespace.
    pub fn wan_namespace(&self) -> String {
        format!("{}.wan", self.prefix)
    }

    /// The interface by which this machine reaches the playground.
    pub fn host_interface(&self) -> String {
        format!("{}-host", self.prefix)
    }

    /// The control group above all pods.
    pub fn cgroup(&self) -> String {
        format!("liqo-playground-{}", self.prefix)
    }

    /// All nodes of all clusters.
    pub fn nodes(&self) -> impl Iterator<Item = (&ClusterPlan, &NodePlan)> {
        self.clusters
            .iter()
            .flat_map(|cluster| cluster.nodes.iter().map(move |node| (cluster, node)))
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<(&ClusterPlan, &NodePlan)> {
        self.nodes().find(|(_, node)| node.name == name)
    }

    /// The cluster of that name.
    pub fn cluster(&self, name: &str) -> Option<&ClusterPlan> {
        self.clusters.iter().find(|cluster| cluster.cluster.name == name)
    }

    /// The network of that name.
    pub fn lan(&self, name: &str) -> Option<&LanPlan> {
        self.lans.iter().find(|lan| lan.lan.name == name)
    }

    /// Every network namespace, the WAN router's last.
    pub fn namespaces(&self) -> Vec<String> {
        let nodes = self.nodes().map(|(_, node)| node.namespace.clone());
        let routers = self.lans.iter().map(|lan| lan.namespace.clone());
        nodes.chain(routers).chain([self.wan_namespace()]).collect()
    }
}

impl ClusterPlan {
    /// The node that runs the control plane.
    pub fn control_plane(&self) -> &NodePlan {
        self.nodes.first().expect("a topology has no cluster without nodes")
    }

    /// Where the API server listens.
    pub fn api_url(&self) -> String {
        format!("https://{}:{API_PORT}", self.control_plane().address)
    }
}

/// The network between the routers.
pub fn wan_network(slot: u8) -> Ipv4Net {
    third_byte(18, slot, 0)
}

/// The WAN router's address.
pub fn wan_gateway(slot: u8) -> Ipv4Addr {
    host(wan_network(slot), 1)
}

/// This machine's end of its link to the playground, and the WAN router's.
pub fn host_link(slot: u8) -> (Ipv4Addr, Ipv4Addr) {
    let network = third_byte(18, slot, 15);
    (host(network, 1), host(network, 2))
}

/// All addresses of a slot: public ones, private ones.
pub fn slot_networks(slot: u8) -> [Ipv4Net; 2] {
    [18, 19].map(|second| {
        Ipv4Net::new_assert(Ipv4Addr::new(198, second, slot.saturating_mul(16), 0), 20)
    })
}

fn check_prefix(prefix: &str) -> Result<(), BadPrefix> {
    let legal = prefix.starts_with(|first: char| first.is_ascii_lowercase())
        && prefix.len() <= 8
        && prefix.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if legal { Ok(()) } else { Err(BadPrefix(prefix.to_owned())) }
}

fn cluster_plan(
    prefix: &str,
    index: u8,
    cluster: &Cluster,
    lan: &LanPlan,
    taken: &mut u32,
) -> ClusterPlan {
    let pod_cidrs = cluster.pod_cidr.subnets(24).expect("pod networks are /20 or larger");
    let nodes = (1_u8..)
        .zip(cluster.node_names())
        .zip(pod_cidrs)
        .map(|((number, name), pod_cidr)| {
            *taken += 1;
            NodePlan {
                namespace: format!("{prefix}.{name}"),
                name,
                cable: format!("c{index}n{number}"),
                address: host(lan.network, *taken),
                pod_cidr,
                control_plane: number == 1,
            }
        })
        .collect();
    ClusterPlan {
        lan: lan.lan.name.clone(),
        nodes,
        kubernetes_ip: host(cluster.service_cidr, 1),
        dns_ip: host(cluster.service_cidr, 10),
        public_address: lan.lan.nat.then_some(lan.wan_address),
        cluster: cluster.clone(),
    }
}

fn third_byte(second: u8, slot: u8, index: u8) -> Ipv4Net {
    let third = slot.saturating_mul(16).saturating_add(index);
    Ipv4Net::new_assert(Ipv4Addr::new(198, second, third, 0), if index == 15 { 30 } else { 24 })
}

fn host(network: Ipv4Net, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(network.network()).saturating_add(number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn preset(name: &str, slot: u8) -> Plan {
        Plan::new("pg", slot, name, &Topology::load(name).unwrap()).unwrap()
    }

    #[test]
    fn nodes_of_a_cluster_share_a_network_and_split_its_pods() {
        let plan = preset("quick-start", 0);
        let milan = plan.cluster("milan").unwrap();
        let shape: Vec<_> = milan
            .nodes
            .iter()
            .map(|node| format!("{} {} {}", node.name, node.address, node.pod_cidr))
            .collect();
        assert_eq!(shape, ["milan-1 198.18.2.11 10.20.0.0/24", "milan-2 198.18.2.12 10.20.1.0/24"]);
        assert_eq!(milan.dns_ip, Ipv4Addr::new(10, 21, 0, 10));
        assert_eq!(milan.api_url(), "https://198.18.2.11:6443");
    }

    #[test]
    fn a_translated_network_has_private_addresses_and_a_public_one() {
        let plan = preset("nat", 2);
        let rome = plan.cluster("rome").unwrap();
        assert_eq!(rome.control_plane().address, Ipv4Addr::new(198, 19, 33, 11));
        assert_eq!(rome.public_address, Some(Ipv4Addr::new(198, 18, 32, 11)));
        assert_eq!(plan.cluster("milan").unwrap().public_address, None);
    }

    #[test]
    fn a_prefix_that_is_no_name_is_refused() {
        let topology = Topology::load("one").unwrap();
        for prefix in ["", "Pg", "1a", "a-b", "waytoolong"] {
            assert!(Plan::new(prefix, 0, "one", &topology).is_err(), "{prefix}");
        }
    }

    proptest! {
        #[test]
        fn no_two_nodes_of_any_playgrounds_share_an_address(a in 0..SLOTS, b in 0..SLOTS) {
            prop_assume!(a != b);
            let all: Vec<Ipv4Addr> = [a, b]
                .iter()
                .flat_map(|slot| ["quick-start", "both-nat"].map(|name| (name, *slot)))
                .flat_map(|(name, slot)| {
                    let plan = preset(name, slot);
                    plan.nodes().map(|(_, node)| node.address).collect::<Vec<_>>()
                })
                .collect();
            let of = |slot: u8| all.iter().filter(move |address| {
                slot_networks(slot).iter().any(|network| network.contains(*address))
            }).copied().collect::<BTreeSet<_>>();
            prop_assert!(of(a).is_disjoint(&of(b)));
            prop_assert_eq!(of(a).len() + of(b).len(), all.iter().collect::<BTreeSet<_>>().len());
        }
    }
}
