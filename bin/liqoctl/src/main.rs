//! Installs Liqo, looks after it, and removes it.

mod cli;
mod cluster;
mod completion;
mod failure;
mod generate;
mod home;
mod install;
mod interrupt;
mod ipam;
mod offload;
mod patience;
mod peer;
mod printer;
mod sides;
mod status;
mod uninstall;
mod unoffload;
mod unpeer;
mod version;

use std::env;
use std::process::ExitCode;

use self::cli::{Command, Invocation};
use self::failure::Failure;
use self::printer::Printer;

fn main() -> ExitCode {
    let invocation = match Invocation::read(env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Help and versions are answers, not errors.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let printer = Printer::stdout(invocation.arguments.cluster.verbose);
    match run(&invocation, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(&printer);
            ExitCode::FAILURE
        }
    }
}

fn run(invocation: &Invocation, printer: &Printer) -> Result<(), Failure> {
    let arguments = &invocation.arguments;
    // What needs no cluster needs no runtime either.
    if let Command::Completion(command) = &arguments.command {
        return completion::run(command, &invocation.name, printer);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("cannot start", error))?;
    // Only the first provider counts, and there is one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cluster = &arguments.cluster;
    runtime.block_on(async {
        match &arguments.command {
            Command::Install(command) => install::run(command, cluster, printer).await,
            Command::Generate(command) => {
                generate::run(command, &invocation.name, cluster, printer).await
            }
            Command::Peer(command) => peer::run(command, cluster, printer).await,
            Command::Unpeer(command) => unpeer::run(command, cluster, printer).await,
            Command::Offload(command) => offload::run(command, cluster, printer).await,
            Command::Unoffload(command) => unoffload::run(command, cluster, printer).await,
            Command::Status(command) => status::run(command, cluster, printer).await,
            Command::Uninstall(command) => uninstall::run(command, cluster, printer).await,
            Command::Version(command) => version::run(command, cluster, printer).await,
            Command::Completion(_) => Ok(()),
        }
    })
}
