//! From the peers to the device: takes trains, decrypts and checks them, writes frames.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use gotatun::noise::TunnResult;
use gotatun::packet::{Packet, WgKind};
use gotatun::tun::MtuWatcher;

use super::Shared;
use super::station::{Conversation, Station};
use crate::offload::join;

/// The longest train.
const LONGEST_TRAIN: usize = 65_536;

/// Works until the tunnel is closed.
pub(super) fn run(shared: &Shared) {
    let mut train = vec![0; LONGEST_TRAIN];
    let mut opened = Vec::new();
    while shared.wait_for(&shared.socket) {
        loop {
            match shared.socket.receive(&mut train) {
                Ok(Some(arrival)) => {
                    let datagrams = train[..arrival.length].chunks(arrival.size);
                    take(shared, arrival.from, datagrams, &mut opened);
                    deliver(shared, &mut opened);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(device = %shared.name, %error, "Nothing taken from the socket");
                    break;
                }
            }
        }
    }
}

/// Handles the datagrams of a train, which all come from one place. Neighbours with the same index
/// belong to one conversation, which is held once for all of them.
fn take<'a>(
    shared: &Shared,
    from: SocketAddr,
    datagrams: impl Iterator<Item = &'a [u8]>,
    opened: &mut Vec<Packet>,
) {
    let mut datagrams = datagrams.peekable();
    while let Some(datagram) = datagrams.next() {
        let Some(index) = data_index(datagram) else {
            handshake(shared, from, datagram);
            continue;
        };
        let Some(station) = shared.stations.by_index(index) else { continue };
        let mut conversation = station.talk();
        let mut replies = Vec::new();
        open(shared, from, datagram, &mut conversation, opened, &mut replies);
        while let Some(next) = datagrams.next_if(|next| data_index(next) == Some(index)) {
            open(shared, from, next, &mut conversation, opened, &mut replies);
        }
        drop(conversation);
        shared.send(from, &replies);
        opened.retain_mut(|packet| is_acceptable(shared, &station, packet));
    }
}

/// Opens a datagram that carries a packet.
fn open(
    shared: &Shared,
    from: SocketAddr,
    datagram: &[u8],
    conversation: &mut Conversation,
    opened: &mut Vec<Packet>,
    replies: &mut Vec<Packet>,
) {
    let Ok(kind) = Packet::copy_from(datagram).try_into_wg() else { return };
    match conversation.noise.handle_incoming_packet(kind) {
        TunnResult::WriteToTunnel(packet) => {
            conversation.heard(from, datagram.len());
            conversation.confirmed();
            if packet.is_empty() {
                // The peer only says that it is there, perhaps for the first time.
                release(shared, conversation, replies);
            } else {
                opened.push(packet);
            }
        }
        TunnResult::Done | TunnResult::Err(_) | TunnResult::WriteToNetwork(_) => {}
    }
}

/// Handles everything that is not data: handshakes and cookies.
fn handshake(shared: &Shared, from: SocketAddr, datagram: &[u8]) {
    let stations = &shared.stations;
    let kind = match stations.limiter.verify_packet(from, Packet::copy_from(datagram)) {
        Ok(kind) => kind,
        Err(TunnResult::WriteToNetwork(cookie)) => {
            return shared.send(from, &[Packet::from(cookie)]);
        }
        Err(_) => return,
    };
    let station = match &kind {
        WgKind::HandshakeInit(packet) => stations.caller(packet),
        WgKind::HandshakeResp(packet) => stations.by_index(packet.receiver_idx.get()),
        WgKind::CookieReply(packet) => stations.by_index(packet.receiver_idx.get()),
        WgKind::Data(_) => None,
    };
    let Some(station) = station else { return };
    let answers_ours = matches!(kind, WgKind::HandshakeResp(_));
    let mut conversation = station.talk();
    let TunnResult::WriteToNetwork(reply) = conversation.noise.handle_incoming_packet(kind) else {
        return;
    };
    conversation.heard(from, datagram.len());
    if answers_ours {
        conversation.agreed();
    } else {
        conversation.answered();
    }
    stations.note(&reply, &station);
    let reply = Packet::from(reply);
    conversation.says(reply.len());
    let mut replies = vec![reply];
    release(shared, &mut conversation, &mut replies);
    drop(conversation);
    shared.send(from, &replies);
}

/// Encrypts what waited for keys.
fn release(shared: &Shared, conversation: &mut Conversation, replies: &mut Vec<Packet>) {
    let waiting: Vec<_> =
        conversation.noise.get_queued_packets(&mut MtuWatcher::new(shared.mtu)).collect();
    for kind in waiting {
        let packet = Packet::from(kind);
        conversation.says(packet.len());
        replies.push(packet);
    }
}

/// Whether a packet is IPv4, whole, and from an address that belongs to the peer; padding is cut.
fn is_acceptable(shared: &Shared, station: &Arc<Station>, packet: &mut Packet) -> bool {
    let Some((length, source)) = ipv4(packet.as_ref()) else { return false };
    packet.truncate(length);
    shared.stations.owns(station, source)
}

/// The length and the source of an IPv4 packet that is all there.
fn ipv4(packet: &[u8]) -> Option<(usize, Ipv4Addr)> {
    let header = packet.first_chunk::<20>()?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let whole = header[0] >> 4 == 4 && (20..=packet.len()).contains(&length);
    whole.then(|| (length, Ipv4Addr::new(header[12], header[13], header[14], header[15])))
}

/// The index in a datagram that carries data.
fn data_index(datagram: &[u8]) -> Option<u32> {
    match datagram.first_chunk::<8>()? {
        [4, 0, 0, 0, a, b, c, d] => Some(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

fn deliver(shared: &Shared, opened: &mut Vec<Packet>) {
    join(opened, |pieces| {
        // A device that is down refuses packets, as any device that is down does.
        if let Err(error) = shared.device.write(pieces) {
            tracing::trace!(device = %shared.name, %error, "Packet refused by the device");
        }
    });
    opened.clear();
}
