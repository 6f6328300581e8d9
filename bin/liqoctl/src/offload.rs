//! `offload`: extends a namespace to other clusters.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use liqo_api::keys::{annotation, object};
use liqo_api::offloading::{
    NamespaceMappingStrategy, NamespaceOffloading, NamespaceOffloadingSpec, PodOffloadingStrategy,
};
use liqo_offloading::progress::{self, Progress};
use liqo_offloading::syntax;
use serde_json::json;

use crate::cluster::{ClusterArguments, duration};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::patience::despite_restarts;
use crate::printer::Printer;
use crate::status::{Format, for_programs};

const EXAMPLES: &str = "\
Examples:
  # Extend a namespace to all clusters that this one peers with
  liqoctl offload namespace shop
  # Run its pods only in clusters of one region, which have the namespace under the same name
  liqoctl offload namespace shop --pod-offloading-strategy Remote \\
    --namespace-mapping-strategy EnforceSameName --selector 'topology.liqo.io/region=south'
  # Either of two regions, without clusters that are for tests
  liqoctl offload ns shop -l 'region in (europe,us-west), !staging' -l 'region=asia, !staging'
  # Print the object, to be applied later
  liqoctl offload namespace shop --output yaml";

const MAPPING: &str =
    "What the namespace is called elsewhere; it cannot change [default: DefaultName]";

/// Extends namespaces to other clusters
#[derive(Debug, clap::Args)]
pub struct Offload {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Namespace(Box<OffloadNamespace>),
}

/// Extends a namespace to other clusters, or changes how it extends
///
/// Clusters are selected by the labels of their virtual nodes; all are, without a selector. Services,
/// configuration and so on are there in every selected cluster; where pods run is up to the pod
/// offloading strategy. Pods that run already stay where they are.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ns", after_help = EXAMPLES)]
struct OffloadNamespace {
    /// Name of the namespace
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// Where pods may run
    #[arg(long, value_name = "STRATEGY", value_enum, ignore_case = true)]
    #[arg(default_value_t = Pods::LocalAndRemote)]
    pod_offloading_strategy: Pods,
    #[arg(long, value_name = "STRATEGY", value_enum, ignore_case = true, help = MAPPING)]
    namespace_mapping_strategy: Option<Mapping>,
    /// Labels that clusters have to have, as kubectl selects; given more than once, any may match
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// Evict pods that are where they may not be any more
    #[arg(long)]
    evict_violating_pods: bool,
    /// Bind pods that only one cluster may take as they are created, with strategy Remote
    ///
    /// Nobody but that cluster looks whether there is room then. Pods that take more than a look at
    /// nodes, such as those with volume claims, are scheduled as ever.
    #[arg(long)]
    skip_scheduler: bool,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    timeout: Duration,
    /// Print the object instead
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
}

/// Where pods may run.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Pods {
    /// Here and in other clusters
    LocalAndRemote,
    /// In other clusters only
    Remote,
    /// Here only
    Local,
}

/// What a namespace is called elsewhere.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Mapping {
    /// As here, followed by the name of this cluster
    DefaultName,
    /// As here
    EnforceSameName,
}

/// Extends a namespace.
pub async fn run(
    arguments: &Offload,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let What::Namespace(arguments) = &arguments.what;
    let wanted = arguments.object()?;
    if let Some(format) = arguments.output {
        let mut shown = wanted;
        shown.metadata.namespace = Some(arguments.name.clone());
        printer.plain(for_programs(&shown, format)?.trim_end());
        return Ok(());
    }
    let cluster = cluster.connect().await?;
    let api: Api<NamespaceOffloading> = Api::namespaced(cluster.client.clone(), &arguments.name);
    must_exist(&cluster.client, &arguments.name).await?;
    let written = Box::pin(write(&api, wanted, arguments, printer)).await?;
    let generation = written.metadata.generation;
    Box::pin(wait(&api, generation, arguments, printer)).await
}

