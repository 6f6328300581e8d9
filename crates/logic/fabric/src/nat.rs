//! The packet filter as a script that replaces its table at once.
//!
//! On its way out a packet keeps its destination, and its source becomes the one that the peer
//! knows; on its way in it is the other way round. So every address of a peer that occurs here is
//! one that no other peer has, and connections of different peers never meet.
//!
//! From a tunnel come only packets that a peer may send: from its own networks, to pods of this
//! cluster or to an address that is shown to it. Nodes, services and other peers are out of reach.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

use ipnet::Ipv4Net;
use liqo_api::keys::{link, port};
use liqo_api::names::ClusterId;
use sha2::{Digest as _, Sha256};

use crate::peer::Peer;
use crate::state::Filter;

/// The table, in every namespace.
pub const TABLE: &str = "liqo";

/// What TCP and IP add to a segment.
const TCP_HEADERS: u32 = 40;

/// The filter of a gateway's own namespace.
///
/// Peers to whom less passes than to others are told segments that fit.
pub fn gateway(
    peers: &BTreeMap<ClusterId, Peer>,
    mtu: u32,
    narrow: &BTreeMap<ClusterId, u32>,
) -> Filter {
    let mut script = Script::default();
    let tunnel = quoted(link::TUNNEL);
    let by_network = |chain: fn(&ClusterId) -> String| {
        pairs(peers, move |peer, network| (network, format!("goto {}", chain(&peer.cluster.id))))
    };

    script.base("admission", "filter hook prerouting priority mangle", |chain| {
        chain.line(format_args!("iifname {tunnel} goto admission-of-peers"));
        chain.map("ip daddr vmap", &by_network(mark_chain));
    });
    script.base("departure", "filter hook output priority mangle", |chain| {
        chain.map("ip daddr vmap", &by_network(mark_chain));
    });
    let senders = pairs(peers, |peer, network| {
        let id = &peer.cluster.id;
        let chain = if network == peer.pods { from_chain(id) } else { answers_chain(id) };
        (network, format!("goto {chain}"))
    });
    script.chain("admission-of-peers", |chain| {
        chain.map("ip saddr vmap", &senders);
        chain.line("counter drop");
    });
    script.base("destinations", "nat hook prerouting priority dstnat", |chain| {
        let pods: Vec<_> = peers
            .values()
            .map(|peer| (peer.pods, format!("goto {}", in_chain(&peer.cluster.id))))
            .collect();
        chain.map(&format!("iifname {tunnel} ip saddr vmap"), &pods);
    });
    script.base("sources", "nat hook postrouting priority srcnat", |chain| {
        chain.map(&format!("oifname {tunnel} ip daddr vmap"), &by_network(out_chain));
    });
    script.base("crossing", "filter hook forward priority mangle", |chain| {
        let known = pairs(peers, |_, network| (network, String::new()));
        if known.is_empty() {
            chain.line(format_args!("oifname {tunnel} counter drop"));
        } else {
            let known: Vec<String> = known.iter().map(|(net, _)| net.to_string()).collect();
            let known = known.join(", ");
            chain.line(format_args!("oifname {tunnel} ip daddr != {{ {known} }} counter drop"));
        }
        for side in ["iifname", "oifname"] {
            clamp(chain, side, &tunnel, mtu);
        }
        for (peer, width) in narrow.iter().filter_map(|(id, width)| Some((peers.get(id)?, width))) {
            let [pods, externals] = peer.networks();
            for (side, end) in [("iifname", "saddr"), ("oifname", "daddr")] {
                let which = format!("{tunnel} ip {end} {{ {pods}, {externals} }}");
                clamp(chain, side, &which, *width);
            }
        }
    });
    script.base("arrival", "filter hook input priority filter", |chain| {
        let check = port::CONNECTION_CHECK;
        chain.line(format_args!("iifname {tunnel} udp dport {check} accept"));
        chain.line(format_args!("iifname {tunnel} icmp type echo-request accept"));
        chain.line(format_args!("iifname {tunnel} ct state established,related accept"));
        chain.line(format_args!("iifname {tunnel} counter drop"));
    });
    let mut flows = BTreeSet::new();
    for peer in peers.values() {
        flows.insert(mark(peer));
        of_peer(&mut script, peer);
    }
    script.finish(flows)
}

