//! This machine: its network namespaces, processes and control groups.
//!
//! Everything a playground makes outside its own folder is made, found and removed here.

pub mod cgroup;
pub mod network;
pub mod process;

use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

/// Why a command did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be started.
    #[error("cannot run {program}; run scripts/setup to install what is missing")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("{command}: {stderr}")]
    Failed {
        /// What was run.
        command: String,
        /// What it complained about.
        stderr: String,
    },
}

/// Runs a command to its end, feeding it `input`, and returns what it printed.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let start = |source| Error::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read its input says itself what is wrong.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(start)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    Err(Error::Failed {
        command: format!("{program} {}", arguments.join(" ")),
        stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
    })
}
