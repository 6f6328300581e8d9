//! K3s: has the same networks everywhere, unless it was told otherwise.

use ipnet::Ipv4Net;
use liqo_install::provider::{K3S_NETWORKS, Provider, network};

use super::Found;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  liqoctl install k3s --cluster-name rome
  # With an API server that others reach at another address than this machine does
  liqoctl install k3s --api-server-url https://203.0.113.5:6443";

/// Installs Liqo in a cluster of K3s
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct K3s {
    /// Where other clusters reach the API server [default: as the kubeconfig says]
    #[arg(long, value_name = "URL")]
    api_server_url: Option<String>,
    /// Network of the pods
    #[arg(long, value_name = "CIDR", default_value = K3S_NETWORKS[0])]
    pod_cidr: String,
    /// Network of the services
    #[arg(long, value_name = "CIDR", default_value = K3S_NETWORKS[1])]
    service_cidr: String,
}

impl K3s {
    /// What the user said, or what is usual.
    pub fn found(&self) -> Result<Found, Failure> {
        let read =
            |text: &str| -> Result<Ipv4Net, Failure> { network(text).map_err(Failure::text) };
        Ok(Found {
            provider: Provider::K3s,
            pod_cidr: read(&self.pod_cidr)?,
            service_cidr: read(&self.service_cidr)?,
            api_server: self.api_server_url.clone(),
        })
    }
}
