//! How large packets to a peer may be, found by asking: long questions are answered only if they pass.
//!
//! ```text
//!             the largest passes, or what passes and what does not meet
//!  searching ──────────────────────────────────────────────────────────> known
//!      ^                                                                   │
//!      └──────────── it is time to look again: first what is known ────────┘
//! ```
//!
//! A question is as long as it is because of spaces at its end, which mean nothing: whoever answers
//! short questions answers long ones as well. A peer that answers none of them says nothing about the
//! way, and gets packets as large as those of the others.

use std::time::Duration;

use jiff::Timestamp;

use crate::mtu::LEAST;

/// How often a question may stay without an answer before it counts as too long.
const TRIES: usize = 4;
/// What passes and what does not are close enough: tunnels fill packets up to so many bytes.
const GRAIN: u32 = 16;
/// The shortest time that an answer is given.
const LATE: Duration = Duration::from_millis(500);
/// How many times as long as usual an answer may take.
const SLACK: u32 = 4;
/// How long until it is looked whether what is known still passes.
const AGAIN: Duration = Duration::from_secs(30);
/// How long until it is looked whether more passes by now.
const MORE: Duration = Duration::from_mins(5);

/// How large packets to a peer may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Width {
    most: u32,
    known: u32,
    /// When it was last tried whether the largest pass.
    tried_most: Option<Timestamp>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Searching(Search),
    Known { since: Timestamp },
}

/// Somewhere between what passes and what does not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Search {
    passes: Option<u32>,
    fails: Option<u32>,
    size: u32,
    asked: Vec<Timestamp>,
}

/// How a peer answers short questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// When it was heard last.
    pub heard: Timestamp,
    /// How long an answer usually takes.
    pub usual: Duration,
}

impl Width {
    /// Nothing is larger than `most`; `told` is what an earlier gateway found.
    pub fn new(most: u32, told: Option<u32>) -> Self {
        let known = told.map_or(most, |told| told.clamp(LEAST, most.max(LEAST)).min(most));
        Self { most, known, tried_most: None, phase: Phase::Searching(Search::at(most)) }
    }

    /// The largest packet that passes, as far as is known.
    pub fn size(&self) -> u32 {
        self.known
    }

    /// Whether something is being tried, so that people wait for it.
    pub fn is_searching(&self) -> bool {
        matches!(self.phase, Phase::Searching(_))
    }

    /// How long a packet to send now, if any, with a question of this very time: for a peer that
    /// answers short ones.
    pub fn ask(&mut self, short: Short, now: Timestamp) -> Option<u32> {
        self.look_again(now);
        let Phase::Searching(search) = &mut self.phase else { return None };
        if search.asked.len() >= TRIES {
            let age = |asked: &Timestamp| Duration::try_from(now.duration_since(*asked));
            let waited = search.asked.last().and_then(|asked| age(asked).ok()).unwrap_or_default();
            let patience = LATE.max(short.usual.saturating_mul(SLACK));
            // Where short ones get no answer either, nothing is said about long ones.
            let is_answered = search.asked.last().is_none_or(|asked| short.heard >= *asked);
            if waited < patience {
                return None;
            }
            if !is_answered {
                search.asked.clear();
                return None;
            }
            self.fail(now);
            return self.ask_next(now);
        }
        self.ask_next(now)
    }

    /// Hears the answer to a question of a time; whether it was a long one.
    pub fn hear(&mut self, asked: Timestamp, now: Timestamp) -> bool {
        let Phase::Searching(search) = &mut self.phase else { return false };
        if !search.asked.contains(&asked) {
            return false;
        }
        let size = search.size;
        search.passes = Some(size);
        search.asked.clear();
        let is_enough = size >= self.most
            || search.fails.is_some_and(|fails| fails.saturating_sub(size) <= GRAIN);
        if is_enough {
            self.settle(size, now);
        } else if let Some(fails) = search.fails {
            search.size = between(size, fails);
        } else if self.is_time_for_more(now) {
            // What was known still passes; perhaps more does.
            self.search_more(size);
        } else {
            self.settle(size, now);
        }
        true
    }

    fn ask_next(&mut self, now: Timestamp) -> Option<u32> {
        let Phase::Searching(search) = &mut self.phase else { return None };
        search.asked.push(now);
        if search.size == self.most {
            self.tried_most = Some(now);
        }
        Some(search.size)
    }

    fn fail(&mut self, now: Timestamp) {
        let Phase::Searching(search) = &mut self.phase else { return };
        let size = search.size;
        search.fails = Some(size);
        search.asked.clear();
        match search.passes {
            Some(passes) if size.saturating_sub(passes) <= GRAIN => self.settle(passes, now),
            Some(passes) => search.size = between(passes, size),
            // Not even the smallest: whoever is there does not answer long questions.
            None if size <= LEAST => self.settle(self.most, now),
            None => search.size = LEAST,
        }
    }

    fn settle(&mut self, size: u32, now: Timestamp) {
        self.known = size;
        self.phase = Phase::Known { since: now };
    }

    fn look_again(&mut self, now: Timestamp) {
        let Phase::Known { since } = self.phase else { return };
        if has_passed(AGAIN, since, now) {
            self.phase = Phase::Searching(Search::at(self.known));
        }
    }

    fn is_time_for_more(&self, now: Timestamp) -> bool {
        self.tried_most.is_none_or(|tried| has_passed(MORE, tried, now))
    }

