//! The way to the other cluster: who we are there, and whether it answers.

use std::future::Future;
use std::time::Duration;

use kube::Client;
use kube::core::Status;
use liqo_kit::client::Remote;
use liqo_kit::retry::{Backoff, Failure, Retry};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// Between attempts: a user waits for what fails, and outages last for minutes.
pub(crate) const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(100), limit: Duration::from_secs(30) };

/// How long a watch of the other cluster may last, in seconds, before it is asked for anew: what a
/// connection that died in silence costs at most.
pub(crate) const WATCH: u32 = 120;

/// The way to the other cluster; a clone is the same way.
#[derive(Clone)]
pub(crate) struct Link {
    /// The identity that we have there.
    pub(crate) remote: Remote,
    /// Whether its API server answers, as far as anybody knows.
    pub(crate) answers: Receiver<bool>,
}

impl Link {
    /// Does something with a client of the other cluster; again with another one when the identity
    /// changes, and when the cluster is back after a silence, because old connections may be dead
    /// without anybody noticing.
    pub(crate) async fn each<F: Future<Output = ()>>(mut self, work: impl Fn(Client) -> F) {
        loop {
            let Ok(client) = self.remote.ready().await else { return };
            let mut remote = self.remote.clone();
            tokio::select! {
                () = work(client.client) => return,
                _ = remote.changed() => {}
                () = is_back(self.answers.clone()) => {}
            }
        }
    }
}

/// Waits for the end of a silence.
async fn is_back(mut answers: Receiver<bool>) {
    let silence_ends = async {
        answers.wait_for(|answers| !answers).await.ok()?;
        answers.wait_for(|answers| *answers).await.ok().map(drop)
    };
    if silence_ends.await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// A request that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The API server said no.
    #[error("cannot {what}")]
    Request {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// It said nothing.
    #[error("cannot {what}: no answer within {} s", REQUEST.as_secs())]
    Slow { what: String },
}

impl Refusal {
    /// The number that the API server gave as its answer, if it gave one.
    pub(crate) fn code(&self) -> Option<u16> {
        self.answer().map(|status| status.code)
    }

    /// The words that the API server gave as its answer.
    pub(crate) fn words(&self) -> Option<&str> {
        self.answer().map(|status| status.message.as_str())
    }

    fn answer(&self) -> Option<&Status> {
        let Self::Request { source, .. } = self else { return None };
        if let kube::Error::Api(status) = &**source { Some(status) } else { None }
    }
}

impl Failure for Refusal {
    fn retry(&self) -> Retry {
        match self {
            // What is malformed today may be taken after an upgrade, or when something else goes.
            Self::Request { .. } | Self::Slow { .. } => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.reason(),
            Self::Slow { .. } => "Unreachable",
        }
    }
}

/// Asks an API server, and does not wait for ever.
pub(crate) async fn ask<T>(
    what: impl FnOnce() -> String,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Refusal> {
    match timeout(REQUEST, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Refusal::Request { what: what(), source: Box::new(source) }),
        Err(_) => Err(Refusal::Slow { what: what() }),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_peer_is_back_when_it_answers_after_a_silence() {
        let (answers, receiver) = watch::channel(true);
        let mut back = Box::pin(is_back(receiver));
        assert!((&mut back).now_or_never().is_none());
        answers.send_replace(false);
        assert!((&mut back).now_or_never().is_none());
        answers.send_replace(true);
        back.await;
    }
}
