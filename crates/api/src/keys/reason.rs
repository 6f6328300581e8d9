//! Reasons of conditions: why in one word, for programs.

/// Peering: the ForeignCluster makes sense.
pub const FOREIGN_CLUSTER_PROCESSABLE: &str = "ForeignClusterProcessable";
/// Peering: the ForeignCluster is this cluster itself.
pub const LOCAL_CLUSTER: &str = "LocalCluster";
/// Peering: an older ForeignCluster has the same identifier.
pub const CLUSTER_ID_REPETITION: &str = "ClusterIDRepetition";
/// Peering: the identity in the ForeignCluster is none.
pub const INVALID_CLUSTER_IDENTITY: &str = "InvalidClusterIdentity";
/// Peering: the proxy URL does not read as one.
pub const INVALID_PROXY_URL: &str = "InvalidProxyURL";

/// Authentication: the remote cluster has accepted the identity.
pub const IDENTITY_ACCEPTED: &str = "IdentityAccepted";
/// Authentication: the remote cluster has refused a request without a token.
pub const IDENTITY_EMPTY_DENIED: &str = "IdentityEmptyDenied";
/// Authentication: the remote cluster has refused the token.
pub const IDENTITY_DENIED: &str = "IdentityDenied";
/// Authentication: the identity could not be obtained.
pub const IDENTITY_ERROR: &str = "IdentityError";
/// Authentication: the remote authentication service does not answer.
pub const AUTH_NOT_REACHABLE: &str = "AuthNotReachable";

/// API server: it answers.
pub const API_SERVER_READY: &str = "APIServerReady";
/// API server: it does not answer.
pub const API_SERVER_NOT_READY: &str = "APIServerNotReady";

/// Network: there is no tunnel.
pub const TUNNEL_ENDPOINT_NOT_FOUND: &str = "TunnelEndpointNotFound";
/// Network: the tunnel is being set up.
pub const TUNNEL_ENDPOINT_CONNECTING: &str = "TunnelEndpointConnecting";
/// Network: the tunnel works.
pub const TUNNEL_ENDPOINT_AVAILABLE: &str = "TunnelEndpointAvailable";
/// Network: the tunnel has failed.
pub const TUNNEL_ENDPOINT_ERROR: &str = "TunnelEndpointError";
/// Network: what the peer says of it is refused.
pub const NETWORK_CONFIG_REFUSED: &str = "NetworkConfigRefused";
/// Network: somebody else takes care of it.
pub const EXTERNAL_NETWORK: &str = "ExternalNetwork";

/// Either direction: nothing has been asked for.
pub const NO_RESOURCE_REQUEST: &str = "NoResourceRequest";
/// Either direction: there is no offer yet.
pub const RESOURCE_REQUEST_PENDING: &str = "ResourceRequestPending";
/// Either direction: there is an offer, and no virtual kubelet yet.
pub const KUBELET_PENDING: &str = "KubeletPending";
/// Either direction: the resources are in use.
pub const RESOURCE_REQUEST_ACCEPTED: &str = "ResourceRequestAccepted";
/// Either direction: the resources are being given back.
pub const RESOURCE_REQUEST_DELETING: &str = "ResourceRequestDeleting";

/// Remote namespace: the cluster is selected.
pub const CLUSTER_SELECTED: &str = "ClusterSelected";
/// Remote namespace: the cluster is not selected.
pub const CLUSTER_NOT_SELECTED: &str = "ClusterNotSelected";
/// Remote namespace: it exists.
pub const NAMESPACE_CREATED: &str = "NamespaceCreated";
/// Remote namespace: it cannot be created, and is tried again.
pub const CREATION_LOOP_BACK_OFF: &str = "CreationLoopBackOff";
/// Remote namespace: it is being removed.
pub const TERMINATING: &str = "Terminating";
/// Remote namespace: it has been asked for.
pub const CREATING: &str = "Creating";

/// Certificate request: it is the identity of a peer.
pub const CSR_PEER_IDENTITY: &str = "IdentityManagerApproval";
/// Certificate request: it is for the port of a virtual kubelet.
pub const CSR_VIRTUAL_KUBELET: &str = "LiqoApproval";
