//! Cuts connections, and heals them, as a pulled cable would: packets vanish without a word.
//!
//! A cut is an nft table of its own in one namespace, so it disturbs no route and no other filter,
//! cutting twice is cutting once, and healing removes just that table.

use anyhow::{Context as _, Result};

use crate::host::network::inside;
use crate::plan::{API_PORT, LanPlan, Plan};
use crate::playground::{find_cluster, find_node};

/// A connection that can be cut.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Connection {
    /// A node's cable, `rome-2`.
    Node(String),
    /// What leads from a cluster's network into the WAN, `rome`.
    Uplink(String),
    /// The API server's port, for everybody but its own node, `rome:api`.
    Api(String),
    /// What leads from one cluster's network to another's, `rome..milan`.
    Between(String, String),
}

/// A cut, as a table in a namespace.
#[derive(Debug, Eq, PartialEq)]
struct Cut {
    namespace: String,
    table: String,
    rules: Vec<(&'static str, String)>,
}

/// Cuts a connection; `heal` makes it whole.
pub fn set(plan: &Plan, connection: &Connection, cut: bool) -> Result<()> {
    let Cut { namespace, table, rules } = describe(plan, connection)?;
    let clear = format!("table inet {table} {{}}\ndelete table inet {table}\n");
    let script = if cut { clear + &render(&table, &rules) } else { clear };
    inside(&namespace, &["nft", "-f", "-"], &script)
        .with_context(|| format!("change {connection:?}; is the node on?"))?;
    Ok(())
}

/// Every connection of a plan that can be cut by itself.
pub fn all(plan: &Plan) -> Vec<Connection> {
    let names: Vec<&String> = plan.clusters.iter().map(|one| &one.cluster.name).collect();
    let mut list: Vec<Connection> =
        plan.nodes().map(|(_, node)| Connection::Node(node.name.clone())).collect();
    for (index, name) in names.iter().enumerate() {
        list.push(Connection::Uplink((*name).clone()));
        list.push(Connection::Api((*name).clone()));
        list.extend(
            names
                .iter()
                .skip(index + 1)
                .map(|other| Connection::Between((*name).clone(), (*other).clone())),
        );
    }
    list
}

impl Connection {
    /// Reads what a user typed: a node, a cluster, `CLUSTER:api`, `CLUSTER..CLUSTER`.
    pub fn parse(plan: &Plan, text: &str) -> Result<Self> {
        if let Some((one, other)) = text.split_once("..") {
            find_cluster(plan, one)?;
            find_cluster(plan, other)?;
            return Ok(Self::Between(one.to_owned(), other.to_owned()));
        }
        if let Some(name) = text.strip_suffix(":api") {
            find_cluster(plan, name)?;
            return Ok(Self::Api(name.to_owned()));
        }
        if plan.cluster(text).is_some() {
            return Ok(Self::Uplink(text.to_owned()));
        }
        find_node(plan, text).context(
            "name a node (rome-2), a cluster (rome), an API server (rome:api) or two clusters (rome..milan)",
        )?;
        Ok(Self::Node(text.to_owned()))
    }
}

fn describe(plan: &Plan, connection: &Connection) -> Result<Cut> {
    let both_ways = |interface: &str| {
        vec![
            ("prerouting", format!("iifname \"{interface}\" drop")),
            ("output", format!("oifname \"{interface}\" drop")),
            ("forward", format!("oifname \"{interface}\" drop")),
        ]
    };
    match connection {
        Connection::Node(name) => {
            let (_, node) = find_node(plan, name)?;
            let (namespace, table) = (node.namespace.clone(), "playground_cut".to_owned());
            Ok(Cut { namespace, table, rules: both_ways("eth0") })
        }
        Connection::Api(name) => {
            let namespace = find_cluster(plan, name)?.control_plane().namespace.clone();
            let rule = format!("iifname \"eth0\" tcp dport {API_PORT} drop");
            let table = "playground_cut_api".to_owned();
            Ok(Cut { namespace, table, rules: vec![("prerouting", rule)] })
        }
        Connection::Uplink(name) => {
            let namespace = lan_of(plan, name)?.namespace.clone();
            Ok(Cut { namespace, table: "playground_cut".to_owned(), rules: both_ways("wan0") })
        }
        Connection::Between(one, other) => {
            let (one, other) = if one <= other { (one, other) } else { (other, one) };
            let (a, b) = (seen_in_wan(lan_of(plan, one)?), seen_in_wan(lan_of(plan, other)?));
            let table = format!("playground_cut_{one}_{other}").replace('-', "_");
            let rules = [(&a, &b), (&b, &a)].map(|(from, to)| {
                ("forward", format!("ip saddr {{ {from} }} ip daddr {{ {to} }} drop"))
            });
            Ok(Cut { namespace: plan.wan_namespace(), table, rules: rules.to_vec() })
        }
    }
}

fn lan_of<'a>(plan: &'a Plan, cluster: &str) -> Result<&'a LanPlan> {
    let name = &find_cluster(plan, cluster)?.lan;
    plan.lan(name).context("every cluster stands in a network")
}

fn seen_in_wan(lan: &LanPlan) -> String {
    format!("{}, {}", lan.wan_address, lan.network)
}

fn render(table: &str, rules: &[(&'static str, String)]) -> String {
    let chains: String = rules
        .iter()
        .enumerate()
        .map(|(index, (hook, rule))| {
            format!("  chain {hook}{index} {{ type filter hook {hook} priority -500; {rule}; }}\n")
        })
        .collect();
    format!("table inet {table} {{\n{chains}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    fn plan() -> Plan {
        Plan::new("pg", 0, "x", &Topology::load("nat").unwrap()).unwrap()
    }

    #[test]
    fn a_name_is_read_as_what_it_names() {
        let plan = plan();
        let read = |text| Connection::parse(&plan, text).unwrap();
        assert_eq!(read("rome-1"), Connection::Node("rome-1".to_owned()));
        assert_eq!(read("rome"), Connection::Uplink("rome".to_owned()));
        assert_eq!(read("rome:api"), Connection::Api("rome".to_owned()));
        assert_eq!(read("rome..milan"), Connection::Between("rome".to_owned(), "milan".to_owned()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_what_there_is() {
        let error = format!("{:#}", Connection::parse(&plan(), "turin").unwrap_err());
        assert!(error.contains("there are: rome-1, milan-1"), "{error}");
    }

    #[test]
    fn a_cut_between_two_clusters_is_the_same_in_either_order() {
        let plan = plan();
        let cut = |a: &str, b: &str| {
            describe(&plan, &Connection::Between(a.to_owned(), b.to_owned())).unwrap()
        };
        assert_eq!(cut("rome", "milan"), cut("milan", "rome"));
        insta::assert_snapshot!(render("t", &cut("rome", "milan").rules), @r"
        table inet t {
          chain forward0 { type filter hook forward priority -500; ip saddr { 198.18.0.12, 198.18.2.0/24 } ip daddr { 198.18.0.11, 198.19.1.0/24 } drop; }
          chain forward1 { type filter hook forward priority -500; ip saddr { 198.18.0.11, 198.19.1.0/24 } ip daddr { 198.18.0.12, 198.18.2.0/24 } drop; }
        }
        ");
    }
}
