//! Every in-cluster component of Liqo, one subcommand each.

mod cert_creator;
mod liqonet;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use liqo_kit::args::double_dashes;
use liqo_kit::service;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Builder;

/// What a thousand pods took is given back when they are gone.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Makes many Kubernetes clusters behave as one.
#[derive(Parser)]
#[command(name = "liqo", version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
#[command(args_override_self = true)]
enum Component {
    /// Tells peers who this cluster is, and issues them identities
    Auth(Box<liqo_auth::Args>),
    /// Makes the certificate of a server that peers or the API server call
    CertCreator(cert_creator::Args),
    /// Runs the controllers: peerings, offers, virtual nodes
    ControllerManager(Box<liqo_controller_manager::Args>),
    /// Copies custom resources to peers, and their status back
    CrdReplicator(Box<liqo_crd_replicator::Args>),
    /// Joins this cluster to its peers by tunnels
    Gateway(Box<liqo_gateway::Args>),
    /// Shows consumers the metrics of the pods they run here
    MetricAgent(Box<liqo_metric_agent::Args>),
    /// Tells peers of this cluster's network, and keeps all networks and addresses apart
    NetworkManager(Box<liqo_network_manager::Args>),
    /// Carries peers' connections to the API server, for peerings inside the tunnel
    Proxy(Box<liqo_proxy::Args>),
    /// Leads packets of a node to the gateway and back
    Route(Box<liqo_route::Args>),
    /// Leaves all peers before Liqo goes
    Uninstaller(Box<liqo_uninstaller::Args>),
    /// Runs a virtual node: what another cluster lends, as a node of this one
    VirtualKubelet(Box<liqo_virtual_kubelet::Args>),
    /// Prints the version
    Version,
}

#[expect(clippy::print_stdout, reason = "the version is this command's result")]
fn main() -> ExitCode {
    let words = liqonet::resolved(double_dashes(std::env::args()));
    match Arguments::parse_from(words).component {
        Component::Auth(args) => run(liqo_auth::run(*args)),
        Component::CertCreator(args) => cert_creator::run(&args),
        Component::ControllerManager(args) => run(liqo_controller_manager::run(*args)),
        Component::CrdReplicator(args) => run(liqo_crd_replicator::run(*args)),
        Component::Gateway(args) => run(liqo_gateway::run(*args)),
        Component::MetricAgent(args) => run(liqo_metric_agent::run(*args)),
        Component::NetworkManager(args) => run(liqo_network_manager::run(*args)),
        Component::Proxy(args) => run(liqo_proxy::run(*args)),
        Component::Route(args) => run(liqo_route::run(*args)),
        Component::Uninstaller(args) => run(liqo_uninstaller::run(*args)),
        Component::VirtualKubelet(args) => run(liqo_virtual_kubelet::run(*args)),
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
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(component) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("cannot start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}
