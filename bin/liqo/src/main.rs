//! Every in-cluster component of Liqo, one subcommand each.

mod cert_creator;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use liqo_kit::args::double_dashes;
use liqo_kit::service;

/// Makes many Kubernetes clusters behave as one.
#[derive(Parser)]
#[command(name = "liqo", version)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    Auth(Box<liqo_auth::Args>),
    CertCreator(cert_creator::Args),
    CrdReplicator(Box<liqo_crd_replicator::Args>),
    /// Prints the version
    Version,
}

#[expect(clippy::print_stdout, reason = "the version is this command's result")]
fn main() -> ExitCode {
    match Arguments::parse_from(double_dashes(std::env::args())).component {
        Component::Auth(args) => run(liqo_auth::run(*args)),
        Component::CertCreator(args) => cert_creator::run(&args),
        Component::CrdReplicator(args) => run(liqo_crd_replicator::run(*args)),
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
}
