//! What an error says about trying again, and how long to wait before.

use std::time::Duration;

/// When trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not before something changes.
    Never,
    /// Soon, and then less and less often.
    Soon,
    /// After this long.
    After(Duration),
}

/// An error that knows its cure and its name.
pub trait Failure: std::error::Error {
    /// When trying again may help.
    fn retry(&self) -> Retry;

    /// One word for events and metrics, such as `PoolExhausted`.
    fn reason(&self) -> &'static str;
}

impl Failure for kube::Error {
    /// What the API server refuses as malformed stays refused until it changes; everything else
    /// may pass with time: rights are granted, quotas freed, networks healed.
    fn retry(&self) -> Retry {
        match status_code(self) {
            Some(400 | 422) => Retry::Never,
            Some(_) | None => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match status_code(self) {
            Some(400 | 422) => "Invalid",
            Some(401) => "Unauthorized",
            Some(403) => "Forbidden",
            Some(404) => "NotFound",
            Some(409) => "Conflict",
            Some(429) => "TooManyRequests",
            Some(_) => "ApiServerError",
            None => "Unreachable",
        }
    }
}

fn status_code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}

/// What is gone already is as good as deleted.
pub fn or_gone<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if status_code(&error) == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Delays that double with every failure, up to a limit, and never coincide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// About how long to wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub limit: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), limit: Duration::from_mins(2) }
    }
}

impl Backoff {
    /// How long to wait after so many failures in a row; `chance` lies between 0 and 1.
    ///
    /// The wait is between half of its nominal length and all of it, so that what failed together
    /// is not tried again together.
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let nominal = self.first.saturating_mul(1 << doublings).min(self.limit);
        nominal.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// The same, with a chance of its own.
    pub fn jittered(&self, failures: u32) -> Duration {
        self.delay(failures, rand::random())
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let backoff =
            Backoff { first: Duration::from_millis(100), limit: Duration::from_millis(500) };
        let delays = [1, 2, 3, 4, 40].map(|failures| backoff.delay(failures, 1.0).as_millis());
        assert_eq!(delays, [100, 200, 400, 500, 500]);
    }

    #[test]
    fn only_malformed_requests_wait_for_a_change() {
        let error =
            |code| kube::Error::Api(Box::new(Status { code, ..Status::failure("no", "Because") }));
        assert_eq!(error(422).retry(), Retry::Never);
        assert_eq!((error(403).retry(), error(403).reason()), (Retry::Soon, "Forbidden"));
        assert_eq!((error(503).retry(), error(503).reason()), (Retry::Soon, "ApiServerError"));
    }

    proptest! {
        #[test]
        fn a_delay_is_never_zero_and_never_above_the_limit(failures: u32, chance in 0.0..=1.0) {
            let backoff = Backoff::default();
            let delay = backoff.delay(failures, chance);
            prop_assert!(delay >= backoff.first / 2 && delay <= backoff.limit);
        }
    }
}
