//! WireGuard for the gateway: in the kernel where it has it, in this process where it does not.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use liqo_tunnel::{Implementation, Peer, PrivateKey, Settings, Tunnel};
//!
//! let settings = Settings {
//!     name: "liqo.tunnel".to_owned(),
//!     private_key: PrivateKey::generate(),
//!     port: 5871,
//!     mtu: 1340,
//!     probes: None,
//!     implementation: Implementation::Auto,
//! };
//! let tunnel = Tunnel::open(settings, Some("/run/netns/liqo-netns".as_ref())).await?;
//! let peer = Peer {
//!     public_key: "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=".parse()?,
//!     endpoint: Some("198.18.0.4:5871".parse()?),
//!     allowed: vec!["10.71.0.0/16".parse()?],
//!     keepalive: None,
//! };
//! tunnel.set_peers(&[peer]).await?;
//! # Ok(()) }
//! ```
//!
//! The UDP socket is in the namespace of the thread that opens the tunnel, the device in the one that
//! is named. Addresses and routes are the caller's business.

mod error;
mod kernel;
mod key;
mod namespace;
mod offload;
mod peer;
mod userspace;

use std::path::Path;

pub use self::error::Error;
use self::kernel::Kernel;
pub use self::key::{NotAKey, PrivateKey, PublicKey};
pub use self::peer::{Peer, PeerState};
use self::userspace::Userspace;

/// The longest name that the kernel takes for a device.
const LONGEST_NAME: usize = 15;

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
    /// The UDP port of packets that find out what fits: long ones to it are sent whole or not at all.
    /// The kernel does not know of it, and lets them be cut like others.
    pub probes: Option<u16>,
    /// Who is to carry the packets.
    pub implementation: Implementation,
}

/// An open tunnel. It closes when it is dropped: device and socket go.
pub struct Tunnel(Carrier);

enum Carrier {
    Kernel(Kernel),
    Userspace(Userspace),
}

impl Tunnel {
    /// Makes the device, in a namespace or in that of the caller, and sets it up; listens in the
    /// namespace of the caller. There are no peers yet.
    pub async fn open(settings: Settings, namespace: Option<&Path>) -> Result<Self, Error> {
        let name = &settings.name;
        let plain = |letter: char| !letter.is_whitespace() && letter != '/' && letter != ':';
        if !(1..=LONGEST_NAME).contains(&name.len())
            || name.starts_with("..")
            || !name.chars().all(plain)
        {
            return Err(Error::Name { name: name.clone() });
        }
        let carrier = match settings.implementation {
            Implementation::Kernel => Carrier::Kernel(Kernel::open(&settings, namespace).await?),
            Implementation::Userspace => {
                Carrier::Userspace(Userspace::open(&settings, namespace).await?)
            }
            Implementation::Auto => match Kernel::open(&settings, namespace).await {
                Ok(kernel) => Carrier::Kernel(kernel),
                Err(Error::NoKernelSupport) => {
                    tracing::info!(device = %name, "No WireGuard in this kernel, using userspace");
                    Carrier::Userspace(Userspace::open(&settings, namespace).await?)
                }
                Err(error) => return Err(error),
            },
        };
        Ok(Self(carrier))
    }

    /// Makes these the peers, and touches only what is different: a peer that stays keeps its keys
    /// and the place that it was last heard from; one that is not named is gone.
    pub async fn set_peers(&self, peers: &[Peer]) -> Result<(), Error> {
        match &self.0 {
            Carrier::Kernel(kernel) => kernel.set_peers(peers).await,
            Carrier::Userspace(userspace) => {
                userspace.set_peers(peers);
                Ok(())
            }
        }
    }

    /// The peers as they are.
    pub async fn peers(&self) -> Result<Vec<PeerState>, Error> {
        match &self.0 {
            Carrier::Kernel(kernel) => kernel.peers().await,
            Carrier::Userspace(userspace) => Ok(userspace.peers()),
        }
    }

    /// Who carries the packets.
    pub fn driver(&self) -> Driver {
        match self.0 {
            Carrier::Kernel(_) => Driver::Kernel,
            Carrier::Userspace(_) => Driver::Userspace,
        }
    }

    /// Closes the tunnel; the device and the socket are gone when it returns.
    pub async fn close(self) {
        // Threads end and devices go: short, but not the business of a runtime's thread.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}
