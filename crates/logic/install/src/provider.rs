//! Kinds of clusters: what is known of each, and what it means for the values.

use ipnet::Ipv4Net;
use liqo_api::keys::label;
use serde_json::{Value, json};

use crate::wishes::ServiceType;

/// A kind of cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Any cluster; the user says all there is to know.
    Generic,
    /// K3s.
    K3s,
    /// Kubernetes in Docker.
    Kind,
    /// A cluster made with kubeadm.
    Kubeadm,
}

/// What has been found out about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its kind.
    pub provider: Provider,
    /// Network of its pods.
    pub pod_cidr: Ipv4Net,
    /// Network of its services.
    pub service_cidr: Ipv4Net,
    /// Where peers reach its API server, if that is known.
    pub api_server: Option<String>,
}

impl Provider {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::K3s => "k3s",
            Self::Kind => "kind",
            Self::Kubeadm => "kubeadm",
        }
    }

    /// How peers reach such a cluster, where that is not left to the chart.
    pub fn service_type(self) -> Option<ServiceType> {
        match self {
            Self::K3s | Self::Kind => Some(ServiceType::NodePort),
            Self::Generic | Self::Kubeadm => None,
        }
    }

    /// Whether the API server's address in the kubeconfig is one that peers can use.
    pub fn trusts_kubeconfig(self) -> bool {
        match self {
            // It is a port of the machine on which the containers run.
            Self::Kind => false,
            Self::Generic | Self::K3s | Self::Kubeadm => true,
        }
    }

    /// Whether a given address of the API server has to be that of the kubeconfig.
    pub fn compares_with_kubeconfig(self) -> bool {
        match self {
            Self::Kind | Self::K3s => false,
            Self::Generic | Self::Kubeadm => true,
        }
    }
}

impl Facts {
    /// What they mean for the values.
    pub fn values(&self) -> Value {
        let mut values = json!({
            "networkManager": {"config": {
                "podCIDR": self.pod_cidr.to_string(),
                "serviceCIDR": self.service_cidr.to_string(),
            }},
        });
        if let Some(address) = &self.api_server {
            values["apiServer"] = json!({"address": address});
        }
        if self.provider != Provider::Generic {
            let labels = json!({label::PROVIDER: self.provider.name()});
            values["discovery"] = json!({"config": {"clusterLabels": labels}});
        }
        if let Some(kind) = self.provider.service_type() {
            values["auth"] = json!({"service": {"type": kind.as_str()}});
            values["gateway"] = json!({"service": {"type": kind.as_str()}});
        }
        values
    }
}

/// Networks that a kubeadm cluster has unless it was told otherwise: of pods, and of services.
pub const KUBEADM_NETWORKS: [&str; 2] = ["172.16.0.0/16", "10.96.0.0/12"];
/// Networks that a K3s cluster has unless it was told otherwise: of pods, and of services.
pub const K3S_NETWORKS: [&str; 2] = ["10.42.0.0/16", "10.43.0.0/16"];

/// Networks that the command line of a kube-controller-manager names: of pods, and of services.
pub fn kubeadm_networks<'a>(
    words: impl Iterator<Item = &'a str> + Clone,
) -> Result<[Ipv4Net; 2], String> {
    let [pods, services] = KUBEADM_NETWORKS;
    Ok([
        network(flag(words.clone(), "--cluster-cidr").unwrap_or(pods))?,
        network(flag(words, "--service-cluster-ip-range").unwrap_or(services))?,
    ])
}

/// The IPv4 network of one or two, separated by a comma.
pub fn network(text: &str) -> Result<Ipv4Net, String> {
    text.split(',')
        .find_map(|one| one.trim().parse::<Ipv4Net>().ok())
        .map(|network| network.trunc())
        .ok_or_else(|| format!("{text} is no IPv4 network such as 10.0.0.0/16"))
}

/// The value of a flag, written `--flag=value` or `--flag value`.
fn flag<'a>(mut words: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    while let Some(word) = words.next() {
        if let Some(rest) = word.strip_prefix(name) {
            match rest.strip_prefix('=') {
                Some(value) => return Some(value),
                None if rest.is_empty() => return words.next(),
                None => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_from_a_command_line() {
        let words = [
            "kube-controller-manager",
            "--cluster-cidr=10.200.0.0/16",
            "--service-cluster-ip-range",
            "10.80.0.0/12,fd00::/108",
        ];
        let [pods, services] = kubeadm_networks(words.into_iter()).unwrap();

        assert_eq!(pods.to_string(), "10.200.0.0/16");
        assert_eq!(services.to_string(), "10.80.0.0/12");
    }

    #[test]
    fn networks_that_are_not_named_are_those_of_kubeadm() {
        let networks = kubeadm_networks(["--cluster-cidr-mask=1"].into_iter()).unwrap();

        assert_eq!(networks.map(|network| network.to_string()), KUBEADM_NETWORKS);
    }

    #[test]
    fn a_network_that_is_none_is_refused() {
        let error = kubeadm_networks(["--cluster-cidr=fd00::/48"].into_iter()).unwrap_err();

        assert_eq!(error, "fd00::/48 is no IPv4 network such as 10.0.0.0/16");
    }

    #[test]
    fn a_provider_labels_its_clusters_and_may_choose_how_they_are_reached() {
        let facts = |provider| Facts {
            provider,
            pod_cidr: "10.0.0.0/16".parse().unwrap(),
            service_cidr: "10.1.0.0/16".parse().unwrap(),
            api_server: Some("https://192.0.2.1:6443".to_owned()),
        };

        let kind = facts(Provider::Kind).values();
        assert_eq!(kind["discovery"]["config"]["clusterLabels"]["liqo.io/provider"], "kind");
        assert_eq!(kind["auth"]["service"]["type"], "NodePort");
        let generic = facts(Provider::Generic).values();
        assert_eq!(
            generic,
            json!({
                "apiServer": {"address": "https://192.0.2.1:6443"},
                "networkManager": {"config": {
                    "podCIDR": "10.0.0.0/16", "serviceCIDR": "10.1.0.0/16",
                }},
            })
        );
    }
}
