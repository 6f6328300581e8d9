//! Annotations, and the values that have a meaning.

/// Overrides the address under which a Service is announced to peers.
pub const OVERRIDE_ADDRESS: &str = "liqo.io/override-address";
/// Overrides the port under which a Service is announced to peers.
pub const OVERRIDE_PORT: &str = "liqo.io/override-port";
/// States on the gateway's Service the address of the node that runs the active gateway.
pub const GATEWAY_NODE_IP: &str = "net.liqo.io/gatewayNodeIP";
/// Why what a peer said of its network, or of ours, is not acted on.
pub const NETWORK_REFUSED: &str = "net.liqo.io/refused";
/// States on a gateway's Pod the port that is open as long as its process lives, and which one that is.
pub const GATEWAY_PRESENCE: &str = "net.liqo.io/gateway-presence";
/// States the hardware address of a node's overlay interface, on the Pod that made it.
pub const VXLAN_MAC: &str = "net.liqo.io/vxlan.mac.address";

/// Names the NamespaceMap, with its namespace, that an offloaded namespace serves.
pub const MANAGED_BY_NAMESPACE_MAP: &str = "liqo.io/managed-by-namespace-map";
/// Names the namespace that an offloaded one stands for.
pub const ORIGINAL_NAME: &str = "liqo.io/original-name";
/// Has pods evicted that a NamespaceOffloading, once changed, would place elsewhere, with `true`.
pub const EVICT_VIOLATING_PODS: &str = "liqo.io/evict-violating-pods";
/// Has pods of a NamespaceOffloading that only one node may take bound to it as they are created, with
/// `true`.
pub const SKIP_SCHEDULER: &str = "liqo.io/skip-scheduler";
/// Says on a ShadowPod why there is no Pod for it.
pub const SHADOW_POD_ERROR: &str = "liqo.io/shadowpod-error";
/// Names the ResourceOffer that a virtual kubelet serves.
pub const RESOURCE_OFFER: &str = "liqo.io/resourceoffer";
/// Carries the certificates of those who vouch for the API server, on the pod of a virtual kubelet.
pub const API_SERVER_AUTHORITY: &str = "liqo.io/api-server-ca";
/// States when a cluster on the local network was last heard of, in Unix seconds.
pub const LAST_UPDATE: &str = "LastUpdate";
/// States when an identity expires, in Unix seconds.
pub const CERTIFICATE_EXPIRE_TIME: &str = "discovery.liqo.io/certificate-expire-time";

/// Keeps an object from being reflected, whatever its value.
pub const SKIP_REFLECTION: &str = "liqo.io/skip-reflection";
/// Keeps the node ports of a Service when it is reflected, with `true`.
pub const FORCE_REMOTE_NODE_PORT: &str = "liqo.io/force-remote-node-port";
/// Says how pods keep apart from each other in the remote cluster.
pub const ANTI_AFFINITY_PRESET: &str = "liqo.io/anti-affinity-preset";
/// Lists the labels that tell which pods keep apart, separated by commas.
pub const ANTI_AFFINITY_LABELS: &str = "liqo.io/anti-affinity-labels";
/// States on a ShadowPod the UID of the pod that it stands for.
pub const HOME_POD_UID: &str = "virtualkubelet.liqo.io/home-pod-uid";
/// States on the twin of a claim the UID of the claim that it stands for.
pub const HOME_CLAIM_UID: &str = "virtualkubelet.liqo.io/home-claim-uid";
/// States the UID of the pod that a reflected token is for.
pub const SERVICE_ACCOUNT_POD_UID: &str = "virtualkubelet.liqo.io/service-account-for-pod-uid";
/// States when a reflected token expires.
pub const SERVICE_ACCOUNT_EXPIRATION: &str = "virtualkubelet.liqo.io/service-account-expiration";
/// Says when reflected tokens are to be replaced by new ones, by the clock of the cluster that made them.
pub const SERVICE_ACCOUNT_RENEWAL: &str = "virtualkubelet.liqo.io/service-account-renewal";

/// Remembers the status last written to a virtual node.
pub const LAST_APPLIED_NODE_STATUS: &str = "virtual-kubelet.io/last-applied-node-status";
/// Remembers the metadata last written to a virtual node.
pub const LAST_APPLIED_OBJECT_META: &str = "virtual-kubelet.io/last-applied-object-meta";

/// Names the node that a claim has been scheduled to.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The older form of [`SELECTED_NODE`].
pub const SELECTED_NODE_ALPHA: &str = "volume.alpha.kubernetes.io/selected-node";
/// Names the provisioner that a claim waits for.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The older form of [`STORAGE_PROVISIONER`].
pub const STORAGE_PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The older way to name the class of a claim.
pub const STORAGE_CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";
/// Names the provisioner that made a volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Marks a claim whose binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Marks a claim that was bound by the controller.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Marks the storage class to take when none is asked for, with `true`.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The older way to name the class of an Ingress.
pub const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
/// When the endpoints of a slice changed last.
pub const ENDPOINTS_CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The account whose token a Secret holds.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Asks AWS for a kind of load balancer.
pub const AWS_LOAD_BALANCER_TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";

/// [`ANTI_AFFINITY_PRESET`] that keeps the pod's own rules.
pub const ANTI_AFFINITY_PROPAGATE: &str = "propagate";
/// [`ANTI_AFFINITY_PRESET`] that asks pods to keep apart.
pub const ANTI_AFFINITY_SOFT: &str = "soft";
/// [`ANTI_AFFINITY_PRESET`] that makes pods keep apart.
pub const ANTI_AFFINITY_HARD: &str = "hard";
/// [`AWS_LOAD_BALANCER_TYPE`] that also carries UDP.
pub const AWS_LOAD_BALANCER_NLB: &str = "nlb";
