//! A peer over real sockets: what it answers, and every way in which it does not.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONNECTION;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};
use liqo_api::names::Cluster;
use liqo_handshake::{Error, Peer, Trust};
use liqo_identity::wire::CertificateRequest;
use liqo_kit::tls::{Certificate, Pair, TlsListener};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const IDS: &str = r#"{"clusterId":"41543714-6e17-4c7b-9bc9-70de7f7ae64f","clusterName":"rome"}"#;
const REPLY: &str = r#"{"namespace":"tenant","apiServerUrl":"https://198.18.0.1:6443","aws":{}}"#;

#[tokio::test]
async fn a_peer_tells_who_it_is_and_gives_an_identity() {
    let url = serve(answering(StatusCode::ACCEPTED, REPLY)).await;
    let peer = Peer::new(&url, Trust::Anybody, None).unwrap();
    assert_eq!(peer.ids().await.unwrap().parse().unwrap(), rome());
    let reply = peer.certificate(&request("right")).await.unwrap();
    assert_eq!(reply.namespace, "tenant");
}

#[tokio::test]
async fn a_peer_that_is_another_cluster_is_told_apart() {
    let url = serve(answering(StatusCode::ACCEPTED, REPLY)).await;
    let peer = Peer::new(&url, Trust::Anybody, None).unwrap();
    peer.is(&rome().id).await.unwrap();
    let milan = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap();
    let error = peer.is(&milan).await.unwrap_err();
    let expected =
        format!("{url} belongs to another cluster: it says that it is {ROME}, not {milan}");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn a_peer_behind_a_proxy_is_reached_through_it() {
    let url = serve(answering(StatusCode::ACCEPTED, REPLY)).await;
    let proxy = format!("http://{}", proxy(true).await);
    let peer = Peer::new(&url, Trust::Anybody, Some(&proxy)).unwrap();
    assert_eq!(peer.ids().await.unwrap().cluster_name, "rome");
}

#[tokio::test]
async fn questions_share_a_connection() {
    let url = serve(answering(StatusCode::ACCEPTED, REPLY)).await;
    let once = format!("http://{}", proxy(true).await);
    let peer = Peer::new(&url, Trust::Anybody, Some(&once)).unwrap();
    peer.is(&rome().id).await.unwrap();
    assert_eq!(peer.certificate(&request("right")).await.unwrap().namespace, "tenant");
}

#[tokio::test]
async fn a_connection_that_the_peer_has_closed_is_replaced() {
    let routes = answering(StatusCode::ACCEPTED, REPLY)
        .layer(map_response(async |response: Response| ([(CONNECTION, "close")], response)));
    let url = serve(routes).await;
    let peer = Peer::new(&url, Trust::Anybody, None).unwrap();
    peer.is(&rome().id).await.unwrap();
    assert_eq!(peer.certificate(&request("right")).await.unwrap().namespace, "tenant");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_told_from_a_peer_that_is_not_there() {
    let proxy = format!("http://{}", proxy(false).await);
    let peer = Peer::new("https://198.18.0.1", Trust::Anybody, Some(&proxy)).unwrap();
    let error = peer.ids().await.unwrap_err();
    assert!(matches!(&error, Error::Proxy { answer, .. } if answer.starts_with("403")), "{error}");
}

#[tokio::test]
async fn nobody_at_an_address_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let peer = Peer::new(&format!("https://{free}"), Trust::Anybody, None).unwrap();
    let error = peer.ids().await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot reach {free}/tcp")), "{error}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_unless_any_will_do() {
    let url = serve(answering(StatusCode::ACCEPTED, REPLY)).await;
    let error = Peer::new(&url, Trust::System, None).unwrap().ids().await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error}");
}

#[tokio::test]
async fn a_service_without_tls_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, answering(StatusCode::OK, "")).into_future());
    let error = Peer::new(&url, Trust::Anybody, None).unwrap().ids().await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error}");
}

#[tokio::test]
async fn another_service_is_shown_with_what_it_answered() {
    let routes = Router::new().route("/ids", get(async || "<html>Welcome</html>"));
    let url = serve(routes).await;
    let peer = Peer::new(&url, Trust::Anybody, None).unwrap();
    let error = peer.ids().await.unwrap_err().to_string();
    assert!(error.ends_with("it answered 200 OK: <html>Welcome</html>"), "{error}");
}

#[tokio::test]
async fn a_peer_that_has_no_identities_to_give_is_of_another_version() {
    for routes in [
        Router::new().route("/ids", get(async || IDS)),
        answering(StatusCode::CREATED, r#"{"kind":"Tenant"}"#),
    ] {
        let peer = Peer::new(&serve(routes).await, Trust::Anybody, None).unwrap();
        peer.ids().await.unwrap();
        let error = peer.certificate(&request("")).await.unwrap_err();
        assert!(matches!(error, Error::OtherVersion { .. }), "{error}");
        assert!(error.to_string().contains("a version that peers as 0.8 does"), "{error}");
    }
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let ask = async |status, text: &'static str, token: &str| {
        let url = serve(answering(status, text)).await;
        let peer = Peer::new(&url, Trust::Anybody, None).unwrap();
        peer.certificate(&request(token)).await.unwrap_err()
    };
    let error = ask(StatusCode::UNAUTHORIZED, "invalid token \"hush\"\n", "hush").await;
    assert!(matches!(error, Error::WrongToken { empty: false, .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "what was echoed is not repeated");
    let error = ask(StatusCode::UNAUTHORIZED, "invalid token \"\"\n", "").await;
    assert!(matches!(error, Error::WrongToken { empty: true, .. }), "{error}");
    let error = ask(StatusCode::FORBIDDEN, "\n", "right").await;
    assert!(matches!(error, Error::AlreadyIssued { .. }), "{error}");
    let error = ask(StatusCode::FORBIDDEN, "the quota is used up\n", "right").await;
    assert!(matches!(&error, Error::Refused { reason, .. } if reason == "the quota is used up"));
    let error = ask(StatusCode::INTERNAL_SERVER_ERROR, "no disk\n", "right").await;
    assert!(matches!(error, Error::Failed { status: 500, .. }), "{error}");
}

fn answering(status: StatusCode, text: &'static str) -> Router {
    Router::new()
        .route("/ids", get(async || IDS))
        .route("/identity/certificate", post(async move || (status, text)))
}

/// Serves over TLS with a certificate that nobody vouches for.
async fn serve(routes: Router) -> String {
    liqo_kit::service::install_crypto();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let pair = Pair::self_signed(&[], OffsetDateTime::now_utc(), Duration::from_hours(1)).unwrap();
    std::fs::write(&certificate, pair.certificate).unwrap();
    std::fs::write(&key, pair.key).unwrap();
    let (certificate, _) = Certificate::follow(&certificate, &key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = TlsListener::new(listener, certificate.server()).unwrap();
    tokio::spawn(axum::serve(listener, routes).into_future());
    format!("https://{address}")
}

/// A proxy for one connection.
async fn proxy(agrees: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
        if agrees {
            let mut peer = TcpStream::connect(target).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut peer).await;
        } else {
            let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(refusal).await.unwrap();
            // The connection stays open; it is for the client to leave.
            let _ = stream.read_u8().await;
        }
    });
    address
}

fn request(token: &str) -> CertificateRequest {
    CertificateRequest {
        destination_cluster_token: token.to_owned(),
        ..CertificateRequest::new(&rome(), "PEM")
    }
}

fn rome() -> Cluster {
    Cluster { id: ROME.parse().unwrap(), name: "rome".parse().unwrap() }
}
