//! How many wrong tokens are heard, from one address and from all.
//!
//! Only wrong tokens count. A source that has used up its share is not heard until some time has
//! passed, even with the right token: otherwise it could go on guessing. What all sources have used
//! up together only shortens answers and logs: otherwise a crowd could shut the right ones out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Wrong tokens of one source at once, and how long until it may send another one.
const SOURCE: (u32, Duration) = (10, Duration::from_secs(6));

/// Wrong tokens of all sources at once, and how long until there may be another one.
const ALL: (u32, Duration) = (100, Duration::from_millis(600));

/// The most sources to remember.
const REMEMBERED: usize = 1024;

/// What is left for a source, or for all.
#[derive(Clone, Copy, Debug)]
struct Share {
    left: u32,
    /// When the last part was given back, or could have been.
    since: Duration,
}

/// Counts wrong tokens; moments are told as time since the start.
#[derive(Debug)]
pub struct Limiter {
    sources: HashMap<IpAddr, Share>,
    all: Share,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { sources: HashMap::new(), all: Share { left: ALL.0, since: Duration::ZERO } }
    }
}

impl Limiter {
    /// Whether a source is heard at all.
    pub fn hears(&mut self, source: IpAddr, now: Duration) -> bool {
        let source = place(source);
        let Some(share) = self.sources.get_mut(&source) else { return true };
        share.recover(SOURCE, now);
        if share.left == SOURCE.0 {
            self.sources.remove(&source);
            return true;
        }
        share.left > 0
    }

    /// Counts a wrong token; whether it is worth a word.
    pub fn wrong(&mut self, source: IpAddr, now: Duration) -> bool {
        let source = place(source);
        if self.sources.len() >= REMEMBERED && !self.sources.contains_key(&source) {
            self.sources.retain(|_, share| {
                share.recover(SOURCE, now);
                share.left < SOURCE.0
            });
        }
        if self.sources.len() < REMEMBERED || self.sources.contains_key(&source) {
            let share = self.sources.entry(source).or_insert(Share { left: SOURCE.0, since: now });
            share.recover(SOURCE, now);
            share.left = share.left.saturating_sub(1);
        }
        self.all.recover(ALL, now);
        let heard = self.all.left > 0;
        self.all.left = self.all.left.saturating_sub(1);
        heard
    }
}

impl Share {
    fn recover(&mut self, (most, pause): (u32, Duration), now: Duration) {
        let parts = now.saturating_sub(self.since).as_millis() / pause.as_millis().max(1);
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        if parts == 0 {
            return;
        }
        self.left = self.left.saturating_add(parts).min(most);
        self.since = if self.left == most { now } else { self.since.saturating_add(pause * parts) };
    }
}

/// What counts as one source: an address, or a whole network of IPv6, which costs nothing to fill.
fn place(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_source_that_guesses_is_not_heard_for_a_while() {
        let (mut limiter, now) = (Limiter::default(), Duration::from_secs(100));
        for _ in 0..SOURCE.0 {
            assert!(limiter.hears(four(1), now));
            limiter.wrong(four(1), now);
        }
        assert!(!limiter.hears(four(1), now));
        assert!(limiter.hears(four(2), now), "others are heard");
        assert!(limiter.hears(four(1), now + SOURCE.1), "one guess is given back");
    }

    #[test]
    fn a_crowd_is_answered_shortly_and_shuts_nobody_out() {
        let (mut limiter, now) = (Limiter::default(), Duration::from_secs(100));
        let heard = (0..=255).filter(|&n| limiter.wrong(four(n), now)).count();
        assert_eq!(heard, usize::try_from(ALL.0).unwrap());
        assert!(limiter.hears(IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9)), now));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let (mut limiter, now) = (Limiter::default(), Duration::ZERO);
        let six = |last: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        for n in 0..=SOURCE.0 {
            limiter.wrong(six(u16::try_from(n).unwrap()), now);
        }
        assert!(!limiter.hears(six(999), now));
    }

    #[test]
    fn memory_is_bounded() {
        let mut limiter = Limiter::default();
        for n in 0..5000_u32 {
            limiter.wrong(IpAddr::V4(Ipv4Addr::from_bits(n)), Duration::ZERO);
        }
        assert_eq!(limiter.sources.len(), REMEMBERED);
        limiter.wrong(four(1), Duration::from_hours(1));
        assert_eq!(limiter.sources.len(), 1, "who recovered is forgotten");
    }

    proptest! {
        #[test]
        fn in_the_long_run_a_source_guesses_at_a_fixed_rate(
            pauses in prop::collection::vec(0_u64..10_000, 1..200),
        ) {
            let (mut limiter, mut now, mut heard) = (Limiter::default(), Duration::ZERO, 0_u128);
            for pause in pauses {
                now += Duration::from_millis(pause);
                if limiter.hears(four(1), now) {
                    heard += 1;
                    limiter.wrong(four(1), now);
                }
            }
            let most = u128::from(SOURCE.0) + now.as_millis() / SOURCE.1.as_millis() + 1;
            prop_assert!(heard <= most);
        }
    }

    fn four(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 18, 0, last))
    }
}
