//! From the device to the peers: reads frames, cuts and encrypts them, sends trains.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use gotatun::packet::Packet;

use super::Shared;
use crate::offload::{Malformed, VNET, split};

/// The longest frame, with the header in front.
const LONGEST_FRAME: usize = VNET + 65_536;

/// The most bytes that are gathered before they are sent.
const ENOUGH: usize = 65_536;

/// Where the destination stands in an IPv4 header.
const DESTINATION: std::ops::Range<usize> = 16..20;

/// Encrypted packets on their way out. Those of one peer stay in order.
#[derive(Default)]
struct Outbox {
    to: Option<SocketAddr>,
    packets: Vec<Packet>,
    bytes: usize,
}

/// Works until the tunnel is closed or the device is gone.
pub(super) fn run(shared: &Shared) {
    let mut frame = vec![0; LONGEST_FRAME];
    let mut outbox = Outbox::default();
    while shared.wait_for(&shared.device) {
        loop {
            match shared.device.read(&mut frame) {
                // What is already there goes together; nobody waits for more.
                Ok(Some(length)) => {
                    // What is not IPv4, such as a router solicitation, belongs to no peer.
                    let _ = take(shared, &mut frame[..length], &mut outbox);
                    if outbox.bytes >= ENOUGH {
                        outbox.flush(shared);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(device = %shared.name, %error, "Device is gone");
                    return;
                }
            }
        }
        outbox.flush(shared);
    }
}

fn take(shared: &Shared, frame: &mut [u8], outbox: &mut Outbox) -> Result<(), Malformed> {
    let packet = frame.get(VNET..).ok_or(Malformed)?;
    let address: [u8; 4] =
        packet.get(DESTINATION).and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)?;
    if packet[0] >> 4 != 4 {
        return Err(Malformed);
    }
    let Some(station) = shared.stations.owner(Ipv4Addr::from(address)) else { return Ok(()) };
    let mut conversation = station.talk();
    let Some(to) = conversation.endpoint else { return Ok(()) };
    if outbox.to != Some(to) {
        outbox.flush(shared);
        outbox.to = Some(to);
    }
    let mtu = usize::from(shared.mtu);
    split(frame, |headers, payload| {
        let length = headers.len() + payload.len();
        let padded = length.next_multiple_of(16).min(mtu).max(length);
        let mut packet = BytesMut::with_capacity(padded);
        packet.extend_from_slice(headers);
        packet.extend_from_slice(payload);
        packet.resize(padded, 0);
        let packet = Packet::from_bytes(packet);
        // Without keys the packet waits inside, and what goes out is a handshake.
        if let Some(kind) = conversation.noise.handle_outgoing_packet(packet, None) {
            shared.stations.note(&kind, &station);
            let packet = Packet::from(kind);
            conversation.says(packet.len());
            outbox.bytes += packet.len();
            outbox.packets.push(packet);
        }
    })
}

impl Outbox {
    fn flush(&mut self, shared: &Shared) {
        if let Some(to) = self.to.take() {
            shared.send(to, &self.packets);
        }
        self.packets.clear();
        self.bytes = 0;
    }
}
