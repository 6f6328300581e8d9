//! What is said to the kernel's WireGuard, and what it says.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use ipnet::Ipv4Net;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr, WireguardAttribute,
    WireguardCmd, WireguardMessage, WireguardPeer, WireguardPeerAttribute, WireguardPeerFlags,
};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::netlink::ask;
use crate::key::{PrivateKey, PublicKey};
use crate::peer::{Change, PeerState, seconds};

/// Gives a device its key and its port.
pub(super) fn set_device(name: &str, key: &PrivateKey, port: u16) -> io::Result<()> {
    let attributes = vec![
        WireguardAttribute::IfName(name.to_owned()),
        WireguardAttribute::PrivateKey(key.secret().to_bytes()),
        WireguardAttribute::ListenPort(port),
    ];
    say(0, WireguardMessage { cmd: WireguardCmd::SetDevice, attributes }).map(|_| ())
}

/// Changes the peers of a device.
pub(super) fn set_peers(name: &str, changes: &[Change]) -> io::Result<()> {
    say(0, change(name, changes)).map(|_| ())
}

/// The peers of a device.
pub(super) fn peers(name: &str) -> io::Result<Vec<PeerState>> {
    let attributes = vec![WireguardAttribute::IfName(name.to_owned())];
    let answers = say(NLM_F_DUMP, WireguardMessage { cmd: WireguardCmd::GetDevice, attributes })?;
    Ok(states(&answers))
}

fn say(flags: u16, message: WireguardMessage) -> io::Result<Vec<WireguardMessage>> {
    let mut question = GenlMessage::from_payload(message);
    question.set_resolved_family_id(family()?);
    let answers = ask(NETLINK_GENERIC, flags, question)?;
    Ok(answers.into_iter().map(|answer| answer.payload).collect())
}

/// The number under which the kernel listens for WireGuard's messages.
fn family() -> io::Result<u16> {
    let question = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName("wireguard".to_owned())],
    });
    let answers = ask(NETLINK_GENERIC, 0, question)?;
    let mut attributes = answers.iter().flat_map(|answer| &answer.payload.nlas);
    attributes
        .find_map(|attribute| {
            if let GenlCtrlAttrs::FamilyId(number) = attribute { Some(*number) } else { None }
        })
        .ok_or_else(|| io::Error::other("the kernel does not know WireGuard's messages"))
}

fn change(name: &str, changes: &[Change]) -> WireguardMessage {
    let peers = changes.iter().map(peer).collect();
    WireguardMessage {
        cmd: WireguardCmd::SetDevice,
        attributes: vec![
            WireguardAttribute::IfName(name.to_owned()),
            WireguardAttribute::Peers(peers),
        ],
    }
}

fn peer(change: &Change) -> WireguardPeer {
    let (key, flags, endpoint, keepalive, allowed) = match change {
        Change::Remove(key) => (*key, WireguardPeerFlags::RemoveMe, None, None, None),
        Change::Add(peer) => (
            peer.public_key,
            WireguardPeerFlags::ReplaceAllowedIps,
            peer.endpoint,
            peer.keepalive.map(|every| seconds(Some(every))),
            Some(&peer.allowed),
        ),
        Change::Update(update) => {
            let mut flags = WireguardPeerFlags::UpdateOnly;
            if update.allowed.is_some() {
                flags |= WireguardPeerFlags::ReplaceAllowedIps;
            }
            let allowed = update.allowed.as_ref();
            (update.public_key, flags, update.endpoint, update.keepalive, allowed)
        }
    };
    let mut attributes =
        vec![WireguardPeerAttribute::PublicKey(key.0), WireguardPeerAttribute::Flags(flags)];
    attributes.extend(endpoint.map(WireguardPeerAttribute::Endpoint));
    attributes.extend(keepalive.map(WireguardPeerAttribute::PersistentKeepalive));
    attributes.extend(allowed.map(|networks| {
        WireguardPeerAttribute::AllowedIps(networks.iter().copied().map(allowed_network).collect())
    }));
    WireguardPeer(attributes)
}

fn allowed_network(network: Ipv4Net) -> WireguardAllowedIp {
    WireguardAllowedIp(vec![
        WireguardAllowedIpAttr::Family(WireguardAddressFamily::Ipv4),
        WireguardAllowedIpAttr::IpAddr(IpAddr::V4(network.network())),
        WireguardAllowedIpAttr::Cidr(network.prefix_len()),
    ])
}

