//! Runs a virtual node: what another cluster lends, as a node of this one.
//!
//! ```text
//! ResourceOffer ─┐
//! ForeignCluster ┼─> one key ─> keeper ─> Node, its status; when the offer goes: pods out, Node gone
//! TunnelEndpoint ┤              lease  ─> Lease, while the node is there
//! Node, its pods ┘
//! ```

mod args;
mod keeper;
mod lease;

use std::sync::Arc;

use futures::stream::StreamExt as _;
use kube::Client;
use liqo_api::keys::object;
use liqo_kit::client::{self, Manners};
use liqo_kit::keyed::Queue;
use liqo_kit::service::{self, Service};
use liqo_kit::watch::Key;
use liqo_virtual_node::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::args::Args;
use self::keeper::{Keeper, Sources};

/// Why a virtual kubelet ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The version of this cluster is not to be had.
    #[error("cannot ask the API server for its version")]
    Version(#[source] kube::Error),
    /// A server cannot be started.
    #[error(transparent)]
    Service(#[from] service::Error),
}

/// Runs a virtual node until told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run("virtual-kubelet", &logs, async |service: Service| {
        let manners = Manners { component: object::VIRTUAL_KUBELET, limits: args.client };
        let client = manners.home(args.home_kubeconfig.as_deref()).await?;
        if args.metrics_enabled {
            service.serve_metrics(&args.metrics_address).await?;
        }
        serve(client, &args, service.stop).await
    })
    .await
}

/// The same on a given cluster.
pub async fn serve(client: Client, args: &Args, stop: CancellationToken) -> Result<(), Error> {
    let version = client.apiserver_version().await.map_err(Error::Version)?;
    let settings = Settings {
        name: args.nodename.clone(),
        provider: args.foreign_cluster_id.clone(),
        address: args.node_ip,
        port: args.listen_port,
        version: version.git_version,
        labels: args.node_extra_labels.0.clone(),
        annotations: args.node_extra_annotations.0.clone(),
        checks_network: args.node_check_network,
    };
    info!(node = settings.name, cluster = %settings.provider, "Showing");
    let (sources, touched) = Sources::watch(&client, &args.tenant_namespace, &settings);
    let (renewal, renewed) = watch::channel(None);
    let lease = lease::Lease {
        client: client.clone(),
        duration: args.node_lease_duration,
        node: settings.name.clone(),
    };
    let keeper = Arc::new(Keeper::new(client, args, settings, sources, renewal));
    let node = Key::cluster(args.nodename.clone());
    let touched = touched.map(move |()| node.clone()).take_until(stop.clone().cancelled_owned());
    let keeping = Queue::new("node").run(touched, |_| Arc::clone(&keeper).keep());
    tokio::join!(keeping, stop.run_until_cancelled(lease.keep(renewed)));
    Ok(())
}
