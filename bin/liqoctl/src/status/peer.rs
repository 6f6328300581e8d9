//! `status peer`: how peerings do.

use kube::api::ListParams;
use kube::{Api, Client};
use liqo_api::discovery::ForeignCluster;
use liqo_api::sharing::ResourceOffer;
use liqo_install::peers;

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
    format: Option<Format>,
    printer: &Printer,
) -> Result<(), Failure> {
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let offers: Api<ResourceOffer> = Api::all(client.clone());
    let all = ListParams::default();
    let lists = tokio::try_join!(clusters.list(&all), offers.list(&all));
    let (clusters, offers) =
        lists.map_err(|error| Failure::new("cannot look at peerings", error))?;
    let reports = peers::report(&arguments.foreign_clusters, &clusters.items, &offers.items);
    printer.plain(match format {
        Some(format) => for_programs(&reports, format)?,
        None => peers::text(&reports, printer.is_verbose(), printer.style()),
    });
    // Who is missing has been told.
    if reports.iter().all(|report| report.found) { Ok(()) } else { Err(Failure::text("")) }
}
