//! `unpeer in-band`: parts two clusters that talk through the tunnel between them, and takes it down.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, PeeringEnabled};
use liqo_peering::in_band::{self, Refusal};

use super::node_gone;
use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::interrupt::repeatable;
use crate::ipam::Ipam;
use crate::peer::in_band::Other;
use crate::peer::{unknown, want};
use crate::printer::Printer;
use crate::sides::{Side, Sides, Time};

const EXAMPLES: &str = "\
Examples:
  # Part two clusters, in both directions, and take the tunnel down
  liqoctl unpeer in-band --context consumer --remote-context provider
  # Give resources back in one direction only, and keep the tunnel
  liqoctl unpeer provider --context consumer";

/// Parts two clusters that talk through the tunnel, and takes it down
///
/// Resources are given back in both directions; pods come home first.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ib", after_help = EXAMPLES)]
pub struct InBand {
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    other: Other,
}

/// Unpeers.
pub async fn run(
    arguments: &InBand,
    cluster: &ClusterArguments,
    namespace: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    repeatable(Box::pin(unpeer(arguments, cluster, namespace, printer))).await
}

async fn unpeer(
    arguments: &InBand,
    cluster: &ClusterArguments,
    namespace: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    let time = Time::of(arguments.timeout);
    let other = &arguments.other;
    let far = other.arguments.cluster(printer.is_verbose());
    let sides = Sides::find((cluster, namespace), (&far, &other.remote_namespace), printer).await?;
    let pairs = [(&sides.local, &sides.remote), (&sides.remote, &sides.local)];
    let mut known = vec![];
    for (side, other) in pairs {
        match find(side, other).await? {
            Some(cluster) => known.push((side, other, cluster)),
            None => {
                side.printer.warn(format!("The cluster {} is not known here", other.cluster.name));
            }
        }
    }
    for (side, _, cluster) in &known {
        disable(side, cluster, time).await?;
    }
    for (side, _, cluster) in &known {
        Box::pin(given_back(side, cluster, time)).await?;
    }
    // What is left of the talk between the clusters goes through what is exported.
    for (side, _, cluster) in &known {
        forget(side, cluster, time).await?;
    }
    for (side, other) in pairs {
        // They go with the tunnel at the latest.
        if let Err(failure) = take_back(side, other).await {
            failure.about(side.scope).print(printer);
        }
    }
    for (side, other) in pairs {
        disconnect(side, other, time).await?;
    }
    Ok(())
}

/// The ForeignCluster of the other one; a name that somebody else has is no problem here.
async fn find(side: &Side, other: &Side) -> Result<Option<ForeignCluster>, Failure> {
    match side.look_up(&other.cluster).await? {
        Ok(found) => Ok(found),
        Err(refusal @ Refusal::OutOfBand(_)) => {
            Err(Failure::text(&refusal).about(side.scope).hint("Use `liqoctl unpeer out-of-band`."))
        }
        Err(Refusal::Taken(_) | Refusal::Same(_) | Refusal::ExternalNetwork) => Ok(None),
    }
}

async fn disable(side: &Side, cluster: &ForeignCluster, time: Time) -> Result<(), Failure> {
    let name = cluster.name_any();
    let clusters: Api<ForeignCluster> = Api::all(side.client.clone());
    match want(&clusters, &name, PeeringEnabled::No, time.left(), &side.printer).await {
        Ok(()) => side
            .printer
            .success(format!("Outgoing peering to the remote cluster {name} marked as disabled")),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(unknown(&name, error).about(side.scope)),
    }
    Ok(())
}

async fn given_back(side: &Side, cluster: &ForeignCluster, time: Time) -> Result<(), Failure> {
    let name = cluster.name_any();
    let step = side.printer.start(format!("Waiting for the end of both directions with {name}"));
    let clusters: Api<ForeignCluster> = Api::all(side.client.clone());
    let waiting = async {
        let is_over = |found: Option<&ForeignCluster>| found.is_none_or(in_band::is_idle);
        let over = await_condition(clusters, &name, is_over).await;
        over.map_err(|error| {
            side.failure(format!("cannot watch the ForeignCluster {name}"), error)
        })?;
        node_gone(&side.client, cluster).await.map_err(|failure| failure.about(side.scope))
    };
    let what = format!("resources are still in use between the {} cluster and {name}", side.scope);
    let check = format!("See what it waits for: `kubectl describe foreigncluster {name}`.");
    time.bound(what, check, Box::pin(waiting)).await?;
    step.done(format!("Neither this cluster nor {name} uses resources of the other"));
    Ok(())
}

/// Takes the services back that the other cluster reached.
async fn take_back(side: &Side, other: &Side) -> Result<(), Failure> {
    let inside = side.services().await?;
    let mut ipam = Ipam::connect(&side.client, &side.namespace).await?;
    ipam.unmap(&other.cluster.id, inside.proxy.address).await?;
    ipam.unmap(&other.cluster.id, inside.auth.address).await?;
    side.printer.success(format!("Services are not exported to {} any more", other.cluster.name));
    Ok(())
}

async fn forget(side: &Side, cluster: &ForeignCluster, time: Time) -> Result<(), Failure> {
    let name = cluster.name_any();
    let step = side.printer.start(format!("Forgetting the cluster {name}"));
    let clusters: Api<ForeignCluster> = Api::all(side.client.clone());
    match clusters.delete(&name, &DeleteParams::background()).await {
        Ok(_) => side.gone(&clusters, cluster, time).await?,
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(unknown(&name, error).about(side.scope)),
    }
    step.done(format!("ForeignCluster {name} deleted"));
    Ok(())
}

/// Deletes the namespace of the other cluster, and with it all that was said about networks.
async fn disconnect(side: &Side, other: &Side, time: Time) -> Result<(), Failure> {
    let namespaces: Api<Namespace> = Api::all(side.client.clone());
    for tenant in side.tenants(&other.cluster.id).await? {
        let name = tenant.name_any();
        let step = side.printer.start(format!("Taking the tunnel to {} down", other.cluster.name));
        match namespaces.delete(&name, &DeleteParams::background()).await {
            Ok(_) => side.gone(&namespaces, &tenant, time).await?,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                return Err(side.failure(format!("cannot delete the namespace {name}"), error));
            }
        }
        step.done(format!("Namespace {name} deleted, and the tunnel with it"));
    }
    Ok(())
}
