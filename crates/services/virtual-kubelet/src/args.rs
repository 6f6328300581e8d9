//! Flags of the virtual kubelet.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use liqo_api::keys::object;
use liqo_api::names::{ClusterId, ClusterName};
use liqo_kit::args::values::{Pairs, duration};
use liqo_kit::args::{ClientArgs, Listen, LogArgs};
use liqo_kubelet_api::CertificateType;

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

    /// Where the certificate of the kubelet comes from
    #[arg(long, value_enum, default_value_t, value_name = "TYPE")]
    pub certificate_type: CertificateType,

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

    /// What brings pods and their surroundings to the other cluster
    #[command(flatten)]
    pub reflection: ReflectionArgs,

    /// Flags that mean nothing here, and are taken from older command lines
    #[command(flatten)]
    pub ignored: IgnoredArgs,

    /// How fast it may talk to an API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Flags of what brings pods and their surroundings to the other cluster.
#[derive(ClapArgs, Clone, Debug)]
pub struct ReflectionArgs {
    /// Address of the service that translates addresses between the clusters; without it, addresses
    /// are the same on both sides
    #[arg(long, value_name = "HOST:PORT")]
    pub ipam_server: Option<String>,

    /// Whether the addresses of pods and services stay unknown on the other side
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub disable_ip_reflection: bool,

    /// Whether pods in the other cluster reach the API server of this one, with their tokens
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_apiserver_support: bool,

    /// Where pods in the other cluster reach the API server of this one; by default through the
    /// network of the two clusters
    #[arg(long, value_name = "HOST", requires = "home_api_server_port")]
    pub home_api_server_host: Option<String>,

    /// Port of that API server
    #[arg(long, value_name = "PORT", requires = "home_api_server_host")]
    pub home_api_server_port: Option<u16>,

    /// Address of the API server of this cluster, as Kubernetes tells it to pods
    #[arg(long, env = "KUBERNETES_SERVICE_HOST", hide = true)]
    pub kubernetes_service_host: Option<String>,

    /// Port of the API server of this cluster, as Kubernetes tells it to pods
    #[arg(long, env = "KUBERNETES_SERVICE_PORT", hide = true, default_value_t = 443)]
    pub kubernetes_service_port: u16,

    /// Whether volumes of the other cluster can be claimed
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_storage: bool,

    /// Class of the claims that are brought to the other cluster
    #[arg(long, default_value = object::STORAGE_CLASS, value_name = "CLASS")]
    pub virtual_storage_class_name: String,

    /// Class of the claims there; by default the one that is default there
    #[arg(long, value_name = "CLASS")]
    pub remote_real_storage_class_name: Option<String>,

    /// How many objects of a kind are worked on at once; none of a kind at all with 0
    #[command(flatten)]
    pub workers: WorkerArgs,
}

/// How many objects of each kind are worked on at once; with 0, the kind is not reflected.
#[derive(ClapArgs, Clone, Copy, Debug)]
pub struct WorkerArgs {
    /// Pods worked on at once; 0 for none
    #[arg(long = "pod-reflection-workers", default_value_t = 10, value_name = "NUMBER")]
    pub pod: u16,
    /// Endpoint slices worked on at once; 0 for none
    #[arg(long = "endpointslice-reflection-workers", default_value_t = 10, value_name = "NUMBER")]
    pub endpointslice: u16,
    /// Services worked on at once; 0 for none
    #[arg(long = "service-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub service: u16,
    /// Ingresses worked on at once; 0 for none
    #[arg(long = "ingress-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub ingress: u16,
    /// ConfigMaps worked on at once; 0 for none
    #[arg(long = "configmap-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub configmap: u16,
    /// Secrets worked on at once; 0 for none
    #[arg(long = "secret-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub secret: u16,
    /// Pods whose tokens are worked on at once; 0 for none
    #[arg(long = "service-account-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub service_account: u16,
    /// Volume claims worked on at once; 0 for none
    #[arg(
        long = "persistentvolumeclaim-reflection-workers",
        default_value_t = 3,
        value_name = "NUMBER"
    )]
    pub persistentvolumeclaim: u16,
    /// Warnings of the other cluster about pods worked on at once; 0 for none
    #[arg(long = "event-reflection-workers", default_value_t = 3, value_name = "NUMBER")]
    pub event: u16,
}

/// Flags that mean nothing here.
#[derive(ClapArgs, Clone, Debug, Default)]
pub struct IgnoredArgs {
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
            "--certificate-type=self-signed",
            "--metrics-enabled=false",
        ])
        .unwrap();
        assert_eq!(line.node_extra_labels.0.len(), 2);
        assert!(!line.node_check_network);
        assert_eq!(line.node_lease_duration, Duration::from_secs(40));
        let ReflectionArgs { enable_storage, enable_apiserver_support, workers, .. } =
            line.reflection;
        assert!(enable_storage && enable_apiserver_support);
        assert_eq!((workers.pod, workers.configmap), (10, 3));
    }

    #[test]
    fn half_an_api_server_is_refused() {
        let line = |more: &[&str]| {
            let words = ["--node-ip=10.0.0.1", "--foreign-cluster-name=milan"];
            let id = ["--foreign-cluster-id=2cb4110a-c5e6-4a52-851d-d0e0d86c9174"];
            parse(&[&words[..], &id, more].concat())
        };
        let (host, port) = ("--home-api-server-host=a.example", "--home-api-server-port=443");
        assert!(line(&[host]).is_err() && line(&[port]).is_err());
        assert_eq!(line(&[host, port]).unwrap().reflection.home_api_server_port, Some(443));
    }

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        let words = std::iter::once("liqo").chain(words.iter().copied()).map(str::to_owned);
        Line::try_parse_from(double_dashes(words)).map(|line| line.args)
    }
}