/// Makes sure that there is such a namespace.
pub async fn must_exist(client: &Client, name: &str) -> Result<(), Failure> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let what = format!("cannot look at namespace {name}");
    match namespaces.get_metadata_opt(name).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Failure::text(format!("there is no namespace {name}"))
            .hint("See which there are with `kubectl get namespaces`.")),
        // Who may not look may still be allowed to offload.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(Failure::new(what, error)),
    }
}

impl OffloadNamespace {
    /// The object that is wanted.
    fn object(&self) -> Result<NamespaceOffloading, Failure> {
        let selector = syntax::any_of(&self.selectors).map_err(|error| {
            Failure::text(error).hint("Selectors are those of kubectl: `kubectl get nodes -l …`.")
        })?;
        let spec = NamespaceOffloadingSpec {
            namespace_mapping_strategy: match self.namespace_mapping_strategy {
                Some(Mapping::EnforceSameName) => NamespaceMappingStrategy::EnforceSameName,
                Some(Mapping::DefaultName) | None => NamespaceMappingStrategy::DefaultName,
            },
            pod_offloading_strategy: match self.pod_offloading_strategy {
                Pods::LocalAndRemote => PodOffloadingStrategy::LocalAndRemote,
                Pods::Remote => PodOffloadingStrategy::Remote,
                Pods::Local => PodOffloadingStrategy::Local,
            },
            cluster_selector: Some(selector),
        };
        if self.skip_scheduler && spec.pod_offloading_strategy != PodOffloadingStrategy::Remote {
            return Err(Failure::text(
                "--skip-scheduler is for pods that have no choice, and these may run here as well",
            )
            .hint("Add `--pod-offloading-strategy Remote`."));
        }
        let mut wanted = NamespaceOffloading::new(object::NAMESPACE_OFFLOADING, spec);
        let asked = [
            (self.evict_violating_pods, annotation::EVICT_VIOLATING_PODS),
            (self.skip_scheduler, annotation::SKIP_SCHEDULER),
        ];
        let asked: BTreeMap<_, _> = asked
            .into_iter()
            .filter(|(is_asked, _)| *is_asked)
            .map(|(_, name)| (name.to_owned(), "true".to_owned()))
            .collect();
        wanted.metadata.annotations = (!asked.is_empty()).then_some(asked);
        Ok(wanted)
    }
}

async fn write(
    api: &Api<NamespaceOffloading>,
    mut wanted: NamespaceOffloading,
    arguments: &OffloadNamespace,
    printer: &Printer,
) -> Result<NamespaceOffloading, Failure> {
    let namespace = &arguments.name;
    let failed = |error| Failure::new(format!("cannot offload namespace {namespace}"), error);
    let known = api.get_opt(object::NAMESPACE_OFFLOADING).await.map_err(failed)?;
    if let Some(known) = &known {
        if known.metadata.deletion_timestamp.is_some() {
            return Err(Failure::text(format!("namespace {namespace} is being unoffloaded"))
                .hint(format!("Wait until it is: `liqoctl unoffload namespace {namespace}`.")));
        }
        let (before, after) = (&known.spec, &mut wanted.spec);
        if arguments.namespace_mapping_strategy.is_none() {
            after.namespace_mapping_strategy = before.namespace_mapping_strategy;
        }
        let is_stricter = after.pod_offloading_strategy != before.pod_offloading_strategy
            && after.pod_offloading_strategy != PodOffloadingStrategy::LocalAndRemote;
        if is_stricter && !arguments.evict_violating_pods {
            printer.warn(
                "Pods that run already stay where they are, even where they may not be any more; \
                 --evict-violating-pods has them moved",
            );
        }
    }
    let written = despite_restarts(arguments.timeout, printer, async || match &known {
        Some(_) => {
            let annotations = &wanted.metadata.annotations;
            let change = match annotations {
                Some(_) => {
                    json!({ "metadata": { "annotations": annotations }, "spec": wanted.spec })
                }
                None => json!({ "spec": wanted.spec }),
            };
            let change = Patch::Merge(change);
            api.patch(object::NAMESPACE_OFFLOADING, &PatchParams::default(), &change).await
        }
        None => api.create(&PostParams::default(), &wanted).await,
    });
    let written = written.await.map_err(|error| {
        let is_unknown = matches!(&error, kube::Error::Api(status) if status.code == 404);
        let failure = failed(error);
        if is_unknown {
            failure.hint("See with `liqoctl status` whether Liqo is installed.")
        } else {
            failure
        }
    })?;
    let verb = if known.is_some() { "changed" } else { "enabled" };
    printer.success(format!("Offloading of namespace {namespace} {verb}"));
    Ok(written)
}

