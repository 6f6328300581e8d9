//! What makes a topology contradict itself, and where in the file the culprit stands.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::Ipv4Net;

use super::{Cluster, Lan, Topology};

/// The addresses that playgrounds themselves use between clusters (RFC 2544).
const RESERVED: Ipv4Net = Ipv4Net::new_assert(std::net::Ipv4Addr::new(198, 18, 0, 0), 15);

/// Clusters and networks that fit into the addresses of one playground.
pub const MAX_LANS: usize = 12;
/// Nodes of one cluster; more would not fit on a machine anyway.
const MAX_NODES: u8 = 9;
/// `<prefix>-<node>` must be a legal host name and leave room for a prefix.
const MAX_NAME: usize = 20;

/// A field: the list it is in, the index there, and its key.
pub struct Field(&'static str, usize, &'static str);

impl fmt::Display for Field {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(list, index, key) = self;
        if key.is_empty() { write!(out, "{list}") } else { write!(out, "{list}[{index}].{key}") }
    }
}

/// The first contradiction, as field and problem.
pub fn first_problem(topology: &Topology) -> Option<(Field, String)> {
    if topology.clusters.is_empty() {
        return Some((Field("clusters", 0, ""), "name at least one cluster".to_owned()));
    }
    let clusters = topology.clusters.iter().enumerate();
    clusters
        .clone()
        .find_map(|(index, cluster)| {
            cluster_problem(topology, index, cluster)
                .map(|(key, problem)| (Field("clusters", index, key), problem))
        })
        .or_else(|| {
            topology.lans.iter().enumerate().find_map(|(index, lan)| {
                lan_problem(topology, index, lan)
                    .map(|(key, problem)| (Field("lans", index, key), problem))
            })
        })
        .or_else(|| {
            (topology.all_lans().len() > MAX_LANS).then(|| {
                (Field("clusters", 0, ""), format!("a playground has at most {MAX_LANS} networks"))
            })
        })
}

/// The line of a field, counted from 1: the `index`-th item of the list, then its key.
///
/// It is right for block style, which is how such files are written, and falls back to the list.
pub fn line_of(text: &str, field: &Field) -> u64 {
    let Field(list, index, key) = field;
    let lines = || (1..).zip(text.lines());
    let Some((start, _)) = lines().find(|(_, line)| line.starts_with(&format!("{list}:"))) else {
        return 1;
    };
    let item = lines()
        .filter(|(number, line)| *number > start && line.trim_start().starts_with("- "))
        .filter(|(_, line)| indent(line) == first_item_indent(text, start))
        .nth(*index);
    let Some((item, _)) = item else { return start };
    lines()
        .skip_while(|(number, _)| *number < item)
        .take_while(|(number, line)| *number == item || !is_next_item(line, text, start))
        .find(|(_, line)| {
            line.trim_start().trim_start_matches("- ").starts_with(&format!("{key}:"))
        })
        .map_or(item, |(number, _)| number)
}

fn is_next_item(line: &str, text: &str, start: u64) -> bool {
    line.trim_start().starts_with("- ") && indent(line) == first_item_indent(text, start)
}

