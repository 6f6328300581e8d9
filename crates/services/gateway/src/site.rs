//! The gateway's place in the kernel: its namespace, the cable to its node, the tunnel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use liqo_api::keys::{link, port};
use liqo_api::names::ClusterId;
use liqo_api::net::{NatMapping, TunnelEndpoint};
use liqo_fabric::gateway::{self, Ends, GatewayState, Settings, Widths, told_widths};
use liqo_fabric::mtu;
use liqo_fabric::owned::Scope;
use liqo_fabric::peer::{Ground, Peer};
use liqo_fabric::plan::{Shown, plan};
use liqo_fabric::state::State;
use liqo_netstate::{Changes, Kernel, Namespace, Observed, Remembered, Uplink};
use liqo_tunnel::{Driver, PeerState, PrivateKey, PublicKey, Tunnel};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::args::Args;
use crate::error::Error;

/// How often both sides are brought where they have to be: what one tells may change the other.
const ROUNDS: usize = 3;

/// The gateway's place in the kernel.
pub(crate) struct Site {
    path: PathBuf,
    outside: Kernel,
    inside: Kernel,
    namespace: Namespace,
    tunnel: Mutex<Option<Tunnel>>,
    how: liqo_tunnel::Settings,
    settings: Settings,
}

impl Site {
    /// Takes its place, after removing what one that was killed has left there.
    pub async fn open(node: &Namespace, args: &Args, key: PrivateKey) -> Result<Self, Error> {
        let node = node.clone();
        clean(&node, args).await?;
        let namespace = Namespace::create(&args.netns).await?;
        let outside = Kernel::open(node.clone(), Some(namespace.clone())).await?;
        let inside = Kernel::open(namespace.clone(), Some(node)).await?;
        let settings = settings(&outside, args).await?;
        let how = liqo_tunnel::Settings {
            name: link::TUNNEL.to_owned(),
            private_key: key,
            port: args.listening_port,
            mtu: u16::try_from(settings.mtu).unwrap_or(args.mtu),
            probes: Some(port::CONNECTION_CHECK),
            implementation: args.wireguard_implementation.implementation(),
        };
        let (path, tunnel) = (args.netns.clone(), Mutex::new(None));
        let site = Self { path, outside, inside, namespace, tunnel, how, settings };
        site.open_tunnel().await?;
        Ok(site)
    }

    /// Opens the tunnel, also in the place of one whose device somebody removed.
    async fn open_tunnel(&self) -> Result<(), Error> {
        let mut tunnel = self.tunnel.lock().await;
        if let Some(before) = tunnel.take() {
            warn!("The device of the tunnel is gone; it is made again");
            before.close().await;
        }
        let opened = Tunnel::open(self.how.clone(), Some(&self.path)).await?;
        let liqo_tunnel::Settings { mtu, port, .. } = self.how;
        info!(driver = ?opened.driver(), mtu, port, "Tunnel open");
        *tunnel = Some(opened);
        Ok(())
    }

    /// Makes the kernel hold what it has to for these tunnels; what that is, and the number of the
    /// cable's end on the node.
    pub async fn settle(
        &self,
        endpoints: &[Arc<TunnelEndpoint>],
        mappings: &[Arc<NatMapping>],
        widths: &Widths,
    ) -> Result<(GatewayState, u32), Error> {
        let [outer, inner] = [Scope::gateway_outside(), Scope::gateway_inside()];
        if self.inside.index(link::TUNNEL).await?.is_none() {
            self.open_tunnel().await?;
        }
        let mut want = self.desired(endpoints, mappings, widths).await?;
        for _ in 0..ROUNDS {
            let mut taken = self.outside.settle(&outer, |_| want.outside.clone()).await?;
            taken += self.inside.settle(&inner, |_| want.inside.clone()).await?;
            if taken == 0 {
                break;
            }
            want = self.desired(endpoints, mappings, widths).await?;
        }
        let cable = self.outside.index(link::HOST_VETH).await?.unwrap_or_default();
        Ok((want, cable))
    }

    async fn desired(
        &self,
        endpoints: &[Arc<TunnelEndpoint>],
        mappings: &[Arc<NatMapping>],
        widths: &Widths,
    ) -> Result<GatewayState, Error> {
        let none = BTreeMap::new();
        let outside = self.outside.observe(&Scope::gateway_outside(), &none).await?;
        let inside = self.inside.observe(&Scope::gateway_inside(), &none).await?;
        let endpoints = endpoints.iter().map(AsRef::as_ref);
        let mappings = mappings.iter().map(AsRef::as_ref);
        let ends = ends(&outside, &inside);
        Ok(gateway::desired(endpoints, mappings, &self.settings, widths, ends))
    }

    /// Makes these the far ends of the tunnel.
    pub async fn connect(
        &self,
        peers: &BTreeMap<ClusterId, Peer>,
        found: &BTreeMap<ClusterId, SocketAddr>,
    ) -> Result<(), Error> {
        let peers: Vec<liqo_tunnel::Peer> = peers
            .iter()
            .map(|(id, peer)| liqo_tunnel::Peer {
                public_key: PublicKey(peer.key),
                endpoint: found.get(id).copied(),
                allowed: peer.networks().to_vec(),
                keepalive: None,
            })
            .collect();
        if let Some(tunnel) = &*self.tunnel.lock().await {
            tunnel.set_peers(&peers).await?;
        }
        Ok(())
    }

