//! What is told of a tunnel in its TunnelEndpoint.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use liqo_api::keys::{link, secret};
use liqo_api::net::{Connection, ConnectionStatus, Latency, TunnelEndpointStatus};

use crate::peer::{Peer, Refusal};
use crate::pulse::{Health, NO_LATENCY, latency_text, read_latency};

/// Where tunnels begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address of the gateway's node.
    pub node: Ipv4Addr,
    /// The number of the interface that leads from there into the gateway.
    pub cable: u32,
    /// The largest packet that passes whole.
    pub mtu: u32,
    /// Who carries the packets.
    pub implementation: &'static str,
}

/// The status of a tunnel that is set up.
pub fn of_peer(
    origin: Origin,
    peer: &Peer,
    endpoint: Option<SocketAddr>,
    health: Health,
    now: Timestamp,
) -> TunnelEndpointStatus {
    let (status, message, latency) = match health {
        Health::Connecting => (
            ConnectionStatus::Connecting,
            "waiting for the peer to answer".to_owned(),
            NO_LATENCY.to_owned(),
        ),
        Health::Connected(latency) => (
            ConnectionStatus::Connected,
            "VPN connection established".to_owned(),
            latency_text(latency),
        ),
        Health::Lost => {
            let place = endpoint.map_or_else(|| peer.endpoint.clone(), |at| at.ip().to_string());
            let message = format!(
                "the peer does not answer at {place}:{}/udp; see that its gateway can be reached, \
                 and runs",
                peer.port
            );
            (ConnectionStatus::Error, message, NO_LATENCY.to_owned())
        }
    };
    let connection = Connection {
        status: Some(status),
        status_message: Some(message),
        peer_configuration: configuration(origin, peer, endpoint),
        latency: Some(Latency { value: Some(latency), timestamp: Some(Time(now)) }),
    };
    TunnelEndpointStatus {
        veth_iface_name: Some(link::HOST_VETH.to_owned()),
        veth_iface_index: Some(origin.cable.into()),
        veth_ip: Some(link::HOST_VETH_ADDRESS.to_string()),
        gateway_ip: Some(origin.node.to_string()),
        connection: Some(connection),
        ..TunnelEndpointStatus::default()
    }
}

/// The status of a tunnel that is not set up: without a gateway, so that no node leads there.
pub fn of_refusal(refusal: &Refusal) -> TunnelEndpointStatus {
    let connection = Connection {
        status: Some(ConnectionStatus::Error),
        status_message: Some(format!("the peer is refused: {refusal}")),
        ..Connection::default()
    };
    TunnelEndpointStatus { connection: Some(connection), ..TunnelEndpointStatus::default() }
}

/// By how much latencies differ at least, for that to be worth telling.
const NOTABLE: Duration = Duration::from_millis(10);

/// Whether a status says something new: a latency alone does only once in a while, and only if it is
/// another one to a person; metrics tell it exactly.
pub fn is_news(
    want: &TunnelEndpointStatus,
    have: Option<&TunnelEndpointStatus>,
    pause: jiff::SignedDuration,
) -> bool {
    let Some(have) = have else { return true };
    let silent = |status: &TunnelEndpointStatus| {
        let mut status = status.clone();
        if let Some(connection) = &mut status.connection {
            connection.latency = None;
        }
        status
    };
    if silent(want) != silent(have) {
        return true;
    }
    let latency = |status: &TunnelEndpointStatus| status.connection.clone()?.latency;
    match (latency(want), latency(have)) {
        (Some(want), Some(have)) if !is_another(want.value.as_ref(), have.value.as_ref()) => false,
        (Some(want), Some(have)) => match (want.timestamp, have.timestamp) {
            (Some(now), Some(then)) => now.0.duration_since(then.0) >= pause,
            (_, None) | (None, _) => true,
        },
        (want, have) => want.is_some() != have.is_some(),
    }
}

/// Whether a latency differs from another by a factor of two, and by more than chance makes it.
fn is_another(want: Option<&String>, have: Option<&String>) -> bool {
    let read = |text: Option<&String>| text.and_then(|text| read_latency(text));
    match (read(want), read(have)) {
        (Some(want), Some(have)) => {
            let (small, large) = (want.min(have), want.max(have));
            large >= small * 2 && large >= small + NOTABLE
        }
        (None, None) => want != have,
        (Some(_), None) | (None, Some(_)) => true,
    }
}

