//! What is done as long as there is little of it: so much at once, and then a little at a time.

use std::time::Duration;

use tokio::time::Instant;

/// How much may be done that nobody waits for.
pub struct Courtesy {
    burst: u32,
    pause: Duration,
    /// How much was done of late, and since when that counts.
    of_late: Option<(u32, Instant)>,
}

impl Courtesy {
    /// So many at once, and then one more after each pause.
    pub const fn new(burst: u32, pause: Duration) -> Self {
        Self { burst, pause, of_late: None }
    }

    /// Whether one more may be done now; it is counted if so.
    pub fn has_room(&mut self, now: Instant) -> bool {
        let (count, since) = self.of_late.unwrap_or((0, now));
        let passed = now.duration_since(since).as_millis() / self.pause.as_millis().max(1);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        let left = count.saturating_sub(passed);
        let since = if left == 0 { now } else { since + self.pause.saturating_mul(passed) };
        let has_room = left < self.burst;
        self.of_late = Some((if has_room { left + 1 } else { left }, since));
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_at_once_and_then_for_one_after_each_pause() {
        const PAUSE: Duration = Duration::from_secs(1);
        let (mut courtesy, start) = (Courtesy::new(50, PAUSE), Instant::now());
        let mut many = |at| (0..100).filter(|_| courtesy.has_room(at)).count();
        assert_eq!(many(start), 50);
        assert_eq!(many(start + PAUSE / 2), 0);
        assert_eq!(many(start + PAUSE * 5 / 2), 2);
        assert_eq!(many(start + PAUSE * 3), 1, "halves are not lost");
        assert_eq!(many(start + PAUSE * 150), 50);
    }
}
