//! Connections, from `CONNECT` to their end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use liqo_kit::metrics::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

/// How long the API server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a peer may take to say what it wants.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

type Answer = Response<Full<Bytes>>;

/// What all connections share.
#[derive(Clone)]
pub struct Carrier {
    api_server: Arc<str>,
    connections: Counter,
    open: Gauge,
    failures: Counter,
}

impl Carrier {
    /// Carries everything to this address.
    pub fn new(api_server: String, metrics: &Metrics) -> Self {
        Self {
            api_server: api_server.into(),
            connections: metrics.register(
                "proxy_connections",
                "Connections carried to the API server",
                Counter::default(),
            ),
            open: metrics.register(
                "proxy_open_connections",
                "Connections that are open now",
                Gauge::default(),
            ),
            failures: metrics.register(
                "proxy_failures",
                "Connections that did not reach the API server",
                Counter::default(),
            ),
        }
    }

    /// Where everything goes.
    pub fn api_server(&self) -> &str {
        &self.api_server
    }

    /// Answers one request: only `CONNECT` is understood.
    async fn answer(self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        if request.method() != Method::CONNECT {
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                "this proxy carries connections to the API server: send CONNECT\n",
            );
        }
        let upstream = match timeout(CONNECT_LIMIT, TcpStream::connect(&*self.api_server)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.unreachable(peer, &error.to_string()),
            Err(_) => return self.unreachable(peer, "no answer in time"),
        };
        let asked = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        self.connections.inc();
        tokio::spawn(async move {
            self.open.inc();
            self.carry(request, upstream, peer, &asked).await;
            self.open.dec();
        });
        Response::new(Full::default())
    }

    async fn carry(
        &self,
        request: Request<Incoming>,
        mut upstream: TcpStream,
        peer: SocketAddr,
        asked: &str,
    ) {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        // Small frames of watches must not wait for each other.
        let _ = upstream.set_nodelay(true);
        match copy_bidirectional(&mut TokioIo::new(upgraded), &mut upstream).await {
            Ok((up, down)) => info!(%peer, asked, up, down, "Carried"),
            Err(error) => info!(%peer, asked, %error, "Carried until it broke off"),
        }
    }

    fn unreachable(&self, peer: SocketAddr, why: &str) -> Answer {
        self.failures.inc();
        warn!(%peer, to = &*self.api_server, why, "Cannot reach the API server");
        text(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("cannot reach the API server at {} over TCP: {why}\n", self.api_server),
        )
    }
}

/// Accepts connections until told to stop, then lets those that are open go on.
pub async fn serve(listener: TcpListener, carrier: Carrier, stop: CancellationToken) {
    let open = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                open.spawn(attend(stream, peer, carrier.clone()));
            }
            // Too many open files, or a peer that left at once: neither is a reason to end.
            Err(error) => warn!(%error, "Cannot accept a connection"),
        }
    }
    open.close();
    open.wait().await;
}

async fn attend(stream: TcpStream, peer: SocketAddr, carrier: Carrier) {
    let answer = service_fn(move |request| {
        let carrier = carrier.clone();
        async move { Ok::<_, Infallible>(carrier.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    if let Err(error) = connection.await {
        info!(%peer, %error, "Not understood");
    }
}

fn text(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::from(text.to_owned()));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn every_name_leads_to_the_api_server_and_bytes_flow_both_ways() {
        let api_server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = proxy_to(&api_server.local_addr().unwrap().to_string()).await;
        let mut peer = TcpStream::connect(proxy).await.unwrap();
        peer.write_all(
            b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example:443\r\n\r\n",
        )
        .await
        .unwrap();
        assert!(head(&mut peer).await.starts_with("HTTP/1.1 200"));
        let (mut served, _) = api_server.accept().await.unwrap();
        peer.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        served.read_exact(&mut bytes).await.unwrap();
        served.write_all(b"world").await.unwrap();
        peer.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"world");
    }

    #[tokio::test]
    async fn an_api_server_that_is_not_there_is_named() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let answer = say(
            &gone.to_string(),
            "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains(&format!("cannot reach the API server at {gone} over TCP")));
    }

    #[tokio::test]
    async fn other_requests_are_told_what_to_send() {
        let answer =
            say("127.0.0.1:1", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.ends_with("send CONNECT\n"), "{answer}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_reach_the_api_server_without_connect(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                "[A-Z]{1,9} [!-~]{0,30} HTTP/[0-9]\\.[0-9]\r\n([!-~]{0,20}\r\n){0,3}\r\n"
                    .prop_map(String::into_bytes),
            ]
        ) {
            prop_assume!(!bytes.starts_with(b"CONNECT "));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (is_served, is_there) = runtime.block_on(async {
                let api_server = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let proxy = proxy_to(&api_server.local_addr().unwrap().to_string()).await;
                let mut peer = TcpStream::connect(proxy).await.unwrap();
                // It may have heard enough before the end.
                let _ = peer.write_all(&bytes).await;
                let _ = peer.shutdown().await;
                let mut answer = Vec::new();
                let _ = peer.read_to_end(&mut answer).await;
                // Whoever comes next is served.
                let next = say_to(proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let is_there = next.await.starts_with("HTTP/1.1 405");
                (timeout(Duration::ZERO, api_server.accept()).await.is_ok(), is_there)
            });
            prop_assert!(is_there);
            prop_assert!(!is_served);
        }
    }

    async fn proxy_to(api_server: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let carrier = Carrier::new(api_server.to_owned(), &Metrics::default());
        tokio::spawn(serve(listener, carrier, CancellationToken::new()));
        address
    }

    async fn say(api_server: &str, words: &str) -> String {
        say_to(proxy_to(api_server).await, words).await
    }

    async fn say_to(proxy: SocketAddr, words: &str) -> String {
        let mut peer = TcpStream::connect(proxy).await.unwrap();
        peer.write_all(words.as_bytes()).await.unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn head(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            text.push(char::from(stream.read_u8().await.unwrap()));
        }
        text
    }
}
