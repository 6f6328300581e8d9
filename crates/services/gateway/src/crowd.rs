//! Whether the kernel runs out of room for connections: it drops new ones then, and tells nobody who
//! would look here.
//!
//! ```text
//!         nineteen of twenty places taken
//!  roomy ────────────────────────────────> crowded
//!    ^                                        │
//!    └──────── a fifth is free again ─────────┘
//! ```

use std::sync::{Mutex, PoisonError};

use liqo_netstate::Remembered;
use tracing::{info, warn};

/// Of a hundred places, so many make a crowd, and so few end it.
const CROWDED: u64 = 95;
const ROOMY: u64 = 80;

/// Whether it is crowded.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<bool>);

impl Crowd {
    /// Says when it becomes crowded, and when it is over; whether it is.
    pub fn look(&self, remembered: Remembered) -> bool {
        let mut is_crowded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *is_crowded;
        *is_crowded = is_so(before, remembered);
        let Remembered { count, limit } = remembered;
        match (before, *is_crowded) {
            (false, true) => warn!(
                connections = count,
                limit,
                "The kernel has hardly any room for new connections, and drops them when it has \
                 none; raise net.netfilter.nf_conntrack_max on this node"
            ),
            (true, false) => info!(connections = count, limit, "There is room for connections"),
            (false, false) | (true, true) => {}
        }
        *is_crowded
    }
}

fn is_so(before: bool, Remembered { count, limit }: Remembered) -> bool {
    let share = u128::from(count) * 100;
    let bound = if before { ROOMY } else { CROWDED };
    limit > 0 && share >= u128::from(limit) * u128::from(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_begins_when_it_is_nearly_full_and_ends_when_there_is_room() {
        let crowd = Crowd::default();
        let steps = [(0, false), (949, false), (950, true), (1000, true), (800, true)];
        for (count, want) in steps.into_iter().chain([(799, false), (949, false)]) {
            assert_eq!(crowd.look(Remembered { count, limit: 1000 }), want, "{count}");
        }
    }

    #[test]
    fn where_there_is_no_limit_there_is_no_crowd() {
        assert!(!Crowd::default().look(Remembered { count: u64::MAX, limit: 0 }));
        assert!(Crowd::default().look(Remembered { count: u64::MAX, limit: u64::MAX }));
    }
}
