//! The flags of the authentication service.

use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs};
use liqo_api::names::{ClusterId, ClusterName, NamespaceName};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};

/// Tells peers who this cluster is, and issues them identities
#[derive(ClapArgs, Clone)]
pub struct Args {
    /// Identifier of this cluster
    #[arg(long, value_name = "UUID")]
    pub cluster_id: ClusterId,

    /// Name of this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster_name: ClusterName,

    /// Namespace that this component runs in
    #[arg(long, default_value = "default")]
    pub namespace: NamespaceName,

    /// Address to serve at
    #[arg(long, default_value = ":5000", value_name = "[HOST]:PORT")]
    pub address: Listen,

    /// Serve over TLS
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", value_name = "BOOL")]
    pub enable_tls: bool,

    /// Certificate for TLS; watched, so it may change
    #[arg(long, default_value = "/certs/cert.pem", value_name = "FILE")]
    pub cert_path: PathBuf,

    /// Private key for TLS
    #[arg(long, default_value = "/certs/key.pem", value_name = "FILE")]
    pub key_path: PathBuf,

    /// Ask peers for the token of this cluster
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", value_name = "BOOL")]
    pub enable_authentication: bool,

    /// Where peers reach the API server; by default, at a node of the control plane
    #[arg(long, value_name = "URL")]
    pub advertise_api_server_address: Option<String>,

    /// Peers trust the certificate of the API server without being told its authority
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true", value_name = "BOOL")]
    pub advertise_api_server_trusted_ca: bool,

    /// Identities on AWS.
    #[command(flatten)]
    pub aws: AwsArgs,

    /// Where health is told
    #[arg(long, default_value = ":8081", value_name = "[HOST]:PORT")]
    pub health_probe_address: Listen,

    /// Where metrics are shown
    #[arg(long, default_value = ":8080", value_name = "[HOST]:PORT")]
    pub metrics_address: Listen,

    /// Accepted without effect: what is watched needs no second look
    #[arg(long, hide = true)]
    pub resync_period: Option<String>,

    /// How fast to talk to the API server.
    #[command(flatten)]
    pub client: ClientArgs,

    /// What to log.
    #[command(flatten)]
    pub logs: LogArgs,
}

/// How peers are known where the API server does not sign certificates of users.
#[derive(ClapArgs, Clone, Default)]
#[command(next_help_heading = "AWS")]
pub struct AwsArgs {
    /// Access key
    #[arg(id = "aws-access-key-id", long, value_name = "ID")]
    pub access_key_id: Option<String>,

    /// Secret of the access key
    #[arg(id = "aws-secret-access-key", long, value_name = "SECRET")]
    pub secret_access_key: Option<String>,

    /// Region of this cluster
    #[arg(id = "aws-region", long, value_name = "REGION")]
    pub region: Option<String>,

    /// Name of this cluster on AWS
    #[arg(id = "aws-cluster-name", long, value_name = "NAME")]
    pub cluster_name: Option<String>,
}

impl AwsArgs {
    /// Whether identities on AWS are wanted.
    pub fn is_complete(&self) -> bool {
        let all = [&self.access_key_id, &self.secret_access_key, &self.region, &self.cluster_name];
        all.into_iter().all(|value| value.as_deref().is_some_and(|text| !text.is_empty()))
    }
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

    const WHO: [&str; 3] =
        ["auth", "--cluster-id=41543714-6e17-4c7b-9bc9-70de7f7ae64f", "-cluster-name=rome"];

    #[test]
    fn flags_have_the_defaults_that_users_know() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.namespace.as_str(), "default");
        assert_eq!(args.address.to_string(), ":5000");
        assert_eq!(args.cert_path, PathBuf::from("/certs/cert.pem"));
        assert_eq!(args.key_path, PathBuf::from("/certs/key.pem"));
        assert!(!args.enable_tls && args.enable_authentication);
        assert!(!args.advertise_api_server_trusted_ca && !args.aws.is_complete());
    }

    #[test]
    fn the_chart_is_understood() {
        let args = parse(&[
            "--namespace=liqo",
            "--address=:8443",
            "--enable-tls",
            "--enable-authentication=false",
            "--advertise-api-server-address=https://api.rome",
            "--advertise-api-server-trusted-ca",
            "--aws-access-key-id=a",
            "--aws-secret-access-key=b",
            "--aws-region=c",
            "--aws-cluster-name=d",
            "-resync-period=30s",
        ])
        .unwrap();
        assert!(args.enable_tls && !args.enable_authentication);
        assert!(args.advertise_api_server_trusted_ca && args.aws.is_complete());
    }

    #[test]
    fn who_this_cluster_is_has_to_be_said() {
        assert!(Line::try_parse_from(["auth"]).is_err());
        assert!(parse(&["--cluster-name=Rome"]).is_err());
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = WHO.iter().chain(words).map(|word| (*word).to_owned());
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}
