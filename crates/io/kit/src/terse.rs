//! Writes of which no more is sent back than is not known: metadata.
//!
//! Nor is more looked for: fields that an API server does not know it drops in silence, where it would
//! otherwise read the object the slow way to name them in a warning.

use std::fmt::Debug;

use http::header::ACCEPT;
use http::uri::InvalidUri;
use http::{HeaderValue, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use serde::Serialize;

/// Asks an API server for metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Asks an API server not to look for fields that it does not know.
const UNCHECKED: &str = "fieldValidation=Ignore";

/// Makes an object.
pub async fn create<K: Resource + Clone + Serialize>(
    api: &Api<K>,
    params: &PostParams,
    object: &K,
) -> kube::Result<ObjectMeta> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(params, body);
    send(api, request.map_err(kube::Error::BuildRequest)?).await
}

/// Changes the status of an object.
pub async fn patch_status<K: Resource + Clone, P: Serialize + Debug>(
    api: &Api<K>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<P>,
) -> kube::Result<ObjectMeta> {
    let request = Request::new(api.resource_url());
    let request = request.patch_subresource("status", name, params, patch);
    send(api, request.map_err(kube::Error::BuildRequest)?).await
}

async fn send<K: Resource + Clone>(
    api: &Api<K>,
    mut request: http::Request<Vec<u8>>,
) -> kube::Result<ObjectMeta> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA));
    let address = unchecked(request.uri()).map_err(|error| kube::Error::Service(error.into()))?;
    *request.uri_mut() = address;
    let written: PartialObjectMeta = api.clone().into_client().request(request).await?;
    Ok(written.metadata)
}

fn unchecked(address: &Uri) -> Result<Uri, InvalidUri> {
    let query = address.query().map(|query| query.trim_start_matches('&'));
    let query = query.filter(|query| !query.is_empty()).map(|query| format!("{query}&"));
    format!("{}?{}{UNCHECKED}", address.path(), query.unwrap_or_default()).parse()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request as HttpRequest, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn nobody_looks_for_unknown_fields_and_metadata_comes_back() {
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&asked);
        let server = tower::service_fn(move |request: HttpRequest<Body>| {
            let said = (request.uri().to_string(), request.headers()[ACCEPT].clone());
            seen.lock().unwrap().push(said);
            let answer = json!({ "metadata": { "name": "a", "uid": "u" } });
            async move {
                Ok::<_, kube::Error>(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        let api: Api<ConfigMap> = Api::namespaced(Client::new(server, "ns"), "ns");
        let map = ConfigMap::default();
        let named = PostParams { field_manager: Some("me".to_owned()), ..PostParams::default() };
        create(&api, &PostParams::default(), &map).await.unwrap();
        create(&api, &named, &map).await.unwrap();
        let patch = Patch::Merge(json!({}));
        let made = patch_status(&api, "a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(made.uid.as_deref(), Some("u"));
        let asked = asked.lock().unwrap();
        let addresses: Vec<_> = asked.iter().map(|(address, _)| address.as_str()).collect();
        assert_eq!(
            addresses,
            [
                "/api/v1/namespaces/ns/configmaps?fieldValidation=Ignore",
                "/api/v1/namespaces/ns/configmaps?fieldManager=me&fieldValidation=Ignore",
                "/api/v1/namespaces/ns/configmaps/a/status?fieldValidation=Ignore",
            ]
        );
        assert!(asked.iter().all(|(_, accepted)| accepted == METADATA));
    }
}
