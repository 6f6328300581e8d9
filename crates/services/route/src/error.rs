//! Why a node's routes cannot be as they have to.

use liqo_kit::retry::{Failure, Retry};
use liqo_kit::{client, service};

/// Why a node's routes cannot be as they have to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// A server cannot be started.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// The kernel cannot be brought where it has to be.
    #[error(transparent)]
    Network(#[from] liqo_netstate::Error),
    /// The API server did not take it.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl Error {
    pub(crate) fn request(action: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request { action, source: Box::new(source) }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Request { source, .. } => source.retry(),
            Self::Client(_) | Self::Service(_) | Self::Network(_) => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.reason(),
            Self::Network(_) => "NetworkError",
            Self::Client(_) | Self::Service(_) => "RouteError",
        }
    }
}
