//! Where peers are: names become addresses, and an address that still counts is kept.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use liqo_api::names::ClusterId;
use liqo_fabric::peer::Peer;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tracing::warn;

/// How long a name server may take.
const LIMIT: Duration = Duration::from_secs(3);

/// The addresses of peers, as they were found last.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts(BTreeMap<ClusterId, (String, SocketAddr)>);

impl Whereabouts {
    /// Where a peer is; nothing when nobody knows, and it has to speak first.
    ///
    /// A name is looked up when it is new, and again when `doubted`.
    pub async fn find(&mut self, peer: &Peer, doubted: bool) -> Option<SocketAddr> {
        let (id, text) = (&peer.cluster.id, format!("{}:{}", peer.endpoint, peer.port));
        if let Ok(address) = peer.endpoint.parse::<IpAddr>() {
            return Some(SocketAddr::new(address, peer.port));
        }
        let known = self.0.get(id).filter(|(asked, _)| *asked == text).map(|(_, found)| *found);
        if let Some(known) = known.filter(|_| !doubted) {
            return Some(known);
        }
        let answers = match timeout(LIMIT, lookup_host(&text)).await {
            Ok(Ok(answers)) => answers.collect(),
            Ok(Err(error)) => {
                warn!(peer = %peer.cluster.name, name = peer.endpoint, %error, "Peer not found");
                Vec::new()
            }
            Err(_) => {
                warn!(peer = %peer.cluster.name, name = peer.endpoint, "No name server answers");
                Vec::new()
            }
        };
        let found = choose(&answers, known)?;
        self.0.insert(id.clone(), (text, found));
        Some(found)
    }

    /// Forgets peers that are gone.
    pub fn keep(&mut self, peers: &BTreeMap<ClusterId, Peer>) {
        self.0.retain(|id, _| peers.contains_key(id));
    }
}

/// One of several addresses: the one in use if it is among them, an IPv4 one otherwise.
fn choose(answers: &[SocketAddr], known: Option<SocketAddr>) -> Option<SocketAddr> {
    if known.is_some_and(|known| answers.is_empty() || answers.contains(&known)) {
        return known;
    }
    answers.iter().find(|answer| answer.is_ipv4()).or_else(|| answers.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_kept_while_it_counts() {
        let [six, one, two] = ["[::1]:1", "10.0.0.1:1", "10.0.0.2:1"].map(|a| a.parse().unwrap());
        assert_eq!(choose(&[six, one, two], None), Some(one));
        assert_eq!(choose(&[six, one, two], Some(two)), Some(two));
        assert_eq!(choose(&[six, one], Some(two)), Some(one));
        assert_eq!(choose(&[], Some(two)), Some(two));
        assert_eq!(choose(&[six], None), Some(six));
        assert_eq!(choose(&[], None), None);
    }
}
