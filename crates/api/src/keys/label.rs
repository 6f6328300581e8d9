//! Labels, and the values that have a meaning.

/// Identifies the cluster that an object is about; every look-up by identifier uses it.
pub const CLUSTER_ID: &str = "discovery.liqo.io/cluster-id";
/// Marks a tenant namespace, with [`TRUE`].
pub const TENANT_NAMESPACE: &str = "discovery.liqo.io/tenant-namespace";
/// Marks a Secret with the token to present to another cluster; its value is empty.
pub const AUTH_TOKEN: &str = "discovery.liqo.io/auth-token";
/// Says how a ForeignCluster came to be known.
pub const DISCOVERY_TYPE: &str = "discovery.liqo.io/discovery-type";
/// Marks a Secret with an identity of this cluster at another one, with [`TRUE`].
pub const LOCAL_IDENTITY: &str = "discovery.liqo.io/local-identity";
/// Marks an identity whose certificate has been issued, with [`TRUE`].
pub const CERTIFICATE_AVAILABLE: &str = "discovery.liqo.io/certificate-available";
/// Marks a `CertificateSigningRequest` made for a peer, with [`TRUE`].
pub const REMOTE_TENANT_CSR: &str = "discovery.liqo.io/remote-tenant-csr";
/// Says in which state of a peering a ClusterRole is granted to the peer.
pub const REMOTE_PEERING_PERMISSIONS: &str = "auth.liqo.io/remote-peering-permissions";

/// Says whether an object is to be copied to a peer ([`TRUE`]) or is such a copy ([`FALSE`]).
pub const REPLICATION: &str = "liqo.io/replication";
/// Identifies the cluster that an object is copied to.
pub const REMOTE_ID: &str = "liqo.io/remoteID";
/// Identifies the cluster that a copy comes from.
pub const ORIGIN_ID: &str = "liqo.io/originID";
/// Marks a copy, with [`TRUE`].
pub const REPLICATED: &str = "liqo.io/replicated";
/// Says which component has created a local object; never copied.
pub const OWNERSHIP: &str = "liqo.io/ownership";
/// Identifies the cluster behind a virtual node, a NamespaceMap or an offloaded namespace.
pub const REMOTE_CLUSTER_ID: &str = "liqo.io/remote-cluster-id";
/// Tells virtual nodes from others.
pub const TYPE: &str = "liqo.io/type";
/// Lets pods of a namespace be scheduled in other clusters, with [`TRUE`].
pub const SCHEDULING_ENABLED: &str = "liqo.io/scheduling-enabled";
/// Marks a local pod that runs in another cluster, with [`TRUE`].
pub const SHADOW_POD: &str = "liqo.io/shadowPod";
/// Names the kind of shadow object that a pod or slice was made from.
pub const MANAGED_BY: &str = "liqo.io/managed-by";
/// Marks the namespace of the real volumes, with [`TRUE`].
pub const STORAGE_PROVISIONER: &str = "liqo.io/storage-provisioner";
/// Names the kind of Kubernetes distribution that a cluster is.
pub const PROVIDER: &str = "liqo.io/provider";
/// Marks a namespace made by a test, with [`TRUE`].
pub const TESTING_NAMESPACE: &str = "liqo.io/testing-namespace";

/// Says whether a virtual node has storage to offer.
pub const STORAGE_AVAILABLE: &str = "storage.liqo.io/available";
/// Names the namespace of the claim that a real volume serves.
pub const VIRTUAL_PVC_NAMESPACE: &str = "storage.liqo.io/virtual-pvc-namespace";
/// Names the claim that a real volume serves.
pub const VIRTUAL_PVC_NAME: &str = "storage.liqo.io/virtual-pvc-name";

/// Identifies the cluster that a reflected object comes from.
pub const ORIGIN: &str = "virtualkubelet.liqo.io/origin";
/// Identifies the cluster that a reflected object has been sent to.
pub const DESTINATION: &str = "virtualkubelet.liqo.io/destination";
/// Names the pod that a reflected token is for.
pub const SERVICE_ACCOUNT_POD: &str = "virtualkubelet.liqo.io/service-account-for-pod-name";
/// Names the service account that a reflected token belongs to.
pub const SERVICE_ACCOUNT: &str = "virtualkubelet.liqo.io/service-account-name";

/// Tells the active gateway from those standing by, and marks the gateway's Service.
pub const GATEWAY: &str = "net.liqo.io/gateway";
/// Marks a Secret with the keys of a tunnel, by its technology.
pub const TUNNEL_KEY: &str = "net.liqo.io/key";
/// Marks the one IpamStorage, with [`TRUE`].
pub const IPAM_STORAGE: &str = "net.liqo.io/ipamstorage";
/// Marks a NatMapping in use, with [`TRUE`].
pub const NAT_MAPPING: &str = "net.liqo.io/natmapping";
/// Identifies the peer of a TunnelEndpoint or NatMapping.
pub const PEER_ID: &str = "clusterID";

