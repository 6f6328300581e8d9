//! The flags of the controller manager.

pub use std::time::Duration;

use clap::{Args as ClapArgs, Parser};
use jiff::SignedDuration;
use liqo_api::keys::object;
use liqo_api::names::{Cluster, ClusterId, ClusterName};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};
use liqo_sharing::quantity::Quantity;

use liqo_kit::args::values::{Pairs, Texts, duration, percentage};

/// Runs the controllers of peerings, offers, virtual nodes and namespaces.
#[derive(Clone, Debug, Parser)]
#[command(args_override_self = true)]
pub struct Args {
    /// This cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The process itself.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Peerings.
    #[command(flatten)]
    pub peering: PeeringArgs,
    /// What is lent to others.
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// The virtual kubelets.
    #[command(flatten)]
    pub kubelet: KubeletArgs,
    /// Offloaded pods and their volumes.
    #[command(flatten)]
    pub offloading: OffloadingArgs,
    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Logging.
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Who this cluster is.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "This cluster")]
pub struct HomeArgs {
    /// What programs call this cluster
    #[arg(long, value_name = "UUID")]
    pub cluster_id: ClusterId,
    /// What people call this cluster
    #[arg(long, value_name = "NAME")]
    pub cluster_name: ClusterName,
    /// Namespace of the installation
    #[arg(long, value_name = "NAMESPACE", default_value = object::NAMESPACE)]
    pub liqo_namespace: String,
    /// Labels of the virtual nodes that stand for this cluster at others
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub cluster_labels: Pairs,
}

impl HomeArgs {
    /// This cluster.
    pub fn cluster(&self) -> Cluster {
        Cluster { id: self.cluster_id.clone(), name: self.cluster_name.clone() }
    }
}

/// How the process runs.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// Port of the admission webhooks
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,
    /// Address of the metrics
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":8080")]
    pub metrics_address: Listen,
    /// Address of /healthz and /readyz
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":8081")]
    pub health_probe_address: Listen,
    /// Lets one of several replicas run the controllers; all serve webhooks
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_leader_election: bool,
    /// Time after which everything is looked at again, whether it changed or not
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10h")]
    pub resync_period: Duration,
    /// Accepted without effect: an unexpected error never stops the process
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub panic_on_unexpected_errors: bool,
}

/// With whom to peer, and how.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Peering")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PeeringArgs {
    /// ForeignClusters worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub foreign_cluster_workers: u16,
    /// Leaves the network between clusters to somebody else
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub disable_internal_network: bool,
    /// Time between two probes of a remote API server; 0 stops probing
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "15s")]
    pub foreign_cluster_ping_interval: Duration,
    /// Time that a remote API server may take to answer a probe
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub foreign_cluster_ping_timeout: Duration,
    /// Time that a peer out of reach can hold up the end of a peering
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub unreachable_peer_patience: SignedDuration,
    /// Peers with clusters found on the local network unless told otherwise
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub auto_join_discovered_clusters: bool,
    /// Lends to clusters that ask unless told otherwise
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    pub enable_incoming_peering: bool,
    /// Leaves it to people to accept offers
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub offer_disable_auto_accept: bool,
}

/// What is lent to others.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Sharing")]
pub struct SharingArgs {
    /// Address of a plugin that says what to offer; without one, the cluster's free resources
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub resource_plugin_address: String,
    /// Percentage of the free resources to offer
    #[arg(long, value_name = "PERCENTAGE", value_parser = percentage, default_value = "50")]
    pub resource_sharing_percentage: u8,
    /// Percentage by which a resource must change before the offer does
    #[arg(long, value_name = "PERCENTAGE", value_parser = percentage, default_value = "0")]
    pub offer_update_threshold_percentage: u8,
    /// Refuses pods that exceed what was offered
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_resource_enforcement: bool,
    /// Accepted without effect: what is used is followed, not compared from time to time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub resource_validator_refresh_interval: Duration,
}

