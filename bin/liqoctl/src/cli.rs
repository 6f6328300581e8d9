//! The tree of commands.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use liqo_api::keys::object;

use crate::cluster::ClusterArguments;
use crate::{
    completion, generate, install, offload, peer, status, uninstall, unoffload, unpeer, version,
};

/// Name of the executable.
const NAME: &str = "liqoctl";
/// Name of the executable as a plugin of kubectl, and how that is called.
const PLUGIN: (&str, &str) = ("kubectl-liqo", "kubectl liqo");

const EXAMPLES: &str = "\
Examples:
  # Install Liqo in the cluster of the current context, made with kind
  liqoctl install kind --cluster-name rome
  # See how it does
  liqoctl status
  # Remove it
  liqoctl uninstall";

/// Installs Liqo, looks after it, and removes it.
///
/// Liqo makes many Kubernetes clusters feel like one: clusters peer with each other, and each
/// becomes a node of the other.
#[derive(Debug, Parser)]
#[command(name = NAME, version = concat!("v", env!("CARGO_PKG_VERSION")), after_help = EXAMPLES)]
#[command(disable_help_subcommand = true, styles = STYLES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Install(Box<install::Install>),
    Generate(generate::Generate),
    Peer(peer::Peer),
    Unpeer(unpeer::Unpeer),
    Offload(offload::Offload),
    Unoffload(unoffload::Unoffload),
    Status(status::Status),
    Uninstall(uninstall::Uninstall),
    Version(version::Version),
    Completion(completion::Completion),
}

/// Which installation is meant.
#[derive(Clone, Debug, clap::Args)]
pub struct LiqoNamespace {
    /// Namespace of Liqo
    #[arg(short, long = "namespace", value_name = "NAME", default_value = object::NAMESPACE)]
    #[arg(global = true)]
    pub name: String,
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::White.on_default().bold())
    .usage(AnsiColor::White.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// A command line, read.
#[derive(Debug)]
pub struct Invocation {
    /// How the executable was called.
    pub name: String,
    /// What it was told.
    pub arguments: Arguments,
}

impl Invocation {
    /// Reads a command line.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let name = words.first().map_or(NAME, |word| called(Path::new(word)));
        let matches = command(name).try_get_matches_from(words)?;
        let arguments = Arguments::from_arg_matches(&matches)?;
        Ok(Self { name: name.to_owned(), arguments })
    }
}

/// The tree of commands, as an executable of this name shows it.
pub fn command(name: &str) -> clap::Command {
    rename(Arguments::command(), name).bin_name(name.to_owned())
}

/// Writes another name into all examples.
fn rename(command: clap::Command, name: &str) -> clap::Command {
    let examples = command.get_after_help().map(|text| text.to_string().replace(NAME, name));
    let command = match examples {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    command.mut_subcommands(|inner| rename(inner, name))
}

/// How the user called us.
fn called(executable: &Path) -> &'static str {
    let (file, shown) = PLUGIN;
    if executable.file_stem().is_some_and(|name| name == file) { shown } else { NAME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_sound() {
        command(NAME).debug_assert();
    }

    #[test]
    fn a_plugin_shows_how_kubectl_calls_it() {
        let read = |words: &[&str]| Invocation::read(words.iter().map(OsString::from));
        let help = read(&["/usr/bin/kubectl-liqo", "install", "kind", "--help"]);
        let help = help.unwrap_err().to_string();

        assert!(help.contains("Usage: kubectl liqo install kind"), "{help}");
        assert!(help.contains("  kubectl liqo install kind --cluster-name"), "{help}");
        assert!(!help.contains("liqoctl"), "{help}");
    }

    #[test]
    fn flags_may_come_before_or_after_the_kind_of_cluster() {
        let read = |words: &[&str]| {
            let words = [&["liqoctl", "install"], words].concat();
            let read = Invocation::read(words.iter().map(OsString::from)).unwrap();
            format!("{:?}", read.arguments)
        };
        let after = read(&["kind", "--cluster-name", "rome", "-n", "x", "--context", "c"]);
        let before = read(&["--cluster-name", "rome", "-n", "x", "--context", "c", "kind"]);

        assert_eq!(after, before);
    }

    #[test]
    fn an_upgrade_is_an_installation() {
        let words = ["liqoctl", "upgrade", "k3s"].map(OsString::from);

        assert!(matches!(Invocation::read(words).unwrap().arguments.command, Command::Install(_)));
    }
}
