//! Every in-cluster component of Liqo, one subcommand each.

mod cert_creator;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use liqo_kit::args::double_dashes;
use liqo_kit::service;
use tokio::runtime::Builder;

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
    match Arguments::parse_from(run_as(double_dashes(std::env::args()))).component {
        Component::Auth(args) => run(liqo_auth::run(*args)),
        Component::CertCreator(args) => cert_creator::run(&args),
        Component::ControllerManager(args) => run(liqo_controller_manager::run(*args)),
        Component::CrdReplicator(args) => run(liqo_crd_replicator::run(*args)),
        Component::Gateway(args) => run(liqo_gateway::run(*args)),
        Component::MetricAgent(args) => run(liqo_metric_agent::run(*args)),
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

/// Turns the older way to name a component of the network, `--run-as=liqo-gateway`, into ours.
fn run_as(mut words: Vec<String>) -> Vec<String> {
    const FLAG: &str = "--run-as";
    let is_flag = |word: &String| word == FLAG || word.starts_with("--run-as=");
    let Some(at) = words.iter().position(is_flag) else { return words };
    let flag = words.remove(at);
    let named = flag.strip_prefix("--run-as=").map(str::to_owned);
    let component = match named {
        Some(name) => name,
        None if at < words.len() => words.remove(at),
        None => return words,
    };
    // Where the component is named in both ways, the newer one counts.
    if words.get(1).is_none_or(|word| word.starts_with('-')) {
        words.insert(1, component.trim_start_matches("liqo-").to_owned());
    }
    words
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_the_network_are_named_in_two_ways() {
        for line in [
            "liqo gateway --gateway.mtu=1",
            "liqo --run-as=liqo-gateway --gateway.mtu=1",
            "liqo --run-as liqo-gateway --gateway.mtu=1",
            "liqo gateway --gateway.mtu=1 --run-as=liqo-gateway",
        ] {
            let words = line.split(' ').map(str::to_owned).collect();
            assert_eq!(run_as(words), ["liqo", "gateway", "--gateway.mtu=1"], "{line}");
        }
    }
}
