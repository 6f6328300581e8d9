//! Connections that the kernel remembers: forgets those of a mark, and counts all.
//!
//! A connection keeps the translation it began with. One that never pauses would keep it for ever.
//! Where the kernel has no room for more, new ones are dropped without a word.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::netfilter::{ACKNOWLEDGE, REQUEST, ask};

/// "Delete connections", of the subsystem that tracks them.
const DELETE: u16 = (1 << 8) | 2;
/// The mark of the connections that are meant.
const MARK: u16 = 8;
/// Which bits of it count.
const MASK: u16 = 21;

/// Where the kernel tells how many it remembers, and how many it may.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// How many connections a namespace remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// So many.
    pub count: u64,
    /// And no more than that.
    pub limit: u64,
}

impl Kernel {
    /// How many connections are remembered; nothing where the kernel does not tell.
    pub async fn remembered(&self) -> Result<Option<Remembered>, Error> {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok()?.trim().parse().ok();
        let look = move || Some(Remembered { count: read(COUNT)?, limit: read(LIMIT)? });
        self.namespace.run(look).await
    }

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
