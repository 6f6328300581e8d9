//! Leaves all peers before Liqo goes: what the chart runs before it is uninstalled.
//!
//! ```text
//! stop discovering ─> both directions of every peering off ─> wait: no tunnel, no virtual node
//!                  ─> delete every ForeignCluster          ─> wait: none left, nothing offloaded
//! ```
//!
//! Both waits end: when the time is over, what is still there is named.

mod wait;

use std::time::Duration;

use clap::Args as ClapArgs;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, PeeringConditionStatus, PeeringConditionType};
use liqo_api::keys::{component, label};
use liqo_api::net::{NetworkConfig, TunnelEndpoint};
use liqo_api::offloading::NamespaceOffloading;
use liqo_kit::args::{ClientArgs, LogArgs};
use liqo_kit::client::{self, Manners};
use liqo_kit::retry::or_gone;
use liqo_kit::service;
use serde_json::json;
use tracing::info;

use self::wait::{Gone, everywhere};

/// Flags of the uninstaller.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Namespace of Liqo
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: String,

    /// How long each of the two waits may take, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub timeout: u64,

    /// How fast it may talk to the API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Why Liqo cannot go yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The API server refused something.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: kube::Error,
    },
    /// Something is still there.
    #[error(transparent)]
    StillThere(#[from] wait::StillThere),
}

/// Leaves all peers, or says what stays.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let Args { namespace, timeout, client, logs } = args;
    service::run("uninstaller", &logs, async |_| {
        let manners = Manners { component: component::PRE_DELETE, limits: client };
        let client = manners.home(None).await?;
        leave(&client, &namespace, Duration::from_secs(timeout)).await
    })
    .await
}

/// Leaves all peers of a cluster.
pub async fn leave(client: &Client, namespace: &str, limit: Duration) -> Result<(), Error> {
    stop_discovery(client, namespace).await?;
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let known = known(&clusters).await?;
    info!(peers = known.len(), "Leaving");
    let off = json!({ "spec": { "incomingPeeringEnabled": "No", "outgoingPeeringEnabled": "No" } });
    try_join_all(known.iter().map(async |name| {
        let params = PatchParams::default();
        or_gone(clusters.patch(name, &params, &Patch::Merge(&off)).await)
            .map_err(|source| Error::Request { action: "turn a peering off", source })
    }))
    .await?;
    Gone::new(limit)
        .until(everywhere::<TunnelEndpoint>(client), "", |_| true)
        .until(everywhere::<NetworkConfig>(client), "", |_| true)
        .until(Api::<Node>::all(client.clone()), &virtual_nodes(), |_| true)
        .until(clusters.clone(), "", is_established)
        .wait()
        .await?;
    info!("No peering is left");
    for name in self::known(&clusters).await? {
        or_gone(clusters.delete(&name, &DeleteParams::background()).await)
            .map_err(|source| Error::Request { action: "delete a ForeignCluster", source })?;
    }
    Gone::new(limit)
        .until(clusters, "", |_| true)
        .until(everywhere::<NamespaceOffloading>(client), "", |_| true)
        .wait()
        .await?;
    info!("Nothing is left");
    Ok(())
}

/// Clusters that are left must not be found again.
async fn stop_discovery(client: &Client, namespace: &str) -> Result<(), Error> {
    let refuse = |source| Error::Request { action: "stop the discovery", source };
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={}", label::APP_NAME, component::DISCOVERY);
    let found = deployments.list(&ListParams::default().labels(&selector)).await.map_err(refuse)?;
    for deployment in found {
        let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
        let scaled =
            deployments.patch_scale(&deployment.name_any(), &PatchParams::default(), &none).await;
        or_gone(scaled).map_err(refuse)?;
    }
    Ok(())
}

async fn known(clusters: &Api<ForeignCluster>) -> Result<Vec<String>, Error> {
    let refuse = |source| Error::Request { action: "list the ForeignClusters", source };
    let found = match clusters.list_metadata(&ListParams::default()).await {
        // Without its definition there is none.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(vec![]),
        found => found.map_err(refuse)?,
    };
    Ok(found.iter().map(kube::ResourceExt::name_any).collect())
}

fn is_established(cluster: &ForeignCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.peering_conditions);
    conditions.into_iter().any(|condition| {
        matches!(
            condition.kind,
            PeeringConditionType::OutgoingPeering | PeeringConditionType::IncomingPeering
        ) && condition.status == PeeringConditionStatus::Established
    })
}

fn virtual_nodes() -> String {
    format!("{}={}", label::TYPE, label::TYPE_VIRTUAL_NODE)
}
