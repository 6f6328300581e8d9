//! Works on keys: one at a time per key, several keys at once, again after a failure.
//!
//! kube's `Controller` never looks at an object that has left its store, and we may not put
//! finalizers on objects that are not ours. A queue of keys has no such blind spot: a key is worked
//! on whenever it is touched, whether the object behind it is there or not.
//!
//! ```text
//!            touched                    a worker is free
//!   (idle) ───────────> ready ───────────────────────────> running ──await change──> (idle)
//!                         ^                                  │  │
//!                         │ its time has come, or touched    │  └─touched meanwhile─> ready
//!                         └──────────── waiting <────────────┘
//!                                           failed, or asked to come back
//! ```
//!
//! A key that is touched while it waits is worked on at once: the change may be the cure. Of those that
//! are ready, urgent ones go first; one that was urgent when it asked to come back is so then.

mod ledger;

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use self::ledger::Ledger;
use crate::retry::{Backoff, Failure, Retry};

/// When a key is worked on next, after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When it is touched.
    AwaitChange,
    /// When it is touched, but no later than after this long.
    RequeueAfter(Duration),
}

/// A key that something has happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<K> {
    /// The key.
    pub key: K,
    /// Whether it goes before others: somebody waits for just this one.
    pub is_urgent: bool,
}

impl<K> From<K> for Touch<K> {
    fn from(key: K) -> Self {
        Self { key, is_urgent: false }
    }
}

/// How one run over a key ended, for those who count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It succeeded.
    Done,
    /// It failed, for this reason.
    Failed(&'static str),
}

/// A queue of keys.
pub struct Queue<O = fn(Ending)> {
    name: &'static str,
    workers: NonZeroUsize,
    backoff: Backoff,
    observe: O,
}

impl Queue {
    /// A queue with one worker; the name is for logs.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            workers: NonZeroUsize::MIN,
            backoff: Backoff::default(),
            observe: |_: Ending| {},
        }
    }
}

impl<O: Fn(Ending)> Queue<O> {
    /// Works on so many keys at once; never fewer than one.
    #[must_use]
    pub fn workers(self, workers: u16) -> Self {
        let workers = NonZeroUsize::new(usize::from(workers)).unwrap_or(NonZeroUsize::MIN);
        Self { workers, ..self }
    }

    /// Waits this long between failures.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Tells how each run ended.
    #[must_use]
    pub fn observed_by<P: Fn(Ending)>(self, observe: P) -> Queue<P> {
        Queue { name: self.name, workers: self.workers, backoff: self.backoff, observe }
    }

    /// Works on the keys of a stream until the stream ends, then finishes what is running.
    ///
    /// Dropping the future cancels what is running: work must be safe to cancel at any `.await`.
    pub async fn run<K, S, W, F, E>(self, touched: S, work: W)
    where
        K: Clone + Display + Eq + Hash,
        S: Stream<Item = K>,
        W: Fn(K) -> F,
        F: Future<Output = Result<Next, E>>,
        E: Failure,
    {
        Box::pin(self.run_ranked(touched.map(Touch::from), work)).await;
    }

    /// The same, where urgent keys go before others, and have as many workers again for themselves:
    /// they wait neither for keys that wait, nor for work that takes long.
    pub async fn run_ranked<K, S, W, F, E>(self, touched: S, work: W)
    where
        K: Clone + Display + Eq + Hash,
        S: Stream<Item = Touch<K>>,
        W: Fn(K) -> F,
        F: Future<Output = Result<Next, E>>,
        E: Failure,
    {
        let mut touched = pin!(touched.fuse());
        let mut ledger = Ledger::default();
        let mut running = FuturesUnordered::new();
        let workers = self.workers.get();
        let mut busy = Busy::default();
        loop {
            // Everything that is known now goes in first: a burst of touches becomes one run.
            let open = take_all(touched.as_mut(), |touch| ledger.touch(touch)).await;
            if !open {
                break;
            }
            ledger.wake(Instant::now());
            while let Some((key, is_urgent)) =
                ledger.start(busy.urgent < workers, busy.others < workers)
            {
                let run = work(key.clone());
                running.push(run.map(move |result| (key, is_urgent, result)));
                *busy.with(is_urgent) += 1;
            }
            tokio::select! {
                biased;
                Some((key, is_urgent, result)) = running.next(), if !running.is_empty() => {
                    *busy.with(is_urgent) -= 1;
                    self.end(&mut ledger, key, result);
                }
                touch = touched.next() => match touch {
                    Some(touch) => ledger.touch(touch),
                    None => break,
                },
                () = until(ledger.wakes_at()) => {}
            }
        }
        while let Some((key, _, result)) = running.next().await {
            self.end(&mut ledger, key, result);
        }
    }

    fn end<K, E>(&self, ledger: &mut Ledger<K>, key: K, result: Result<Next, E>)
    where
        K: Clone + Display + Eq + Hash,
        E: Failure,
    {
        let queue = self.name;
        match result {
            Ok(Next::AwaitChange) => {
                debug!(queue, %key, "Done");
                ledger.succeed(key, None);
                (self.observe)(Ending::Done);
            }
            Ok(Next::RequeueAfter(delay)) => {
                debug!(queue, %key, ?delay, "Done for now");
                ledger.succeed(key, Instant::now().checked_add(delay));
                (self.observe)(Ending::Done);
            }
            Err(error) => {
                let failures = ledger.failures(&key).saturating_add(1);
                let delay = match error.retry() {
                    Retry::Never => None,
                    Retry::Soon => Some(self.backoff.jittered(failures)),
                    Retry::After(delay) => Some(delay),
                };
                let reason = error.reason();
                warn!(queue, %key, reason, failures, ?delay, error = chain(&error), "Failed");
                ledger.fail(key, delay.and_then(|delay| Instant::now().checked_add(delay)));
                (self.observe)(Ending::Failed(reason));
            }
        }
    }
}

/// How many workers are busy.
#[derive(Default)]
struct Busy {
    urgent: usize,
    others: usize,
}

impl Busy {
    fn with(&mut self, is_urgent: bool) -> &mut usize {
        if is_urgent { &mut self.urgent } else { &mut self.others }
    }
}

/// An error with all its causes, on one line, each told once: some errors tell their causes, too.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        for before in &mut causes {
            // What the cause says better itself is left to it.
            if let Some((start, _)) = before.split_once(text.as_str()) {
                *before = start.trim_end_matches([':', ' ', '(']).to_owned();
            }
        }
        causes.push(text);
        cause = error.source();
    }
    causes.retain(|text| !text.is_empty());
    causes.join(": ")
}

/// Takes what a stream holds without waiting; false when it has ended.
async fn take_all<S: Stream>(
    mut stream: std::pin::Pin<&mut S>,
    mut take: impl FnMut(S::Item),
) -> bool {
    poll_fn(|context| {
        loop {
            match stream.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => take(item),
                Poll::Ready(None) => return Poll::Ready(false),
                Poll::Pending => return Poll::Ready(true),
            }
        }
    })
    .await
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
