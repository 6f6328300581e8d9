//! Short questions to the kernel's packet filter and its memory of connections.

use std::io;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

/// "Please".
pub(crate) const REQUEST: u16 = 0x01;
/// "Say how it went".
pub(crate) const ACKNOWLEDGE: u16 = 0x04;
/// The kind of an answer that says how it went.
const OUTCOME: u16 = 2;
/// The header of every message, and the one of this subsystem's.
const HEADERS: usize = 16 + 4;
/// The head of an attribute.
const HEAD: usize = 4;

/// An answer: its attributes with their values.
pub(crate) type Attributes = Vec<(u16, Vec<u8>)>;

/// Asks one question with numbers as attributes, in the namespace of this thread.
pub(crate) fn ask(kind: u16, flags: u16, numbers: &[(u16, u32)]) -> io::Result<Attributes> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.send_to(&message(kind, flags, numbers), &SocketAddr::new(0, 0), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is too short");
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind.ok_or_else(short)? == OUTCOME {
        let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
        return match code.map(i32::from_ne_bytes).ok_or_else(short)? {
            0 => Ok(Vec::new()),
            code => Err(io::Error::from_raw_os_error(code.saturating_abs())),
        };
    }
    Ok(attributes(answer.get(HEADERS..).unwrap_or_default()))
}

fn message(kind: u16, flags: u16, numbers: &[(u16, u32)]) -> Vec<u8> {
    let mut attributes = Vec::new();
    for (kind, number) in numbers {
        let value = number.to_be_bytes();
        attributes.extend(u16::try_from(HEAD + value.len()).unwrap_or_default().to_ne_bytes());
        attributes.extend(kind.to_ne_bytes());
        attributes.extend(value);
    }
    let length = u32::try_from(HEADERS + attributes.len()).unwrap_or_default();
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence and sender matter to nobody: there is one question and one answer.
    bytes.extend([0; 8]);
    // Any family, no version, no resource.
    bytes.extend([0; 4]);
    bytes.extend(attributes);
    bytes
}

fn attributes(mut bytes: &[u8]) -> Attributes {
    let mut found = Vec::new();
    while let Some(([a, b, c, d], rest)) = bytes.split_first_chunk::<HEAD>() {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let Some(size) = length.checked_sub(HEAD) else { break };
        let Some(value) = rest.get(..size) else { break };
        found.push((u16::from_ne_bytes([*c, *d]), value.to_vec()));
        bytes = rest.get(size.next_multiple_of(HEAD)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_read_up_to_where_they_make_sense() {
        let mut bytes = message(1, REQUEST, &[(1, 7), (2, 0x0102_0304)]).split_off(HEADERS);
        let both = vec![(1, vec![0, 0, 0, 7]), (2, vec![1, 2, 3, 4])];
        assert_eq!(attributes(&bytes), both);
        bytes.truncate(10);
        assert_eq!(attributes(&bytes), both[..1]);
        assert_eq!(attributes(&[1, 0, 0, 0, 0, 0]), vec![]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let found: usize = attributes(&bytes).iter().map(|(_, value)| HEAD + value.len()).sum();
            prop_assert!(found <= bytes.len());
        }
    }
}
