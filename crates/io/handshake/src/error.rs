//! What can go wrong between two clusters that do not know each other yet, told apart.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use liqo_kit::retry::{Failure, Retry};

/// A peer's authentication service did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A URL cannot be used.
    #[error("'{url}' is not the URL of an authentication service: it reads like https://HOST:PORT")]
    Url {
        /// The URL.
        url: String,
    },
    /// The URL of the proxy cannot be used.
    #[error("'{url}' is not the URL of a proxy: it reads like http://HOST:PORT")]
    ProxyUrl {
        /// The URL.
        url: String,
    },
    /// Nobody answers at the address.
    #[error(
        "cannot reach {address}/tcp; check that the address is right and that firewalls and \
         network policies on the way let it through"
    )]
    Unreachable {
        /// Host and port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The proxy answers, but does not connect.
    #[error("the proxy {proxy}/tcp does not connect to {address}: it answered {answer}")]
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// Host and port of the peer.
        address: String,
        /// What the proxy answered.
        answer: String,
    },
    /// Somebody answers at the address, but the connection cannot be protected.
    #[error(
        "cannot make a protected connection to {address}; if its certificate is not from a public \
         authority, set insecureSkipTLSVerify"
    )]
    Tls {
        /// Host and port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or the answer took too long.
    #[error("{url} did not finish its answer")]
    Interrupted {
        /// The service.
        url: String,
        /// Why.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Something else than Liqo answers.
    #[error("{url} is not the authentication service of a Liqo cluster: it answered {answer}")]
    NotLiqo {
        /// The service.
        url: String,
        /// What it answered.
        answer: String,
    },
    /// Liqo answers, but not as it does in the versions that are known here.
    #[error(
        "{url} speaks another version of Liqo: asked for an identity it answered {answer}; both \
         clusters need a version that peers as 0.8 does"
    )]
    OtherVersion {
        /// The service.
        url: String,
        /// What it answered.
        answer: String,
    },
    /// Another cluster answers than the one that is meant.
    #[error(
        "{url} belongs to another cluster: it says that it is {found}, not {expected}; run \
         \"liqoctl generate peer-command\" in the cluster that is meant"
    )]
    WrongCluster {
        /// The service.
        url: String,
        /// The cluster that it says it is.
        found: String,
        /// The cluster that is meant.
        expected: String,
    },
    /// The token is wrong, or missing.
    #[error(
        "{url} refuses {what}; run \"liqoctl generate peer-command\" in that cluster for the \
         right one",
        what = if *empty { "a request without a token" } else { "the token" }
    )]
    WrongToken {
        /// The service.
        url: String,
        /// Whether no token was sent.
        empty: bool,
    },
    /// The peer has issued an identity to this cluster before, and does not do so again.
    #[error(
        "{url} has issued an identity to this cluster before ({reason}); delete Secret \
         liqo-remote-certificate in the tenant namespace there, and this cluster asks again"
    )]
    AlreadyIssued {
        /// The service.
        url: String,
        /// What it said.
        reason: String,
    },
    /// The peer refuses.
    #[error("{url} refuses: {reason}")]
    Refused {
        /// The service.
        url: String,
        /// What it said.
        reason: String,
    },
    /// The peer failed.
    #[error("{url} failed with status {status}: {reason}")]
    Failed {
        /// The service.
        url: String,
        /// The status of HTTP.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The request cannot be expressed in JSON.
    #[error("cannot encode the request")]
    Encode(#[source] serde_json::Error),
    /// The authorities that this machine trusts cannot be read.
    #[error("cannot read which authorities this machine trusts")]
    Authorities(#[source] Box<dyn StdError + Send + Sync>),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            // Only another token, URL or request can help.
            Self::Url { .. }
            | Self::ProxyUrl { .. }
            | Self::WrongToken { .. }
            | Self::Encode(_) => Retry::Never,
            // Somebody has to act at the peer, who does not tell us.
            Self::WrongCluster { .. }
            | Self::OtherVersion { .. }
            | Self::AlreadyIssued { .. }
            | Self::Refused { .. } => Retry::After(Duration::from_mins(1)),
            Self::Unreachable { .. }
            | Self::Proxy { .. }
            | Self::Tls { .. }
            | Self::Interrupted { .. }
            | Self::NotLiqo { .. }
            | Self::Failed { .. }
            | Self::Authorities(_) => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Url { .. } | Self::ProxyUrl { .. } => "InvalidUrl",
            Self::Unreachable { .. } | Self::Interrupted { .. } => "Unreachable",
            Self::Proxy { .. } => "ProxyFailed",
            Self::Tls { .. } | Self::Authorities(_) => "TlsFailed",
            Self::NotLiqo { .. } => "NotLiqo",
            Self::OtherVersion { .. } => "OtherVersion",
            Self::WrongCluster { .. } => "WrongCluster",
            Self::WrongToken { .. } => "WrongToken",
            Self::AlreadyIssued { .. } => "AlreadyIssued",
            Self::Refused { .. } => "Refused",
            Self::Failed { .. } => "PeerFailed",
            Self::Encode(_) => "Invalid",
        }
    }
}