    fn search_more(&mut self, passes: u32) {
        let search = Search { passes: Some(passes), ..Search::at(self.most) };
        self.phase = Phase::Searching(search);
    }
}

impl Search {
    fn at(size: u32) -> Self {
        Self { passes: None, fails: None, size, asked: Vec::new() }
    }
}

fn between(passes: u32, fails: u32) -> u32 {
    passes + (fails - passes) / 2
}

fn has_passed(time: Duration, since: Timestamp, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(since)).is_ok_and(|passed| passed >= time)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;

    const MOST: u32 = 1340;

    #[test]
    fn what_passes_at_once_is_used_after_one_question() {
        let mut way = Way::of(1500);
        assert_eq!(way.until_known(), (MOST, 1));
    }

    #[test]
    fn a_narrow_way_is_found_and_nothing_changes_before_that() {
        let mut way = Way::of(1300);
        let (size, questions) = way.until_known();
        assert!((1284..=1300).contains(&size), "{size}");
        assert!(questions <= 32, "{questions} questions");
        // It takes some seconds.
        assert!(way.seconds() < 12, "{} s", way.seconds());
    }

    #[test]
    fn what_an_earlier_gateway_found_counts_until_it_is_known() {
        assert_eq!(Width::new(MOST, Some(1200)).size(), 1200);
        assert_eq!(Width::new(MOST, Some(9000)).size(), MOST);
        assert_eq!(Width::new(MOST, Some(3)).size(), LEAST);
        let mut way = Way::of(1500);
        way.width = Width::new(MOST, Some(1200));
        assert_eq!(way.until_known(), (MOST, 1));
    }

    #[test]
    fn who_answers_no_long_question_gets_packets_as_large_as_others() {
        let mut way = Way::of(100);
        assert_eq!(way.until_known().0, MOST);
    }

    #[test]
    fn a_way_that_becomes_narrow_is_noticed() {
        let mut way = Way::of(1500);
        way.until_known();
        way.takes = 1000;
        way.rest(AGAIN);
        assert!(way.width.ask(way.short(), way.now).is_some());
        let (size, _) = way.until_known();
        assert!((984..=1000).contains(&size), "{size}");
    }

    #[test]
    fn a_way_that_becomes_wide_is_noticed_later() {
        let mut way = Way::of(1000);
        let (narrow, _) = way.until_known();
        way.takes = 1500;
        way.rest(AGAIN);
        assert_eq!(way.until_known(), (narrow, 1));
        way.rest(MORE);
        assert_eq!(way.until_known().0, MOST);
    }

    #[test]
    fn while_nothing_is_answered_nothing_is_concluded() {
        let mut way = Way::of(1500);
        way.until_known();
        way.rest(AGAIN);
        let silent = Short { heard: way.now, usual: Duration::ZERO };
        for _ in 0..100 {
            way.pass(Duration::from_millis(250));
            way.width.ask(silent, way.now);
        }
        assert_eq!(way.width.size(), MOST);
        assert!(way.width.is_searching());
    }

    #[test]
    fn a_late_answer_to_an_early_question_counts() {
        let mut way = Way::of(1500);
        let first = way.now;
        assert_eq!(way.width.ask(way.short(), first), Some(MOST));
        way.pass(Duration::from_millis(250));
        assert_eq!(way.width.ask(way.short(), way.now), Some(MOST));
        assert!(way.width.hear(first, way.now));
        assert!(!way.width.is_searching());
        assert!(!way.width.hear(first, way.now), "it was over");
    }

    proptest! {
        #[test]
        fn whatever_passes_is_found_to_within_a_grain(takes in LEAST..2000, most in LEAST..1500) {
            let mut way = Way::of(takes);
            way.width = Width::new(most, None);
            let (size, _) = way.until_known();
            prop_assert!(size <= takes.min(most));
            prop_assert!(size + GRAIN >= takes.min(most), "{} of {}", size, takes.min(most));
        }
    }

    /// A way that takes packets up to a size, and time.
    struct Way {
        takes: u32,
        width: Width,
        start: Timestamp,
        now: Timestamp,
    }

    impl Way {
        fn of(takes: u32) -> Self {
            let start: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
            Self { takes, width: Width::new(MOST, None), start, now: start }
        }

        fn pass(&mut self, time: Duration) {
            self.now += SignedDuration::try_from(time).unwrap();
        }

        fn short(&self) -> Short {
            Short { heard: self.now, usual: Duration::from_millis(1) }
        }

        /// Time passes until it is looked again.
        fn rest(&mut self, time: Duration) {
            assert_eq!(self.width.ask(self.short(), self.now), None);
            self.pass(time);
        }

        /// Asks until something is known; what, and how many questions it took.
        fn until_known(&mut self) -> (u32, usize) {
            let (mut questions, before) = (0, self.width.size());
            for _ in 0..200 {
                if let Some(size) = self.width.ask(self.short(), self.now) {
                    questions += 1;
                    if size <= self.takes {
                        self.width.hear(self.now, self.now);
                    }
                }
                if !self.width.is_searching() {
                    return (self.width.size(), questions);
                }
                assert_eq!(self.width.size(), before, "nothing changes before it is known");
                self.pass(Duration::from_millis(250));
            }
            panic!("{:?}", self.width);
        }

        fn seconds(&self) -> i64 {
            self.now.duration_since(self.start).as_secs()
        }
    }
}
