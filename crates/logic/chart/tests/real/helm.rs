//! The real Helm, built from its sources by the playground's engine, once per machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use liqo_playground::engine;
use liqo_playground::progress::Line;

/// The version of Kubernetes that Helm is told.
pub const KUBERNETES: &str = engine::KUBERNETES;

/// The workspace.
pub static HOME: LazyLock<PathBuf> = LazyLock::new(|| {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(3).expect("a package is in the workspace").to_owned()
});

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let cache = env::var("LIQO_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|_| {
        PathBuf::from(env::var("HOME").expect("there is a home")).join(".cache/liqo")
    });
    let programs = engine::ensure(&HOME, &cache, &[engine::HELM], &Line::silent());
    programs.expect("Helm can be built").join("helm")
});

/// Runs Helm with a home of its own, and at most the given cluster.
pub fn helm(cluster: Option<&str>, arguments: &[&str]) -> Result<Output> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(&*PROGRAM);
    command
        .args(arguments)
        .env("HOME", home.path())
        .env("KUBECONFIG", home.path().join("none"))
        .env_remove("HELM_DRIVER");
    if let Some(address) = cluster {
        command.args(["--kube-apiserver", address, "--kube-token", "none"]);
    }
    command.output().context("run helm")
}