fn first_item_indent(text: &str, start: u64) -> usize {
    let rest = (1..).zip(text.lines()).filter(|(number, _): &(u64, &str)| *number > start);
    rest.map(|(_, line)| line).find(|line| line.trim_start().starts_with("- ")).map_or(0, indent)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn cluster_problem(
    topology: &Topology,
    index: usize,
    cluster: &Cluster,
) -> Option<(&'static str, String)> {
    let (pods, services) = (cluster.pod_cidr, cluster.service_cidr);
    if let Some(problem) = name_problem(&cluster.name) {
        return Some(("name", problem));
    }
    if topology.clusters.iter().take(index).any(|other| other.name == cluster.name) {
        return Some(("name", format!("there is already a cluster {:?}", cluster.name)));
    }
    if cluster.nodes == 0 || cluster.nodes > MAX_NODES {
        return Some(("nodes", format!("a cluster has 1 to {MAX_NODES} nodes")));
    }
    for (key, network) in [("podCIDR", pods), ("serviceCIDR", services)] {
        if network.trunc() != network {
            return Some((
                key,
                format!("{network} has host bits set; did you mean {}?", network.trunc()),
            ));
        }
        if overlap(network, RESERVED) {
            return Some((key, format!("{RESERVED} is what playgrounds use between clusters")));
        }
    }
    if pods.prefix_len() > 20 {
        return Some((
            "podCIDR",
            "each node takes a /24 of it: give it a /20 or larger".to_owned(),
        ));
    }
    if !(12..=24).contains(&services.prefix_len()) {
        return Some(("serviceCIDR", "Kubernetes wants a /12 to a /24 here".to_owned()));
    }
    if overlap(pods, services) {
        return Some(("serviceCIDR", format!("{services} overlaps the pods' {pods}")));
    }
    None
}

fn lan_problem(topology: &Topology, index: usize, lan: &Lan) -> Option<(&'static str, String)> {
    if let Some(problem) = name_problem(&lan.name) {
        return Some(("name", problem));
    }
    if topology.lans.iter().take(index).any(|other| other.name == lan.name) {
        return Some(("name", format!("there is already a network {:?}", lan.name)));
    }
    let members: Vec<&Cluster> =
        topology.clusters.iter().filter(|cluster| topology.lan_of(cluster) == lan.name).collect();
    if members.is_empty() {
        return Some(("name", format!("no cluster stands in network {:?}", lan.name)));
    }
    if !lan.nat && !lan.forwards.is_empty() {
        return Some(("forwards", "only a network with `nat: true` forwards ports".to_owned()));
    }
    let nodes: BTreeSet<String> = members.iter().flat_map(|cluster| cluster.node_names()).collect();
    let stranger = lan.forwards.iter().find(|forward| !nodes.contains(&forward.to));
    stranger
        .map(|forward| ("forwards", format!("there is no node {:?} in this network", forward.to)))
}

fn name_problem(name: &str) -> Option<String> {
    let legal = name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !legal || name.len() > MAX_NAME {
        return Some(format!(
            "{name:?} must be 1 to {MAX_NAME} lowercase letters, digits and dashes, a letter first"
        ));
    }
    None
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
clusters:
  - name: rome
    podCIDR: 10.10.0.0/16
    serviceCIDR: 10.11.0.0/16
  - name: milan
    podCIDR: 10.20.0.0/16
    serviceCIDR: 10.21.0.0/16
    nodes: 2
lans:
  - name: milan
    nat: true
    forwards:
      - port: tcp/6443
        to: milan-1
";

    fn problem_after(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        Topology::parse("lab.yaml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_example_itself_is_valid() {
        assert!(Topology::parse("lab.yaml", GOOD).is_ok());
    }

    #[test]
    fn contradictions_are_reported_with_line_and_field() {
        let cases = [
            (
                "name: milan\n    pod",
                "name: rome\n    pod",
                "5: clusters[1].name: there is already a cluster \"rome\"",
            ),
            (
                "name: rome",
                "name: Rome",
                "2: clusters[0].name: \"Rome\" must be 1 to 20 lowercase letters, digits and dashes, a letter first",
            ),
            ("nodes: 2", "nodes: 0", "8: clusters[1].nodes: a cluster has 1 to 9 nodes"),
            (
                "10.11.0.0/16",
                "10.10.0.0/16",
                "4: clusters[0].serviceCIDR: 10.10.0.0/16 overlaps the pods' 10.10.0.0/16",
            ),
            (
                "10.20.0.0/16",
                "10.20.1.0/16",
                "6: clusters[1].podCIDR: 10.20.1.0/16 has host bits set; did you mean 10.20.0.0/16?",
            ),
            (
                "10.20.0.0/16",
                "198.18.0.0/16",
                "6: clusters[1].podCIDR: 198.18.0.0/15 is what playgrounds use between clusters",
            ),
            (
                "nat: true",
                "nat: false",
                "12: lans[0].forwards: only a network with `nat: true` forwards ports",
            ),
            (
                "to: milan-1",
                "to: rome-1",
                "12: lans[0].forwards: there is no node \"rome-1\" in this network",
            ),
            (
                "lans:\n  - name: milan",
                "lans:\n  - name: turin",
                "10: lans[0].name: no cluster stands in network \"turin\"",
            ),
        ];
        for (from, to, expected) in cases {
            assert_eq!(problem_after(from, to), format!("lab.yaml:{expected}"));
        }
    }

    #[test]
    fn no_cluster_at_all_is_said_so() {
        let error = Topology::parse("lab.yaml", "clusters: []\n").unwrap_err().to_string();
        assert_eq!(error, "lab.yaml:1: clusters: name at least one cluster");
    }
}
