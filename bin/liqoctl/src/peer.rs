//! `peer`: makes another cluster's resources usable here.

pub mod in_band;
mod out_of_band;
pub mod wait;

use std::time::Duration;

use clap::Subcommand;
use kube::Api;
use kube::api::{Patch, PatchParams};
use liqo_api::discovery::{ForeignCluster, PeeringEnabled};
use serde_json::json;

use self::in_band::InBand;
use self::out_of_band::OutOfBand;
use crate::cli::LiqoNamespace;
use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::patience::despite_restarts;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # Use the resources of a cluster that is known already, for instance because it uses ours
  liqoctl peer milan
  # Use the resources of another cluster: run what this prints there
  liqoctl generate peer-command
  # The same through a tunnel, with access to both clusters
  liqoctl peer in-band --context rome --remote-context milan";

/// Peers with another cluster, to use its resources
///
/// The cluster becomes a node of this one. With a subcommand the cluster is introduced first;
/// with just a name, it is one that `kubectl get foreignclusters` shows.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Peer {
    #[command(subcommand)]
    way: Option<Way>,
    #[command(flatten)]
    known: Known,
    #[command(flatten)]
    namespace: LiqoNamespace,
}

#[derive(Debug, Subcommand)]
enum Way {
    OutOfBand(Box<OutOfBand>),
    InBand(Box<InBand>),
}

/// A cluster that is known.
#[derive(Debug, clap::Args)]
pub struct Known {
    /// Name of the ForeignCluster
    #[arg(value_name = "NAME", required = true)]
    pub foreign_cluster: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    pub timeout: Duration,
}

/// Peers.
pub async fn run(
    arguments: &Peer,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let namespace = &arguments.namespace.name;
    if let Some(Way::InBand(way)) = &arguments.way {
        return Box::pin(in_band::run(way, cluster, namespace, printer)).await;
    }
    let cluster = cluster.connect().await?;
    let client = &cluster.client;
    if let Some(Way::OutOfBand(way)) = &arguments.way {
        return Box::pin(out_of_band::run(way, client, namespace, printer)).await;
    }
    let Known { foreign_cluster, timeout } = &arguments.known;
    let name = foreign_cluster.as_deref().unwrap_or_default();
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let asked = want(&clusters, name, PeeringEnabled::Yes, *timeout, printer).await;
    asked.map_err(|error| unknown(name, error))?;
    printer.success(format!("Outgoing peering activated to the remote cluster {name}"));
    Box::pin(wait::until_ready(client, name, *timeout, printer)).await.map_err(wait::Error::failure)
}

/// Says whether resources of a cluster are wanted.
pub async fn want(
    clusters: &Api<ForeignCluster>,
    name: &str,
    wanted: PeeringEnabled,
    limit: Duration,
    printer: &Printer,
) -> kube::Result<()> {
    let change = Patch::Merge(json!({ "spec": { "outgoingPeeringEnabled": wanted } }));
    let patched = despite_restarts(limit, printer, async || {
        clusters.patch(name, &PatchParams::default(), &change).await
    });
    patched.await.map(drop)
}

/// A cluster of this name cannot be had.
pub fn unknown(name: &str, error: kube::Error) -> Failure {
    if matches!(&error, kube::Error::Api(status) if status.code == 404) {
        return Failure::text(format!("there is no ForeignCluster {name}"))
            .hint("See which there are with `kubectl get foreignclusters`.");
    }
    Failure::new(format!("cannot look at the ForeignCluster {name}"), error)
}
