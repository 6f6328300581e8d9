//! What a component shows of itself over HTTP.
//!
//! | path | shows |
//! | --- | --- |
//! | `/healthz`, `/livez` | whether it is well |
//! | `/readyz` | whether it can be used |
//! | `/metrics` | metrics |
//! | `/log` | what is logged; `PUT` changes it, from the machine or pod itself only |

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::Listen;
use crate::health::{Checks, Health};
use crate::keyed::chain;
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::telemetry::Logs;

/// Routes that tell whether a component is well and ready.
pub fn health_routes(health: Health) -> Router {
    let Health { live, ready } = health;
    let lively =
        Router::new().route("/healthz", get(report)).route("/livez", get(report)).with_state(live);
    lively.merge(Router::new().route("/readyz", get(report)).with_state(ready))
}

/// The route that shows metrics.
pub fn metrics_routes(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(show_metrics)).with_state(metrics)
}

/// The route that shows and changes what is logged.
pub fn log_routes(logs: Logs) -> Router {
    Router::new().route("/log", get(show_filter).put(change_filter)).with_state(logs)
}

/// Listens on an address; without a host, on all addresses of both families.
pub async fn bind(listen: &Listen) -> io::Result<TcpListener> {
    match listen.host.as_deref() {
        Some(host) => TcpListener::bind((host, listen.port)).await,
        // Where there is no IPv6, every address is an IPv4 address.
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, listen.port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, listen.port)).await,
        },
    }
}

/// Answers requests until told to stop, then finishes those that are under way.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn report(State(checks): State<Checks>) -> (StatusCode, String) {
    match checks.report() {
        (true, _) => (StatusCode::OK, "ok".to_owned()),
        (false, text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn show_metrics(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn show_filter(State(logs): State<Logs>) -> String {
    logs.filter()
}

async fn change_filter(
    State(logs): State<Logs>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    filter: String,
) -> (StatusCode, String) {
    if !peer.ip().to_canonical().is_loopback() {
        return (StatusCode::FORBIDDEN, "only from here; try kubectl port-forward\n".to_owned());
    }
    match logs.set_filter(&filter) {
        Ok(()) => (StatusCode::OK, logs.filter()),
        Err(error) => (StatusCode::BAD_REQUEST, chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::extract::connect_info::MockConnectInfo;
    use axum::http::{Method, Request};
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_component_is_well_before_it_is_ready() {
        let health = Health::default();
        let check = health.ready.add("watches");
        let routes = health_routes(health);
        assert_eq!(ask(&routes, Method::GET, "/healthz", "").await, (200, "ok".to_owned()));
        assert_eq!(
            ask(&routes, Method::GET, "/readyz", "").await,
            (503, "[-]watches failed: not yet\n".to_owned())
        );
        check.pass();
        assert_eq!(ask(&routes, Method::GET, "/readyz", "").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn metrics_are_shown_as_text() {
        let (code, text) =
            ask(&metrics_routes(Metrics::default()), Method::GET, "/metrics", "").await;
        assert_eq!((code, text.as_str()), (200, "# EOF\n"));
    }

    #[tokio::test]
    async fn what_is_logged_is_changed_from_here_only() {
        let logs = Logs::for_test();
        let here =
            log_routes(logs.clone()).layer(MockConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let there =
            log_routes(logs.clone()).layer(MockConnectInfo(SocketAddr::from(([10, 0, 0, 1], 1))));
        assert_eq!(ask(&there, Method::PUT, "/log", "trace").await.0, 403);
        assert_eq!(logs.filter(), "info");
        assert_eq!(ask(&here, Method::PUT, "/log", "a=b=c").await.0, 400);
        let more = "info,kube_runtime=error,liqo=debug";
        assert_eq!(ask(&here, Method::PUT, "/log", "4").await, (200, more.to_owned()));
        assert_eq!(ask(&there, Method::GET, "/log", "").await.1, more);
    }

    #[tokio::test]
    async fn an_address_without_a_host_is_reached_on_loopback() {
        let listener = bind(&":0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    }

    async fn ask(routes: &Router, method: Method, path: &str, body: &'static str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let response = routes.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }
}
