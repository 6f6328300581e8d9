//! Copies custom resources to peers, and their status back.
//!
//! ```text
//!  ForeignClusters ──> clusters ──one per peer──> session ──one per kind──> copy
//!                         ^                                                  │  ^
//!  sources, by kind ──────┴──────────────────────────────────────────────────┘  │
//!  replicas at the peer, by kind ───────────────────────────────────────────────┘
//! ```
//!
//! Sources are watched once for all peers; replicas once per peer and kind, and only while there is
//! something to copy. Peers share nothing, so one that is dead holds up nobody else.

mod args;
mod clusters;
mod copy;
mod local;
mod orphans;
mod session;

use std::sync::Arc;

use kube::Client;
use liqo_api::discovery::ResourceRequest;
use liqo_api::keys::object;
use liqo_api::net::NetworkConfig;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::client::{self, Manners};
use liqo_kit::service::{self, Service};

pub use self::args::Args;
use self::clusters::Clusters;
use self::copy::Runs;
use self::local::Local;
use self::session::{Home, Kinds};

/// Why the replicator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An address is not to be had.
    #[error(transparent)]
    Listen(#[from] service::Error),
}

/// Runs the replicator until it is told to end.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::CRD_REPLICATOR, &logs, async |service| {
        let manners = Manners { component: object::CRD_REPLICATOR, limits: args.client };
        let client = manners.home(None).await?;
        replicate(service, args, client, manners).await
    })
    .await
}

async fn replicate(
    service: Service,
    args: Args,
    client: Client,
    manners: Manners,
) -> Result<(), Error> {
    let Args {
        cluster_id,
        cluster_name: _,
        workers,
        patience,
        health_probe_address,
        metrics_address,
        resync_period: _,
        client: _,
        logs: _,
    } = args;
    service.serve_health(&health_probe_address).await?;
    service.serve_metrics(&metrics_address).await?;

    // They end with this function: whatever is under way is safe to leave half-way.
    let tasks = Arc::new(service.tasks.child());
    let kinds = Kinds {
        requests: Local::<ResourceRequest>::follow(&client, &tasks),
        offers: Local::<ResourceOffer>::follow(&client, &tasks),
        maps: Local::<NamespaceMap>::follow(&client, &tasks),
        networks: Local::<NetworkConfig>::follow(&client, &tasks),
    };
    let home = Home {
        id: cluster_id,
        client: client.clone(),
        manners,
        workers,
        patience,
        runs: Runs::register(&service.metrics),
        tasks,
    };
    let ready = service.health.ready.add("watches");
    let clusters = Clusters::new(client, home, kinds);
    Box::pin(service.stop.run_until_cancelled(clusters.run(ready))).await;
    Ok(())
}
