//! WireGuard in this process: a TUN device, a UDP socket, and three threads of our own.
//!
//! ```text
//!  device ──frames──> cut ──> encrypt ──trains──> socket      one thread
//!  device <──frames── join <── decrypt <──trains── socket     one thread
//!                     handshakes, keepalives                  one thread, four times a second
//! ```
//!
//! Every packet is handled from end to end by one thread, in order; nothing is handed from thread to
//! thread, and nothing waits for more to come. The threads do not depend on the caller's runtime, so
//! that a control plane that is busy or stuck stops no packet.

mod device;
mod inbound;
mod outbound;
mod socket;
mod station;
mod timers;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use gotatun::packet::Packet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use self::device::Device;
use self::socket::Socket;
use self::station::Stations;
use crate::Settings;
use crate::error::Error;
use crate::namespace::within;
use crate::peer::{Peer, PeerState};

/// A tunnel whose packets pass through this process.
pub(crate) struct Userspace {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What a thread does until the tunnel is closed.
type Work = fn(&Shared);

/// What the threads work on.
struct Shared {
    name: String,
    mtu: u16,
    probes: Option<u16>,
    device: Device,
    socket: Socket,
    stations: Stations,
    /// Readable from the moment on that the tunnel is closed.
    closed: EventFd,
}

impl Userspace {
    /// Listens in the namespace of this thread, and makes the device in another one.
    ///
    /// The socket is bound before anything is awaited.
    pub(crate) fn open(
        settings: &Settings,
        namespace: Option<&Path>,
    ) -> impl Future<Output = Result<Self, Error>> + use<> {
        let Settings { name, private_key, port, mtu, probes, implementation: _ } = settings.clone();
        let namespace = namespace.map(Path::to_owned);
        let socket = Socket::listen(port).map_err(|source| Error::listen(port, source));
        async move {
            let socket = socket?;
            let label = name.clone();
            within(namespace.as_deref(), &label, move || {
                let device = |source| Error::device(&name, source);
                let shared = Arc::new(Shared {
                    device: Device::open(&name, mtu).map_err(device)?,
                    closed: EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
                        .map_err(|errno| device(errno.into()))?,
                    stations: Stations::new(&private_key),
                    name: name.clone(),
                    mtu,
                    probes,
                    socket,
                });
                Self::start(shared)
            })
            .await
        }
    }

    fn start(shared: Arc<Shared>) -> Result<Self, Error> {
        let mut tunnel = Self { shared, threads: Vec::new() };
        let works: [(&str, Work); 3] = [
            ("tunnel-out", outbound::run),
            ("tunnel-in", inbound::run),
            ("tunnel-timers", timers::run),
        ];
        for (name, work) in works {
            let shared = Arc::clone(&tunnel.shared);
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&shared))
                .map_err(|source| Error::Thread { name: tunnel.shared.name.clone(), source })?;
            tunnel.threads.push(thread);
        }
        Ok(tunnel)
    }

    pub(crate) fn set_peers(&self, peers: &[Peer]) {
        self.shared.stations.set(peers);
    }

    pub(crate) fn peers(&self) -> Vec<PeerState> {
        self.shared.stations.states()
    }
}

impl Drop for Userspace {
    /// Ends the threads; with the last of them the device and the socket go.
    fn drop(&mut self) {
        if let Err(errno) = self.shared.closed.write(1) {
            tracing::error!(device = %self.shared.name, %errno, "Tunnel not closed");
            return;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Waits until there is something to read, or returns `false` when the tunnel is closed.
    fn wait_for(&self, source: &impl AsFd) -> bool {
        let mut both = [
            PollFd::new(source.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.closed.as_fd(), PollFlags::POLLIN),
        ];
        loop {
            match poll(&mut both, PollTimeout::NONE) {
                Ok(_) => return both[1].any() == Some(false),
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    tracing::error!(device = %self.name, %errno, "Cannot wait for packets");
                    return false;
                }
            }
        }
    }

    /// Waits for some milliseconds, or returns `false` when the tunnel is closed.
    fn rest(&self, milliseconds: u16) -> bool {
        let mut closed = [PollFd::new(self.closed.as_fd(), PollFlags::POLLIN)];
        match poll(&mut closed, PollTimeout::from(milliseconds)) {
            Ok(ready) => ready == 0,
            Err(errno) => errno == Errno::EINTR,
        }
    }

    /// Sends full trains, and says how many packets are done with.
    fn send_full_trains(&self, to: SocketAddr, packets: &[Packet]) -> usize {
        self.socket.send_full_trains(to, packets).unwrap_or_else(|error| {
            tracing::debug!(device = %self.name, %to, %error, "Not sent");
            packets.len()
        })
    }

    /// Sends packets that nobody may cut on the way.
    fn send_whole(&self, to: SocketAddr, packets: &[Packet]) {
        if let Err(error) = self.socket.send_whole(to, packets) {
            tracing::debug!(device = %self.name, %to, %error, "Too long");
        }
    }

    fn send(&self, to: SocketAddr, packets: &[Packet]) {
        // Like a packet that is lost on the way: whoever needs it sends it again.
        if let Err(error) = self.socket.send(to, packets) {
            tracing::debug!(device = %self.name, %to, %error, "Not sent");
        }
    }
}
