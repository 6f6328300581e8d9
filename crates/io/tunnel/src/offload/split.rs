//! Cuts a frame that a device handed over into the packets that travel.

use super::checksum::{Sum, pseudo_header};
use super::frame::{
    CWR, ECN, FIN, IP_ADDRESSES, IP_CHECKSUM, IP_HEADER, IP_ID, IP_LENGTH, LONGEST_HEADERS,
    Malformed, NEEDS_CHECKSUM, PSH, TCP, TCP_CHECKSUM, TCP_FLAGS, TCP_SEQUENCE, TCP_V4, UDP,
    UDP_CHECKSUM, UDP_HEADER, UDP_L4, UDP_LENGTH, VNET, Vnet, WHOLE, ip_header, put_u16, put_u32,
    tcp_header, u16_at, u32_at,
};

/// Hands every packet of a frame to `each`, in order, in two pieces: headers, then the rest.
///
/// Checksums that were left to the device are completed; a packet that is not cut is completed in
/// place and handed over as one piece.
pub(crate) fn split(frame: &mut [u8], each: impl FnMut(&[u8], &[u8])) -> Result<(), Malformed> {
    let (header, packet) = frame.split_first_chunk_mut::<VNET>().ok_or(Malformed)?;
    let vnet = Vnet::from_bytes(*header);
    match vnet.cut & !ECN {
        WHOLE => whole(vnet, packet, each),
        TCP_V4 => cut(Kind::Tcp, vnet.size, packet, each),
        UDP_L4 => cut(Kind::Udp, vnet.size, packet, each),
        _ => Err(Malformed),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Tcp,
    Udp,
}

fn whole(
    vnet: Vnet,
    packet: &mut [u8],
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), Malformed> {
    if vnet.flags & NEEDS_CHECKSUM != 0 {
        let start = usize::from(vnet.checksum_start);
        let at = start + usize::from(vnet.checksum_offset);
        if at + 2 > packet.len() {
            return Err(Malformed);
        }
        let checksum = Sum::default().add(&packet[start..]).checksum();
        // A UDP checksum of zero says that there is none; its other name is all ones.
        put_u16(packet, at, if checksum == 0 { 0xffff } else { checksum });
    }
    each(packet, &[]);
    Ok(())
}

fn cut(
    kind: Kind,
    size: u16,
    packet: &[u8],
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), Malformed> {
    let start = ip_header(packet)?;
    let length = start
        + match kind {
            Kind::Tcp => tcp_header(packet, start)?,
            Kind::Udp => UDP_HEADER,
        };
    let (headers, payload) = packet.split_at_checked(length).ok_or(Malformed)?;
    if size == 0 || payload.is_empty() {
        return Err(Malformed);
    }
    let mut storage = [0; LONGEST_HEADERS];
    let head = &mut storage[..length];
    head.copy_from_slice(headers);

    let addresses = &headers[IP_ADDRESSES..IP_HEADER];
    let id = u16_at(headers, IP_ID);
    let last = payload.len().div_ceil(usize::from(size)) - 1;
    for (number, piece) in (0u16..).zip(payload.chunks(usize::from(size))) {
        let total = u16::try_from(length + piece.len()).map_err(|_| Malformed)?;
        put_u16(head, IP_LENGTH, total);
        put_u16(head, IP_ID, id.wrapping_add(number));
        put_u16(head, IP_CHECKSUM, 0);
        let checksum = Sum::default().add(&head[..start]).checksum();
        put_u16(head, IP_CHECKSUM, checksum);

        let (at, protocol) = match kind {
            Kind::Tcp => {
                let sequence = u32_at(headers, start + TCP_SEQUENCE);
                let before = u32::from(number) * u32::from(size);
                put_u32(head, start + TCP_SEQUENCE, sequence.wrapping_add(before));
                let mut flags = headers[start + TCP_FLAGS];
                if number != 0 {
                    flags &= !CWR;
                }
                if usize::from(number) != last {
                    flags &= !(FIN | PSH);
                }
                head[start + TCP_FLAGS] = flags;
                (start + TCP_CHECKSUM, TCP)
            }
            Kind::Udp => {
                put_u16(head, start + UDP_LENGTH, total - u16::try_from(start).unwrap_or(0));
                (start + UDP_CHECKSUM, UDP)
            }
        };
        put_u16(head, at, 0);
        let checksum = pseudo_header(addresses, protocol, length - start + piece.len())
            .add(&head[start..])
            .add(piece)
            .checksum();
        put_u16(head, at, if checksum == 0 && protocol == UDP { 0xffff } else { checksum });
        each(head, piece);
    }
    Ok(())
}
