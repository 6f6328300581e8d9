//! `install`: installs Liqo, or changes how it is installed.

mod chart;
mod check;
mod flags;
mod identity;
mod provider;
mod screen;

use std::fs;
use std::path::Path;

use liqo_chart::{Chart, Overrides, Values, to_yaml};
use liqo_install::provider::Facts;
use liqo_install::sanity;
use liqo_release::{Engine, Wanted};

use self::flags::Flags;
pub use self::flags::Install;
use self::identity::Identity;
use self::provider::Found;
use crate::cluster::{Cluster, ClusterArguments};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::printer::Printer;

/// Installs or upgrades Liqo.
pub async fn run(
    arguments: &Install,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let flags = &arguments.flags;
    let step = printer.start("Initializing the installer");
    let cluster = cluster.connect().await?;
    sanity::kubernetes(&cluster.kubernetes).map_err(Failure::text)?;
    let chart = chart::load(flags)?;
    if !flags.only_output_values {
        check::permissions(&cluster, &flags.namespace.name).await?;
    }
    step.done(format!("Installer initialized: Kubernetes {}", cluster.kubernetes));

    let step = printer.start("Retrieving the cluster's configuration");
    let found = arguments.provider()?.look(&cluster).await?;
    let facts = facts(flags, &found, &cluster)?;
    let identity = Identity::find(&cluster.client, &flags.namespace.name).await?;
    let name = flags.cluster_name.clone().or_else(|| identity.name.clone());
    let name = name.unwrap_or_else(|| liqo_install::name::generate(rand::random()));
    if !flags.skip_validation {
        sanity::cluster(&name, &identity.id).map_err(Failure::text)?;
        check::networks(&cluster, &facts).await?;
    }
    step.done(format!(
        "Cluster configuration retrieved: pods in {}, services in {}",
        facts.pod_cidr, facts.service_cidr
    ));

    let step = printer.start("Generating the installation parameters");
    let values = values(flags, &chart, &facts, &identity, name)?;
    step.done("Installation parameters generated");

    if flags.only_output_values {
        return write_values(&flags.dump_values_path, &values, printer);
    }
    deploy(flags, &cluster, &chart, &values, printer).await
}

/// What is known of the cluster, with the user's words about its API server.
fn facts(flags: &Flags, found: &Found, cluster: &Cluster) -> Result<Facts, Failure> {
    let Found { provider, pod_cidr, service_cidr, api_server } = found.clone();
    let compare = provider.compares_with_kubeconfig() && !flags.disable_api_server_sanity_check;
    let trust = provider.trusts_kubeconfig();
    let api_server = sanity::api_server(api_server.as_deref(), &cluster.url, trust, compare)
        .map_err(Failure::text)?;
    if !flags.skip_validation {
        sanity::networks(pod_cidr, service_cidr).map_err(Failure::text)?;
    }
    Ok(Facts { provider, pod_cidr, service_cidr, api_server })
}

/// The values: what was found out and asked for, then the user's files, then the user's settings.
fn values(
    flags: &Flags,
    chart: &Chart,
    facts: &Facts,
    identity: &Identity,
    name: String,
) -> Result<Values, Failure> {
    let wishes = flags.wishes(identity.id.clone(), name).map_err(Failure::text)?;
    let wrong = |error: liqo_chart::Error| Failure::new("the values make no sense", error);
    let mut overrides = Overrides::default();
    let own = wishes.values(facts).map_err(|error| Failure::new("the values clash", error))?;
    overrides.value(own).map_err(wrong)?;
    for path in &flags.values {
        let text = fs::read_to_string(path);
        let text =
            text.map_err(|error| Failure::new(format!("cannot read {}", path.display()), error))?;
        overrides.file(&path.display().to_string(), &text).map_err(wrong)?;
    }
    for expression in &flags.set {
        overrides.set(expression).map_err(wrong)?;
    }
    let values = Values::new(chart, &overrides).map_err(wrong)?;
    identity.check(values.all(), flags.skip_validation).map_err(Failure::text)?;
    Ok(values)
}

fn write_values(path: &Path, values: &Values, printer: &Printer) -> Result<(), Failure> {
    fs::write(path, format!("{}\n", to_yaml(values.all())))
        .map_err(|error| Failure::new(format!("cannot write {}", path.display()), error))?;
    printer.success(format!("All set: the values are in {}", path.display()));
    Ok(())
}

async fn deploy(
    flags: &Flags,
    cluster: &Cluster,
    chart: &Chart,
    values: &Values,
    printer: &Printer,
) -> Result<(), Failure> {
    let namespace = &flags.namespace.name;
    let step = printer.start("Installing or upgrading Liqo (this may take a few minutes)");
    let engine = Engine::new(cluster.client.clone(), namespace, &step);
    let wanted = Wanted { chart, values, kubernetes: &cluster.kubernetes };
    let prepared = engine.prepare(&wanted).await;
    let prepared = prepared.map_err(|error| Failure::new("Liqo is not installed", error))?;
    if flags.dry_run {
        drop(engine);
        drop(step);
        printer.plain(screen::dry_run(&prepared, values.given()));
        return Ok(());
    }
    let result = engine.install(&prepared, flags.timeout, interrupted).await;
    drop(engine);
    match result {
        Ok(outcome) => {
            drop(step);
            screen::success(&outcome, namespace, values.all(), printer);
            Ok(())
        }
        Err(failed) => {
            drop(step);
            Err(screen::failure(&failed, printer.is_verbose()))
        }
    }
}
