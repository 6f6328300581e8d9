//! Clusters made with kubeadm: the controller manager's command line names the networks.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use liqo_api::keys::object;
use liqo_install::provider::{Provider, kubeadm_networks};

use super::Found;
use crate::cluster::Cluster;
use crate::failure::Failure;

/// Labels of the pod that knows the networks.
const LABELS: &str = "component=kube-controller-manager,tier=control-plane";

const EXAMPLES: &str = "\
Examples:
  liqoctl install kubeadm --cluster-name rome
  # Where services cannot have addresses of their own
  liqoctl install kubeadm --cluster-name rome --service-type NodePort";

/// Installs Liqo in a cluster made with kubeadm
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Kubeadm {}

/// Asks the controller manager's pod.
pub async fn look(provider: Provider, cluster: &Cluster) -> Result<Found, Failure> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), object::SYSTEM_NAMESPACE);
    let list = pods.list(&ListParams::default().labels(LABELS)).await;
    let list =
        list.map_err(|error| Failure::new("cannot look for the controller manager", error))?;
    let pod = list.items.into_iter().next().ok_or_else(|| {
        let text = format!("there is no pod with labels {LABELS} in kube-system");
        Failure::text(text).hint(
            "Is this cluster made with kubeadm? If not, give its networks: `liqoctl install \
             --pod-cidr … --service-cidr …`.",
        )
    })?;
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    let words: Vec<String> = containers
        .into_iter()
        .flat_map(|one| one.command.into_iter().chain(one.args).flatten())
        .collect();
    let [pod_cidr, service_cidr] =
        kubeadm_networks(words.iter().map(String::as_str)).map_err(Failure::text)?;
    Ok(Found { provider, pod_cidr, service_cidr, api_server: None })
}
