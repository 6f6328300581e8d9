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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::split::split;
    use super::*;

    /// A frame of TCP or UDP that is to be cut after every `size` bytes.
    fn frame(protocol: u8, size: u16, payload: &[u8], options: usize, flags: u8) -> Vec<u8> {
        let inner = if protocol == TCP { 20 + options * 4 } else { UDP_HEADER };
        let headers = IP_HEADER + inner;
        let mut packet = vec![0; headers];
        packet[0] = 0x45;
        packet[8] = 64;
        packet[IP_PROTOCOL] = protocol;
        packet[IP_ADDRESSES..IP_HEADER].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 2]);
        put_u16(&mut packet, IP_ID, 0xfffe);
        put_u16(&mut packet, IP_HEADER, 4000);
        put_u16(&mut packet, IP_HEADER + 2, 80);
        if protocol == TCP {
            packet[IP_HEADER + TCP_SEQUENCE..][..4].copy_from_slice(&[0xff, 0xff, 0xff, 0x00]);
            packet[IP_HEADER + 12] = u8::try_from(inner / 4).unwrap() << 4;
            packet[IP_HEADER + TCP_FLAGS] = flags;
        }
        packet.extend_from_slice(payload);
        let length = u16::try_from(packet.len()).unwrap();
        put_u16(&mut packet, IP_LENGTH, length);
        let checksum = Sum::default().add(&packet[..IP_HEADER]).checksum();
        put_u16(&mut packet, IP_CHECKSUM, checksum);
        let (offset, cut) = if protocol == TCP {
            (TCP_CHECKSUM, TCP_V4)
        } else {
            put_u16(&mut packet, IP_HEADER + UDP_LENGTH, length - 20);
            (UDP_CHECKSUM, UDP_L4)
        };
        let sum = pseudo_header(&packet[12..20], protocol, packet.len() - IP_HEADER).fold();
        put_u16(&mut packet, IP_HEADER + offset, sum);
        let vnet = Vnet {
            flags: NEEDS_CHECKSUM,
            cut,
            header: u16::try_from(headers).unwrap(),
            size,
            checksum_start: 20,
            checksum_offset: u16::try_from(offset).unwrap(),
        };
        [vnet.to_bytes().to_vec(), packet].concat()
    }

    fn cut(frame: &[u8]) -> Vec<Vec<u8>> {
        let mut packets = vec![];
        split(&mut frame.to_vec(), |head, rest| packets.push([head, rest].concat())).unwrap();
        packets
    }

    fn joined<P: AsRef<[u8]>>(packets: &[P]) -> Vec<Vec<u8>> {
        let mut frames = vec![];
        join(packets, |pieces| {
            frames.push(pieces.iter().flat_map(|piece| piece.to_vec()).collect());
        });
        frames
    }

    fn alone(packet: &[u8]) -> Vec<u8> {
        [&ALONE[..], packet].concat()
    }

    #[test]
    fn a_packet_with_a_wrong_checksum_stays_alone() {
        let mut packets = cut(&frame(TCP, 100, &[7; 300], 0, ACK));
        packets[1][60] ^= 1;
        let frames = joined(&packets);
        assert_eq!(frames, packets.iter().map(|packet| alone(packet)).collect::<Vec<_>>());
    }

    #[test]
    fn flows_are_not_mixed_and_keep_their_order() {
        let one = cut(&frame(TCP, 100, &[1; 200], 0, ACK));
        let mut other = frame(TCP, 100, &[2; 200], 0, ACK);
        other[VNET + IP_HEADER + 1] ^= 1;
        let checksum = u16_at(&other, VNET + IP_CHECKSUM);
        put_u16(&mut other, VNET + IP_CHECKSUM, checksum);
        let other = cut(&other);
        let mixed = [&one[0], &one[1], &other[0], &other[1]];
        assert_eq!(joined(&mixed).len(), 2);
        let woven = [&one[0], &other[0], &one[1], &other[1]];
        let expected: Vec<_> = woven.iter().map(|packet| alone(packet)).collect();
        assert_eq!(joined(&woven), expected);
    }

    #[test]
    fn a_push_ends_a_frame() {
        let first = cut(&frame(TCP, 100, &[1; 200], 0, ACK | PSH));
        assert_eq!(first.last().unwrap()[IP_HEADER + TCP_FLAGS], ACK | PSH);
        assert_eq!(first[0][IP_HEADER + TCP_FLAGS], ACK);
        let frames = joined(&first);
        assert_eq!(frames, [frame(TCP, 100, &[1; 200], 0, ACK | PSH)]);
    }

    #[test]
    fn acknowledgements_without_data_stay_alone() {
        let mut packet = cut(&frame(TCP, 100, &[1; 1], 0, ACK)).remove(0);
        packet.pop();
        put_u16(&mut packet, IP_LENGTH, 40);
        assert_eq!(joined(&[&packet, &packet]), [alone(&packet), alone(&packet)]);
    }

    fn protocols() -> impl Strategy<Value = u8> {
        prop_oneof![Just(TCP), Just(UDP)]
    }

    proptest! {
        #[test]
        fn what_is_cut_is_sound_and_joins_to_the_same_frame(
            protocol in protocols(),
            size in 64u16..1400,
            payload in proptest::collection::vec(any::<u8>(), 1..20_000),
            options in 0usize..=10,
        ) {
            let most = usize::from(size) * (MOST - 1);
            let payload = &payload[..payload.len().min(most)];
            let whole = frame(protocol, size, payload, options, ACK);
            let packets = cut(&whole);
            prop_assert_eq!(packets.len(), payload.len().div_ceil(usize::from(size)));
            for packet in &packets {
                prop_assert!(Segment::of(packet).is_some_and(|segment| segment.is_sound()));
            }
            let frames = joined(&packets);
            if packets.len() > 1 {
                prop_assert_eq!(frames, [whole]);
            } else {
                prop_assert_eq!(frames, [alone(&packets[0])]);
            }
        }

        #[test]
        fn no_bytes_make_it_stumble(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            kind in 0u8..8,
            version: bool,
        ) {
            if let Some(cut) = bytes.get_mut(1) {
                *cut = kind;
            }
            if version && bytes.len() > VNET {
                bytes[VNET] = 0x45;
            }
            let packet = bytes.get(VNET..).unwrap_or_default().to_vec();
            let mut total = 0;
            let _ = split(&mut bytes, |head, rest| total += head.len() + rest.len());
            prop_assert!(total <= 300 * 300);
            let frames = joined(&[&packet, &packet]);
            prop_assert!(frames.iter().map(Vec::len).sum::<usize>() >= packet.len());
        }

        #[test]
        fn a_checksum_that_was_left_open_is_completed(
            payload in proptest::collection::vec(any::<u8>(), 1..1400),
            protocol in protocols(),
        ) {
            let mut whole = frame(protocol, 0, &payload, 0, ACK);
            whole[1] = 0;
            let packets = cut(&whole);
            prop_assert_eq!(packets.len(), 1);
            prop_assert!(Segment::of(&packets[0]).is_some_and(|segment| segment.is_sound()));
        }
    }
}
