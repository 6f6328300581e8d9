//! What the gateway measures, by peer.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use liqo_api::keys::link;
use liqo_api::names::{Cluster, ClusterId};
use liqo_fabric::peer::Peer;
use liqo_fabric::pulse::Health;
use liqo_kit::metrics::Metrics;
use liqo_netstate::Remembered;
use liqo_tunnel::{Driver, PeerState, PublicKey};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::heart::Heart;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabels {
    driver: &'static str,
    device: &'static str,
    cluster_id: String,
    cluster_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DriverLabels {
    driver: &'static str,
    implementation: &'static str,
}

/// What the gateway measures.
pub(crate) struct Meters {
    received: Family<PeerLabels, Counter<u64, AtomicU64>>,
    sent: Family<PeerLabels, Counter<u64, AtomicU64>>,
    latency: Family<PeerLabels, Gauge>,
    connected: Family<PeerLabels, Gauge>,
    implementation: Family<DriverLabels, Gauge>,
    active: Gauge,
    connections: Gauge,
    connections_limit: Gauge,
}

impl Meters {
    /// Shows the metrics.
    pub fn register(metrics: &Metrics) -> Self {
        let help = ["Bytes from a peer", "Bytes to a peer"];
        let [received, sent] = ["peer_receive_bytes", "peer_transmit_bytes"];
        let implementation = "Who carries the packets of tunnels";
        Self {
            received: metrics.register(received, help[0], Family::default()),
            sent: metrics.register(sent, help[1], Family::default()),
            latency: metrics.register(
                "peer_latency_us",
                "How long answers take",
                Family::default(),
            ),
            connected: metrics.register(
                "peer_is_connected",
                "Whether a peer answers",
                Family::default(),
            ),
            implementation: metrics.register(
                "wireguard_implementation",
                implementation,
                Family::default(),
            ),
            active: metrics.register(
                "gateway_is_active",
                "Whether this gateway is active, or stands by",
                Gauge::default(),
            ),
            connections: metrics.register(
                "gateway_connections",
                "Connections of pods that pass the gateway",
                Gauge::default(),
            ),
            connections_limit: metrics.register(
                "gateway_connections_limit",
                "Connections for which the kernel has room",
                Gauge::default(),
            ),
        }
    }

    /// Shows that this gateway is the active one.
    pub fn show_active(&self) {
        self.active.set(1);
    }

    /// Shows how many connections pass, and how many could.
    pub fn show_connections(&self, Remembered { count, limit }: Remembered) {
        self.connections.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.connections_limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// Shows who carries the packets.
    pub fn show_driver(&self, driver: Driver) {
        let implementation = match driver {
            Driver::Kernel => "kernel",
            Driver::Userspace => "userspace",
        };
        let labels = DriverLabels { driver: link::BACKEND_WIREGUARD, implementation };
        self.implementation.get_or_create(&labels).set(1);
    }

    /// Shows how peers are; of those that are not connected, only that.
    pub fn show(&self, peers: &BTreeMap<ClusterId, Peer>, states: &[PeerState], heart: &Heart) {
        let now = Timestamp::now();
        for peer in peers.values() {
            let labels = labels(&peer.cluster);
            let Health::Connected(latency) = heart.health(&peer.cluster.id, now) else {
                self.connected.get_or_create(&labels).set(0);
                self.latency.remove(&labels);
                self.received.remove(&labels);
                self.sent.remove(&labels);
                continue;
            };
            self.connected.get_or_create(&labels).set(1);
            let micros = i64::try_from(latency.as_micros()).unwrap_or(i64::MAX);
            self.latency.get_or_create(&labels).set(micros);
            if let Some(state) = states.iter().find(|one| one.public_key == PublicKey(peer.key)) {
                raise(&self.received, &labels, state.received);
                raise(&self.sent, &labels, state.sent);
            }
        }
    }

    /// Shows nothing of a peer any more.
    pub fn forget(&self, cluster: &Cluster) {
        let labels = labels(cluster);
        self.connected.remove(&labels);
        self.latency.remove(&labels);
        self.received.remove(&labels);
        self.sent.remove(&labels);
    }
}

fn labels(cluster: &Cluster) -> PeerLabels {
    PeerLabels {
        driver: link::BACKEND_WIREGUARD,
        device: link::TUNNEL,
        cluster_id: cluster.id.to_string(),
        cluster_name: cluster.name.to_string(),
    }
}

/// Makes a counter show a total that somebody else counts.
fn raise(family: &Family<PeerLabels, Counter<u64, AtomicU64>>, labels: &PeerLabels, total: u64) {
    let before = family.get_or_create(labels).get();
    if total < before {
        // The other one began anew.
        family.remove(labels);
        family.get_or_create(labels).inc_by(total);
    } else {
        family.get_or_create(labels).inc_by(total - before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_shown_as_they_are_told() {
        let metrics = Metrics::default();
        let meters = Meters::register(&metrics);
        let labels = PeerLabels {
            driver: "wireguard",
            device: "liqo.tunnel",
            cluster_id: "1".to_owned(),
            cluster_name: "milan".to_owned(),
        };
        for total in [7, 9, 3] {
            raise(&meters.received, &labels, total);
            let line = format!(
                "liqo_peer_receive_bytes_total{{driver=\"wireguard\",device=\"liqo.tunnel\",\
                 cluster_id=\"1\",cluster_name=\"milan\"}} {total}\n"
            );
            let text = metrics.text().unwrap();
            assert!(text.contains(&line), "{text}");
        }
        meters.show_driver(Driver::Userspace);
        let text = metrics.text().unwrap();
        let line =
            "liqo_wireguard_implementation{driver=\"wireguard\",implementation=\"userspace\"} 1";
        assert!(text.contains(line), "{text}");
    }
}
