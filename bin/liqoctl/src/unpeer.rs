//! `unpeer`: gives another cluster's resources back.

mod in_band;

use std::future::Future;
use std::time::Duration;

use clap::Subcommand;
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus, PeeringConditionType, PeeringEnabled, PeeringType,
};

use self::in_band::InBand;
use crate::cli::LiqoNamespace;
use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::peer::{Known, unknown, want};
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # Give the resources of a cluster back, and forget the cluster
  liqoctl unpeer out-of-band milan
  # Give them back, but know the cluster for the next time
  liqoctl unpeer milan
  # Part two clusters that talk through a tunnel
  liqoctl unpeer in-band --context rome --remote-context milan";

/// Unpeers from another cluster, giving its resources back
///
/// Pods that run there come home first. What the other cluster uses of this one stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Unpeer {
    #[command(subcommand)]
    way: Option<Way>,
    #[command(flatten)]
    known: Known,
    #[command(flatten)]
    namespace: LiqoNamespace,
}

#[derive(Debug, Subcommand)]
enum Way {
    /// Gives the resources of a cluster back, and forgets the cluster
    #[command(visible_alias = "oob")]
    OutOfBand(Known),
    InBand(Box<InBand>),
}

/// Unpeers.
pub async fn run(
    arguments: &Unpeer,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let (known, forget) = match &arguments.way {
        Some(Way::InBand(way)) => {
            return Box::pin(in_band::run(way, cluster, &arguments.namespace.name, printer)).await;
        }
        Some(Way::OutOfBand(known)) => (known, true),
        None => (&arguments.known, false),
    };
    let cluster = cluster.connect().await?;
    let name = known.foreign_cluster.as_deref().unwrap_or_default();
    let work = Box::pin(unpeer(&cluster.client, name, forget, printer));
    bounded(known.timeout, name, work).await
}

async fn unpeer(
    client: &Client,
    name: &str,
    forget: bool,
    printer: &Printer,
) -> Result<(), Failure> {
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let found = clusters.get(name).await.map_err(|error| unknown(name, error))?;
    if forget && found.spec.peering_type != PeeringType::OutOfBand {
        return Err(Failure::text(format!("the cluster {name} is peered with inside the tunnel"))
            .hint("Use `liqoctl unpeer in-band`."));
    }
    // The whole command is bounded by its caller.
    let limit = Duration::from_hours(24);
    let asked = want(&clusters, name, PeeringEnabled::No, limit, printer).await;
    asked.map_err(|error| unknown(name, error))?;
    printer.success(format!("Outgoing peering to the remote cluster {name} marked as disabled"));
    let step = printer.start(format!("Giving the resources of the cluster {name} back"));
    let waiting = |error| Failure::new(format!("cannot watch the ForeignCluster {name}"), error);
    let disabled = await_condition(clusters.clone(), name, is_given_back);
    let after = disabled.await.map_err(waiting)?;
    node_gone(client, &found).await?;
    step.done(format!("Resources of the cluster {name} are given back"));
    if !forget {
        return Ok(());
    }
    if after.is_some_and(|after| incoming(&after) != PeeringConditionStatus::None) {
        printer.warn(format!("The cluster {name} still uses resources of this one"));
        printer.warn("Its ForeignCluster stays until it unpeers, too");
        return Ok(());
    }
    let step = printer.start(format!("Forgetting the cluster {name}"));
    let deleted = clusters.delete(name, &DeleteParams::background()).await;
    let uid = match deleted {
        Ok(deleted) => deleted.left().and_then(|one| one.uid()),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(unknown(name, error)),
    };
    if let Some(uid) = uid {
        await_condition(clusters, name, is_deleted(&uid)).await.map_err(waiting)?;
    }
    step.done(format!("ForeignCluster {name} deleted"));
    Ok(())
}

/// Waits until the virtual node of a cluster is gone.
async fn node_gone(client: &Client, cluster: &ForeignCluster) -> Result<(), Failure> {
    let known = cluster.spec.cluster_identity.as_ref().map(|identity| &identity.cluster_name);
    let called = known.filter(|known| !known.is_empty()).cloned();
    let called = called.unwrap_or_else(|| cluster.name_any());
    let nodes: Api<Node> = Api::all(client.clone());
    let gone = |node: Option<&Node>| node.is_none();
    let gone = await_condition(nodes, &format!("liqo-{called}"), gone).await;
    gone.map(drop).map_err(|error| Failure::new("cannot watch the virtual node", error))
}

fn is_given_back(cluster: Option<&ForeignCluster>) -> bool {
    cluster.is_none_or(|cluster| {
        let status = cluster.status.as_ref();
        let conditions = status.map(|status| &*status.peering_conditions).unwrap_or_default();
        peering_status(conditions, PeeringConditionType::OutgoingPeering)
            == PeeringConditionStatus::None
    })
}

fn incoming(cluster: &ForeignCluster) -> PeeringConditionStatus {
    let status = cluster.status.as_ref();
    let conditions = status.map(|status| &*status.peering_conditions).unwrap_or_default();
    peering_status(conditions, PeeringConditionType::IncomingPeering)
}

async fn bounded(
    limit: Duration,
    name: &str,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        result = work => result,
        () = tokio::time::sleep(limit) => Err(Failure::text(format!(
            "timed out waiting for the condition: the resources of {name} are not given back after {} s",
            limit.as_secs()
        ))
        .hint(format!("See what it waits for: `kubectl describe foreigncluster {name}`."))),
        () = interrupted() => Err(Failure::text("interrupted").hint("Unpeering goes on.")),
    }
}
