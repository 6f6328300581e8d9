//! `version`: of this program, and of Liqo in the cluster.

use liqo_chart::Release;
use liqo_install::history;
use liqo_release::Engine;
use serde_json::Value;

use crate::cli::LiqoNamespace;
use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::printer::Printer;

/// Version of this program.
pub const CLIENT: &str = concat!("v", env!("CARGO_PKG_VERSION"));

const EXAMPLES: &str = "\
Examples:
  # Of this program and of Liqo in the cluster
  liqoctl version
  # Of this program alone, without a cluster
  liqoctl version --client";

/// Prints the versions of this program and of Liqo in the cluster
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Version {
    #[command(flatten)]
    namespace: LiqoNamespace,
    /// Do not ask the cluster
    #[arg(long)]
    client: bool,
}

/// Prints them.
pub async fn run(
    arguments: &Version,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    printer.plain(format!("Client version: {CLIENT}"));
    if arguments.client {
        return Ok(());
    }
    let cluster = cluster.connect().await?;
    let namespace = &arguments.namespace.name;
    let step = printer.start("Asking the cluster");
    let history = Engine::new(cluster.client, namespace, &step).history().await;
    drop(step);
    let history =
        history.map_err(|error| Failure::new("cannot tell the server's version", error))?;
    let release = history::deployed(&history).or(history.last()).ok_or_else(|| {
        let text = format!("Liqo is not installed in namespace {namespace}");
        let hint = "Install it with `liqoctl install`, or name its namespace with --namespace.";
        Failure::text(text).hint(hint)
    })?;
    printer.plain(format!("Server version: {}", server(release)));
    Ok(())
}

/// The version of what is installed.
pub fn server(release: &Release) -> String {
    let version = release.metadata().map(|metadata| metadata.app_version);
    let tag = || release.values().get("tag").and_then(Value::as_str).map(str::to_owned);
    version.filter(|version| !version.is_empty()).or_else(tag).unwrap_or_else(|| "unknown".into())
}
