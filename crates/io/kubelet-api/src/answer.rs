//! What is answered when something goes wrong, in the words of who knows why.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::core::Status;

/// The longest error that is passed on.
const LIMIT: usize = 64 << 10;

/// How errors are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As plain text: what API servers expect of kubelets, and show to users.
    Text,
    /// As a Status: what those who open streams read.
    Status,
}

impl Form {
    /// An error of ours.
    pub(crate) fn error(self, code: StatusCode, message: &str) -> Response {
        match self {
            Self::Text => (code, format!("{message}\n")).into_response(),
            Self::Status => {
                let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
                let status = Status { code: code.as_u16(), ..Status::failure(message, &reason) };
                let text = serde_json::to_string(&status).unwrap_or_default();
                (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
            }
        }
    }

    /// An error of the other cluster, with its code and its words.
    pub(crate) async fn theirs(self, response: http::Response<kube::client::Body>) -> Response {
        let code = response.status();
        // Whatever it is, it is no success.
        let code = if code.is_success() { StatusCode::BAD_GATEWAY } else { code };
        let body = Limited::new(response.into_body(), LIMIT).collect().await;
        let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let status: Option<Status> = serde_json::from_slice(&bytes).ok();
        match (self, status) {
            (Self::Status, Some(_)) => {
                let json = [(header::CONTENT_TYPE, "application/json")];
                (code, json, Body::from(bytes)).into_response()
            }
            (Self::Text, Some(status)) => self.error(code, &status.message),
            (_, None) => self.error(code, String::from_utf8_lossy(&bytes).trim()),
        }
    }
}
