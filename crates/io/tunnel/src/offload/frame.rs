//! The header in front of every frame, and the headers inside.

/// The length of the header in front of a frame.
pub(crate) const VNET: usize = 10;

/// The checksum at `start + offset` is only the sum over the pseudo header.
pub(super) const NEEDS_CHECKSUM: u8 = 1;

/// How a frame is cut: not at all, or after every so many bytes of TCP or UDP over IPv4.
pub(super) const WHOLE: u8 = 0;
pub(super) const TCP_V4: u8 = 1;
pub(super) const UDP_L4: u8 = 5;
/// Said in addition, of a flow with explicit congestion notification.
pub(super) const ECN: u8 = 0x80;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// The shortest headers.
pub(super) const IP_HEADER: usize = 20;
pub(super) const TCP_HEADER: usize = 20;
pub(super) const UDP_HEADER: usize = 8;

/// The longest headers of IPv4 and TCP together.
pub(super) const LONGEST_HEADERS: usize = 120;

/// Where fields are: in the IPv4 header …
pub(super) const IP_LENGTH: usize = 2;
pub(super) const IP_ID: usize = 4;
pub(super) const IP_FRAGMENT: usize = 6;
pub(super) const IP_PROTOCOL: usize = 9;
pub(super) const IP_CHECKSUM: usize = 10;
pub(super) const IP_ADDRESSES: usize = 12;
/// … of TCP …
pub(super) const TCP_SEQUENCE: usize = 4;
pub(super) const TCP_OFFSET: usize = 12;
pub(super) const TCP_FLAGS: usize = 13;
pub(super) const TCP_CHECKSUM: usize = 16;
/// … and of UDP.
pub(super) const UDP_LENGTH: usize = 4;
pub(super) const UDP_CHECKSUM: usize = 6;

/// Flags of TCP.
pub(super) const FIN: u8 = 0x01;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const CWR: u8 = 0x80;

/// A frame or packet that is not what its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What stands in front of a frame (`struct virtio_net_hdr`), in the byte order of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vnet {
    pub(super) flags: u8,
    pub(super) cut: u8,
    pub(super) header: u16,
    pub(super) size: u16,
    pub(super) checksum_start: u16,
    pub(super) checksum_offset: u16,
}

impl Vnet {
    pub(super) fn from_bytes(bytes: [u8; VNET]) -> Self {
        let [flags, cut, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            cut,
            header: u16::from_ne_bytes([a, b]),
            size: u16::from_ne_bytes([c, d]),
            checksum_start: u16::from_ne_bytes([e, f]),
            checksum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; VNET] {
        let [a, b] = self.header.to_ne_bytes();
        let [c, d] = self.size.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.cut, a, b, c, d, e, f, g, h]
    }
}

/// The number in network order at an offset.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The number in network order at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes a number in network order at an offset.
pub(super) fn put_u16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// Writes a number in network order at an offset.
pub(super) fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// The length of the IPv4 header that a packet begins with, which is all there.
pub(super) fn ip_header(packet: &[u8]) -> Result<usize, Malformed> {
    let first = *packet.first().ok_or(Malformed)?;
    let length = usize::from(first & 0x0f) * 4;
    if first >> 4 == 4 && length >= IP_HEADER && length <= packet.len() {
        Ok(length)
    } else {
        Err(Malformed)
    }
}

/// The length of the TCP header at an offset, which is all there.
pub(super) fn tcp_header(packet: &[u8], at: usize) -> Result<usize, Malformed> {
    let length = usize::from(packet.get(at + TCP_OFFSET).ok_or(Malformed)? >> 4) * 4;
    if length >= TCP_HEADER && at + length <= packet.len() { Ok(length) } else { Err(Malformed) }
}
