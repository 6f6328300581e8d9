//! Asks the authentication service of a peer who it is, and for an identity there.
//!
//! ```no_run
//! # async fn example() -> Result<(), liqo_handshake::Error> {
//! use liqo_handshake::{Peer, Trust};
//!
//! let peer = Peer::new("https://198.18.0.4:30443", Trust::Anybody, None)?;
//! let ids = peer.ids().await?;
//! # Ok(()) }
//! ```
//!
//! Every failure says what was tried and what would help; see [`Error`].

mod connection;
mod error;
mod trust;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use liqo_api::names::ClusterId;
use liqo_identity::issue::ALREADY_ISSUED;
use liqo_identity::wire::{self, CertificateReply, CertificateRequest, Ids};
use tokio::time::timeout;

use self::connection::{Route, Stream};
pub use self::error::Error;
pub use self::trust::Trust;

/// How long a connection, and an answer to an easy question, may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long an identity may take. The peer waits up to 30 seconds for its signer, and one of an
/// older version does not repeat an answer that nobody waited for.
const LIMIT_TO_SIGN: Duration = Duration::from_secs(35);

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 1 << 20;

/// How much of a strange answer is shown.
const SHOWN: usize = 120;

/// The authentication service of a peer; a clone shares its connection.
#[derive(Clone)]
pub struct Peer {
    url: String,
    route: Route,
    /// The connection that the last question left open.
    open: Arc<Mutex<Option<Line>>>,
}

