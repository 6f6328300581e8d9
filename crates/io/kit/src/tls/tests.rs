//! Facts about certificates, on files that change.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;

use axum::Router;
use axum::routing::get;
use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::service::install_crypto;

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_changed_certificate_is_used_by_new_connections() {
    install_crypto();
    let (one, other) = (pair(), pair());
    // As Kubernetes mounts Secrets: files are links through a folder that is a link.
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "first", &one);
    write(&folder, "second", &other);
    symlink("first", folder.path().join("..data")).unwrap();
    let files = ["tls.crt", "tls.key"].map(|name| {
        symlink(format!("..data/{name}"), folder.path().join(name)).unwrap();
        folder.path().join(name)
    });
    let [certificate, key] = &files;
    let (mut certificate, follow) = Certificate::follow(certificate, key).unwrap();
    let follow = tokio::spawn(follow);
    let (address, server) = serve(certificate.server()).await;
    assert!(connects(address, &one).await && !connects(address, &other).await);

    symlink("second", folder.path().join("..swap")).unwrap();
    fs::rename(folder.path().join("..swap"), folder.path().join("..data")).unwrap();
    assert!(timeout(LIMIT, certificate.changed()).await.unwrap());
    assert!(connects(address, &other).await && !connects(address, &one).await);
    follow.abort();
    server.abort();
}

#[tokio::test]
async fn a_broken_file_leaves_the_certificate_as_it_was() {
    install_crypto();
    let (one, other) = (pair(), pair());
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "files", &one);
    let files = ["tls.crt", "tls.key"].map(|name| folder.path().join("files").join(name));
    let (mut certificate, follow) = Certificate::follow(&files[0], &files[1]).unwrap();
    let follow = tokio::spawn(follow);
    let (address, server) = serve(certificate.server()).await;

    fs::write(&files[0], "half a certif").unwrap();
    assert!(connects(address, &one).await);
    write(&folder, "files", &other);
    assert!(timeout(LIMIT, certificate.changed()).await.unwrap());
    assert!(connects(address, &other).await);
    follow.abort();
    server.abort();
}

#[tokio::test]
async fn a_client_that_says_nothing_holds_up_nobody() {
    install_crypto();
    let pair = pair();
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "files", &pair);
    let files = ["tls.crt", "tls.key"].map(|name| folder.path().join("files").join(name));
    let (certificate, _) = Certificate::follow(&files[0], &files[1]).unwrap();
    let (address, server) = serve(certificate.server()).await;
    let _silent = TcpStream::connect(address).await.unwrap();
    assert!(timeout(LIMIT, connects(address, &pair)).await.unwrap());
    server.abort();
}

#[tokio::test]
async fn who_asks_much_at_once_needs_one_connection() {
    install_crypto();
    let pair = pair();
    let (certificate, _replace) = Certificate::given(&pair).unwrap();
    let (address, server) = serve(certificate.busy_server()).await;
    let stream = connect(address, &pair, &["h2"]).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (ask, connection) = handshake.unwrap();
    let connection = tokio::spawn(connection);
    let answers = [(); 3].map(|()| {
        let request = Request::get("https://localhost/").body(String::new()).unwrap();
        ask.clone().send_request(request)
    });
    for answer in futures::future::join_all(answers).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    connection.abort();
    assert!(connects(address, &pair).await, "others ask as ever");
    server.abort();

    let (address, server) = serve(certificate.server()).await;
    assert!(connect(address, &pair, &["h2"]).await.is_err(), "protocols may be switched there");
    server.abort();
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mixed = Pair { key: pair().key, ..pair() };
    write(&folder, "files", &mixed);
    let files = ["tls.crt", "tls.key"].map(|name| folder.path().join("files").join(name));
    let Err(error) = Certificate::follow(&files[0], &files[1]) else { panic!("it was taken") };
    assert_eq!(error.to_string(), "cannot use the certificate");
}

#[test]
fn a_private_key_is_not_printed() {
    assert!(!format!("{:?}", pair()).contains("PRIVATE KEY"));
}

fn pair() -> Pair {
    let start = OffsetDateTime::now_utc() - Duration::from_mins(1);
    Pair::self_signed(&["localhost".to_owned()], start, Duration::from_hours(1)).unwrap()
}

fn write(folder: &TempDir, name: &str, pair: &Pair) {
    let folder = folder.path().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tls.crt"), &pair.certificate).unwrap();
    fs::write(folder.join("tls.key"), &pair.key).unwrap();
}

async fn serve(config: Arc<ServerConfig>) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = TlsListener::new(listener, config).unwrap();
    let routes = Router::new().route("/", get(async || "hello"));
    (address, tokio::spawn(async { axum::serve(listener, routes).await.unwrap() }))
}

/// Whether a client that trusts only this certificate gets through.
async fn connects(address: SocketAddr, pair: &Pair) -> bool {
    connect(address, pair, &[]).await.is_ok()
}

/// A connection of a client that trusts only this certificate, and speaks only these protocols.
async fn connect(
    address: SocketAddr,
    pair: &Pair,
    protocols: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
