//! `status`: how Liqo does in this cluster.

mod peer;

use std::collections::BTreeMap;
use std::fmt::Debug;

use clap::{Subcommand, ValueEnum};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Service};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use liqo_api::keys::{object, secret};
use liqo_api::net::IpamStorage;
use liqo_chart::{Chart, Release, to_yaml};
use liqo_install::history;
use liqo_install::status::{Report, Seen, report};
use liqo_release::{Engine, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::LiqoNamespace;
use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # How Liqo does
  liqoctl status
  # With the images of all components
  liqoctl status --verbose
  # For programs
  liqoctl status --output json
  # How the peering with another cluster does
  liqoctl status peer milan";

/// Tells how Liqo does in this cluster
///
/// Ends with an error when something does not work.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Status {
    #[command(flatten)]
    namespace: LiqoNamespace,
    /// Print it for programs
    #[arg(short, long, value_name = "FORMAT", value_enum, global = true)]
    output: Option<Format>,
    #[command(subcommand)]
    about: Option<About>,
}

#[derive(Debug, Subcommand)]
enum About {
    Peer(peer::Peer),
}

/// How it is printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

/// Tells it.
pub async fn run(
    arguments: &Status,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    if let Some(About::Peer(about)) = &arguments.about {
        let namespace = &arguments.namespace.name;
        let told = peer::run(about, &cluster.client, namespace, arguments.output, printer);
        return Box::pin(told).await;
    }
    let step = printer.start("Looking at Liqo");
    let namespace = &arguments.namespace.name;
    let engine = Engine::new(cluster.client.clone(), namespace, &step);
    let values = values(&engine).await?;
    drop(engine);
    let seen = Box::pin(look(&cluster.client, namespace, values)).await;
    drop(step);
    let report = report(&seen?);
    printer.plain(text(&report, arguments.output, printer)?);
    // What is wrong has been told.
    if report.healthy { Ok(()) } else { Err(Failure::text("")) }
}

fn text(report: &Report, format: Option<Format>, printer: &Printer) -> Result<String, Failure> {
    match format {
        Some(format) => for_programs(report, format),
        None => Ok(report.text(printer.is_verbose(), printer.style())),
    }
}

/// Something for programs.
pub fn for_programs(report: &impl Serialize, format: Format) -> Result<String, Failure> {
    let unfit = |error| Failure::new("cannot print it", error);
    match format {
        Format::Json => serde_json::to_string_pretty(report).map_err(unfit),
        Format::Yaml => serde_json::to_value(report).map(|value| to_yaml(&value)).map_err(unfit),
    }
}

/// The values of the installation; those of the chart, if it is not on record or may not be read.
async fn values(engine: &Engine<'_>) -> Result<Value, Failure> {
    let history = match engine.history().await {
        Err(Error::Request { source, .. }) if is_refusal(&source) => vec![],
        other => other.map_err(|error| Failure::new("cannot tell the status", error))?,
    };
    if let Some(release) = history::deployed(&history).or(history.last()) {
        return Ok(Release::values(release));
    }
    let defaults = Chart::embedded().and_then(|chart| chart.defaults());
    defaults.map_err(|error| Failure::new("cannot use the built-in chart", error))
}

async fn look(client: &Client, namespace: &str, values: Value) -> Result<Seen, Failure> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    let space = spaces.get_opt(namespace).await;
    let space =
        space.map_err(|error| Failure::new(format!("cannot look at {namespace}"), error))?;
    let mut seen = Seen { namespace: namespace.to_owned(), values, ..Seen::default() };
    if space.is_none() {
        return Ok(seen);
    }
    seen.exists = true;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let nodes: Api<Node> = Api::all(client.clone());
    let storage: Api<IpamStorage> = Api::all(client.clone());
    let all = ListParams::default();
    let (deployments, daemon_sets, pods, map, auth, gateway, nodes, storage) = tokio::join!(
        own(client, namespace),
        own(client, namespace),
        own(client, namespace),
        maps.get_opt(object::CLUSTER_ID_CONFIG_MAP),
        services.get_opt(object::AUTH),
        services.get_opt(object::GATEWAY),
        nodes.list(&all),
        storage.list(&all),
    );
    let failed = |error| Failure::new(format!("cannot look at namespace {namespace}"), error);
    seen.deployments = deployments?;
    seen.daemon_sets = daemon_sets?;
    seen.pods = pods?.into_values().collect();
    seen.identity = map.map_err(failed)?.and_then(identity);
    seen.auth = auth.map_err(failed)?;
    seen.gateway = gateway.map_err(failed)?;
    seen.nodes = nodes.map_err(|error| Failure::new("cannot list nodes", error))?.items;
    // Without the definition there is none either.
    seen.ipam = storage.ok().and_then(|list| list.items.into_iter().next()).map(|one| one.spec);
    Ok(seen)
}

/// Objects in the namespace, by name.
async fn own<K>(client: &Client, namespace: &str) -> Result<BTreeMap<String, K>, Failure>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let what = format!("cannot list {} in {namespace}", K::plural(&()));
    let list = api.list(&ListParams::default()).await;
    let list = list.map_err(|error| Failure::new(what, error))?;
    Ok(list.into_iter().map(|one| (one.name_any(), one)).collect())
}

fn identity(map: ConfigMap) -> Option<(String, String)> {
    let mut data = map.data?;
    Some((data.remove(secret::CLUSTER_ID)?, data.remove(secret::CLUSTER_NAME)?))
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
