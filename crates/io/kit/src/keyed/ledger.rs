//! The books of a queue: which keys are ready, running or waiting. No time passes in here.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

use super::Touch;

/// Where each key stands; a key that is in no book is idle.
pub(super) struct Ledger<K> {
    /// What is ready and urgent.
    urgent: VecDeque<K>,
    /// What is ready; also what has become urgent, or ran, since it was put there.
    ready: VecDeque<K>,
    /// By time, and then by a number that makes equal times distinct.
    waiting: BTreeMap<(Instant, u64), K>,
    states: HashMap<K, State>,
    /// Failures in a row; kept while a key is idle, too, if it failed last.
    failures: HashMap<K, u32>,
    serial: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready { is_urgent: bool },
    Running { is_urgent: bool, touched: Option<bool> },
    Waiting { is_urgent: bool, place: (Instant, u64) },
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self {
            urgent: VecDeque::new(),
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            states: HashMap::new(),
            failures: HashMap::new(),
            serial: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Ledger<K> {
    /// Notes that something about a key changed.
    pub fn touch(&mut self, touch: Touch<K>) {
        let Touch { key, is_urgent } = touch;
        match self.states.get_mut(&key) {
            Some(State::Ready { is_urgent: true }) => {}
            Some(State::Ready { is_urgent: false }) if !is_urgent => {}
            Some(State::Running { touched, .. }) => {
                *touched = Some(is_urgent || touched.unwrap_or_default());
            }
            Some(State::Waiting { place, .. }) => {
                self.waiting.remove(place);
                self.make_ready(key, is_urgent);
            }
            Some(State::Ready { .. }) | None => self.make_ready(key, is_urgent),
        }
    }

    /// Makes ready every key whose time has come; what was urgent still is.
    pub fn wake(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let key = first.remove();
            let is_urgent =
                matches!(self.states.get(&key), Some(State::Waiting { is_urgent: true, .. }));
            self.make_ready(key, is_urgent);
        }
    }

    /// When the next waiting key becomes ready.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((instant, _), _)| *instant)
    }

    /// The key to work on next, and whether it is urgent, if such a key may start; it is running from
    /// here on.
    pub fn start(&mut self, urgent: bool, others: bool) -> Option<(K, bool)> {
        let first = if urgent { self.urgent.pop_front() } else { None };
        let (key, is_urgent) = match first {
            Some(key) => (key, true),
            None if others => (self.next_of_others()?, false),
            None => return None,
        };
        self.states.insert(key.clone(), State::Running { is_urgent, touched: None });
        Some((key, is_urgent))
    }

    /// The next key that is ready and not urgent.
    fn next_of_others(&mut self) -> Option<K> {
        loop {
            let key = self.ready.pop_front()?;
            if self.states.get(&key) == Some(&State::Ready { is_urgent: false }) {
                return Some(key);
            }
        }
    }

    /// How often a key has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }

    /// Ends a run that succeeded.
    pub fn succeed(&mut self, key: K, again: Option<Instant>) {
        self.failures.remove(&key);
        self.settle(key, again);
    }

    /// Ends a run that failed.
    pub fn fail(&mut self, key: K, again: Option<Instant>) {
        let failures = self.failures(&key).saturating_add(1);
        self.failures.insert(key.clone(), failures);
        self.settle(key, again);
    }

    fn settle(&mut self, key: K, again: Option<Instant>) {
        let (was_urgent, touched) = match self.states.remove(&key) {
            Some(State::Running { is_urgent, touched }) => (is_urgent, touched),
            Some(State::Ready { .. } | State::Waiting { .. }) | None => (false, None),
        };
        match (touched, again) {
            (Some(is_urgent), _) => self.make_ready(key, is_urgent),
            (None, Some(instant)) => {
                self.serial = self.serial.wrapping_add(1);
                let place = (instant, self.serial);
                self.states.insert(key.clone(), State::Waiting { is_urgent: was_urgent, place });
                self.waiting.insert(place, key);
            }
            (None, None) => {}
        }
    }

    fn make_ready(&mut self, key: K, is_urgent: bool) {
        self.states.insert(key.clone(), State::Ready { is_urgent });
        if is_urgent { &mut self.urgent } else { &mut self.ready }.push_back(key);
    }
}
