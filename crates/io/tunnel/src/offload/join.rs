//! Makes frames out of packets that arrived one after the other.

use std::io::IoSlice;

use super::checksum::{Sum, pseudo_header};
use super::frame::{
    ACK, IP_ADDRESSES, IP_CHECKSUM, IP_FRAGMENT, IP_HEADER, IP_ID, IP_LENGTH, IP_PROTOCOL,
    LONGEST_HEADERS, NEEDS_CHECKSUM, PSH, TCP, TCP_CHECKSUM, TCP_FLAGS, TCP_SEQUENCE, TCP_V4, UDP,
    UDP_CHECKSUM, UDP_HEADER, UDP_L4, UDP_LENGTH, VNET, Vnet, ip_header, put_u16, tcp_header,
    u16_at, u32_at,
};

/// The longest packet that IPv4 can name.
const LONGEST: usize = 65_535;

/// The most packets in one frame.
const MOST: usize = 64;

/// "May not be cut into fragments", among the bits at [`IP_FRAGMENT`].
const WHOLE_OR_NOTHING: u16 = 0x4000;

/// A packet alone, to be taken as it is.
const ALONE: [u8; VNET] = [0; VNET];

/// Hands packets to `write` as frames, in order, each as pieces that follow one another.
///
/// Only neighbours are joined, so that no packet overtakes another. A packet whose checksum is wrong
/// stays alone and is left for the receiver to refuse.
pub(crate) fn join<P: AsRef<[u8]>>(packets: &[P], mut write: impl FnMut(&[IoSlice<'_>])) {
    let mut rest = packets;
    while let Some(first) = rest.first() {
        let first = first.as_ref();
        let count = match Segment::of(first) {
            Some(segment) => neighbours(segment, &rest[1..]),
            None => 0,
        };
        if let (Some(segment), true) = (Segment::of(first), count > 0) {
            write_train(segment, &rest[1..=count], &mut write);
        } else {
            write(&[IoSlice::new(&ALONE), IoSlice::new(first)]);
        }
        rest = &rest[count + 1..];
    }
}

/// A packet of TCP or UDP over IPv4 that may be joined with others.
#[derive(Clone, Copy)]
struct Segment<'a> {
    packet: &'a [u8],
    protocol: u8,
    /// The length of all headers.
    headers: usize,
}

impl<'a> Segment<'a> {
    fn of(packet: &'a [u8]) -> Option<Self> {
        let start = ip_header(packet).ok()?;
        let fragment = u16_at(packet, IP_FRAGMENT) & !WHOLE_OR_NOTHING;
        if start != IP_HEADER
            || usize::from(u16_at(packet, IP_LENGTH)) != packet.len()
            || fragment != 0
        {
            return None;
        }
        let protocol = packet[IP_PROTOCOL];
        let headers = match protocol {
            TCP => {
                let length = tcp_header(packet, start).ok()?;
                let flags = packet[start + TCP_FLAGS];
                (flags & !PSH == ACK).then_some(start + length)?
            }
            UDP => {
                let length = start + UDP_HEADER;
                let said = packet.get(start + UDP_LENGTH..length).map(|bytes| u16_at(bytes, 0))?;
                let plain = u16_at(packet, start + UDP_CHECKSUM) != 0;
                (plain && usize::from(said) == packet.len() - start).then_some(length)?
            }
            _ => return None,
        };
        (packet.len() > headers).then_some(Self { packet, protocol, headers })
    }

    fn payload(&self) -> &'a [u8] {
        &self.packet[self.headers..]
    }

    fn pushes(&self) -> bool {
        self.protocol == TCP && self.packet[IP_HEADER + TCP_FLAGS] & PSH != 0
    }

    fn sequence(&self) -> u32 {
        u32_at(self.packet, IP_HEADER + TCP_SEQUENCE)
    }

    fn is_sound(&self) -> bool {
        let addresses = &self.packet[IP_ADDRESSES..IP_HEADER];
        let length = self.packet.len() - IP_HEADER;
        let ours = Sum::default().add(&self.packet[..IP_HEADER]).checksum();
        let inner = pseudo_header(addresses, self.protocol, length)
            .add(&self.packet[IP_HEADER..])
            .checksum();
        ours == 0 && inner == 0
    }

    /// Whether another packet of the flow differs only in what the headers of a frame imply, given
    /// how many packets and how many bytes come before it.
    fn continues(&self, next: &Segment<'_>, number: usize, bytes: usize) -> bool {
        let (ours, theirs) = (self.packet, next.packet);
        let same = |from: usize, to: usize| ours[from..to] == theirs[from..to];
        let numbered = {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            u16_at(theirs, IP_ID) == u16_at(ours, IP_ID).wrapping_add(number)
        };
        let ip = self.headers == next.headers
            && same(0, IP_LENGTH)
            && same(IP_FRAGMENT, IP_CHECKSUM)
            && same(IP_ADDRESSES, IP_HEADER)
            && (numbered || u16_at(ours, IP_FRAGMENT) & WHOLE_OR_NOTHING != 0);
        if !ip {
            return false;
        }
        let start = IP_HEADER;
        if self.protocol == UDP {
            return same(start, start + UDP_LENGTH);
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        next.sequence() == self.sequence().wrapping_add(bytes)
            && same(start, start + TCP_SEQUENCE)
            && same(start + TCP_SEQUENCE + 4, start + TCP_FLAGS)
            && same(start + TCP_FLAGS + 1, start + TCP_CHECKSUM)
            && same(start + TCP_CHECKSUM + 2, self.headers)
    }
}

/// How many of the packets that follow can be joined to the first.
fn neighbours<P: AsRef<[u8]>>(first: Segment<'_>, rest: &[P]) -> usize {
    let size = first.payload().len();
    let mut bytes = size;
    let mut previous = first;
    let mut count = 0;
    for packet in rest.iter().take(MOST - 1) {
        let Some(next) = Segment::of(packet.as_ref()) else { break };
        let length = next.payload().len();
        let fits = previous.payload().len() == size
            && !previous.pushes()
            && length <= size
            && first.headers + bytes + length <= LONGEST;
        if !fits || !first.continues(&next, count + 1, bytes) || !next.is_sound() {
            break;
        }
        if count == 0 && !first.is_sound() {
            break;
        }
        bytes += length;
        previous = next;
        count += 1;
    }
    count
}

/// Writes the first packet and those that follow as one frame.
fn write_train<P: AsRef<[u8]>>(
    first: Segment<'_>,
    rest: &[P],
    write: &mut impl FnMut(&[IoSlice<'_>]),
) {
    let headers = first.headers;
    let bytes: usize = first.payload().len()
        + rest.iter().map(|packet| packet.as_ref().len() - headers).sum::<usize>();
    let mut storage = [0; LONGEST_HEADERS];
    let head = &mut storage[..headers];
    head.copy_from_slice(&first.packet[..headers]);

    let number = |length: usize| u16::try_from(length).expect("joined within the limits of IPv4");
    put_u16(head, IP_LENGTH, number(headers + bytes));
    put_u16(head, IP_CHECKSUM, 0);
    let checksum = Sum::default().add(&head[..IP_HEADER]).checksum();
    put_u16(head, IP_CHECKSUM, checksum);

    let inner = headers - IP_HEADER + bytes;
    let (offset, cut) = if first.protocol == TCP {
        if let Some(last) = rest.last().and_then(|packet| Segment::of(packet.as_ref())) {
            head[IP_HEADER + TCP_FLAGS] |= last.packet[IP_HEADER + TCP_FLAGS] & PSH;
        }
        (TCP_CHECKSUM, TCP_V4)
    } else {
        put_u16(head, IP_HEADER + UDP_LENGTH, number(inner));
        (UDP_CHECKSUM, UDP_L4)
    };
    let sum = pseudo_header(&first.packet[IP_ADDRESSES..IP_HEADER], first.protocol, inner).fold();
    put_u16(head, IP_HEADER + offset, sum);

    let vnet = Vnet {
        flags: NEEDS_CHECKSUM,
        cut,
        header: number(headers),
        size: number(first.payload().len()),
        checksum_start: number(IP_HEADER),
        checksum_offset: number(offset),
    }
    .to_bytes();
    let mut pieces = Vec::with_capacity(rest.len() + 3);
    pieces.extend([IoSlice::new(&vnet), IoSlice::new(head), IoSlice::new(first.payload())]);
    pieces.extend(rest.iter().map(|packet| IoSlice::new(&packet.as_ref()[headers..])));
    write(&pieces);
}