/// Waits until the namespace is where it should be.
async fn wait(
    api: &Api<NamespaceOffloading>,
    generation: Option<i64>,
    arguments: &OffloadNamespace,
    printer: &Printer,
) -> Result<(), Failure> {
    let namespace = &arguments.name;
    let mut news = pin!(watch_object(api.clone(), object::NAMESPACE_OFFLOADING));
    let mut deadline = pin!(tokio::time::sleep(arguments.timeout));
    let mut told = Progress::Waiting(vec![]);
    let mut step =
        Some(printer.start(format!("Waiting for namespace {namespace} to be offloaded")));
    loop {
        let found = tokio::select! {
            Some(found) = news.next() => found,
            () = &mut deadline => {
                drop(step);
                return Err(late(namespace, arguments.timeout, &told));
            }
            () = interrupted() => {
                drop(step);
                return Err(Failure::text("interrupted").hint("The offloading goes on."));
            }
        };
        // Interruptions are overcome.
        let Ok(found) = found else { continue };
        let Some(found) = found else {
            drop(step);
            return Err(Failure::text(format!("somebody unoffloaded namespace {namespace}")));
        };
        let now = progress::of(&found, generation);
        if now == told {
            continue;
        }
        // The line before has to go before the next one is there.
        drop(step.take());
        match &now {
            Progress::Waiting(clusters) => {
                let clusters = clusters.join(", ");
                step =
                    Some(printer.start(format!("Waiting for namespace {namespace} at {clusters}")));
            }
            Progress::Done(name, clusters) => {
                printer.success(format!(
                    "Namespace {namespace} extends to {} as {name}",
                    clusters.join(", ")
                ));
                return Ok(());
            }
            Progress::Nowhere => {
                printer
                    .warn(format!("Namespace {namespace} extends to no cluster: none is selected"));
                printer.info(
                    "See the labels that select clusters with `kubectl get nodes --selector \
                     liqo.io/type=virtual-node --show-labels`.",
                );
                return Ok(());
            }
            Progress::Failed(clusters) => {
                let lines: String =
                    clusters.iter().map(|(name, why)| format!("\n- {name}: {why}")).collect();
                return Err(Failure::text(format!(
                    "namespace {namespace} cannot be offloaded to every selected cluster{lines}"
                ))
                .hint(format!(
                    "It is tried again; if the name is taken there, remove the other namespace, or \
                     unoffload and take another mapping strategy: `liqoctl unoffload namespace \
                     {namespace}`."
                )));
            }
        }
        told = now;
    }
}

fn late(namespace: &str, limit: Duration, told: &Progress) -> Failure {
    let (waiting, hint) = match told {
        Progress::Waiting(clusters) if clusters.is_empty() => (
            "nobody has looked at it".to_owned(),
            "See with `liqoctl status` whether liqo-controller-manager runs.",
        ),
        Progress::Waiting(clusters) => (
            format!("it is not there yet at {}", clusters.join(", ")),
            "See with `liqoctl status peer` whether these clusters answer.",
        ),
        Progress::Done(..) | Progress::Nowhere | Progress::Failed(_) => (String::new(), ""),
    };
    Failure::text(format!(
        "timed out waiting for the condition: namespace {namespace} is not offloaded after {} s, \
         {waiting}",
        limit.as_secs()
    ))
    .hint(hint)
    .hint("The offloading goes on in the background.")
}
