//! The controller manager: peerings, offers, virtual nodes and namespaces of one cluster.
//!
//! All replicas serve webhooks; the controllers run in one of them.

mod approver;
pub mod args;
mod controllers;
mod error;
mod foreign;
mod marks;
mod monitor;
mod offer;
mod offloading;
mod plugin;
mod probe;
mod reader;
mod request;
mod routes;
mod virtual_node;
pub mod webhooks;
mod world;

use std::future::Future;
use std::sync::Arc;

use kube::Client;
use liqo_api::keys::object;
use liqo_kit::client::{self, Manners};
use liqo_kit::leader::{self, BadTiming, Candidate, Lost, Timing};
use liqo_kit::service::{self, Service};

pub use self::args::Args;
use self::plugin::Plugin;

/// Why the controller manager ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its servers could not start.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// Webhooks cannot be served.
    #[error(transparent)]
    Webhooks(#[from] webhooks::Error),
    /// The resource plugin cannot be reached.
    #[error(transparent)]
    Plugin(#[from] Box<error::Error>),
    /// Leader election is set up wrong.
    #[error(transparent)]
    Timing(#[from] BadTiming),
    /// Another replica leads.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Runs the controller manager until it is told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::CONTROLLER_MANAGER, &logs, |service| start(args, service)).await
}

async fn start(args: Args, service: Service) -> Result<(), Error> {
    service.serve_health(&args.process.health_probe_address).await?;
    service.serve_metrics(&args.process.metrics_address).await?;
    let manners = Manners { component: object::CONTROLLER_MANAGER, limits: args.client };
    let client = manners.home(None).await?;
    // Replicas that do not lead are ready as well: they serve webhooks.
    let synced = service.health.ready.add("controllers");
    if args.process.enable_leader_election {
        synced.pass();
    }
    let announced = service.health.ready.add("webhooks");
    let (namespace, port) = (&args.home.liqo_namespace, args.process.webhook_port);
    let enforced = args.sharing.enable_resource_enforcement;
    let quota = enforced.then(|| webhooks::count(&client, &service));
    webhooks::serve(&client, namespace, port, quota.clone(), &service, announced).await?;
    let plugin = match args.sharing.resource_plugin_address.as_str() {
        "" => None,
        address => Some(Arc::new(Plugin::connect(address).await.map_err(Box::new)?)),
    };
    let controllers = controllers::run(&args, &client, &service, plugin, quota, synced);
    if args.process.enable_leader_election {
        lead(&args, client.clone(), &service, controllers).await
    } else {
        controllers.await;
        Ok(())
    }
}

async fn lead(
    args: &Args,
    client: Client,
    service: &Service,
    work: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (lease, identity) = (object::CONTROLLER_MANAGER_LEASE, leader::own_identity());
    let namespace = &args.home.liqo_namespace;
    let candidate = Candidate::new(client, namespace, lease, identity, Timing::default())?;
    candidate.lead(&service.stop, work).await?;
    Ok(())
}
