//! What cannot be seen or done, and what to do about it.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// What cannot be seen or done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process lacks a right.
    #[error(
        "not allowed to {action}; run it with the capabilities NET_ADMIN and SYS_ADMIN, as \
         privileged pods have"
    )]
    Forbidden {
        /// What was tried.
        action: String,
    },
    /// The kernel refused.
    #[error("cannot {action}")]
    Kernel {
        /// What was tried.
        action: String,
        /// Why.
        source: io::Error,
    },
    /// A network namespace cannot be used.
    #[error("cannot {action} the network namespace {path}")]
    Namespace {
        /// What was tried.
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The tool for the packet filter is missing.
    #[error("cannot find the program nft; the image has to carry it (package nftables)")]
    NoNft,
    /// The packet filter refused.
    #[error("the packet filter cannot {action}: {message}")]
    Nft {
        /// What was tried.
        action: &'static str,
        /// What nft said.
        message: String,
    },
    /// What was done is not what is there.
    #[error("{left} changes are still to be made after {rounds} rounds; the first: {first}")]
    Unsettled {
        /// How many are left.
        left: usize,
        /// How often it was tried.
        rounds: usize,
        /// The first of them.
        first: String,
    },
}

impl Error {
    /// The kernel refused to do something.
    pub(crate) fn kernel(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Forbidden { action };
        }
        Self::Kernel { action, source }
    }

    /// Whether it failed because what it was about is not there.
    pub(crate) fn is_absence(&self) -> bool {
        let Self::Kernel { source, .. } = self else { return false };
        let gone = [Errno::ENODEV, Errno::ENXIO, Errno::ENOENT, Errno::ESRCH, Errno::EADDRNOTAVAIL];
        let code = source.raw_os_error().map(Errno::from_raw);
        source.kind() == io::ErrorKind::NotFound || code.is_some_and(|code| gone.contains(&code))
    }

    /// A conversation with the kernel failed.
    pub(crate) fn netlink(action: impl Into<String>, error: rtnetlink::Error) -> Self {
        if let rtnetlink::Error::NetlinkError(message) = error {
            return Self::kernel(action, message.to_io());
        }
        Self::kernel(action, io::Error::other(error))
    }
}
