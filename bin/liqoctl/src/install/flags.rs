//! Flags of `install`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use ipnet::Ipv4Net;
use liqo_install::sanity;
use liqo_install::wishes::{ServiceType, Wishes};

use super::provider::{Generic, K3s, Kind, Kubeadm, Provider};
use crate::cli::LiqoNamespace;
use crate::cluster::duration;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  # In a cluster made with kubeadm
  liqoctl install kubeadm --cluster-name rome
  # In any other cluster
  liqoctl install --api-server-url https://203.0.113.5:6443 \\
      --pod-cidr 10.200.0.0/16 --service-cidr 10.80.0.0/16
  # Change how it is installed
  liqoctl install kubeadm --cluster-name rome --enable-ha
  # See what would be installed
  liqoctl install kind --dry-run
  # Write the values for Helm into a file
  liqoctl install kind --only-output-values --dump-values-path ./values.yaml";

/// Installs Liqo, or changes how it is installed
///
/// Names of kinds of clusters follow; without one, the networks of the cluster have to be given.
/// When something goes wrong, everything is as it was before.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "upgrade", after_help = EXAMPLES)]
pub struct Install {
    #[command(flatten)]
    pub flags: Flags,
    #[command(flatten)]
    generic: Generic,
    #[command(subcommand)]
    named: Option<Named>,
}

/// A kind of cluster.
#[derive(Clone, Debug, clap::Subcommand)]
enum Named {
    K3s(K3s),
    Kind(Kind),
    Kubeadm(Kubeadm),
}

impl Install {
    /// The kind of cluster.
    pub fn provider(&self) -> Result<Provider, Failure> {
        Ok(match &self.named {
            Some(Named::K3s(k3s)) => Provider::K3s(k3s.clone()),
            Some(Named::Kind(_)) => Provider::Kind,
            Some(Named::Kubeadm(_)) => Provider::Kubeadm,
            None => Provider::Generic(self.generic.complete()?),
        })
    }
}

/// Flags that do not depend on the kind of cluster.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Flags {
    #[command(flatten)]
    pub namespace: LiqoNamespace,

    /// Name of the cluster [default: the one it has, or a made-up one]
    #[arg(long, value_name = "NAME", global = true)]
    pub cluster_name: Option<String>,
    /// Labels of the cluster, which its peers see: key=value,…
    #[arg(long, value_name = "LABELS", value_delimiter = ',', global = true)]
    cluster_labels: Vec<String>,
    /// Share of the free resources that peers are offered, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90, global = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    sharing_percentage: u8,
    /// Run two controller managers and two gateways
    #[arg(long, global = true)]
    enable_ha: bool,
    /// Networks that are in use outside of the cluster: CIDR,…
    #[arg(long, value_name = "CIDRS", value_delimiter = ',', global = true)]
    reserved_subnets: Vec<Ipv4Net>,
    /// How peers reach the cluster [default: the kind of cluster decides]
    #[arg(long, value_name = "TYPE", value_enum, ignore_case = true, global = true)]
    service_type: Option<Exposure>,
    /// Expose metrics, and have them read by the Prometheus operator
    #[arg(long, global = true)]
    enable_metrics: bool,
    /// Send no anonymous figures
    #[arg(long, global = true)]
    disable_telemetry: bool,

    /// Values for the chart, as Helm takes them: key=value,…; they win over everything else
    #[arg(long, value_name = "SETTINGS", global = true)]
    pub set: Vec<String>,
    /// Files with values for the chart
    #[arg(short = 'f', long, value_name = "FILE", global = true)]
    pub values: Vec<PathBuf>,
    /// Version of Liqo, or tag of its images [default: the version of this program]
    #[arg(long, value_name = "VERSION", global = true)]
    pub version: Option<String>,
    /// Git repository whose chart is installed instead of the built-in one, at the given version
    #[arg(long, value_name = "URL", requires = "version", global = true)]
    #[arg(conflicts_with = "local_chart_path")]
    pub repo_url: Option<String>,
    /// Folder of a chart to install instead of the built-in one
    #[arg(long, value_name = "FOLDER", requires = "version", global = true)]
    pub local_chart_path: Option<PathBuf>,

    /// Write the values into a file, and install nothing
    #[arg(long, global = true)]
    pub only_output_values: bool,
    /// The file that values are written into
    #[arg(long, value_name = "FILE", default_value = "./values.yaml", global = true)]
    pub dump_values_path: PathBuf,
    /// Show what would be installed, and install nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// How long it may take; everything is as before afterwards
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, global = true)]
    pub timeout: Duration,
    /// Accept an API server URL that is not the kubeconfig's
    #[arg(long, global = true)]
    pub disable_api_server_sanity_check: bool,
    /// Check neither names nor networks
    #[arg(long, global = true)]
    pub skip_validation: bool,
}

impl Flags {
    /// What they ask for.
    pub fn wishes(&self, cluster_id: String, cluster_name: String) -> Result<Wishes, String> {
        Ok(Wishes {
            cluster_id,
            cluster_name,
            cluster_labels: sanity::labels(&self.cluster_labels)?,
            sharing_percentage: self.sharing_percentage,
            high_availability: self.enable_ha,
            reserved_subnets: self.reserved_subnets.iter().map(Ipv4Net::trunc).collect(),
            metrics: self.enable_metrics,
            no_telemetry: self.disable_telemetry
                || self.local_chart_path.is_some()
                || self.repo_url.is_some(),
            service_type: self.service_type.map(Into::into),
            tag: self.version.clone(),
        })
    }
}

/// How services are reached.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Exposure {
    #[value(name = "LoadBalancer")]
    LoadBalancer,
    #[value(name = "NodePort")]
    NodePort,
    #[value(name = "ClusterIP")]
    ClusterIp,
}

impl From<Exposure> for ServiceType {
    fn from(exposure: Exposure) -> Self {
        match exposure {
            Exposure::LoadBalancer => Self::LoadBalancer,
            Exposure::NodePort => Self::NodePort,
            Exposure::ClusterIp => Self::ClusterIp,
        }
    }
}
