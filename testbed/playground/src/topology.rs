//! What a playground consists of: the small declarative file a user writes.
//!
//! Parsing says line and field of whatever is wrong, and a [`Topology`] that exists is valid: names
//! are unique, networks do not collide where they would have to share a wire, references resolve.

mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// The presets that come with the playground, by name.
pub const PRESETS: [(&str, &str); 8] = [
    ("quick-start", include_str!("../presets/quick-start.yaml")),
    ("one", include_str!("../presets/one.yaml")),
    ("pair", include_str!("../presets/pair.yaml")),
    ("three", include_str!("../presets/three.yaml")),
    ("overlap", include_str!("../presets/overlap.yaml")),
    ("nat", include_str!("../presets/nat.yaml")),
    ("both-nat", include_str!("../presets/both-nat.yaml")),
    ("scale", include_str!("../presets/scale.yaml")),
];

/// Clusters, and the networks between them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Topology {
    /// The clusters, in the order in which they get their addresses.
    pub clusters: Vec<Cluster>,
    /// The networks that need more than the default; a cluster that names none gets one of its own.
    #[serde(default)]
    pub lans: Vec<Lan>,
}

/// One Kubernetes cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Cluster {
    /// Its name, which its nodes' names start with.
    pub name: String,
    /// Where its pods get their addresses from; each node takes a /24 of it.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Ipv4Net,
    /// Where its services get their addresses from.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: Ipv4Net,
    /// How many real nodes it has; the first one also runs the control plane.
    #[serde(default = "one")]
    pub nodes: u8,
    /// How many nodes it pretends to have: their pods become Ready without running.
    #[serde(default)]
    pub fake_nodes: u32,
    /// Labels of every node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Kubernetes feature gates, for all components.
    #[serde(default)]
    pub features: BTreeMap<String, bool>,
    /// How its nodes lead packets for services to pods.
    #[serde(default)]
    pub proxy_mode: ProxyMode,
    /// The network it stands in.
    #[serde(default)]
    pub lan: Option<String>,
    /// Requests per second that controller manager and scheduler allow themselves; 100 if absent.
    #[serde(default)]
    pub qps: Option<u32>,
    /// What runs in the cluster besides Kubernetes itself.
    #[serde(default)]
    pub addons: Addons,
}

/// How nodes lead packets for services to pods, in kube-proxy's words.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// By a table of nftables.
    #[default]
    Nftables,
    /// By the rules of iptables, as most clusters still do.
    Iptables,
}

impl fmt::Display for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        })
    }
}

/// What runs in a cluster besides Kubernetes itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Addons {
    /// CoreDNS.
    pub dns: bool,
    /// metrics-server, for `kubectl top`.
    pub metrics: bool,
    /// The default StorageClass.
    pub storage: bool,
}

impl Default for Addons {
    fn default() -> Self {
        Self { dns: true, metrics: true, storage: true }
    }
}

/// One network with its router; clusters in the same network share a wire.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Lan {
    /// Its name.
    pub name: String,
    /// Whether its addresses are private and its router translates them.
    #[serde(default)]
    pub nat: bool,
    /// What its router lets in; everything if absent and there is no NAT.
    #[serde(default)]
    pub inbound: Option<Vec<Port>>,
    /// Ports of a NAT router that lead to a node.
    #[serde(default)]
    pub forwards: Vec<Forward>,
}

/// A port of a NAT router that leads to a node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Forward {
    /// The router's port, which is also the node's.
    pub port: Port,
    /// The node's name, such as `rome-1`.
    pub to: String,
}

/// A transport port such as `tcp/6443`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Port {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Why a topology cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is neither a preset nor a file of that name.
    #[error("there is no preset or file {name:?}; presets: {}", preset_names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a topology.
    #[error("{origin}: {source}")]
    Syntax {
        /// The file or preset.
        origin: String,
        /// Line, column and what is wrong there.
        source: Box<serde_saphyr::Error>,
    },
    /// The file reads well but contradicts itself.
    #[error("{origin}:{line}: {field}: {problem}")]
    Invalid {
        /// The file or preset.
        origin: String,
        /// Where the field is, counted from 1.
        line: u64,
        /// Its path, such as `clusters[1].podCIDR`.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Topology {
    /// Reads a preset by its name, or else a file.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            return Self::parse(name, text);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::Unknown { name: name.to_owned() })
            }
            Err(source) => Err(Error::Read { path: name.to_owned(), source }),
        }
    }

    /// Reads and checks a topology; `origin` is what errors call it.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Error> {
        let topology: Self = serde_saphyr::from_str(text).map_err(|error| Error::Syntax {
            origin: origin.to_owned(),
            source: Box::new(error),
        })?;
        match check::first_problem(&topology) {
            None => Ok(topology),
            Some((field, problem)) => Err(Error::Invalid {
                origin: origin.to_owned(),
                line: check::line_of(text, &field),
                field: field.to_string(),
                problem,
            }),
        }
    }

    /// The network a cluster stands in, by name.
    pub fn lan_of<'a>(&'a self, cluster: &'a Cluster) -> &'a str {
        cluster.lan.as_deref().unwrap_or(&cluster.name)
    }

    /// All networks: those written down, and those that clusters bring with them.
    pub fn all_lans(&self) -> Vec<Lan> {
        let mut lans = self.lans.clone();
        for cluster in &self.clusters {
            let name = self.lan_of(cluster);
            if !lans.iter().any(|lan| lan.name == name) {
                lans.push(Lan { name: name.to_owned(), ..Lan::default() });
            }
        }
        lans
    }
}

impl Cluster {
    /// The names of its real nodes.
    pub fn node_names(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.nodes).map(|index| format!("{}-{index}", self.name))
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not a port such as tcp/6443");
        let (protocol, number) = text.split_once('/').ok_or_else(wrong)?;
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return Err(wrong()),
        };
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        Ok(Self { protocol, number })
    }
}

impl TryFrom<String> for Port {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Port> for String {
    fn from(port: Port) -> Self {
        format!("{}/{}", port.protocol, port.number)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

fn one() -> u8 {
    1
}

fn preset_names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid() {
        for (name, text) in PRESETS {
            if let Err(error) = Topology::parse(name, text) {
                panic!("{error}");
            }
        }
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_known_ones() {
        let error = Topology::load("quick-strat").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no preset or file \"quick-strat\"; \
             presets: quick-start, one, pair, three, overlap, nat, both-nat, scale"
        );
    }

    #[test]
    fn a_misspelt_field_is_named_with_its_line() {
        let text =
            "clusters:\n  - name: rome\n    podCIDR: 10.1.0.0/16\n    serviceCDIR: 10.2.0.0/16\n";
        let error = Topology::parse("lab.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with("lab.yaml: "), "{error}");
        assert!(error.contains("serviceCDIR") && error.contains("line 4"), "{error}");
    }

    #[test]
    fn a_bad_network_is_reported_where_it_stands() {
        let text =
            "clusters:\n  - name: rome\n    podCIDR: 10.1.0.0/99\n    serviceCIDR: 10.2.0.0/16\n";
        let error = Topology::parse("lab.yaml", text).unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn ports_read_and_print_alike() {
        let port: Port = "udp/5871".parse().unwrap();
        assert_eq!(String::from(port), "udp/5871");
        assert_eq!(
            "icmp/1".parse::<Port>().unwrap_err(),
            "\"icmp/1\" is not a port such as tcp/6443"
        );
        assert!("tcp/0".parse::<Port>().is_err() && "tcp/65536".parse::<Port>().is_err());
    }
}
