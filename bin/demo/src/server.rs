//! Answers HTTP, and UDP on request, with where it runs and who asks.
//!
//! It trusts every caller: it reads and writes any file of its container. Tests use that to prove
//! that volumes, configuration and identity arrived; nothing else should.

mod routes;
mod zeros;

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::identity::{self, Identity};
use crate::udp::LARGEST;

/// How long open requests may take once we are told to stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// Lets others run when accepting fails, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Flags of `demo serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port to listen on, at every address.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Also echoes datagrams on the same port number.
    #[arg(long)]
    udp: bool,
    #[command(flatten)]
    identity: Identity,
}

/// Serves until the process is told to stop.
pub(crate) async fn run(Args { port, udp, identity }: Args) -> Result<(), Failure> {
    // As PID 1 we have no default handlers: without these, only SIGKILL would end us.
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Serve)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Serve)?;
    // A kernel without IPv6 refuses the first, which otherwise serves both families.
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let server = match Server::bind(everywhere, udp, identity.clone()).await {
        Ok(server) => server,
        Err(_) => Server::bind((Ipv4Addr::UNSPECIFIED, port).into(), udp, identity)
            .await
            .map_err(Failure::Serve)?,
    };
    log(format_args!("serving on {}", server.address().map_err(Failure::Serve)?));
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.serve(stop).await;
    log(format_args!("stopped"));
    Ok(())
}

/// What every request may look at.
#[derive(Debug)]
struct Place {
    identity: Identity,
    hostname: String,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
struct Server {
    tcp: TcpListener,
    udp: Option<UdpSocket>,
    place: Arc<Place>,
}

impl Server {
    async fn bind(at: SocketAddr, has_udp: bool, identity: Identity) -> io::Result<Self> {
        let tcp = TcpListener::bind(at).await?;
        let udp = if has_udp { Some(UdpSocket::bind(tcp.local_addr()?).await?) } else { None };
        let place = Arc::new(Place { identity, hostname: identity::hostname() });
        Ok(Self { tcp, udp, place })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Answers until `stop`; then closes the port and lets open requests end, for a while.
    async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { tcp, udp, place } = self;
        let (stopping, told) = watch::channel(());
        let mut connections = JoinSet::new();
        let echo = echo(udp, place.hostname.clone());
        tokio::pin!(stop, echo);
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = &mut echo => {}
                Some(_) = connections.join_next() => {}
                accepted = tcp.accept() => match accepted {
                    Ok((stream, client)) => {
                        let place = Arc::clone(&place);
                        connections.spawn(converse(stream, canonical(client), place, told.clone()));
                    }
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop((tcp, stopping));
        // Whoever is still talking after that is cut off as the set is dropped.
        let _ = timeout(FAREWELL, async { while connections.join_next().await.is_some() {} }).await;
    }
}

/// Answers the requests of one connection; once `stopping` closes, only the current one.
async fn converse(
    stream: TcpStream,
    client: SocketAddr,
    place: Arc<Place>,
    mut stopping: watch::Receiver<()>,
) {
    let service = service_fn(|request| {
        let place = Arc::clone(&place);
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let is_probe = request.uri().path() == routes::HEALTH;
            let response = routes::answer(request, client, &place).await;
            if !is_probe {
                log(format_args!("{line} {} {client}", response.status().as_u16()));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // A connection that breaks concerns its client only.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Answers every datagram with our name, who sent it and what it said; never ends.
async fn echo(socket: Option<UdpSocket>, hostname: String) {
    let Some(socket) = socket else { return std::future::pending().await };
    let mut buffer = vec![0; LARGEST];
    loop {
        // Errors are late news about earlier replies that could not be delivered.
        let Ok((size, client)) = socket.recv_from(&mut buffer).await else {
            sleep(PAUSE).await;
            continue;
        };
        let payload = buffer.get(..size).unwrap_or_default();
        let mut reply = format!("{hostname} {} ", canonical(client)).into_bytes();
        reply.extend_from_slice(payload);
        let _ = socket.send_to(&reply, client).await;
    }
}

/// An IPv4 client of a socket for both families is still an IPv4 client.
fn canonical(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

/// Writes a line that `kubectl logs` shows.
fn log(line: std::fmt::Arguments<'_>) {
    // A log that nobody can read any more is no reason to stop serving.
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;

    use super::*;

    /// A server on a free port of loopback.
    pub(crate) struct Running {
        pub(crate) at: SocketAddr,
        stop: Arc<Notify>,
        task: JoinHandle<()>,
    }

    impl Running {
        pub(crate) async fn start() -> Self {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server = Server::bind(at, true, Identity::default()).await.unwrap();
            let at = server.address().unwrap();
            let stop = Arc::new(Notify::new());
            let told = Arc::clone(&stop);
            let task = tokio::spawn(server.serve(async move { told.notified().await }));
            Self { at, stop, task }
        }

        async fn open(&self) -> TcpStream {
            TcpStream::connect(self.at).await.unwrap()
        }
    }

    /// Reads until the headers of an answer are complete.
    async fn read_head(stream: &mut TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    #[tokio::test]
    async fn idle_connections_do_not_delay_the_end() {
        let server = Running::start().await;
        let mut idle = server.open().await;
        idle.write_all(b"GET /bytes/0 HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        read_head(&mut idle).await;
        server.stop.notify_one();
        timeout(FAREWELL / 2, server.task).await.unwrap().unwrap();
        assert!(TcpStream::connect(server.at).await.is_err());
    }

    #[tokio::test]
    async fn a_request_that_is_under_way_is_finished() {
        let server = Running::start().await;
        let mut busy = server.open().await;
        busy.write_all(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe")
            .await
            .unwrap();
        read_head(&mut busy).await;
        server.stop.notify_one();
        busy.write_all(b"llo").await.unwrap();
        let mut rest = String::new();
        busy.read_to_string(&mut rest).await.unwrap();
        assert!(rest.contains("llo"), "{rest:?}");
        server.task.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_that_never_ends_is_cut_off() {
        let server = Running::start().await;
        let mut stuck = server.open().await;
        stuck
            .write_all(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe")
            .await
            .unwrap();
        read_head(&mut stuck).await;
        server.stop.notify_one();
        timeout(FAREWELL * 2, server.task).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_datagram_is_answered_with_names_and_payload() {
        let server = Running::start().await;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.send_to(b"hello", server.at).await.unwrap();
        let mut reply = [0; 512];
        let size = socket.recv(&mut reply).await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&reply[..size]),
            format!("{} {} hello", identity::hostname(), socket.local_addr().unwrap())
        );
    }

    #[test]
    fn a_mapped_client_is_an_ipv4_client() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
        assert_eq!(canonical(mapped).to_string(), "10.0.0.1:80");
    }
}
