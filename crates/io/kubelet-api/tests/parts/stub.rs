//! A kubelet of the other cluster that only talks: logs in two lines, and streams that echo.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::{StreamExt as _, stream};
use hyper_util::rt::TokioIo;
use liqo_kit::tls::{Certificate, Pair, TlsListener};
use time::OffsetDateTime;
use tokio::io::{AsyncWriteExt as _, copy, split};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A kubelet that listens as long as the value lives.
pub struct Stub {
    /// Lets the second line of a log that is followed out.
    pub go_on: Arc<Notify>,
    _serving: JoinSet<()>,
}

impl Stub {
    /// Listens on an address, at the port of kubelets.
    pub async fn listen(address: &str) -> Self {
        let life = Duration::from_hours(1);
        let pair = Pair::self_signed(&[], OffsetDateTime::now_utc(), life).unwrap();
        let (certificate, _) = Certificate::given(&pair).unwrap();
        let listener = TcpListener::bind(format!("{address}:10250")).await.unwrap();
        let listener = TlsListener::new(listener, certificate.server()).unwrap();
        let go_on = Arc::new(Notify::new());
        let routes = Router::new()
            .route("/containerLogs/{namespace}/{pod}/{container}", get(logs))
            .route("/exec/{namespace}/{pod}/{container}", get(echo).post(echo))
            .route("/attach/{namespace}/{pod}/{container}", get(echo).post(echo))
            .route("/portForward/{namespace}/{pod}", get(echo).post(echo))
            .with_state(Arc::clone(&go_on));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { go_on, _serving: serving }
    }
}

async fn logs(
    State(go_on): State<Arc<Notify>>,
    Path((_, _, container)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    if container == "waiting" {
        let why = "container \"waiting\" in pod \"web\" is waiting to start: PodInitializing";
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    let asked = request.uri().to_string();
    let follows = asked.contains("follow=true");
    let first = stream::once(async move { format!("{asked}\n") });
    let second = stream::once(async move {
        if follows {
            go_on.notified().await;
        }
        "second\n".to_owned()
    });
    let lines = first.chain(second).map(|line| Ok::<_, Infallible>(Bytes::from(line)));
    Body::from_stream(lines).into_response()
}

/// Says what was asked, and then whatever it is told.
async fn echo(mut request: Request) -> Response {
    let asked = request.uri().to_string();
    let protocol = request.headers().get("x-stream-protocol-version").cloned();
    let upgrade = request.headers().get(header::UPGRADE).cloned().unwrap();
    let stream = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut from, mut to) = split(TokioIo::new(stream.await.unwrap()));
        to.write_all(format!("{asked}\n").as_bytes()).await.unwrap();
        let _ = copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, upgrade);
    if let Some(protocol) = protocol {
        headers.insert("x-stream-protocol-version", protocol);
    }
    response
}
