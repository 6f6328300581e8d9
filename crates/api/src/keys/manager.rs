//! Field managers: who wrote which field, one for each place that writes.

/// The virtual kubelet, on what it reflects.
pub const REFLECTION: &str = "reflection.liqo.io";
/// The controller that makes pods from shadow pods.
pub const SHADOW_POD: &str = "shadow-pod";
/// The controller that makes slices from shadow slices.
pub const SHADOW_ENDPOINT_SLICE: &str = "shadow-endpointslice-controller";
/// The controller of peerings.
pub const FOREIGN_CLUSTER: &str = "foreign-cluster.liqo.io";
/// The probe of remote API servers.
pub const API_SERVER_CHECKER: &str = "api-server-checker.liqo.io";
/// The provider's side of requests for resources.
pub const RESOURCE_REQUEST: &str = "resource-request.liqo.io";
/// The consumer's side of offers, which runs virtual kubelets.
pub const RESOURCE_OFFER: &str = "resource-offer.liqo.io";
/// The controller that gives every virtual node its NamespaceMap.
pub const VIRTUAL_NODE: &str = "virtual-node.liqo.io";
/// The controller that hosts namespaces of other clusters.
pub const NAMESPACE_MAP: &str = "namespace-map.liqo.io";
/// The controller that extends namespaces to other clusters.
pub const NAMESPACE_OFFLOADING: &str = "namespace-offloading.liqo.io";
/// The controller manager, on the certificates that webhooks are trusted by.
pub const WEBHOOK: &str = "webhook.liqo.io";
/// The provisioner of local volumes.
pub const STORAGE: &str = "storage.liqo.io";
/// The replicator of custom resources between clusters.
pub const CRD_REPLICATOR: &str = "crd-replicator.liqo.io";
/// The authentication service.
pub const AUTH: &str = "auth.liqo.io";
/// The discovery of clusters on the local network.
pub const DISCOVERY: &str = "discovery.liqo.io";
/// The network manager.
pub const NETWORK_MANAGER: &str = "network-manager.liqo.io";
/// The gateway.
pub const GATEWAY: &str = "gateway.liqo.io";
/// The routes of each node.
pub const ROUTE: &str = "route.liqo.io";
/// The virtual kubelet, on its node and on local pods.
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet.liqo.io";
/// The virtual kubelet, on a node that it empties.
pub const DRAIN: &str = "drain.virtual-kubelet.liqo.io";
/// The user's command line tool.
pub const LIQOCTL: &str = "liqoctl";
