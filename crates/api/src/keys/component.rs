//! The components: their names in labels, and the modules they belong to.

/// Prefix of the names of everything that the chart installs.
pub const PREFIX: &str = "liqo-";

/// Component: the controllers.
pub const CONTROLLER_MANAGER: &str = "controller-manager";
/// Component: the replicator of custom resources.
pub const CRD_REPLICATOR: &str = "crd-replicator";
/// Component: the authentication service.
pub const AUTH: &str = "auth";
/// Component: the discovery of clusters on the local network.
pub const DISCOVERY: &str = "discovery";
/// Component: the network manager.
pub const NETWORK_MANAGER: &str = "network-manager";
/// Component: the gateway.
pub const GATEWAY: &str = "gateway";
/// Component: the metrics of the gateway.
pub const GATEWAY_METRICS: &str = "gateway-metrics";
/// Component: the routes of each node.
pub const ROUTE: &str = "route";
/// Component: the proxy to the API server.
pub const PROXY: &str = "proxy";
/// Component: the metric agent.
pub const METRIC_AGENT: &str = "metric-agent";
/// Component: the telemetry.
pub const TELEMETRY: &str = "telemetry";
/// Component: the admission webhooks.
pub const WEBHOOK: &str = "webhook";
/// Component: the certificates of the admission webhooks.
pub const WEBHOOK_CERTIFICATE_PATCH: &str = "webhook-certificate-patch";
/// Component: the clean-up before an uninstallation.
pub const PRE_DELETE: &str = "pre-delete";
/// Component: the virtual kubelet.
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";
/// Component: the virtual kubelet's permissions in its own cluster.
pub const VIRTUAL_KUBELET_LOCAL: &str = "virtual-kubelet-local";
/// Component: the virtual kubelet's permissions in the other cluster.
pub const VIRTUAL_KUBELET_REMOTE: &str = "virtual-kubelet-remote";
/// Component: the identity of the cluster.
pub const CLUSTER_ID_CONFIG_MAP: &str = "clusterid-configmap";
/// Component: the settings for AWS.
pub const AWS_CONFIG: &str = "aws-config";

/// Module of the replicator.
pub const MODULE_DISPATCHER: &str = "dispatcher";
/// Module of authentication and discovery.
pub const MODULE_DISCOVERY: &str = "discovery";
/// Module of everything that carries packets.
pub const MODULE_NETWORKING: &str = "networking";
/// Module of the metric agent.
pub const MODULE_METRICS: &str = "metrics";
/// Module of the virtual kubelet's permissions.
pub const MODULE_VIRTUAL_KUBELET: &str = "virtualkubelet";
