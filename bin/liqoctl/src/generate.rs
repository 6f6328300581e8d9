//! `generate`: prints commands for other clusters.

use clap::Subcommand;
use liqo_api::names::Cluster;
use liqo_identity::token::Token;

use crate::cli::LiqoNamespace;
use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::home;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # What another cluster has to run to use this one
  liqoctl generate peer-command
  # For scripts
  $(KUBECONFIG=provider liqoctl generate peer-command --only-command) --kubeconfig consumer";

/// Prints commands for other clusters
#[derive(Debug, clap::Args)]
pub struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    PeerCommand(PeerCommand),
}

/// Prints the command that peers another cluster with this one
///
/// Whoever has it can use resources of this cluster: it holds its token.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct PeerCommand {
    #[command(flatten)]
    namespace: LiqoNamespace,
    /// Print the command and nothing else
    #[arg(long)]
    only_command: bool,
}

/// Prints it.
pub async fn run(
    arguments: &Generate,
    executable: &str,
    cluster: &ClusterArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let What::PeerCommand(arguments) = &arguments.what;
    let cluster = cluster.connect().await?;
    let (client, namespace) = (&cluster.client, &arguments.namespace.name);
    let (identity, token, url) = tokio::try_join!(
        home::identity(client, namespace),
        home::token(client, namespace),
        home::auth_url(client, namespace),
    )?;
    printer.plain(text(executable, &identity, &url, &token, arguments.only_command));
    Ok(())
}

fn text(executable: &str, cluster: &Cluster, url: &str, token: &Token, bare: bool) -> String {
    let Cluster { id, name } = cluster;
    let command = format!(
        "{executable} peer out-of-band {name} --auth-url {url} --cluster-id {id} --auth-token {}",
        token.reveal()
    );
    if bare {
        return command;
    }
    format!("Run this for the cluster that is to use {name}:\n\n{command}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_ready_to_be_typed_elsewhere() {
        let cluster = Cluster {
            id: "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap(),
            name: "milan".parse().unwrap(),
        };
        let token = Token::known("t0ken").unwrap();
        let bare = text("kubectl liqo", &cluster, "https://198.18.2.11:30443", &token, true);
        insta::assert_snapshot!(bare, @"kubectl liqo peer out-of-band milan --auth-url https://198.18.2.11:30443 --cluster-id 2cb4110a-c5e6-4a52-851d-d0e0d86c9174 --auth-token t0ken");
        let whole = text("kubectl liqo", &cluster, "https://198.18.2.11:30443", &token, false);
        assert!(whole.contains(&bare), "{whole}");
    }
}
