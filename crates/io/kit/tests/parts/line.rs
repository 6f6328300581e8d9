//! A network path to an API server that a test can cut.

use std::io;
use std::net::SocketAddr;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use liqo_testkit::ControlPlane;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A network path to an API server that can be cut.
pub struct Line {
    address: SocketAddr,
    server: SocketAddr,
    carrier: JoinSet<io::Result<()>>,
}

impl Line {
    /// A path that works.
    pub async fn to(plane: &ControlPlane) -> io::Result<Self> {
        let server = config(plane).await.cluster_url.authority().unwrap().as_str().parse().unwrap();
        // The server's certificate is for its own address alone.
        let listener = TcpListener::bind(SocketAddr::new(SocketAddr::ip(&server), 0)).await?;
        let mut line = Self { address: listener.local_addr()?, server, carrier: JoinSet::new() };
        line.carrier.spawn(carry(listener, server));
        Ok(line)
    }

    /// A client whose requests take this path.
    pub async fn client(&self, plane: &ControlPlane) -> Client {
        let mut config = config(plane).await;
        config.cluster_url = format!("https://{}", self.address).parse().unwrap();
        Client::try_from(config).unwrap()
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
            copy_bidirectional(&mut near, &mut far).await
        });
    }
}

async fn config(plane: &ControlPlane) -> kube::Config {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}
