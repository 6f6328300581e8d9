//! Any cluster: the user says all there is to know.

use ipnet::Ipv4Net;
use liqo_install::provider::Provider;

use super::Found;
use crate::failure::Failure;

/// What the user says of a cluster of no known kind.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options without a kind of cluster")]
pub struct Generic {
    /// Where other clusters reach the API server [default: as the kubeconfig says]
    #[arg(long, value_name = "URL")]
    api_server_url: Option<String>,
    /// Network of the pods
    #[arg(long, value_name = "CIDR")]
    pod_cidr: Option<Ipv4Net>,
    /// Network of the services
    #[arg(long, value_name = "CIDR")]
    service_cidr: Option<Ipv4Net>,
}

/// The same, with nothing missing.
#[derive(Clone, Debug)]
pub struct Complete {
    api_server_url: Option<String>,
    pod_cidr: Ipv4Net,
    service_cidr: Ipv4Net,
}

impl Generic {
    /// Makes sure that nothing is missing.
    pub fn complete(&self) -> Result<Complete, Failure> {
        let (Some(pod_cidr), Some(service_cidr)) = (self.pod_cidr, self.service_cidr) else {
            let text = "the networks of the cluster are not known";
            let hint = "Name the kind of cluster (k3s, kind, kubeadm), or give --pod-cidr and \
                        --service-cidr; `liqoctl install --help` has examples.";
            return Err(Failure::text(text).hint(hint));
        };
        let (pod_cidr, service_cidr) = (pod_cidr.trunc(), service_cidr.trunc());
        Ok(Complete { api_server_url: self.api_server_url.clone(), pod_cidr, service_cidr })
    }
}

impl Complete {
    /// All of it.
    pub fn found(&self) -> Found {
        let Self { api_server_url, pod_cidr, service_cidr } = self.clone();
        Found { provider: Provider::Generic, pod_cidr, service_cidr, api_server: api_server_url }
    }
}
