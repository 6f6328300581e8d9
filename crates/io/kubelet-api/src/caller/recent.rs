//! Answers that count for a while.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::time::Instant;

/// How many answers are remembered.
const ROOM: usize = 1024;

/// Answers, and until when each of them counts.
pub(super) struct Recent<K, V>(HashMap<K, (V, Instant)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// The answer, if there is one that still counts.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    /// Remembers an answer. When there is no room for it, all are forgotten: asking again is cheap,
    /// and being flooded must not fill the memory.
    pub(super) fn put(&mut self, key: K, value: V, until: Instant, now: Instant) {
        if self.0.len() >= ROOM {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= ROOM {
            self.0.clear();
        }
        self.0.insert(key, (value, until));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_counts_until_its_time_is_over() {
        let (start, minute) = (Instant::now(), Duration::from_mins(1));
        let mut recent = Recent::default();
        recent.put("a", true, start + minute, start);
        assert_eq!(recent.get(&"a", start + minute / 2), Some(true));
        assert_eq!(recent.get(&"a", start + minute), None);
        assert_eq!(recent.get(&"b", start), None);
    }

    #[test]
    fn a_flood_does_not_fill_the_memory() {
        let start = Instant::now();
        let mut recent = Recent::default();
        for key in 0..10 * ROOM {
            recent.put(key, true, start + Duration::from_mins(1), start);
        }
        assert!(recent.0.len() <= ROOM, "{}", recent.0.len());
    }
}
