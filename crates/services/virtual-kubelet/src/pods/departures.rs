//! When statuses of pods that start go home: each at once as long as few do, and together when many do.
//! That a pod is about to start is told later in a crowd, in which nobody looks at each of them.

use std::time::Duration;

use liqo_kit::courtesy::Courtesy;
use tokio::time::Instant;

/// How many start at once before they gather, and how long it takes until one more may go alone.
const FEW: (u32, Duration) = (20, Duration::from_millis(200));
/// How long they gather.
const GATHER: Duration = Duration::from_millis(500);
/// How long it is kept back that containers are being made, which is over by then as a rule: for few
/// pods, and in a crowd.
const BEING_MADE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(20)];

/// When statuses go home.
pub(super) struct Departures {
    alone: Courtesy,
    /// When those that gather now go.
    next: Option<Instant>,
    /// Those of which it is told soon that they begin.
    beginners: Courtesy,
}

impl Default for Departures {
    fn default() -> Self {
        let few = || Courtesy::new(FEW.0, FEW.1);
        Self { alone: few(), next: None, beginners: few() }
    }
}

impl Departures {
    /// When one more status goes, if not now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Instant> {
        if self.alone.has_room(now) {
            return None;
        }
        let next = self.next.filter(|next| now < *next).unwrap_or(now + GATHER);
        self.next = Some(next);
        self.next
    }

    /// When it is told that the containers of one more pod are being made, if they still are.
    pub(super) fn beginning(&mut self, now: Instant) -> Instant {
        let [of_few, in_a_crowd] = BEING_MADE;
        now + if self.beginners.has_room(now) { of_few } else { in_a_crowd }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_go_at_once_and_many_together() {
        let (mut departures, start) = (Departures::default(), Instant::now());
        let step = Duration::from_millis(20);
        let times: Vec<_> = (0..100).map(|n| departures.next(start + step * n)).collect();
        let alone = times.iter().filter(|time| time.is_none()).count();
        assert!((20..=31).contains(&alone), "{alone} went alone");
        assert!(times[..20].iter().all(Option::is_none));
        let mut shared: Vec<_> = times.iter().flatten().collect();
        shared.dedup();
        assert!((3..=4).contains(&shared.len()), "{} departures", shared.len());
        let quiet = start + Duration::from_mins(1);
        assert_eq!(departures.next(quiet), None, "it is quiet again");
    }

    #[test]
    fn nobody_waits_longer_than_they_gather() {
        let (mut departures, start) = (Departures::default(), Instant::now());
        for n in 0..500 {
            let now = start + Duration::from_millis(7) * n;
            let next = departures.next(now).unwrap_or(now);
            assert!(now <= next && next <= now + GATHER);
        }
    }

    #[test]
    fn that_a_pod_begins_is_told_soon_but_for_a_crowd() {
        let (mut departures, start) = (Departures::default(), Instant::now());
        let times: Vec<_> = (0..100).map(|_| departures.beginning(start)).collect();
        assert!(times[..20].iter().all(|time| *time == start + Duration::from_secs(1)));
        assert!(times[20..].iter().all(|time| *time == start + Duration::from_secs(20)));
        let quiet = start + Duration::from_mins(1);
        assert_eq!(departures.beginning(quiet), quiet + Duration::from_secs(1));
    }
}
