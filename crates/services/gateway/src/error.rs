//! Why a gateway cannot do what it has to.

use liqo_kit::retry::{Failure, Retry};
use liqo_kit::{client, leader, service};

/// Why a gateway cannot do what it has to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// A server cannot be started.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// Replicas could not agree on one that is active.
    #[error(transparent)]
    Timing(#[from] leader::BadTiming),
    /// Another replica may be active.
    #[error("another gateway may be active; this one starts again")]
    Lost(#[from] leader::Lost),
    /// The kernel cannot be brought where it has to be.
    #[error(transparent)]
    Network(#[from] liqo_netstate::Error),
    /// There is no tunnel.
    #[error("cannot open the tunnel")]
    Tunnel(#[from] liqo_tunnel::Error),
    /// The keys are no keys.
    #[error("the Secret {0} holds no WireGuard keys; delete it, and new ones are made")]
    Keys(String),
    /// The API server did not take it.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// A socket in the gateway's namespace is not to be had.
    #[error("cannot listen to peers on UDP port {port}")]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        source: std::io::Error,
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
            Self::Client(_)
            | Self::Service(_)
            | Self::Timing(_)
            | Self::Lost(_)
            | Self::Network(_)
            | Self::Tunnel(_)
            | Self::Keys(_)
            | Self::Listen { .. } => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.reason(),
            Self::Network(_) => "NetworkError",
            Self::Tunnel(_) => "TunnelError",
            Self::Keys(_) => "InvalidKeys",
            Self::Client(_)
            | Self::Service(_)
            | Self::Timing(_)
            | Self::Lost(_)
            | Self::Listen { .. } => "GatewayError",
        }
    }
}
