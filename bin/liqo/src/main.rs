//! Every in-cluster component of Liqo, one subcommand each.

use clap::{Parser, Subcommand};

/// Makes many Kubernetes clusters behave as one.
#[derive(Parser)]
#[command(name = "liqo", version)]
struct Arguments {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    /// Prints the version
    Version,
}

#[expect(clippy::print_stdout, reason = "the version is this command's result")]
fn main() {
    match Arguments::parse().component {
        Component::Version => println!("v{}", env!("CARGO_PKG_VERSION")),
    }
}
