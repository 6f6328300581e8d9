//! Makes an object, and has no more of it sent back than is not known: its metadata.

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{PartialObjectMeta, PostParams};
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
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA));
    let made: PartialObjectMeta = api.clone().into_client().request(request).await?;
    Ok(made.metadata)
}
