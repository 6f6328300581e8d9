//! Many packets as one, as a device with offloads passes them.
//!
//! A TUN device whose offloads are on hands over up to 64 KiB of a flow as one frame: a header that
//! says how to cut it, then a packet that is far too long. [`split`] cuts such a frame into the
//! packets that travel; [`join`] makes frames out of packets that arrived. A system call per frame
//! instead of one per packet is most of what makes a tunnel in a process fast.

mod checksum;
mod frame;
mod join;
mod split;

pub(crate) use self::frame::{Malformed, VNET};
pub(crate) use self::join::join;
pub(crate) use self::split::split;
