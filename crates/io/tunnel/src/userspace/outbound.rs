//! From the device to the peers: reads frames, cuts and encrypts them, sends trains.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::BytesMut;
use gotatun::packet::Packet;

use super::Shared;
use crate::offload::{Malformed, VNET, split};

/// The longest frame, with the header in front.
const LONGEST_FRAME: usize = VNET + 65_536;

/// How many bytes are gathered before the first of them are sent.
const ENOUGH: usize = 60_000;

/// Every way takes packets of this size.
const SHORT: usize = 500;

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
                        outbox.flush_full_trains(shared);
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
    let is_probe = shared.probes.is_some_and(|port| is_long_to(packet, port));
    if outbox.to != Some(to) || is_probe {
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
    })?;
    if is_probe {
        shared.send_whole(to, &outbox.packets);
        outbox.clear();
    }
    Ok(())
}

/// Whether a packet is long, and for a UDP port.
fn is_long_to(packet: &[u8], port: u16) -> bool {
    const UDP: u8 = 17;
    let header = usize::from(packet.first().copied().unwrap_or_default() & 0x0f) * 4;
    let to = packet.get(header + 2..header + 4);
    packet.len() > SHORT
        && packet.get(9) == Some(&UDP)
        && to.is_some_and(|to| to == port.to_be_bytes())
}

impl Outbox {
    /// Sends what nothing can be added to. A frame is a little longer than a train, and a second
    /// train for the rest of it would cost as much as the first.
    fn flush_full_trains(&mut self, shared: &Shared) {
        let Some(to) = self.to else { return };
        let sent = shared.send_full_trains(to, &self.packets);
        let bytes: usize = self.packets.drain(..sent).map(|packet| packet.len()).sum();
        self.bytes -= bytes;
    }

    fn flush(&mut self, shared: &Shared) {
        if let Some(to) = self.to {
            shared.send(to, &self.packets);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.to = None;
        self.packets.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_long_and_for_their_port() {
        let packet = |protocol: u8, port: u16, length: usize| {
            let mut packet = vec![0; length];
            (packet[0], packet[9]) = (0x45, protocol);
            packet[22..24].copy_from_slice(&port.to_be_bytes());
            packet
        };
        assert!(is_long_to(&packet(17, 12345, 1340), 12345));
        assert!(!is_long_to(&packet(17, 12345, SHORT), 12345));
        assert!(!is_long_to(&packet(17, 12346, 1340), 12345));
        assert!(!is_long_to(&packet(6, 12345, 1340), 12345));
        assert!(!is_long_to(&[], 12345) && !is_long_to(&[0x4f], 12345));
    }
}
