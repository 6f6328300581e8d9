//! A network path to an API server that a test can cut.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use kube::Client;
use nix::sched::{CloneFlags, setns};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::ControlPlane;

/// A network path to an API server that can be cut.
pub struct Line {
    address: SocketAddr,
    server: SocketAddr,
    carrier: JoinSet<io::Result<()>>,
}

impl Line {
    /// A path that works.
    pub async fn to(plane: &ControlPlane) -> Result<Self> {
        let url = plane.config().await?.cluster_url;
        let server: SocketAddr =
            url.authority().context("a URL with an authority")?.as_str().parse()?;
        // The server's certificate is for its own address alone.
        let listener = TcpListener::bind(SocketAddr::new(server.ip(), 0)).await?;
        let mut line = Self { address: listener.local_addr()?, server, carrier: JoinSet::new() };
        line.carrier.spawn(carry(listener, server));
        Ok(line)
    }

    /// A path out of a network namespace, whose loopback is up: the server is there at its own address.
    pub async fn out_of(namespace: &File, plane: &ControlPlane) -> Result<Self> {
        let url = plane.config().await?.cluster_url;
        let server: SocketAddr =
            url.authority().context("a URL with an authority")?.as_str().parse()?;
        let namespace = namespace.try_clone()?;
        let bound = thread::spawn(move || -> Result<std::net::TcpListener> {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("enter the namespace")?;
            let listener = std::net::TcpListener::bind(server).context("listen there")?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.join().map_err(|_| anyhow!("nobody listens there"))??;
        let mut line = Self { address: server, server, carrier: JoinSet::new() };
        line.carrier.spawn(carry(TcpListener::from_std(listener)?, server));
        Ok(line)
    }

    /// Where its near end is.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A client whose requests take this path.
    pub async fn client(&self, plane: &ControlPlane) -> Result<Client> {
        let mut config = plane.config().await?;
        config.cluster_url = self.url().parse()?;
        Ok(Client::try_from(config)?)
    }

    /// Breaks every connection, and refuses new ones.
    pub async fn cut(&mut self) {
        self.carrier.shutdown().await;
    }

    /// Lets connections through again.
    pub fn restore(&mut self) {
        let (address, server) = (self.address, self.server);
        self.carrier.spawn(async move { carry(TcpListener::bind(address).await?, server).await });
    }
}

async fn carry(listener: TcpListener, server: SocketAddr) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await?;
        connections.spawn(async move {
            let mut far = TcpStream::connect(server).await?;
            // A path adds no waiting of its own.
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            copy_bidirectional(&mut near, &mut far).await
        });
    }
}