/// How virtual kubelets run.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Virtual kubelets")]
pub struct KubeletArgs {
    /// Image of virtual kubelets
    #[arg(long, value_name = "IMAGE", default_value = concat!("localhost/liqo/liqo:v", env!("CARGO_PKG_VERSION")))]
    pub kubelet_image: String,
    /// Annotations of virtual kubelets
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub kubelet_extra_annotations: Pairs,
    /// Labels of virtual kubelets
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub kubelet_extra_labels: Pairs,
    /// Arguments of virtual kubelets
    #[arg(long, value_name = "ARG,…", default_value = "", allow_hyphen_values = true)]
    pub kubelet_extra_args: Texts,
    /// Processor time that a virtual kubelet requests
    #[arg(long, value_name = "QUANTITY", default_value = "0")]
    pub kubelet_cpu_requests: Quantity,
    /// Processor time that a virtual kubelet may use
    #[arg(long, value_name = "QUANTITY", default_value = "0")]
    pub kubelet_cpu_limits: Quantity,
    /// Memory that a virtual kubelet requests
    #[arg(long, value_name = "QUANTITY", default_value = "0")]
    pub kubelet_ram_requests: Quantity,
    /// Memory that a virtual kubelet may use
    #[arg(long, value_name = "QUANTITY", default_value = "0")]
    pub kubelet_ram_limits: Quantity,
    /// Address of the metrics of virtual kubelets
    #[arg(long, value_name = "[HOST]:PORT", default_value = ":8080")]
    pub kubelet_metrics_address: Listen,
    /// Lets virtual kubelets show metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub kubelet_metrics_enabled: bool,
    /// Address of the address manager, as virtual kubelets reach it
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub kubelet_ipam_server: String,
    /// Annotations of virtual nodes
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub node_extra_annotations: Pairs,
    /// Labels of virtual nodes
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub node_extra_labels: Pairs,
}

/// How pods of others and volumes are handled.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Offloading")]
pub struct OffloadingArgs {
    /// Shadow pods worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub shadow_pod_ctrl_workers: u16,
    /// Shadow endpoint slices worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub shadow_endpointslice_ctrl_workers: u16,
    /// Offers storage, and provides volumes that follow their pods
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_storage: bool,
    /// Labels of namespaces that are made for other clusters, such as those of Pod Security
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "")]
    pub hosted_namespace_labels: Pairs,
    /// Storage class of volumes that follow their pods
    #[arg(long, value_name = "NAME", default_value = object::STORAGE_CLASS)]
    pub virtual_storage_class_name: String,
    /// Storage class of the real volumes behind them; the cluster's default if empty
    #[arg(long, value_name = "NAME", default_value = "")]
    pub real_storage_class_name: String,
    /// Namespace of the real volumes
    #[arg(long, value_name = "NAMESPACE", default_value = object::STORAGE_NAMESPACE)]
    pub storage_namespace: String,
    /// Removes pods from nodes that have failed
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_node_failure_controller: bool,
}

#[cfg(test)]
mod tests {
    use liqo_kit::args::double_dashes;

    use super::*;

    const ID: &str = "--cluster-id=2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn only_who_this_cluster_is_must_be_said() {
        let args = parse(&[ID, "--cluster-name=milan"]).unwrap();
        assert_eq!(args.home.cluster().to_string(), "milan (2cb4110a-c5e6-4a52-851d-d0e0d86c9174)");
        assert_eq!(args.sharing.resource_sharing_percentage, 50);
        assert_eq!(args.process.resync_period, Duration::from_hours(10));
        assert!(args.peering.enable_incoming_peering);
        assert!(parse(&[ID]).is_err());
    }

    #[test]
    fn the_arguments_of_the_chart_are_understood() {
        let args = parse(&[
            ID,
            "--cluster-name=milan",
            "--liqo-namespace=liqo",
            "--enable-incoming-peering=false",
            "--resource-sharing-percentage=30",
            "--kubelet-image=example.org/liqo:v0",
            "--kubelet-ipam-server=",
            "--disable-internal-network",
            "--auto-join-discovered-clusters=false",
            "--enable-storage=true",
            "--webhook-port=9443",
            "--real-storage-class-name=",
            "--kubelet-extra-args=--enable-apiserver-support=true,--node-check-network=false",
            "--cluster-labels=liqo.io/provider=kubeadm,a=b",
            "--enable-leader-election=true",
            "--kubelet-cpu-requests=100m",
            "--offer-update-threshold-percentage=5",
        ])
        .unwrap();
        assert!(!args.peering.enable_incoming_peering && args.peering.disable_internal_network);
        assert_eq!(args.kubelet.kubelet_extra_args.0.len(), 2);
        assert_eq!(args.home.cluster_labels.0.len(), 2);
        assert!(args.process.enable_leader_election);
    }

    #[test]
    fn one_dash_does_what_two_do() {
        let args = parse(&["-cluster-name", "milan", ID, "-enable-storage", "-v=4"]).unwrap();
        assert!(args.offloading.enable_storage);
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = words.iter().map(|word| (*word).to_owned());
        Args::try_parse_from(double_dashes(std::iter::once("liqo".to_owned()).chain(words)))
    }
}
