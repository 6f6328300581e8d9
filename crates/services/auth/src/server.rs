//! Answers peers over HTTP, in the words and with the statuses they know.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use liqo_api::names::Cluster;
use liqo_identity::issue::Refusal;
use liqo_identity::limit::Limiter;
use liqo_identity::wire::{self, CertificateReply, CertificateRequest, Ids};
use liqo_kit::admin;
use liqo_kit::args::Listen;
use liqo_kit::metrics::Metrics;
use liqo_kit::tls::TlsListener;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use rustls::ServerConfig;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::issuer::Issuer;
use crate::keeper::Keeper;

/// The longest request: a few names, two tokens and a signing request.
const LONGEST_REQUEST: usize = 64 << 10;

/// How long a request waits for the token of this cluster to be made; peers wait for 5 seconds.
const PATIENCE: Duration = Duration::from_secs(4);

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_SNIFFING: (HeaderName, HeaderValue) =
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));

/// Answers peers; a clone is the same.
#[derive(Clone)]
pub struct Server {
    issuer: Arc<Issuer>,
    /// The token to check; none when nobody has to present one.
    token: Option<Keeper>,
    ids: Arc<str>,
    limiter: Arc<Mutex<Limiter>>,
    start: Instant,
    answers: Family<[(&'static str, String); 1], Counter>,
}

impl Server {
    pub fn new(
        issuer: Arc<Issuer>,
        token: Option<Keeper>,
        cluster: &Cluster,
        metrics: &Metrics,
    ) -> Self {
        // Two texts without anything to escape wrongly.
        let ids = serde_json::to_string(&Ids::from(cluster)).unwrap_or_default();
        let help = "Answers to requests for identities";
        Self {
            issuer,
            token,
            ids: ids.into(),
            limiter: Arc::default(),
            start: Instant::now(),
            answers: metrics.register("auth_answers", help, Family::default()),
        }
    }

    /// Serves until told to stop, then finishes what is under way.
    pub async fn serve(
        self,
        listen: &Listen,
        tls: Option<Arc<ServerConfig>>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let listener = admin::bind(listen).await?;
        let address = listener.local_addr()?;
        info!(%address, tls = tls.is_some(), "Listening for peers");
        let Some(config) = tls else { return admin::serve(listener, self.routes(), stop).await };
        // Taps are what axum hands addresses through.
        let listener = TlsListener::new(listener, config)?.tap_io(|_| {});
        let service = self.routes().into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned()).await
    }

    fn routes(self) -> Router {
        Router::new()
            .route(wire::IDS, get(tell_ids))
            .route(wire::CERTIFICATE, post(answer))
            .fallback(async || refuse(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()))
            .method_not_allowed_fallback(async || {
                refuse(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n".to_owned())
            })
            .layer(DefaultBodyLimit::max(LONGEST_REQUEST))
            .with_state(self)
    }

    async fn issue(&self, peer: SocketAddr, body: &[u8]) -> Result<CertificateReply, Refusal> {
        if !self.limiter().hears(peer.ip(), self.start.elapsed()) {
            return Err(Refusal::TooMany);
        }
        let request: CertificateRequest = serde_json::from_slice(body)
            .map_err(|error| Refusal::Malformed(without_content(&error)))?;
        self.check_token(peer, &request).await?;
        self.issuer.issue(&request).await
    }

    async fn check_token(
        &self,
        peer: SocketAddr,
        request: &CertificateRequest,
    ) -> Result<(), Refusal> {
        let Some(keeper) = &self.token else { return Ok(()) };
        let token = timeout(PATIENCE, keeper.token()).await.ok().flatten().ok_or_else(|| {
            Refusal::Failed("this cluster has no token yet; try again in a moment".to_owned())
        })?;
        if token.is(&request.destination_cluster_token) {
            return Ok(());
        }
        if !self.limiter().wrong(peer.ip(), self.start.elapsed()) {
            return Err(Refusal::TooMany);
        }
        let cluster = &request.cluster.cluster_id;
        let empty = request.destination_cluster_token.is_empty();
        warn!(%peer, cluster, empty, "Wrong token");
        Err(Refusal::WrongToken)
    }

    fn limiter(&self) -> std::sync::MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, status: StatusCode) {
        self.answers.get_or_create(&[("status", status.as_u16().to_string())]).inc();
    }
}

async fn tell_ids(State(server): State<Server>) -> Response {
    ([(header::CONTENT_TYPE, PLAIN)], server.ids.to_string()).into_response()
}

async fn answer(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let result = match &body {
        Ok(body) => server.issue(peer, body).await,
        Err(rejection) => {
            server.count(rejection.status());
            return refuse(rejection.status(), format!("{}\n", rejection.body_text()));
        }
    };
    let refusal = match result.map(|reply| serde_json::to_string(&reply)) {
        Ok(Ok(text)) => {
            server.count(StatusCode::ACCEPTED);
            return (StatusCode::ACCEPTED, [(header::CONTENT_TYPE, PLAIN)], text).into_response();
        }
        Ok(Err(error)) => Refusal::Failed(error.to_string()),
        Err(refusal) => refusal,
    };
    let status =
        StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    server.count(status);
    if status.is_server_error() || status == StatusCode::FORBIDDEN {
        warn!(%peer, %refusal, "No identity issued");
    }
    refuse(status, refusal.body())
}

fn refuse(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, PLAIN), NO_SNIFFING], text).into_response()
}

