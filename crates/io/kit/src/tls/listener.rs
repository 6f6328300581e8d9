//! Accepts TLS connections for axum; a slow handshake holds up nobody else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How many handshakes may be under way; further clients wait in the kernel.
const HANDSHAKES: usize = 256;

/// A connection, and who is at its other end.
type Connection = (TlsStream<TcpStream>, SocketAddr);

/// A TCP listener whose connections are encrypted; give it to [`axum::serve()`].
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<Connection>,
    /// Ends with this value.
    _accepting: JoinSet<()>,
}

impl TlsListener {
    /// Encrypts what a listener accepts.
    pub fn new(listener: TcpListener, config: Arc<ServerConfig>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (send, ready) = mpsc::channel(1);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, TlsAcceptor::from(config), send));
        Ok(Self { address, ready, _accepting: accepting })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn accept(mut listener: TcpListener, acceptor: TlsAcceptor, send: mpsc::Sender<Connection>) {
    let mut handshakes = JoinSet::new();
    loop {
        while handshakes.len() >= HANDSHAKES {
            handshakes.join_next().await;
        }
        while handshakes.try_join_next().is_some() {}
        // axum's own listener knows which errors pass, and waits for them to do so.
        let (stream, peer) = Listener::accept(&mut listener).await;
        let (acceptor, send) = (acceptor.clone(), send.clone());
        handshakes.spawn(async move {
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let _ = send.send((stream, peer)).await;
                }
                Ok(Err(error)) => debug!(%peer, %error, "Handshake failed"),
                Err(_) => debug!(%peer, "Handshake took too long"),
            }
        });
    }
}
