//! The API that the agent adds to the API server.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use liqo_api::keys::object::{API_VERSION, GROUP_METRICS};
use liqo_api::names::ClusterId;
use liqo_kit::keyed::chain;
use liqo_scrape::Subject;
use serde_json::{Value, json};
use tracing::{debug, warn};

use crate::source::Source;

/// All paths of the API.
pub(crate) fn routes(source: Source) -> Router {
    let version = format!("/apis/{GROUP_METRICS}/{API_VERSION}");
    Router::new()
        .route("/", get(async || reply(&resources())))
        .route("/apis", get(async || reply(&groups())))
        .route(&format!("/apis/{GROUP_METRICS}"), get(async || reply(&group())))
        .route(&version, get(async || reply(&resources())))
        .route(&format!("{version}/scrape/{{cluster}}/{{*path}}"), get(scrape))
        .with_state(source)
}

async fn scrape(
    State(source): State<Source>,
    Path((cluster, path)): Path<(String, String)>,
) -> Response {
    let Ok(consumer) = cluster.parse::<ClusterId>() else {
        let text = format!("'{cluster}' is no identifier of a cluster\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let Some(subject) = Subject::of_path(&path) else {
        let text = format!("'{path}' is none of metrics, metrics/cadvisor, /resource, /probes\n");
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match source.scrape(&consumer, subject).await {
        Ok(text) => {
            debug!(%consumer, path, bytes = text.len(), "Scraped");
            ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
        }
        Err(error) => {
            let reason = chain(&error);
            warn!(%consumer, path, reason, "Not scraped");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")).into_response()
        }
    }
}

fn reply(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": API_VERSION,
        "groupVersion": format!("{GROUP_METRICS}/{API_VERSION}"),
        "resources": [{
            "name": "scrape/metrics",
            "singularName": "",
            "namespaced": false,
            "kind": "Scrape",
            "verbs": ["get"],
        }],
    })
}

fn group() -> Value {
    let version = json!({
        "groupVersion": format!("{GROUP_METRICS}/{API_VERSION}"),
        "version": API_VERSION,
    });
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP_METRICS,
        "versions": [version],
        "preferredVersion": version,
    })
}

fn groups() -> Value {
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_presents_itself_as_clients_expect() {
        assert_eq!(resources()["apiVersion"], "v1alpha1");
        assert_eq!(resources()["groupVersion"], "metrics.liqo.io/v1alpha1");
        assert_eq!(resources()["resources"][0]["name"], "scrape/metrics");
        assert_eq!(groups()["groups"][0]["preferredVersion"]["version"], "v1alpha1");
    }
}
