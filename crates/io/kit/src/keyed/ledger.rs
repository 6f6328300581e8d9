//! The books of a queue: which keys are ready, running or waiting. No time passes in here.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

/// Where each key stands; a key that is in no book is idle.
pub(super) struct Ledger<K> {
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
    Ready,
    Running { touched: bool },
    Waiting { place: (Instant, u64) },
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self {
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
    pub fn touch(&mut self, key: K) {
        match self.states.get_mut(&key) {
            Some(State::Ready) => {}
            Some(State::Running { touched }) => *touched = true,
            Some(State::Waiting { place }) => {
                self.waiting.remove(place);
                self.make_ready(key);
            }
            None => self.make_ready(key),
        }
    }

    /// Makes ready every key whose time has come.
    pub fn wake(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let key = first.remove();
            self.make_ready(key);
        }
    }

    /// When the next waiting key becomes ready.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((instant, _), _)| *instant)
    }

    /// The key to work on next; it is running from here on.
    pub fn start(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.states.insert(key.clone(), State::Running { touched: false });
        Some(key)
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
        let touched = self.states.remove(&key) == Some(State::Running { touched: true });
        match again {
            _ if touched => self.make_ready(key),
            Some(instant) => {
                self.serial = self.serial.wrapping_add(1);
                let place = (instant, self.serial);
                self.states.insert(key.clone(), State::Waiting { place });
                self.waiting.insert(place, key);
            }
            None => {}
        }
    }

    fn make_ready(&mut self, key: K) {
        self.states.insert(key.clone(), State::Ready);
        self.ready.push_back(key);
    }
}
