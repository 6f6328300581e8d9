//! What a cluster says of itself: its identity, its token, and where peers reach it.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{manager, object, secret as field};
use liqo_api::names::{Cluster, ClusterId};
use liqo_identity::token::Token;
use liqo_identity::{address, secret};

use crate::failure::Failure;

const NOT_THERE: &str = "Install Liqo first, or say where it is with --namespace.";

/// Who this cluster is.
pub async fn identity(client: &Client, namespace: &str) -> Result<Cluster, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = "cannot read the identity of this cluster";
    let map = maps.get_opt(object::CLUSTER_ID_CONFIG_MAP).await;
    let map = map.map_err(|error| Failure::new(what, error))?;
    let missing = || {
        Failure::text(format!("{what}: there is no Liqo in namespace {namespace}")).hint(NOT_THERE)
    };
    let data = map.and_then(|map| map.data).ok_or_else(missing)?;
    let entry = |key: &str| data.get(key).cloned().unwrap_or_default();
    let id = entry(field::CLUSTER_ID).parse().map_err(|error| Failure::new(what, error))?;
    let name = entry(field::CLUSTER_NAME).parse().map_err(|error| Failure::new(what, error))?;
    Ok(Cluster { id, name })
}

/// The token that peers have to present here.
pub async fn token(client: &Client, namespace: &str) -> Result<Token, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let what = "cannot read the token of this cluster";
    let found = secrets.get_opt(object::AUTH_TOKEN_SECRET).await;
    let found = found.map_err(|error| Failure::new(what, error))?;
    found.as_ref().and_then(secret::token).ok_or_else(|| {
        Failure::text(format!("{what}: Secret {} is not there yet", object::AUTH_TOKEN_SECRET))
            .hint("See with `liqoctl status` whether liqo-auth runs; it makes the token.")
    })
}

/// Where peers reach the authentication service.
pub async fn auth_url(client: &Client, namespace: &str) -> Result<String, Failure> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let nodes: Api<Node> = Api::all(client.clone());
    let what = "cannot tell where peers reach this cluster";
    let service = services.get(object::AUTH).await.map_err(|error| Failure::new(what, error))?;
    let nodes = nodes.list(&ListParams::default()).await;
    let nodes = nodes.map_err(|error| Failure::new(what, error))?.items;
    address::authentication(&service, &nodes).map_err(|error| Failure::new(what, error))
}

/// Stores the token of another cluster; whether there was none before.
pub async fn store_token(
    client: &Client,
    namespace: &str,
    id: &ClusterId,
    token: &Token,
) -> Result<bool, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let what = "cannot store the token of the cluster";
    let wanted = secret::remote_token(namespace, id, token);
    let name = wanted.name_any();
    let found = secrets.get_opt(&name).await.map_err(|error| Failure::new(what, error))?;
    let is_so = |found: &Secret| {
        secret::token(found).is_some_and(|known| known.reveal() == token.reveal())
            && wanted.labels().iter().all(|(name, value)| found.labels().get(name) == Some(value))
    };
    if found.as_ref().is_some_and(is_so) {
        return Ok(false);
    }
    let params = PatchParams::apply(manager::LIQOCTL).force();
    let written = secrets.patch(&name, &params, &Patch::Apply(&wanted)).await;
    written.map_err(|error| Failure::new(what, error))?;
    Ok(found.is_none())
}
