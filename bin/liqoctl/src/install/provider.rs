//! Kinds of clusters: each finds out its networks in its own way.

mod generic;
mod k3s;
mod kind;
mod kubeadm;

use ipnet::Ipv4Net;
use liqo_install::provider;

pub use self::generic::{Complete, Generic};
pub use self::k3s::K3s;
pub use self::kind::Kind;
pub use self::kubeadm::Kubeadm;
use crate::cluster::Cluster;
use crate::failure::Failure;

/// A kind of cluster, with what the user said of it.
pub enum Provider {
    Generic(Complete),
    K3s(K3s),
    Kind,
    Kubeadm,
}

/// What was found out.
#[derive(Clone, Debug)]
pub struct Found {
    /// The kind.
    pub provider: provider::Provider,
    /// Network of the pods.
    pub pod_cidr: Ipv4Net,
    /// Network of the services.
    pub service_cidr: Ipv4Net,
    /// Where the user says the API server is.
    pub api_server: Option<String>,
}

impl Provider {
    /// Finds out what is not given.
    pub async fn look(&self, cluster: &Cluster) -> Result<Found, Failure> {
        match self {
            Self::Generic(given) => Ok(given.found()),
            Self::K3s(given) => given.found(),
            Self::Kind => kubeadm::look(provider::Provider::Kind, cluster).await,
            Self::Kubeadm => kubeadm::look(provider::Provider::Kubeadm, cluster).await,
        }
    }
}
