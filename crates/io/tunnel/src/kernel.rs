//! WireGuard in the kernel, configured by netlink.
//!
//! The device is made in the namespace of the caller, so that its UDP socket stays there, and then
//! moved. Unlike a TUN device it outlives the process that made it: one that a predecessor left
//! behind is removed first.

mod link;
mod message;
mod netlink;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use tokio::sync::Mutex;

use crate::Settings;
use crate::error::{Error, errno};
use crate::key::PublicKey;
use crate::namespace::{self, within};
use crate::peer::{Peer, PeerState, changes, resolve};

/// The most peers in one message to the kernel, which keeps it within what a socket takes.
const PEERS_AT_ONCE: usize = 64;

/// A tunnel whose packets the kernel carries.
pub(crate) struct Kernel {
    name: String,
    namespace: Option<PathBuf>,
    /// The peers that the kernel was told of.
    known: Mutex<BTreeMap<PublicKey, Peer>>,
}

impl Kernel {
    /// Makes the device. [`Error::NoKernelSupport`] says that this kernel cannot.
    pub(crate) async fn open(settings: &Settings, namespace: Option<&Path>) -> Result<Self, Error> {
        let Settings { name, private_key, port, mtu, probes: _, implementation: _ } =
            settings.clone();
        let label = name.clone();
        if let Some(target) = namespace {
            let name = name.clone();
            within(Some(target), &label, move || remove_stale(&name)).await?;
        }
        let target = namespace.map(Path::to_owned);
        within(None, &label, move || {
            remove_stale(&name)?;
            link::create(&name).map_err(|source| refused(&name, source))?;
            let prepared = message::set_device(&name, &private_key, port)
                .map_err(kernel("set the key", &name))
                .and_then(|()| match &target {
                    Some(path) => move_to(&name, path),
                    None => Ok(()),
                });
            if prepared.is_err() {
                let _ = link::remove(&name);
            }
            prepared
        })
        .await?;
        // From here on dropping it removes the device.
        let tunnel = Self {
            name: label.clone(),
            namespace: namespace.map(Path::to_owned),
            known: Mutex::default(),
        };
        let name = label.clone();
        within(namespace, &label, move || {
            link::set_up(&name, mtu).map_err(|source| match errno(&source) {
                Some(Errno::EADDRINUSE) => Error::listen(port, source),
                _ => Error::device(&name, source),
            })
        })
        .await?;
        Ok(tunnel)
    }

    pub(crate) async fn set_peers(&self, peers: &[Peer]) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        let want = resolve(peers);
        let steps = changes(&known, &want);
        if steps.is_empty() {
            return Ok(());
        }
        let name = self.name.clone();
        within(self.namespace.as_deref(), &self.name, move || {
            for some in steps.chunks(PEERS_AT_ONCE) {
                message::set_peers(&name, some).map_err(kernel("change the peers", &name))?;
            }
            Ok(())
        })
        .await?;
        *known = want;
        Ok(())
    }

    pub(crate) async fn peers(&self) -> Result<Vec<PeerState>, Error> {
        let name = self.name.clone();
        within(self.namespace.as_deref(), &self.name, move || {
            message::peers(&name).map_err(kernel("read the peers", &name))
        })
        .await
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let name = self.name.clone();
        let removed = namespace::now(self.namespace.as_deref(), &self.name, move || {
            link::remove(&name).map_err(kernel("end the life", &name))
        });
        if let Err(error) = removed {
            tracing::warn!(device = %self.name, %error, "Device left behind");
        }
    }
}

/// Removes a device of ours that is still there. One of another kind is left to be complained about.
fn remove_stale(name: &str) -> Result<(), Error> {
    if link::is_wireguard(name).map_err(kernel("look for a predecessor", name))? {
        link::remove(name).map_err(kernel("remove a predecessor", name))?;
    }
    Ok(())
}

fn move_to(name: &str, path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(|source| Error::namespace(path.to_owned(), source))?;
    link::move_to(name, &file).map_err(kernel("change the namespace", name))
}

fn refused(name: &str, source: io::Error) -> Error {
    match errno(&source) {
        Some(Errno::EOPNOTSUPP | Errno::ENOENT | Errno::ENODEV) => Error::NoKernelSupport,
        _ => Error::device(name, source),
    }
}

fn kernel(attempt: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let name = name.to_owned();
    move |source| Error::Kernel { attempt, name, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_wireguard_is_told_apart_from_one_that_forbids() {
        let said = |errno: Errno| refused("liqo.tunnel", errno.into());
        assert!(matches!(said(Errno::EOPNOTSUPP), Error::NoKernelSupport));
        assert!(matches!(said(Errno::EPERM), Error::Device { .. }));
        assert!(matches!(said(Errno::EEXIST), Error::Device { .. }));
    }
}
