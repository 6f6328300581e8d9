//! The flags of the replicator.

use clap::Args as ClapArgs;
use jiff::SignedDuration;
use liqo_api::names::{ClusterId, ClusterName};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};

/// Copies custom resources to peers, and their status back
#[derive(ClapArgs, Clone)]
pub struct Args {
    /// Identifier of this cluster
    #[arg(long, value_name = "UUID")]
    pub cluster_id: ClusterId,

    /// Name of this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster_name: ClusterName,

    /// Objects of a kind to work on at once, for each peer
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub workers: u16,

    /// How long a ForeignCluster that is deleted waits for a peer that is out of reach
    #[arg(long = "unreachable-peer-patience", default_value = "20s", value_name = "DURATION")]
    pub patience: SignedDuration,

    /// Where health is told
    #[arg(long, default_value = ":8081", value_name = "[HOST]:PORT")]
    pub health_probe_address: Listen,

    /// Where metrics are shown
    #[arg(long, default_value = ":8080", value_name = "[HOST]:PORT")]
    pub metrics_address: Listen,

    /// Accepted without effect: what is watched needs no second look
    #[arg(long, hide = true)]
    pub resync_period: Option<String>,

    /// How fast to talk to each API server.
    #[command(flatten)]
    pub client: ClientArgs,

    /// What to log.
    #[command(flatten)]
    pub logs: LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use liqo_kit::args::double_dashes;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flags_are_those_that_users_know() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.workers, args.patience.as_secs()), (1, 20));
        let args = parse(&["-workers=4", "-resync-period", "10h", "-v=4"]).unwrap();
        assert_eq!(args.workers, 4);
        assert!(parse(&["--workers=many"]).is_err());
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let id = "--cluster-id=41543714-6e17-4c7b-9bc9-70de7f7ae64f";
        let words = [&["crd-replicator", id, "-cluster-name=rome"], words].concat();
        let words = words.into_iter().map(str::to_owned);
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}
