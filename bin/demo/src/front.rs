//! Stands in front of a service as an Ingress controller does: ends TLS, and passes requests for one
//! host name on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::header::HOST;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use crate::failure::Failure;

/// Flags of `demo front`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port to listen on, at every address.
    #[arg(long, default_value_t = 443)]
    port: u16,
    /// The host name whose requests are passed on; those for others find nothing.
    #[arg(long)]
    host: String,
    /// Where they are passed on to, without TLS.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
}

/// Passes requests on until the process is told to stop.
pub(crate) async fn run(Args { port, host, to }: Args) -> Result<(), Failure> {
    // As PID 1 we have no default handler: without it, only SIGKILL would end us.
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Serve)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await;
    let pair = generate_simple_self_signed([host.clone()]).map_err(io::Error::other);
    let front = pair.and_then(|pair| Front::new(host, to, &pair)).map_err(Failure::Serve)?;
    let passing = front.pass(listener.map_err(Failure::Serve)?);
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        ended = passing => ended.map_err(Failure::Serve),
    }
}

struct Front {
    tls: TlsAcceptor,
    place: Arc<Place>,
}

struct Place {
    host: String,
    to: String,
}

impl Front {
    /// A front that shows a certificate.
    fn new(host: String, to: String, pair: &CertifiedKey<KeyPair>) -> io::Result<Self> {
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key.map_err(io::Error::other)?)
            .map_err(io::Error::other)?;
        Ok(Self { tls: TlsAcceptor::from(Arc::new(config)), place: Arc::new(Place { host, to }) })
    }

    /// Passes on what comes; ends only with the listener.
    async fn pass(self, listener: TcpListener) -> io::Result<()> {
        loop {
            let (stream, client) = listener.accept().await?;
            let (tls, place) = (self.tls.clone(), Arc::clone(&self.place));
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(|request| place.answer(request, client));
                let connection = server::Builder::new();
                // A connection that breaks concerns its client only.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

impl Place {
    async fn answer(&self, request: Request<Incoming>, client: SocketAddr) -> io::Result<Answer> {
        let asked = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let name = asked.map(|host| host.split_once(':').map_or(host, |(name, _)| name));
        if name != Some(self.host.as_str()) {
            return Ok(empty(StatusCode::NOT_FOUND));
        }
        Ok(self.forward(request, client).await.unwrap_or_else(|_| empty(StatusCode::BAD_GATEWAY)))
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        client: SocketAddr,
    ) -> io::Result<Answer> {
        let stream = TcpStream::connect(&self.to).await?;
        let shaken = client::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(io::Error::other)?;
        tokio::spawn(connection);
        if let Ok(from) = client.ip().to_string().parse() {
            request.headers_mut().insert("x-forwarded-for", from);
        }
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        Ok(response.map(http_body_util::BodyExt::boxed))
    }
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::server::tests::Running;

    #[tokio::test]
    async fn requests_for_its_host_are_passed_on_and_others_find_nothing() {
        let behind = Running::start().await;
        let shop = Fronted::start("shop.example", behind.at).await;
        assert_eq!(shop.ask("shop.example").await, StatusCode::OK);
        assert_eq!(shop.ask("shop.example:8443").await, StatusCode::OK);
        assert_eq!(shop.ask("other.example").await, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn nobody_behind_it_is_a_bad_gateway() {
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = nobody.local_addr().unwrap();
        drop(nobody);
        let shop = Fronted::start("shop.example", to).await;
        assert_eq!(shop.ask("shop.example").await, StatusCode::BAD_GATEWAY);
    }

    /// A front on a free port of loopback, and who trusts it; it ends with the test.
    struct Fronted {
        at: SocketAddr,
        host: &'static str,
        trust: Arc<ClientConfig>,
    }

    impl Fronted {
        async fn start(host: &'static str, to: SocketAddr) -> Self {
            let pair = generate_simple_self_signed([host.to_owned()]).unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let at = listener.local_addr().unwrap();
            tokio::spawn(
                Front::new(host.to_owned(), to.to_string(), &pair).unwrap().pass(listener),
            );
            let mut roots = RootCertStore::empty();
            roots.add(pair.cert.der().clone()).unwrap();
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let trust = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            Self { at, host, trust: Arc::new(trust) }
        }

        async fn ask(&self, host: &str) -> StatusCode {
            let stream = TcpStream::connect(self.at).await.unwrap();
            let name = ServerName::try_from(self.host).unwrap();
            let connector = TlsConnector::from(Arc::clone(&self.trust));
            let stream = connector.connect(name, stream).await.unwrap();
            let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get("/").header(HOST, host).body(Empty::<Bytes>::new()).unwrap();
            sender.send_request(request).await.unwrap().status()
        }
    }
}
