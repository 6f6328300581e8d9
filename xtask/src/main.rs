//! Tasks of the workspace that cargo has no command for: `cargo xtask check` and `cargo xtask gen`.

mod check;
mod generate;
mod path;
mod repository;
mod rust;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::check::Check;
use crate::repository::{Repository, write_generated};

/// The command line.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of this workspace")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks the rules of the code that compilers and linters do not know
    Check {
        /// The rules to check; all of them when none is named
        #[arg(value_enum)]
        only: Vec<Check>,
    },
    /// Writes the files that are made from the code
    Gen,
}

fn main() -> Result<ExitCode> {
    match Args::parse().task {
        Task::Check { only } => check(only),
        Task::Gen => {
            write_generated(&generate::files())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(only: Vec<Check>) -> Result<ExitCode> {
    let checks = if only.is_empty() { Check::ALL.to_vec() } else { only };
    let repository = Repository::read()?;
    let mut clean = true;
    for check in checks {
        let findings = check.run(&repository);
        clean &= findings.is_empty();
        report(check, &findings.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::print_stdout, reason = "the findings are what this program is run for")]
fn report(check: Check, findings: &[String]) {
    if findings.is_empty() {
        println!("check {check}: ok");
    }
    for finding in findings {
        println!("check {check}: {finding}");
    }
}
