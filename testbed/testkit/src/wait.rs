//! Waits that look at the state of things until it is right, and give up in time.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// How long to pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks until `look` succeeds, or fails with what it said last.
pub fn eventually<T, E: Display>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(value) => return Ok(value),
            Err(reason) if Instant::now() >= deadline => {
                return Err(anyhow!("{what}: not within {} s; last: {reason:#}", limit.as_secs()));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_right_is_returned() {
        let mut looks = 0;
        let value = eventually(Duration::from_secs(5), "a third look", || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err("not yet") }
        });
        assert_eq!(value.unwrap(), 3);
    }

    #[test]
    fn what_never_becomes_right_fails_with_the_last_reason() {
        let error = eventually(Duration::ZERO, "rain", || Err::<(), _>("blue sky")).unwrap_err();
        assert_eq!(error.to_string(), "rain: not within 0 s; last: blue sky");
    }
}