/// The peers in the kernel's answers. One with many networks comes in several pieces.
fn states(answers: &[WireguardMessage]) -> Vec<PeerState> {
    let mut states: BTreeMap<PublicKey, PeerState> = BTreeMap::new();
    let attributes = answers.iter().flat_map(|answer| &answer.attributes);
    let peers = attributes.filter_map(|attribute| {
        if let WireguardAttribute::Peers(peers) = attribute { Some(peers) } else { None }
    });
    for peer in peers.flatten() {
        let key = peer.iter().find_map(|attribute| {
            if let WireguardPeerAttribute::PublicKey(key) = attribute { Some(*key) } else { None }
        });
        let Some(key) = key.map(PublicKey) else { continue };
        let state = states.entry(key).or_insert(PeerState {
            public_key: key,
            endpoint: None,
            last_handshake: None,
            received: 0,
            sent: 0,
        });
        for attribute in peer.iter() {
            if let WireguardPeerAttribute::Endpoint(endpoint) = attribute {
                state.endpoint = Some(*endpoint);
            } else if let WireguardPeerAttribute::LastHandshake(time) = attribute {
                state.last_handshake = moment(time.seconds, time.nano_seconds);
            } else if let WireguardPeerAttribute::RxBytes(bytes) = attribute {
                state.received = *bytes;
            } else if let WireguardPeerAttribute::TxBytes(bytes) = attribute {
                state.sent = *bytes;
            }
        }
    }
    states.into_values().collect()
}

/// A time, where zero says that there was none.
fn moment(seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
    (!since.is_zero()).then(|| SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{Emitable as _, ParseableParametrized as _};
    use netlink_packet_generic::GenlHeader;
    use netlink_packet_wireguard::WireguardTimeSpec;

    use super::*;
    use crate::peer::{Peer, Update};

    const KEY: PublicKey = PublicKey([7; 32]);

    fn full() -> Peer {
        Peer {
            public_key: KEY,
            endpoint: Some("192.0.2.1:5871".parse().unwrap()),
            allowed: vec!["10.1.0.0/16".parse().unwrap(), "10.2.0.0/16".parse().unwrap()],
            keepalive: Some(Duration::from_secs(25)),
        }
    }

    fn over_the_wire(message: &WireguardMessage) -> WireguardMessage {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let header = GenlHeader { cmd: message.cmd.into(), version: 1 };
        WireguardMessage::parse_with_param(&bytes, header).unwrap()
    }

    #[test]
    fn what_is_said_survives_the_way_to_the_kernel() {
        let update = Update { public_key: KEY, endpoint: None, allowed: None, keepalive: Some(0) };
        let message = change(
            "liqo.tunnel",
            &[Change::Remove(PublicKey([1; 32])), Change::Add(full()), Change::Update(update)],
        );
        assert_eq!(over_the_wire(&message), message);
    }

    #[test]
    fn a_peer_that_goes_is_only_named() {
        assert_eq!(
            peer(&Change::Remove(KEY)).0,
            [
                WireguardPeerAttribute::PublicKey(KEY.0),
                WireguardPeerAttribute::Flags(WireguardPeerFlags::RemoveMe),
            ]
        );
    }

    #[test]
    fn a_peer_that_comes_brings_all_its_networks() {
        let attributes = peer(&Change::Add(full())).0;
        let networks = full().allowed.into_iter().map(allowed_network).collect();
        assert!(attributes.contains(&WireguardPeerAttribute::AllowedIps(networks)));
        assert!(attributes.contains(&WireguardPeerAttribute::PersistentKeepalive(25)));
        assert!(
            attributes
                .contains(&WireguardPeerAttribute::Flags(WireguardPeerFlags::ReplaceAllowedIps))
        );
    }

    #[test]
    fn a_peer_that_stays_keeps_what_is_not_named() {
        let endpoint = Some("192.0.2.9:1".parse().unwrap());
        let update = Update { public_key: KEY, endpoint, allowed: None, keepalive: None };
        assert_eq!(
            peer(&Change::Update(update)).0,
            [
                WireguardPeerAttribute::PublicKey(KEY.0),
                WireguardPeerAttribute::Flags(WireguardPeerFlags::UpdateOnly),
                WireguardPeerAttribute::Endpoint("192.0.2.9:1".parse().unwrap()),
            ]
        );
    }

    #[test]
    fn a_peer_in_pieces_is_one_peer() {
        let answer = |attributes: Vec<WireguardPeerAttribute>| WireguardMessage {
            cmd: WireguardCmd::GetDevice,
            attributes: vec![WireguardAttribute::Peers(vec![WireguardPeer(attributes)])],
        };
        let first = answer(vec![
            WireguardPeerAttribute::PublicKey(KEY.0),
            WireguardPeerAttribute::Endpoint("192.0.2.1:5871".parse().unwrap()),
            WireguardPeerAttribute::LastHandshake(WireguardTimeSpec {
                seconds: 1_700_000_000,
                nano_seconds: 5,
            }),
            WireguardPeerAttribute::RxBytes(3),
            WireguardPeerAttribute::TxBytes(4),
        ]);
        let second = answer(vec![
            WireguardPeerAttribute::PublicKey(KEY.0),
            WireguardPeerAttribute::AllowedIps(vec![allowed_network(
                "10.9.0.0/16".parse().unwrap(),
            )]),
        ]);
        let handshake = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        let expected = PeerState {
            public_key: KEY,
            endpoint: Some("192.0.2.1:5871".parse().unwrap()),
            last_handshake: Some(handshake),
            received: 3,
            sent: 4,
        };
        assert_eq!(states(&[over_the_wire(&first), over_the_wire(&second)]), [expected]);
    }

    #[test]
    fn a_handshake_at_the_beginning_of_time_is_none() {
        assert_eq!(moment(0, 0), None);
        assert_eq!(moment(-1, 0), None);
    }
}