fn configuration(
    origin: Origin,
    peer: &Peer,
    endpoint: Option<SocketAddr>,
) -> BTreeMap<String, String> {
    let [pods, externals] = peer.networks();
    let pairs = [
        (secret::WIREGUARD_PUBLIC_KEY, BASE64_STANDARD.encode(peer.key)),
        (
            secret::TUNNEL_ENDPOINT_IP,
            endpoint.map_or_else(|| peer.endpoint.clone(), |e| e.ip().to_string()),
        ),
        (secret::TUNNEL_PORT, peer.port.to_string()),
        (secret::TUNNEL_ALLOWED_IPS, format!("{pods}, {externals}")),
        (secret::TUNNEL_MTU, origin.mtu.to_string()),
        (secret::TUNNEL_IMPLEMENTATION, origin.implementation.to_owned()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::{MILAN, endpoint};
    use crate::peer::Ground;

    #[test]
    fn a_connected_tunnel_is_told_as_others_tell_it() {
        let status = status(Health::Connected(SignedDuration::from_micros(526)), 0);
        let told = serde_json::to_value(status).unwrap();
        let want = serde_json::json!({
            "connection": {
                "latency": { "timestamp": "2026-11-15T20:45:21Z", "value": "526\u{3bc}s" },
                "peerConfiguration": {
                    "allowedIPs": "10.201.0.0/16, 10.92.0.0/16",
                    "endpointIP": "172.30.0.3",
                    "implementation": "userspace",
                    "mtu": "1340",
                    "port": "30160",
                    "publicKey": "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
                },
                "status": "Connected",
                "statusMessage": "VPN connection established",
            },
            "gatewayIP": "172.30.0.2",
            "vethIFaceIndex": 12,
            "vethIFaceName": "liqo.host",
            "vethIP": "169.254.100.1",
        });
        assert_eq!(told, want);
    }

    #[test]
    fn another_latency_is_news_once_in_a_while() {
        let pause = SignedDuration::from_secs(30);
        let connected =
            |micros, after| status(Health::Connected(SignedDuration::from_micros(micros)), after);
        let first = connected(500, 0);
        assert!(is_news(&first, None, pause));
        assert!(!is_news(&connected(60_000, 29), Some(&first), pause));
        assert!(is_news(&connected(60_000, 30), Some(&first), pause));
        assert!(!is_news(&connected(500, 30), Some(&first), pause));
        assert!(is_news(&status(Health::Lost, 1), Some(&first), pause));
    }

    #[test]
    fn latencies_that_waver_are_no_news() {
        let pause = SignedDuration::from_secs(30);
        let connected =
            |micros, after| status(Health::Connected(SignedDuration::from_micros(micros)), after);
        for (before, after, news) in [
            (500, 8_000, false),
            (8_000, 500, false),
            (100_000, 150_000, false),
            (100_000, 210_000, true),
            (210_000, 100_000, true),
        ] {
            let said = is_news(&connected(after, 60), Some(&connected(before, 0)), pause);
            assert_eq!(said, news, "{before} to {after}");
        }
    }

    #[test]
    fn who_does_not_answer_is_named_with_address_port_and_protocol() {
        let message = status(Health::Lost, 0).connection.unwrap().status_message.unwrap();
        assert!(message.contains("does not answer at 172.30.0.3:30160/udp"), "{message}");
    }

    #[test]
    fn a_refused_tunnel_has_no_gateway() {
        let status = of_refusal(&Refusal::Repeated);
        assert_eq!(status.gateway_ip, None);
        let message = status.connection.unwrap().status_message.unwrap();
        assert_eq!(message, "the peer is refused: an older TunnelEndpoint is for the same cluster");
    }

    fn status(health: Health, after: i64) -> TunnelEndpointStatus {
        let node = Ipv4Addr::new(172, 30, 0, 2);
        let origin = Origin { node, cable: 12, mtu: 1340, implementation: "userspace" };
        let peer = Peer::read(&endpoint(MILAN, "milan").spec, None, &Ground::default()).unwrap();
        let now: Timestamp = "2026-11-15T20:45:21Z".parse().unwrap();
        let at = Some("172.30.0.3:30160".parse().unwrap());
        of_peer(origin, &peer, at, health, now + SignedDuration::from_secs(after))
    }
}
