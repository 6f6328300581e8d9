//! `uninstall`: removes Liqo, if nothing depends on it.

use std::future::Future;
use std::time::Duration;

use liqo_api::keys::object;
use liqo_install::blockers::Blocker;
use liqo_install::history;
use liqo_release::{Engine, Error};
use serde_json::Value;

use crate::cli::LiqoNamespace;
use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # Remove Liqo, but keep its definitions of custom resources and the namespaces
  liqoctl uninstall
  # Remove everything
  liqoctl uninstall --purge";

/// Removes Liqo from the cluster
///
/// Clusters that are peered with and namespaces that extend to other clusters are in the way, and
/// listed; nothing is removed then. The definitions of custom resources, the tenant namespaces and
/// the namespace of Liqo stay, unless --purge is given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Uninstall {
    #[command(flatten)]
    namespace: LiqoNamespace,
    /// Also remove the definitions of custom resources and all namespaces of Liqo
    #[arg(long)]
    purge: bool,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
}

/// Removes Liqo.
pub async fn run(
    arguments: &Uninstall,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let work = Box::pin(async {
        let namespace = &arguments.namespace.name;
        let step = printer.start("Running pre-uninstall checks");
        let engine = Engine::new(cluster.client.clone(), namespace, &step);
        let blockers = engine.blockers().await.map_err(failed)?;
        let storage = storage_namespace(&engine).await?;
        drop(engine);
        if !blockers.is_empty() {
            drop(step);
            return Err(blocked(&blockers));
        }
        step.done("Pre-uninstall checks passed");

        let step = printer.start("Uninstalling Liqo");
        let engine = Engine::new(cluster.client.clone(), namespace, &step);
        let was_there = engine.uninstall().await.map_err(failed)?;
        let left = engine.left().await.map_err(failed)?;
        drop(engine);
        if !left.is_empty() {
            let failure = Failure::text(format!("still there: {}", left.join(", ")));
            return Err(failure.hint("If no other installation of Liqo needs them, delete them."));
        }
        if was_there {
            step.done("Liqo correctly uninstalled");
        } else {
            drop(step);
            printer.warn(format!("Liqo is not installed in namespace {namespace}"));
        }
        if arguments.purge {
            let step = printer.start("Purging what outlives Liqo");
            let engine = Engine::new(cluster.client.clone(), namespace, &step);
            engine.purge(&storage).await.map_err(failed)?;
            drop(engine);
            step.done("Liqo CRDs and namespaces correctly purged");
        }
        Ok(())
    });
    bounded(arguments.timeout, work).await
}

async fn bounded(
    limit: Duration,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        result = work => result,
        () = tokio::time::sleep(limit) => Err(Failure::text(format!(
            "timed out waiting for the condition: Liqo is not gone after {} s", limit.as_secs()
        ))
        .hint("Run the command again with --verbose to see what it waits for.")),
        () = interrupted() => Err(Failure::text("interrupted")
            .hint("Run the command again to go on.")),
    }
}

/// The namespace of the volumes, as the installation has it.
async fn storage_namespace(engine: &Engine<'_>) -> Result<String, Failure> {
    let history = engine.history().await.map_err(failed)?;
    let values = history::deployed(&history).or(history.last()).map(liqo_chart::Release::values);
    let name = values.as_ref().and_then(|values| values.pointer("/storage/storageNamespace"));
    Ok(name.and_then(Value::as_str).unwrap_or(object::STORAGE_NAMESPACE).to_owned())
}

fn blocked(blockers: &[Blocker]) -> Failure {
    let lines: Vec<String> = blockers.iter().map(|one| format!("- {}", one.line())).collect();
    Failure::text(format!("Liqo cannot be removed yet:\n{}", lines.join("\n")))
}

fn failed(error: Error) -> Failure {
    let hint = matches!(error, Error::Never { .. })
        .then_some("Run the command again once that is resolved; it goes on where it stopped.");
    let failure = Failure::new("Liqo is not uninstalled", error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_in_the_way_is_listed() {
        let (printer, kept) = Printer::memory(false, false);
        blocked(&[
            Blocker::Peering {
                cluster: "milan".to_owned(),
                aspects: vec!["outgoing peering", "networking"],
            },
            Blocker::Offloading { namespace: "shop".to_owned() },
        ])
        .print(&printer);

        let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        insta::assert_snapshot!(text, @"
        ERRO  Liqo cannot be removed yet:
              - cluster milan is still peered with (outgoing peering, networking); run `liqoctl unpeer milan`
              - namespace shop still extends to other clusters; run `liqoctl unoffload namespace shop`
        ");
    }
}