/// Tells the pods of the authentication service and of the metric agent from all others.
pub const RUN: &str = "run";

/// Names the component of an object of the chart.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Names the installed instance of a component.
pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
/// Names the module that a component belongs to.
pub const APP_COMPONENT: &str = "app.kubernetes.io/component";
/// Names the application that a component belongs to.
pub const APP_PART_OF: &str = "app.kubernetes.io/part-of";
/// States the version of the application.
pub const APP_VERSION: &str = "app.kubernetes.io/version";
/// Names what manages an object.
pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Names the chart of an object and its version.
pub const HELM_CHART: &str = "helm.sh/chart";

/// Names the controller of an EndpointSlice.
pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Names the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Names the service account of a reflected token of the older kind.
pub const LEGACY_SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Names the host of a node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Names the role of a node.
pub const NODE_ROLE: &str = "kubernetes.io/role";
/// Names the operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// Names the processor architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// Names the region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Keeps load balancers from sending traffic to a node, with [`TRUE`].
pub const EXCLUDE_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The older form of [`EXCLUDE_LOAD_BALANCERS`].
pub const EXCLUDE_BALANCER_ALPHA: &str = "alpha.service-controller.kubernetes.io/exclude-balancer";
/// Marks a control plane node.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The older form of [`CONTROL_PLANE`].
pub const MASTER: &str = "node-role.kubernetes.io/master";
/// The form of [`CONTROL_PLANE`] that some distributions use.
pub const CONTROLPLANE: &str = "node-role.kubernetes.io/controlplane";
/// Tells revisions of a StatefulSet or DaemonSet apart.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Tells revisions of a Deployment apart.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Names a pod of a StatefulSet.
pub const STATEFUL_SET_POD: &str = "statefulset.kubernetes.io/pod-name";

/// The value of labels that mark.
pub const TRUE: &str = "true";
/// The value of labels that deny.
pub const FALSE: &str = "false";
/// [`DISCOVERY_TYPE`] of a cluster found on the local network.
pub const DISCOVERY_LAN: &str = "LAN";
/// [`DISCOVERY_TYPE`] of a cluster that somebody added; also what its absence means.
pub const DISCOVERY_MANUAL: &str = "Manual";
/// [`DISCOVERY_TYPE`] of a cluster that asked for resources.
pub const DISCOVERY_INCOMING_PEERING: &str = "IncomingPeering";
/// [`REMOTE_PEERING_PERMISSIONS`] that every peer has.
pub const PERMISSIONS_BASIC: &str = "basic";
/// [`REMOTE_PEERING_PERMISSIONS`] of a peer that offloads here.
pub const PERMISSIONS_INCOMING: &str = "incoming";
/// [`REMOTE_PEERING_PERMISSIONS`] of a peer that is offloaded to.
pub const PERMISSIONS_OUTGOING: &str = "outgoing";
/// [`OWNERSHIP`] of a NetworkConfig made by the network manager.
pub const OWNERSHIP_NETWORK_CONFIG: &str = "netcfgCreator";
/// [`TYPE`] of a virtual node.
pub const TYPE_VIRTUAL_NODE: &str = "virtual-node";
/// [`MANAGED_BY`] of a pod.
pub const MANAGED_BY_SHADOW_POD: &str = "shadowpod";
/// [`MANAGED_BY`] of an EndpointSlice.
pub const MANAGED_BY_SHADOW_ENDPOINT_SLICE: &str = "shadowendpointslice";
/// [`ENDPOINT_SLICE_MANAGED_BY`] of a reflected slice.
pub const ENDPOINT_SLICE_REFLECTION: &str = "endpointslice.reflection.liqo.io";
/// [`GATEWAY`] of the Pod that holds the tunnels.
pub const GATEWAY_ACTIVE: &str = "active";
/// [`GATEWAY`] of a Pod that may take over.
pub const GATEWAY_STANDBY: &str = "standby";
/// [`TUNNEL_KEY`] of WireGuard keys.
pub const TUNNEL_KEY_WIREGUARD: &str = "wireguard";
/// [`RUN`] of the authentication service.
pub const RUN_AUTH: &str = "auth-service";
/// [`RUN`] of the metric agent.
pub const RUN_METRIC_AGENT: &str = "metric-agent";
/// [`APP_PART_OF`] of everything that belongs to Liqo.
pub const PART_OF_LIQO: &str = "liqo";
/// [`APP_MANAGED_BY`] of what makes a virtual kubelet run.
pub const MANAGED_BY_ADVERTISEMENT_OPERATOR: &str = "advertisementoperator";
/// [`APP_MANAGED_BY`] of what the chart installs.
pub const MANAGED_BY_HELM: &str = "Helm";
/// [`NODE_ROLE`] of a virtual node.
pub const ROLE_AGENT: &str = "agent";
