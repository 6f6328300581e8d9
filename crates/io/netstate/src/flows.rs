//! Connections that the kernel remembers: forgets those of a mark.
//!
//! A connection keeps the translation it began with. One that never pauses would keep it for ever.

use std::io;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use crate::error::Error;
use crate::kernel::Kernel;

/// "Delete connections", of the subsystem that tracks them.
const DELETE: u16 = (1 << 8) | 2;
/// "Please", and "say how it went".
const REQUEST_AND_ANSWER: u16 = 0x01 | 0x04;
/// The mark of the connections that are meant.
const MARK: u16 = 8;
/// Which bits of it count.
const MASK: u16 = 21;
/// The header of every message, and the one of this subsystem's.
const HEADERS: u32 = 16 + 4;
/// An attribute with a number.
const ATTRIBUTE: u16 = 8;

impl Kernel {
    /// Forgets the connections of a mark.
    pub(crate) async fn forget_flows(&self, mark: u32) -> Result<(), Error> {
        let asked = self.namespace.run(move || ask(mark)).await?;
        match asked {
            // There are none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|source| Error::kernel("forget connections", source)),
        }
    }
}

fn ask(mark: u32) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.send_to(&message(mark), &SocketAddr::new(0, 0), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_abs())),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is too short")),
    }
}

fn message(mark: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((HEADERS + 2 * u32::from(ATTRIBUTE)).to_ne_bytes());
    bytes.extend(DELETE.to_ne_bytes());
    bytes.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // Sequence and sender matter to nobody: there is one question and one answer.
    bytes.extend([0; 8]);
    // Any family, no version, no resource.
    bytes.extend([0; 4]);
    for (kind, value) in [(MARK, mark), (MASK, u32::MAX)] {
        bytes.extend(ATTRIBUTE.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_be_bytes());
    }
    bytes
}
