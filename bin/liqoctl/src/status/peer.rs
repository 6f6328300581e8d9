//! `status peer`: how peerings do.

use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::label;
use liqo_api::net::{NetworkConfig, TunnelEndpoint};
use liqo_api::sharing::ResourceOffer;
use liqo_install::peers::{self, Networks};
use liqo_network_exchange::gateway;

use super::{Format, for_programs};
use crate::failure::Failure;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # How all peerings do
  liqoctl status peer
  # How that with one cluster does, with addresses
  liqoctl status peer milan --verbose";

/// Tells how peerings do
#[derive(Debug, clap::Args)]
#[command(visible_alias = "peers", after_help = EXAMPLES)]
pub struct Peer {
    /// Names of ForeignClusters; all, without one
    #[arg(value_name = "NAME")]
    foreign_clusters: Vec<String>,
}

/// Tells it.
pub async fn run(
    arguments: &Peer,
    client: &Client,
    namespace: &str,
    format: Option<Format>,
    printer: &Printer,
) -> Result<(), Failure> {
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let offers: Api<ResourceOffer> = Api::all(client.clone());
    let configs: Api<NetworkConfig> = Api::all(client.clone());
    let tunnels: Api<TunnelEndpoint> = Api::all(client.clone());
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let all = ListParams::default();
    let gateways = ListParams::default().labels(&format!("{}={}", label::GATEWAY, label::TRUE));
    let lists = tokio::try_join!(
        clusters.list(&all),
        offers.list(&all),
        configs.list(&all),
        tunnels.list(&all),
        services.list(&gateways),
    );
    let (clusters, offers, configs, tunnels, services) =
        lists.map_err(|error| Failure::new("cannot look at peerings", error))?;
    let gateway = services.items.first().and_then(|service| gateway::address(service).ok());
    let networks =
        Networks { configs: &configs.items, tunnels: &tunnels.items, gateway: gateway.as_deref() };
    let names = &arguments.foreign_clusters;
    let reports = peers::report(names, &clusters.items, &offers.items, networks);
    printer.plain(match format {
        Some(format) => for_programs(&reports, format)?,
        None => peers::text(&reports, printer.is_verbose(), printer.style()),
    });
    // Who is missing has been told.
    if reports.iter().all(|report| report.found) { Ok(()) } else { Err(Failure::text("")) }
}