/// A connection for one question after the other.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// Moves bytes while it is waited for.
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What came back.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Peer {
    /// A peer whose authentication service is at a URL, maybe behind a proxy that takes CONNECT.
    pub fn new(url: &str, trust: Trust, proxy: Option<&str>) -> Result<Self, Error> {
        let route = Route::new(url, trust, proxy)?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, route, open: Arc::default() })
    }

    /// Asks who it is.
    pub async fn ids(&self) -> Result<Ids, Error> {
        let answer = self.ask(Method::GET, wire::IDS, Bytes::new(), LIMIT).await?;
        if answer.status != StatusCode::OK {
            return Err(self.unexpected(&answer));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| self.not_liqo(&answer, Some(&beginning(&answer.body))))
    }

    /// Makes sure that it is a certain cluster, before it is told what only that one may know.
    pub async fn is(&self, expected: &ClusterId) -> Result<(), Error> {
        let found = self.ids().await?.cluster_id;
        if found == expected.as_str() {
            return Ok(());
        }
        let (url, expected) = (self.url.clone(), expected.to_string());
        Err(Error::WrongCluster { url, found, expected })
    }

    /// Asks for an identity, once it is known who that is.
    pub async fn certificate(
        &self,
        request: &CertificateRequest,
    ) -> Result<CertificateReply, Error> {
        let body = serde_json::to_vec(request).map_err(Error::Encode)?;
        let answer = self.ask(Method::POST, wire::CERTIFICATE, body.into(), LIMIT_TO_SIGN).await?;
        let url = || self.url.clone();
        match answer.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED => {
                // What came back may repeat what was sent, so it is not shown.
                serde_json::from_slice(&answer.body).map_err(|_| self.other_version(&answer))
            }
            StatusCode::UNAUTHORIZED => Err(Error::WrongToken {
                url: url(),
                empty: request.destination_cluster_token.is_empty(),
            }),
            StatusCode::FORBIDDEN => {
                let reason = beginning(&answer.body);
                Err(if is_about_a_second_identity(&reason) {
                    Error::AlreadyIssued { url: url(), reason }
                } else {
                    Error::Refused { url: url(), reason }
                })
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
                Err(self.other_version(&answer))
            }
            _ => Err(self.unexpected(&answer)),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, Error> {
        let late = |_| Error::Interrupted { url: self.url.clone(), source: too_long(limit).into() };
        if let Some(line) = self.opened() {
            let exchange = self.exchange(line, &method, path, body.clone());
            // The peer may have closed it meanwhile.
            if let Ok(answer) = timeout(limit, exchange).await.map_err(late)? {
                return Ok(answer);
            }
        }
        let line = self.connect().await?;
        timeout(limit, self.exchange(line, &method, path, body)).await.map_err(late)?
    }

    fn opened(&self) -> Option<Line> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn connect(&self) -> Result<Line, Error> {
        let address = self.route.address();
        let late = |_| Error::Unreachable { address, source: too_long(LIMIT) };
        let stream: Box<dyn Stream> =
            timeout(LIMIT, self.route.connect()).await.map_err(late)??;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|source| self.broken(source))?;
        // What ends a connection early is told by the exchange, too.
        let driver = Box::pin(async { drop(connection.await) });
        Ok(Line { sender, driver })
    }

    /// Asks, and keeps the connection for the next question if it is still there.
    async fn exchange(
        &self,
        mut line: Line,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.route.prefix()))
            .header(HOST, self.route.address())
            .header(USER_AGENT, concat!("liqo/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| Error::Url { url: self.url.clone() })?;
        let Line { sender, driver } = &mut line;
        let exchange = async {
            let response = sender.send_request(request).await;
            let response = response.map_err(|source| self.broken(source))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
            let body = body
                .map_err(|source| Error::Interrupted { url: self.url.clone(), source })?
                .to_bytes();
            Ok(Answer { status, body })
        };
        let (answer, is_open) = alongside(exchange, driver).await;
        let answer = answer?;
        if is_open {
            *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        }
        Ok(answer)
    }

    fn broken(&self, source: hyper::Error) -> Error {
        Error::Interrupted { url: self.url.clone(), source: Box::new(source) }
    }

    /// The error that an answer stands for which no service of Liqo gives for a good request.
    fn unexpected(&self, answer: &Answer) -> Error {
        match answer.status {
            status @ (StatusCode::BAD_REQUEST | StatusCode::TOO_MANY_REQUESTS) => Error::Failed {
                url: self.url.clone(),
                status: status.as_u16(),
                reason: beginning(&answer.body),
            },
            status if status.is_server_error() => Error::Failed {
                url: self.url.clone(),
                status: status.as_u16(),
                reason: beginning(&answer.body),
            },
            _ => self.not_liqo(answer, None),
        }
    }

    fn other_version(&self, answer: &Answer) -> Error {
        Error::OtherVersion { url: self.url.clone(), answer: answer.status.to_string() }
    }

    fn not_liqo(&self, answer: &Answer, text: Option<&str>) -> Error {
        let status = answer.status;
        let answer = match text {
            Some(text) => format!("{status}: {text}"),
            None => status.to_string(),
        };
        Error::NotLiqo { url: self.url.clone(), answer }
    }
}

/// Waits for an exchange while the connection that it needs goes on; whether that is still there.
async fn alongside<T>(
    exchange: impl Future<Output = T>,
    connection: impl Future<Output = ()>,
) -> (T, bool) {
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        result = &mut exchange => return (result, true),
        () = connection => {}
    }
    (exchange.await, false)
}

/// Whether a peer refuses because it has issued an identity before; older versions send nothing
/// when the signing request is the same, and name the mismatch when it is another one.
fn is_about_a_second_identity(reason: &str) -> bool {
    reason.is_empty() || reason.starts_with(ALREADY_ISSUED) || reason.contains("mismatch")
}

/// The first line of an answer, or the beginning of it.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.trim().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

fn too_long(limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_answers_are_shown_in_part() {
        assert_eq!(beginning(b"  <html>\n<body>"), "<html>");
        assert_eq!(beginning("é".repeat(200).as_bytes()).chars().count(), SHOWN + 1);
        assert_eq!(beginning(&[0xff, b'a', 0x07]), "\u{fffd}a…");
    }

    #[test]
    fn a_second_identity_is_told_from_other_refusals() {
        for reason in ["", "an identity has already been issued to cluster x", "CSR mismatch"] {
            assert!(is_about_a_second_identity(reason), "{reason}");
        }
        assert!(!is_about_a_second_identity("namespaces is forbidden"));
    }
}
