//! Every in-cluster component of Liqo, one subcommand each.

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use liqo_kit::args::double_dashes;
use tokio::runtime::Builder;
mod cert_creator;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use liqo_kit::args::double_dashes;
use liqo_kit::service;

/// Makes many Kubernetes clusters behave as one.
#[derive(Parser)]
#[command(name = "liqo", version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    /// Runs the controllers: peerings, offers, virtual nodes
    #[command(args_override_self = true)]
    ControllerManager(Box<liqo_controller_manager::Args>),
    /// Shows consumers the metrics of the pods they run here
    #[command(args_override_self = true)]
    MetricAgent(Box<liqo_metric_agent::Args>),
    /// Carries peers' connections to the API server, for peerings inside the tunnel
    #[command(args_override_self = true)]
    Proxy(Box<liqo_proxy::Args>),
    /// Leaves all peers before Liqo goes
    #[command(args_override_self = true)]
    Uninstaller(Box<liqo_uninstaller::Args>),
    /// Runs a virtual node: what another cluster lends, as a node of this one
    #[command(args_override_self = true)]
    VirtualKubelet(Box<liqo_virtual_kubelet::Args>),
    Auth(Box<liqo_auth::Args>),
    CertCreator(cert_creator::Args),
    /// Prints the version
    Version,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse_from(double_dashes(std::env::args()));
    let runtime = Builder::new_current_thread().enable_all().build().context("start a runtime")?;
    runtime.block_on(run(arguments.component))
}

#[expect(clippy::print_stdout, reason = "the version is this command's result")]
async fn run(component: Component) -> anyhow::Result<()> {
    match component {
        Component::ControllerManager(args) => liqo_controller_manager::run(*args).await?,
        Component::MetricAgent(args) => liqo_metric_agent::run(*args).await?,
        Component::Proxy(args) => liqo_proxy::run(*args).await?,
        Component::Uninstaller(args) => liqo_uninstaller::run(*args).await?,
        Component::VirtualKubelet(args) => liqo_virtual_kubelet::run(*args).await?,
        Component::Version => println!("v{}", env!("CARGO_PKG_VERSION")),
fn main() -> ExitCode {
    match Arguments::parse_from(double_dashes(std::env::args())).component {
        Component::Auth(args) => run(liqo_auth::run(*args)),
        Component::CertCreator(args) => cert_creator::run(&args),
        Component::Version => {
            println!("v{}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}

/// Runs a component to its end, which it has logged itself.
#[expect(clippy::print_stderr, reason = "nothing logs yet when the runtime cannot start")]
fn run(component: impl Future<Output = Result<(), service::Error>>) -> ExitCode {
    // One thread is enough for what waits most of the time, and needs less memory.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(component) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("cannot start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
    Ok(())
}