/// The chains of one peer, which carry its whole identifier: nobody else has it.
fn of_peer(script: &mut Script, peer: &Peer) {
    let Peer { cluster, own_pods, own_pods_there, shown, .. } = peer;
    let (id, mark) = (&cluster.id, mark(peer));
    let marking = format!("ct state new ct mark set {mark:#010x}");
    script.chain(&mark_chain(id), |chain| chain.line(&marking));
    script.chain(&from_chain(id), |chain| {
        chain.line(&marking);
        let targets = std::iter::once(own_pods_there.to_string());
        let targets: Vec<String> = targets.chain(shown.keys().map(ToString::to_string)).collect();
        chain.line(format_args!("ip daddr {{ {} }} accept", targets.join(", ")));
        chain.line("counter drop");
    });
    // Nothing begins at an address that only stands for another.
    script.chain(&answers_chain(id), |chain| {
        chain.line(format_args!("ip daddr {own_pods_there} ct state established,related accept"));
        chain.line("counter drop");
    });
    script.chain(&in_chain(id), |chain| {
        if own_pods != own_pods_there {
            chain.line(format_args!(
                "ip daddr {own_pods_there} \
                 dnat ip prefix to ip daddr map {{ {own_pods_there} : {own_pods} }}"
            ));
        }
        let shown: Vec<_> = shown.iter().map(|(used, to)| (*used, to.to_string())).collect();
        chain.map("dnat ip to ip daddr map", &shown);
    });
    script.chain(&out_chain(id), |chain| {
        if own_pods == own_pods_there {
            chain.line(format_args!("ip saddr {own_pods} accept"));
        } else {
            chain.line(format_args!(
                "ip saddr {own_pods} \
                 snat ip prefix to ip saddr map {{ {own_pods} : {own_pods_there} }}"
            ));
        }
        // Nodes and the gateway itself have no address of their own there.
        chain.line(format_args!("snat to {}", own_pods_there.network()));
    });
}

/// The filter of a node: the overlay is trusted and takes segments that fit, and peers do not reach
/// the node by an address that it has in the network of pods, nor what its ports lead to.
pub fn node(peers: &BTreeMap<ClusterId, Peer>, mtu: u32) -> Filter {
    let mut script = Script::default();
    let overlay = quoted(link::OVERLAY);
    let own: BTreeSet<Ipv4Net> = peers.values().map(|peer| peer.own_pods).collect();
    let own: Vec<String> = own.iter().map(ToString::to_string).collect();
    let remote: BTreeSet<Ipv4Net> = peers.values().flat_map(Peer::networks).collect();
    let remote: Vec<String> = remote.iter().map(ToString::to_string).collect();
    let (own, remote) = (own.join(", "), remote.join(", "));
    // Whichever way it came: networks of pods have ways of their own between nodes.
    let from_peers = format!("ip saddr {{ {remote} }}");
    // Who proxies services has led it elsewhere by now.
    let to_ports =
        format!("{from_peers} ct status dnat ct original ip daddr {{ {own} }} counter drop");
    script.base("arrival", "filter hook input priority filter", |chain| {
        if !peers.is_empty() {
            chain.line(format_args!("{from_peers} ip daddr {{ {own} }} ct state new counter drop"));
            chain.line(&to_ports);
        }
        chain.line(format_args!("iifname {overlay} accept"));
    });
    script.base("crossing", "filter hook forward priority filter", |chain| {
        if !peers.is_empty() {
            chain.line(&to_ports);
        }
        clamp(chain, "oifname", &overlay, mtu);
        chain.line(format_args!("iifname {overlay} accept"));
    });
    script.base("departure", "filter hook output priority filter", |chain| {
        chain.line(format_args!("oifname {overlay} accept"));
    });
    script.finish(BTreeSet::new())
}

