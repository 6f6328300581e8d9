//! Flags of the virtual kubelet.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use liqo_api::names::{ClusterId, ClusterName};
use liqo_kit::args::values::{Pairs, duration};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};

/// Flags of the virtual kubelet.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Kubeconfig of this cluster; by default the one it runs in
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub home_kubeconfig: Option<PathBuf>,

    /// Name of the node
    #[arg(long, default_value = "virtual-kubelet", value_name = "NAME")]
    pub nodename: String,

    /// Address of the node
    #[arg(long, value_name = "IP")]
    pub node_ip: IpAddr,

    /// Namespace of what is exchanged with the other cluster
    #[arg(long, default_value = "default", value_name = "NAMESPACE")]
    pub tenant_namespace: String,

    /// Identifier of this cluster
    #[arg(long, value_name = "UUID")]
    pub home_cluster_id: Option<ClusterId>,

    /// Name of this cluster
    #[arg(long, value_name = "NAME")]
    pub home_cluster_name: Option<ClusterName>,

    /// Identifier of the other cluster
    #[arg(long, value_name = "UUID")]
    pub foreign_cluster_id: ClusterId,

    /// Name of the other cluster
    #[arg(long, value_name = "NAME")]
    pub foreign_cluster_name: ClusterName,

    /// Port of the kubelet
    #[arg(long, default_value_t = 10250, value_name = "PORT")]
    pub listen_port: u16,

    /// How long the node counts as alive after its last sign of life
    #[arg(long, default_value = "40s", value_parser = duration, value_name = "DURATION")]
    pub node_lease_duration: Duration,

    /// Whether the node is only ready while the tunnel to the other cluster works
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub node_check_network: bool,

    /// Labels of the node
    #[arg(long, default_value = "", value_name = "PAIRS")]
    pub node_extra_labels: Pairs,

    /// Annotations of the node
    #[arg(long, default_value = "", value_name = "PAIRS")]
    pub node_extra_annotations: Pairs,

    /// How long disruption budgets may keep pods on a node that is leaving
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    pub node_drain_timeout: Duration,

    /// Whether metrics are shown
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub metrics_enabled: bool,

    /// Address of the metrics
    #[arg(long, default_value = ":8080", value_name = "ADDRESS")]
    pub metrics_address: Listen,

    /// Flags of reflection, which this kubelet does not do yet
    #[command(flatten)]
    pub reflection: ReflectionArgs,

    /// How fast it may talk to an API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Flags of what brings pods and their surroundings to the other cluster.
#[derive(ClapArgs, Debug, Default)]
pub struct ReflectionArgs {
    #[arg(long, hide = true)]
    ipam_server: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    disable_ip_reflection: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_apiserver_support: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_storage: Option<bool>,
    #[arg(long, hide = true)]
    virtual_storage_class_name: Option<String>,
    #[arg(long, hide = true)]
    remote_real_storage_class_name: Option<String>,
    #[arg(long, hide = true)]
    certificate_type: Option<String>,
    #[arg(long, hide = true)]
    resync_period: Option<String>,
    #[arg(long, hide = true)]
    node_ping_interval: Option<String>,
    #[arg(long, hide = true)]
    node_ping_timeout: Option<String>,
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
    fn the_command_line_that_the_controller_manager_writes_is_understood() {
        let line = parse(&[
            "--foreign-cluster-id=2cb4110a-c5e6-4a52-851d-d0e0d86c9174",
            "--foreign-cluster-name=milan",
            "--nodename=liqo-milan",
            "--node-ip=10.200.0.9",
            "--tenant-namespace=liqo-tenant-milan-1a2b3c",
            "--home-cluster-id=06ae40b0-be4b-4ed6-9f42-8fa4dfb9a7f6",
            "--home-cluster-name=rome",
            "--ipam-server=liqo-network-manager.liqo:6000",
            "--enable-storage",
            "--remote-real-storage-class-name=local-path",
            "--node-extra-labels=a=b,c=d",
            "--enable-apiserver-support=true",
            "--node-check-network=false",
            "--metrics-enabled=false",
        ])
        .unwrap();
        assert_eq!(line.node_extra_labels.0.len(), 2);
        assert!(!line.node_check_network);
        assert_eq!(line.node_lease_duration, Duration::from_secs(40));
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = std::iter::once("liqo").chain(words.iter().copied()).map(str::to_owned);
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}
