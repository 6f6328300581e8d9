//! Streams into pods: the upgrade that the API server of this cluster asks for is asked of the API
//! server of the other one, and from then on bytes are copied both ways.
//!
//! What the two ends speak (SPDY, WebSocket, whatever comes) is theirs: nothing is read, so terminals
//! are resized, exit codes arrive, and streams may be idle for as long as both ends like.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kube::Client;
use liqo_kit::keyed::chain;
use tokio::io::copy_bidirectional;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::answer::Form;

/// How long the other cluster may take to open a stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the ends agree on when they meet, beside the upgrade itself.
const AGREED: [&str; 5] = [
    "x-stream-protocol-version",
    "sec-websocket-version",
    "sec-websocket-key",
    "sec-websocket-accept",
    "sec-websocket-protocol",
];

/// Opens the same stream at a path of the other cluster, and connects the two.
pub(crate) async fn splice(
    mut request: Request,
    client: &Client,
    target: &str,
    stop: CancellationToken,
) -> Response {
    let Some((here, protocol)) = upgrade_of(&mut request) else {
        let hint = "this is a stream: ask for an upgrade to SPDY or a WebSocket";
        return Form::Status.error(StatusCode::BAD_REQUEST, hint);
    };
    let onward = match onward(&request, &protocol, target) {
        Ok(onward) => onward,
        Err(error) => return Form::Status.error(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let mut response = match timeout(PATIENCE, client.send(onward)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let reason = chain(&error);
            warn!(target, reason, "No stream");
            let message = format!("cannot open a stream in the other cluster: {reason}");
            return Form::Status.error(StatusCode::BAD_GATEWAY, &message);
        }
        Err(_) => {
            let message = "the other cluster did not open a stream in time";
            warn!(target, "No stream: {message}");
            return Form::Status.error(StatusCode::GATEWAY_TIMEOUT, message);
        }
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        debug!(target, code = response.status().as_u16(), "Stream refused");
        return Form::Status.theirs(response).await;
    }
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    carry(response.headers(), answer.headers_mut());
    let there = response.extensions_mut().remove::<OnUpgrade>();
    let target = target.to_owned();
    tokio::spawn(async move { stop.run_until_cancelled(join(here, there, &target)).await });
    answer
}

/// The upgrade that a request asks for, and to what.
fn upgrade_of(request: &mut Request) -> Option<(OnUpgrade, HeaderValue)> {
    let protocol = request.headers().get(header::UPGRADE)?.clone();
    let upgrade = request.extensions_mut().remove::<OnUpgrade>()?;
    Some((upgrade, protocol))
}

/// The request for the same upgrade.
fn onward(
    request: &Request,
    protocol: &HeaderValue,
    target: &str,
) -> http::Result<http::Request<kube::client::Body>> {
    // A WebSocket begins with a GET; everything else needs only the right to create.
    let is_websocket = protocol.as_bytes().eq_ignore_ascii_case(b"websocket");
    let method = if is_websocket { Method::GET } else { Method::POST };
    let mut onward = http::Request::builder()
        .method(method)
        .uri(target)
        .header(header::CONTENT_LENGTH, 0)
        .body(kube::client::Body::empty())?;
    carry(request.headers(), onward.headers_mut());
    if is_websocket {
        onward.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Ok(onward)
}

/// Carries over what the ends agree on.
fn carry(from: &HeaderMap, to: &mut HeaderMap) {
    to.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let agreed = AGREED.map(HeaderName::from_static);
    for name in [header::UPGRADE].into_iter().chain(agreed) {
        for value in from.get_all(&name) {
            to.append(&name, value.clone());
        }
    }
}

/// Copies both ways until both ends are done.
async fn join(here: OnUpgrade, there: Option<OnUpgrade>, target: &str) {
    let Some(there) = there else {
        warn!(target, "The other cluster agreed to a stream, and there is none");
        return;
    };
    let (here, there) = match tokio::try_join!(here, there) {
        Ok(both) => both,
        Err(error) => {
            warn!(target, error = chain(&error), "Stream broke off at its start");
            return;
        }
    };
    let (mut here, mut there) = (TokioIo::new(here), TokioIo::new(there));
    match copy_bidirectional(&mut here, &mut there).await {
        Ok((sent, received)) => debug!(target, sent, received, "Stream ended"),
        Err(error) => debug!(target, %error, "Stream broke off"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_ends_agree_on_is_carried_and_nothing_else() {
        let request = Request::builder()
            .uri("https://10.0.0.1:10250/exec/shop/web/main")
            .header("Upgrade", "SPDY/3.1")
            .header("Connection", "Upgrade, Keep-Alive")
            .header("X-Stream-Protocol-Version", "v5.channel.k8s.io")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .header("Authorization", "Bearer hush")
            .header("Cookie", "hush")
            .body(Body::empty())
            .unwrap();
        let onward = onward(&request, &HeaderValue::from_static("SPDY/3.1"), "/api/v1/x").unwrap();
        assert_eq!((onward.method(), onward.uri().path()), (&Method::POST, "/api/v1/x"));
        let mut headers: Vec<_> = onward
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        assert_eq!(
            headers,
            [
                "connection: Upgrade",
                "content-length: 0",
                "upgrade: SPDY/3.1",
                "x-stream-protocol-version: v4.channel.k8s.io",
                "x-stream-protocol-version: v5.channel.k8s.io",
            ]
        );
    }

    #[test]
    fn a_websocket_begins_with_a_get() {
        let request = Request::builder()
            .method(Method::GET)
            .header("Upgrade", "WebSocket")
            .header("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==")
            .header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
            .body(Body::empty())
            .unwrap();
        let onward = onward(&request, &HeaderValue::from_static("WebSocket"), "/x").unwrap();
        assert_eq!(onward.method(), Method::GET);
        assert_eq!(onward.headers()["sec-websocket-key"], "x3JJHMbDL1EzLkh9GBhXDw==");
        assert_eq!(onward.headers()["sec-websocket-protocol"], "v4.channel.k8s.io");
    }
}