    /// The far ends of the tunnel as they are.
    pub async fn peers(&self) -> Result<Vec<PeerState>, Error> {
        match &*self.tunnel.lock().await {
            Some(tunnel) => Ok(tunnel.peers().await?),
            None => Ok(Vec::new()),
        }
    }

    /// How many connections pass; nothing where the kernel does not tell.
    pub async fn remembered(&self) -> Result<Option<Remembered>, Error> {
        Ok(self.inside.remembered().await?)
    }

    /// Who carries the packets.
    pub async fn driver(&self) -> Option<Driver> {
        self.tunnel.lock().await.as_ref().map(Tunnel::driver)
    }

    /// The largest packet that tunnels take.
    pub fn mtu(&self) -> u32 {
        self.settings.mtu
    }

    /// Who carries the packets, in a word.
    pub async fn implementation(&self) -> &'static str {
        match self.driver().await {
            Some(Driver::Kernel) => "kernel",
            Some(Driver::Userspace) => "userspace",
            None => "none",
        }
    }

    /// Listens to changes on the node, and in the gateway.
    pub async fn changes(&self) -> Result<[Changes; 2], Error> {
        let outside = self.outside.changes(&Scope::gateway_outside(), &[]).await?;
        Ok([outside, self.inside.changes(&Scope::gateway_inside(), &[]).await?])
    }

    /// A socket inside, whose packets go whole or not at all, whatever is known of the way.
    pub async fn socket(&self, port: u16) -> Result<UdpSocket, Error> {
        let bind = move || {
            let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
            socket.set_nonblocking(true)?;
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
            UdpSocket::from_std(socket)
        };
        self.namespace.run(bind).await?.map_err(|source| Error::Listen { port, source })
    }

    /// Leaves without a trace.
    pub async fn close(&self) {
        if let Some(tunnel) = self.tunnel.lock().await.take() {
            tunnel.close().await;
        }
        let scope = Scope::gateway_outside();
        if let Err(error) = self.outside.settle(&scope, |_| State::default()).await {
            warn!(error = liqo_kit::keyed::chain(&error), "The cable stays");
        }
        if let Err(error) = Namespace::remove(&self.path) {
            warn!(error = liqo_kit::keyed::chain(&error), "The namespace stays");
        }
    }
}

/// What would change in the kernel, in words.
pub(crate) async fn preview(
    node: &Namespace,
    args: &Args,
    endpoints: &[Arc<TunnelEndpoint>],
    mappings: &[Arc<NatMapping>],
) -> Result<String, Error> {
    // Before a gateway has run here, there is none.
    let namespace = Namespace::open(&args.netns).ok();
    let outside = Kernel::open(node.clone(), namespace.clone()).await?.trusting();
    let inside = match namespace {
        Some(namespace) => Some(Kernel::open(namespace, Some(node.clone())).await?.trusting()),
        None => None,
    };
    let [outer, inner] = [Scope::gateway_outside(), Scope::gateway_inside()];
    let settings = settings(&outside, args).await?;
    // What the one that runs has found, it has told.
    let widths = told_widths(endpoints.iter().map(AsRef::as_ref));
    let endpoints = endpoints.iter().map(AsRef::as_ref);
    let mappings = mappings.iter().map(AsRef::as_ref);
    let bare = gateway::desired([], [], &settings, &widths, Ends::default());
    let have_outside = outside.observe(&outer, &bare.outside.settings).await?;
    let have_inside = match &inside {
        Some(inside) => inside.observe(&inner, &bare.inside.settings).await?,
        None => Observed::default(),
    };
    let ends = ends(&have_outside, &have_inside);
    let want = gateway::desired(endpoints, mappings, &settings, &widths, ends);
    let steps = plan(&outer, &want.outside, &have_outside.state);
    let mut text = format!("on the node:\n{}", Shown(&steps));
    let steps = plan(&inner, &want.inside, &have_inside.state);
    // Writing to a string cannot fail.
    let _ = write!(text, "in the gateway:\n{}", Shown(&steps));
    for ((namespace, name), refusal) in &want.refused {
        let _ = writeln!(text, "! nothing for {namespace}/{name}: {refusal}");
    }
    Ok(text)
}

/// The hardware addresses of the cable, as far as there is one.
fn ends(outside: &Observed, inside: &Observed) -> Ends {
    Ends {
        node: outside.macs.get(link::HOST_VETH).copied(),
        gateway: inside.macs.get(link::GATEWAY_VETH).copied(),
    }
}

/// Removes what a gateway that was killed has left, and nothing else.
async fn clean(node: &Namespace, args: &Args) -> Result<(), Error> {
    if Namespace::remove(&args.netns)? {
        info!(path = %args.netns.display(), "Removed what an earlier gateway left");
    }
    let kernel = Kernel::open(node.clone(), None).await?;
    kernel.settle(&Scope::gateway_outside(), |_| State::default()).await?;
    Ok(())
}

async fn settings(kernel: &Kernel, args: &Args) -> Result<Settings, Error> {
    let uplink = kernel.uplink(args.pod_ip).await?;
    if uplink.is_none() {
        warn!(address = %args.pod_ip, "No interface has the address of this node");
    }
    let way = uplink.as_ref().map(|uplink| uplink.mtu);
    let mtu = mtu::fitting(args.mtu.into(), way, mtu::TUNNEL_OVERHEAD);
    let networks = uplink.map(|Uplink { networks, .. }| networks).unwrap_or_default();
    Ok(Settings { mtu, ground: Ground { networks } })
}