/// Tells TCP the size of segments that fits, wherever a connection begins.
fn clamp(chain: &mut Chain<'_>, side: &str, link: &str, mtu: u32) {
    let segment = mtu.saturating_sub(TCP_HEADERS);
    chain.line(format_args!(
        "{side} {link} tcp flags & (syn | rst) == syn tcp option maxseg size set {segment}"
    ));
}

/// What marks the connections of a peer; another one as soon as they are translated in another way.
pub fn mark(peer: &Peer) -> u32 {
    let Peer { cluster, pods, externals, own_pods, own_pods_there, .. } = peer;
    let text = format!("{} {pods} {externals} {own_pods} {own_pods_there}", cluster.id);
    let digest: [u8; 32] = Sha256::digest(text).into();
    let [a, b, c, d, ..] = digest;
    // Connections that nobody marked have zero.
    u32::from_be_bytes([a, b, c, d]).max(1)
}

/// What a table that the kernel lists was made from; nothing when it is not of our making.
pub fn listed(listing: &str) -> Option<Filter> {
    const MARKING: &str = "ct mark set 0x";
    let mut lines = listing.lines().map(str::trim);
    let digest = lines.find_map(|line| line.strip_prefix("comment \"")?.strip_suffix('"'))?;
    let marks = listing.lines().filter_map(|line| {
        let (_, mark) = line.split_once(MARKING)?;
        u32::from_str_radix(mark.trim(), 16).ok()
    });
    Some(Filter { digest: digest.to_owned(), flows: marks.collect(), script: String::new() })
}

fn pairs<T>(peers: &BTreeMap<ClusterId, Peer>, pair: impl Fn(&Peer, Ipv4Net) -> T) -> Vec<T> {
    let both = peers.values().flat_map(|peer| peer.networks().map(|network| pair(peer, network)));
    both.collect()
}

fn mark_chain(id: &ClusterId) -> String {
    format!("mark-{id}")
}

fn from_chain(id: &ClusterId) -> String {
    format!("from-{id}")
}

fn answers_chain(id: &ClusterId) -> String {
    format!("answers-{id}")
}

fn in_chain(id: &ClusterId) -> String {
    format!("in-{id}")
}

fn out_chain(id: &ClusterId) -> String {
    format!("out-{id}")
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// A table while it is written; chains may be named before they are there.
#[derive(Default)]
struct Script {
    base: String,
    chains: String,
}

impl Script {
    fn base(&mut self, name: &str, hook: &str, write: impl FnOnce(&mut Chain<'_>)) {
        begin(&mut self.base, name);
        let mut chain = Chain(&mut self.base);
        chain.line(format_args!("type {hook}; policy accept;"));
        write(&mut chain);
        self.base.push_str("\t}\n");
    }

    fn chain(&mut self, name: &str, write: impl FnOnce(&mut Chain<'_>)) {
        begin(&mut self.chains, name);
        write(&mut Chain(&mut self.chains));
        self.chains.push_str("\t}\n");
    }

    /// The whole script. A table is removed in the transaction that makes it anew, and is made
    /// before, so that there is one to remove.
    fn finish(self, flows: BTreeSet<u32>) -> Filter {
        let Self { base, chains } = self;
        let digest = Sha256::digest(format!("{chains}{base}"));
        let mut name = String::new();
        for byte in digest.iter().take(8) {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        let script = format!(
            "table ip {TABLE}\ndelete table ip {TABLE}\n\
             table ip {TABLE} {{\n\tcomment \"{name}\"\n{chains}{base}}}\n"
        );
        Filter { digest: name, flows, script }
    }
}

fn begin(text: &mut String, name: &str) {
    let _ = writeln!(text, "\tchain {name} {{");
}

struct Chain<'a>(&'a mut String);

impl Chain<'_> {
    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.0, "\t\t{line}");
    }

    /// A rule that looks up; none when there is nothing to find.
    fn map<K: Display>(&mut self, words: &str, pairs: &[(K, String)]) {
        if !pairs.is_empty() {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, to)| format!("{key} : {to}")).collect();
            self.line(format_args!("{words} {{ {} }}", pairs.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests;