/// What is wrong with a text, without a piece of it: it may hold a token.
fn without_content(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "cannot be read",
        serde_json::error::Category::Syntax => "is not JSON",
        serde_json::error::Category::Data => "has a field of the wrong kind, or lacks one",
        serde_json::error::Category::Eof => "ends too early",
    };
    format!("it {what} (line {}, column {})", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::extract::connect_info::MockConnectInfo;
    use axum::http::{HeaderMap, Method, Request};
    use kube::{Client, Config};
    use liqo_identity::wire::CertificateRequest;
    use liqo_kit::events::Events;
    use tower::ServiceExt as _;

    use super::*;
    use crate::issuer::Writers;

    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[tokio::test]
    async fn who_this_cluster_is_is_told_as_peers_know_it() {
        let (status, headers, body) = ask(&server(), Method::GET, "/ids", "").await;
        assert_eq!((status, text(&headers, "content-type")), (200, "text/plain; charset=utf-8"));
        assert_eq!(body, format!(r#"{{"clusterId":"{MILAN}","clusterName":"milan"}}"#));
    }

    #[tokio::test]
    async fn refusals_look_as_peers_know_them() {
        let server = server();
        let path = wire::CERTIFICATE;
        let wrong = request("hush");
        let long = "x".repeat(LONGEST_REQUEST + 1);
        for (method, path, sent, want) in [
            (Method::POST, path, wrong.as_str(), 401),
            (Method::POST, path, "{\"hush", 400),
            (Method::POST, path, &long, 413),
            (Method::GET, path, "", 405),
            (Method::GET, "/identity", "", 404),
        ] {
            let (status, headers, body) = ask(&server, method, path, sent).await;
            assert_eq!(status, want, "{path}: {body}");
            assert_eq!(text(&headers, "content-type"), "text/plain; charset=utf-8");
            assert_eq!(text(&headers, "x-content-type-options"), "nosniff");
            assert!(body.ends_with('\n') && !body.contains("hush"), "{body}");
        }
    }

    #[tokio::test]
    async fn who_guesses_is_not_heard_any_more() {
        let server = server();
        let mut last = 0;
        for _ in 0..11 {
            (last, ..) = ask(&server, Method::POST, wire::CERTIFICATE, &request("guess")).await;
        }
        assert_eq!(last, 429);
        let (status, ..) = ask(&server, Method::POST, wire::CERTIFICATE, &request("right")).await;
        assert_eq!(status, 429);
        assert_eq!(ask(&server, Method::GET, wire::IDS, "").await.0, 200);
    }

    /// A service whose cluster is never asked.
    fn server() -> Router {
        liqo_kit::service::install_crypto();
        let cluster = Cluster { id: MILAN.parse().unwrap(), name: "milan".parse().unwrap() };
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let issuer = Issuer {
            client: client.clone(),
            events: Events::new(client, "test"),
            home: cluster.clone(),
            namespace: "liqo".to_owned(),
            api_server: None,
            authority: None,
            authenticates: true,
            writers: Writers::default(),
        };
        let token = Some(Keeper::of("right"));
        let server = Server::new(Arc::new(issuer), token, &cluster, &Metrics::default());
        server.routes().layer(MockConnectInfo(SocketAddr::from(([198, 18, 0, 1], 1))))
    }

    fn request(token: &str) -> String {
        let rome = "41543714-6e17-4c7b-9bc9-70de7f7ae64f".parse().unwrap();
        let rome = Cluster { id: rome, name: "rome".parse().unwrap() };
        let request = CertificateRequest {
            destination_cluster_token: token.to_owned(),
            ..CertificateRequest::new(&rome, "PEM")
        };
        serde_json::to_string(&request).unwrap()
    }

    async fn ask(
        routes: &Router,
        method: Method,
        path: &str,
        body: &str,
    ) -> (u16, HeaderMap, String) {
        let body = Body::from(body.to_owned());
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let response = routes.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, 1 << 20).await.unwrap();
        (head.status.as_u16(), head.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
        headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}
