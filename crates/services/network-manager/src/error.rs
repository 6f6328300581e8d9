//! What can go wrong with a peer.

use liqo_kit::apply;
use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::Ended;

use crate::book;

/// A run that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something is not watched any more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] apply::Error),
    /// The ledger could not be changed.
    #[error(transparent)]
    Book(#[from] book::Error),
    /// A request to the API server failed.
    #[error("cannot {attempt}")]
    Request {
        /// What was tried.
        attempt: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Whether somebody else was faster, so that there is something new to look at.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Request { source, .. } if source.reason() == "Conflict")
    }
}

/// A request that failed.
pub fn request(attempt: &'static str) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Request { attempt, source: Box::new(source) }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Ended(_) => Retry::Soon,
            Self::Write(error) => error.retry(),
            Self::Book(error) => error.retry(),
            Self::Request { source, .. } => source.retry(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Ended(_) => "Interrupted",
            Self::Write(error) => error.reason(),
            Self::Book(error) => error.reason(),
            Self::Request { source, .. } => source.reason(),
        }
    }
}
