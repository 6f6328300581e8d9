//! Connections that the kernel remembers: forgets those of a mark.
//!
//! A connection keeps the translation it began with. One that never pauses would keep it for ever.

use std::io;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::netfilter::{ACKNOWLEDGE, REQUEST, ask};

/// "Delete connections", of the subsystem that tracks them.
const DELETE: u16 = (1 << 8) | 2;
/// The mark of the connections that are meant.
const MARK: u16 = 8;
/// Which bits of it count.
const MASK: u16 = 21;

impl Kernel {
    /// Forgets the connections of a mark.
    pub(crate) async fn forget_flows(&self, mark: u32) -> Result<(), Error> {
        let these = [(MARK, mark), (MASK, u32::MAX)];
        let asked = self.namespace.run(move || ask(DELETE, REQUEST | ACKNOWLEDGE, &these)).await?;
        match asked {
            // There are none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => {
                result.map(drop).map_err(|source| Error::kernel("forget connections", source))
            }
        }
    }
}
