//! What can go wrong, and what would help.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// Why a tunnel could not be opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be that of a network device.
    #[error(
        "'{name}' cannot name a network device: it takes 1 to 15 characters, no space, no slash"
    )]
    Name {
        /// The name that was asked for.
        name: String,
    },

    /// The UDP port cannot be listened on.
    #[error("cannot listen on UDP port {port}: {hint}")]
    Listen {
        /// The port.
        port: u16,
        /// What would help.
        hint: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// The network namespace cannot be entered.
    #[error("cannot enter the network namespace {}: {hint}", path.display())]
    Namespace {
        /// The file that stands for the namespace.
        path: PathBuf,
        /// What would help.
        hint: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// The network device cannot be made.
    #[error("cannot make the network device {name}: {hint}")]
    Device {
        /// The name of the device.
        name: String,
        /// What would help.
        hint: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// The kernel has no WireGuard, and nothing else was allowed.
    #[error(
        "this kernel has no WireGuard: load the module 'wireguard', or allow the implementation in \
         userspace"
    )]
    NoKernelSupport,

    /// The kernel refused what it was asked for.
    #[error("cannot {attempt} of {name}")]
    Kernel {
        /// What was tried.
        attempt: &'static str,
        /// The name of the device.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },

    /// A thread of the data path cannot be started.
    #[error("cannot start a thread for {name}: the machine or the container may run too many")]
    Thread {
        /// The name of the device.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn listen(port: u16, source: io::Error) -> Self {
        let hint = match errno(&source) {
            Some(Errno::EADDRINUSE) => {
                "something else listens there; stop it, or choose another port for the gateway"
            }
            Some(Errno::EACCES | Errno::EPERM) => {
                "not permitted; ports below 1024 take the capability NET_BIND_SERVICE"
            }
            _ => "see what the system says",
        };
        Self::Listen { port, hint, source }
    }

    pub(crate) fn namespace(path: PathBuf, source: io::Error) -> Self {
        let hint = match errno(&source) {
            Some(Errno::ENOENT) => "there is no such file; make the namespace first",
            Some(Errno::EPERM | Errno::EACCES) => {
                "not permitted; the gateway takes the capability SYS_ADMIN"
            }
            Some(Errno::EINVAL) => "the file is not a network namespace",
            _ => "see what the system says",
        };
        Self::Namespace { path, hint, source }
    }

    pub(crate) fn device(name: &str, source: io::Error) -> Self {
        let hint = match errno(&source) {
            Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => {
                "/dev/net/tun is missing; load the module 'tun', or give the container the device"
            }
            Some(Errno::EPERM | Errno::EACCES) => {
                "not permitted; the gateway takes the capability NET_ADMIN"
            }
            Some(Errno::EBUSY | Errno::EEXIST | Errno::EINVAL) => {
                "a device with that name exists and is not ours; remove it"
            }
            _ => "see what the system says",
        };
        Self::Device { name: name.to_owned(), hint, source }
    }

    /// A short name for events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name { .. } => "InvalidDeviceName",
            Self::Listen { .. } => "PortUnavailable",
            Self::Namespace { .. } => "NamespaceUnavailable",
            Self::Device { .. } => "DeviceUnavailable",
            Self::NoKernelSupport => "NoKernelSupport",
            Self::Kernel { .. } => "KernelRefused",
            Self::Thread { .. } => "NoThread",
        }
    }
}

pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(errno: Errno) -> io::Error {
        errno.into()
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = Error::device("liqo.tunnel", from(Errno::ENOENT));
        assert!(missing.to_string().contains("/dev/net/tun is missing"), "{missing}");
        let forbidden = Error::device("liqo.tunnel", from(Errno::EPERM));
        assert!(forbidden.to_string().contains("NET_ADMIN"), "{forbidden}");
        let taken = Error::device("liqo.tunnel", from(Errno::EBUSY));
        assert!(taken.to_string().contains("a device with that name exists"), "{taken}");
        let port = Error::listen(5871, from(Errno::EADDRINUSE));
        assert!(port.to_string().contains("UDP port 5871: something else listens"), "{port}");
        let gone = Error::namespace("/run/netns/x".into(), from(Errno::ENOENT));
        assert!(gone.to_string().contains("/run/netns/x: there is no such file"), "{gone}");
    }
}
