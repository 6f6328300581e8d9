//! `unoffload`: takes a namespace back from other clusters.

use std::pin::pin;
use std::time::Duration;

use clap::Subcommand;
use futures::StreamExt as _;
use kube::api::DeleteParams;
use kube::runtime::watcher::watch_object;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::object;
use liqo_api::offloading::NamespaceOffloading;
use liqo_offloading::progress::{self, Progress};

use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::offload::must_exist;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # Take a namespace back from all other clusters
  liqoctl unoffload namespace shop";

/// Takes namespaces back from other clusters
#[derive(Debug, clap::Args)]
pub struct Unoffload {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Namespace(UnoffloadNamespace),
}

/// Takes a namespace back from other clusters
///
/// Everything in it that lies in other clusters is deleted there, volumes included. Pods that run
/// there are replaced here.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ns", after_help = EXAMPLES)]
struct UnoffloadNamespace {
    /// Name of the namespace
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration)]
    timeout: Duration,
}

/// Takes a namespace back.
pub async fn run(
    arguments: &Unoffload,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let What::Namespace(UnoffloadNamespace { name, timeout }) = &arguments.what;
    let cluster = cluster.connect().await?;
    let api: Api<NamespaceOffloading> = Api::namespaced(cluster.client.clone(), name);
    must_exist(&cluster.client, name).await?;
    match api.delete(object::NAMESPACE_OFFLOADING, &DeleteParams::background()).await {
        Ok(deleted) => {
            let uid = deleted.left().and_then(|left| left.uid());
            printer.success(format!("Offloading of namespace {name} disabled"));
            Box::pin(wait(&api, name, uid.as_deref(), *timeout, printer)).await
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            printer.info(format!("Namespace {name} is not offloaded"));
            Ok(())
        }
        Err(error) => Err(Failure::new(format!("cannot unoffload namespace {name}"), error)),
    }
}

/// Waits until no cluster has the namespace any more.
async fn wait(
    api: &Api<NamespaceOffloading>,
    namespace: &str,
    uid: Option<&str>,
    limit: Duration,
    printer: &Printer,
) -> Result<(), Failure> {
    let mut news = pin!(watch_object(api.clone(), object::NAMESPACE_OFFLOADING));
    let mut deadline = pin!(tokio::time::sleep(limit));
    let mut left: Vec<String> = vec![];
    let mut step = Some(printer.start(format!("Taking namespace {namespace} back")));
    loop {
        let found = tokio::select! {
            Some(found) = news.next() => found,
            () = &mut deadline => {
                drop(step);
                return Err(late(namespace, limit, &left));
            }
            () = interrupted() => {
                drop(step);
                return Err(Failure::text("interrupted").hint("Unoffloading goes on."));
            }
        };
        let Ok(found) = found else { continue };
        let Some(found) = found.filter(|found| found.uid().as_deref() == uid) else {
            drop(step.take());
            printer.success(format!("Namespace {namespace} is in this cluster only"));
            return Ok(());
        };
        if let Progress::Waiting(clusters) = progress::of(&found, None)
            && clusters != left
        {
            let text = format!("Waiting for {} to remove the namespace", clusters.join(", "));
            drop(step.take());
            step = Some(printer.start(text));
            left = clusters;
        }
    }
}

fn late(namespace: &str, limit: Duration, left: &[String]) -> Failure {
    let left = if left.is_empty() { "some cluster".to_owned() } else { left.join(", ") };
    Failure::text(format!(
        "timed out waiting for the condition: {left} still has namespace {namespace} after {} s",
        limit.as_secs()
    ))
    .hint("Something in the namespace there may hold it up; see with `liqoctl status peer` whether the cluster answers.")
    .hint("Unoffloading goes on in the background.")
}
