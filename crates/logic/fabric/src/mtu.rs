//! How large packets may be: what was asked for, unless the way there takes less.

/// What WireGuard adds to a packet over IPv4.
pub const TUNNEL_OVERHEAD: u32 = 60;
/// What the overlay between nodes adds to a packet.
pub const OVERLAY_OVERHEAD: u32 = 50;
/// The smallest that IPv4 knows.
pub(crate) const LEAST: u32 = 576;

/// The size to use, of what was asked for, over an interface of a size, with an overhead.
pub fn fitting(wanted: u32, way: Option<u32>, overhead: u32) -> u32 {
    let room = way.map_or(wanted, |way| way.saturating_sub(overhead).max(LEAST));
    wanted.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_used_as_it_was_asked_for() {
        assert_eq!(fitting(1340, Some(1500), TUNNEL_OVERHEAD), 1340);
        assert_eq!(fitting(1440, Some(1500), TUNNEL_OVERHEAD), 1440);
        assert_eq!(fitting(1340, None, TUNNEL_OVERHEAD), 1340);
    }

    #[test]
    fn a_narrow_way_makes_packets_smaller_and_never_too_small() {
        assert_eq!(fitting(1440, Some(1450), TUNNEL_OVERHEAD), 1390);
        assert_eq!(fitting(1440, Some(1450), OVERLAY_OVERHEAD), 1400);
        assert_eq!(fitting(1440, Some(100), TUNNEL_OVERHEAD), 576);
    }
}
