//! Waits that look at the state of things until it is right, and give up in time.

use std::fmt::{Debug, Display};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

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

/// How long an object may take to become right.
const OBJECT_LIMIT: Duration = Duration::from_mins(1);

/// Watches an object until it is right, or there is none and that is right.
pub async fn until<K>(
    what: &str,
    api: &Api<K>,
    name: &str,
    is_right: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let waited = await_condition(api.clone(), name, is_right);
    let limit = OBJECT_LIMIT.as_secs();
    if let Ok(object) = tokio::time::timeout(OBJECT_LIMIT, waited).await {
        return object.with_context(|| what.to_owned());
    }
    let last = api.get_opt(name).await?;
    Err(anyhow!("{what}: not within {limit} s; last: {last:#?}"))
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
