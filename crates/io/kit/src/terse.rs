//! Writes of which no more is sent back than is not known: metadata.

use std::fmt::Debug;

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use serde::Serialize;

/// Asks an API server for metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

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
    let written: PartialObjectMeta = api.clone().into_client().request(request).await?;
    Ok(written.metadata)
}
