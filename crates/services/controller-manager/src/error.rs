//! What can go wrong in a controller.

use std::time::Duration;

use liqo_api::names::InvalidName;
use liqo_identity::secret::BadReply;
use liqo_identity::signing::CannotApply;
use liqo_identity::tenant::Ambiguous;
use liqo_kit::apply;
use liqo_kit::client::IdentityError;
use liqo_kit::keyed::chain;
use liqo_kit::retry::{Failure, Retry};
use liqo_sharing::quantity::NoQuantity;

/// How long a peer that refused a token is not asked with the same one again.
pub const REFUSAL: Duration = Duration::from_mins(1);

/// A run of a controller that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] apply::Error),
    /// A request to the API server failed.
    #[error("cannot {attempt}")]
    Request {
        /// What was tried.
        attempt: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The peer's authentication service did not do what was asked.
    #[error(transparent)]
    Handshake(#[from] liqo_handshake::Error),
    /// The peer has just refused the same token, and is not asked again yet.
    #[error("the peer refused the token a moment ago, and is asked again in {wait:?}")]
    RefusedBefore {
        /// Whether no token was sent.
        empty: bool,
        /// How long it is not asked.
        wait: Duration,
    },
    /// The peer's answer cannot be used.
    #[error("the answer of the peer cannot be used")]
    Reply(#[from] BadReply),
    /// No signing request could be made.
    #[error(transparent)]
    Application(#[from] CannotApply),
    /// An identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A client could not be made.
    #[error(transparent)]
    Client(#[from] liqo_kit::client::Error),
    /// Several namespaces claim to be that of a peer.
    #[error(transparent)]
    Tenant(#[from] Ambiguous),
    /// A name is not what it should be.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Something that a consumer asked for cannot be had.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// The resource plugin did not answer.
    #[error("the resource plugin at {address} failed: {reason}")]
    Plugin {
        /// Where it is.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The resource plugin answered with something that is no quantity.
    #[error("the resource plugin sent something else than quantities")]
    Quantity(#[from] NoQuantity),
}

impl Error {
    /// Names what a request to the API server was for.
    pub fn request(attempt: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request { attempt, source: Box::new(source) }
    }

    /// What somebody is told who only has to know the reason.
    pub fn told(&self) -> String {
        if let Self::Request { source, .. } = self
            && let kube::Error::Api(status) = &**source
        {
            return status.message.clone();
        }
        chain(self)
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Write(error) => error.retry(),
            Self::Request { source, .. } => source.retry(),
            Self::Handshake(liqo_handshake::Error::WrongToken { .. }) => Retry::After(REFUSAL),
            Self::Handshake(error) => error.retry(),
            Self::RefusedBefore { wait, .. } => Retry::After(*wait),
            Self::Name(_) | Self::Identity(_) => Retry::Never,
            Self::Reply(_) | Self::Tenant(_) => Retry::After(Duration::from_mins(1)),
            Self::Application(_)
            | Self::Client(_)
            | Self::Plugin { .. }
            | Self::Quantity(_)
            | Self::Refused { .. } => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Write(error) => error.reason(),
            Self::Request { source, .. } => source.reason(),
            Self::Handshake(error) => error.reason(),
            Self::RefusedBefore { .. } => "WrongToken",
            Self::Reply(_) => "BadReply",
            Self::Application(_) => "NoSigningRequest",
            Self::Identity(_) => "BadIdentity",
            Self::Client(_) => "NoClient",
            Self::Tenant(_) => "AmbiguousTenant",
            Self::Name(_) => "InvalidName",
            Self::Refused { .. } => "Refused",
            Self::Plugin { .. } | Self::Quantity(_) => "PluginFailed",
        }
    }
}
