//! Ports, where nothing else has been configured.

/// Authentication service, as peers see it (TCP).
pub const AUTH: u16 = 443;
/// Authentication service with TLS, in its pod (TCP).
pub const AUTH_TLS: u16 = 8443;
/// Authentication service without TLS, in its pod (TCP).
pub const AUTH_PLAIN: u16 = 5000;
/// API server of a node without further information (TCP).
pub const API_SERVER: u16 = 6443;
/// WireGuard (UDP).
pub const WIREGUARD: u16 = 5871;
/// Metrics of the gateway and of virtual kubelets (TCP).
pub const METRICS: u16 = 5872;
/// Overlay between nodes (UDP).
pub const VXLAN: u16 = 4879;
/// Overlay between nodes where the usual one is taken, as on OpenShift (UDP).
pub const VXLAN_OPENSHIFT: u16 = 5050;
/// Address management (TCP).
pub const IPAM: u16 = 6000;
/// Proxy to the API server (TCP).
pub const PROXY: u16 = 8118;
/// Administration of the proxy (TCP).
pub const PROXY_ADMIN: u16 = 9901;
/// Admission webhooks (TCP).
pub const WEBHOOK: u16 = 9443;
/// Metrics of controllers (TCP).
pub const CONTROLLER_METRICS: u16 = 8080;
/// Health of controllers (TCP).
pub const HEALTH: u16 = 8081;
/// Metric agent (TCP).
pub const METRIC_AGENT: u16 = 8443;
/// Kubelet API of virtual nodes (TCP).
pub const KUBELET: u16 = 10250;
/// Liveness of tunnels, inside them (UDP).
pub const CONNECTION_CHECK: u16 = 12345;
/// Multicast DNS (UDP).
pub const MDNS: u16 = 5353;

/// Name of the port of the authentication service and of the metric agent.
pub const NAME_HTTPS: &str = "https";
/// Name of the port of the gateway.
pub const NAME_WIREGUARD: &str = "wireguard";
/// Name of a port for metrics.
pub const NAME_METRICS: &str = "metrics";
/// Name of the port for address management.
pub const NAME_IPAM: &str = "ipam-api";
/// Name of the port of the proxy.
pub const NAME_HTTP: &str = "http";
/// Name of the port for admission webhooks.
pub const NAME_WEBHOOK: &str = "webhook";
/// Name of the port for health.
pub const NAME_HEALTH: &str = "healthz";
