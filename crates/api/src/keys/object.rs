//! Names of objects that are looked up by name, and of groups and users.

use crate::names::{ClusterId, ClusterName, UniqueName};

/// Version of every API of ours.
pub const API_VERSION: &str = "v1alpha1";
/// Group of ForeignCluster and ResourceRequest.
pub const GROUP_DISCOVERY: &str = "discovery.liqo.io";
/// Group of ResourceOffer.
pub const GROUP_SHARING: &str = "sharing.liqo.io";
/// Group of the network's resources.
pub const GROUP_NET: &str = "net.liqo.io";
/// Group of NamespaceOffloading.
pub const GROUP_OFFLOADING: &str = "offloading.liqo.io";
/// Group of the virtual kubelet's resources.
pub const GROUP_VIRTUAL_KUBELET: &str = "virtualkubelet.liqo.io";
/// Group of the metrics that a provider serves to consumers.
pub const GROUP_METRICS: &str = "metrics.liqo.io";

/// Namespace of the installation, unless another is chosen.
pub const NAMESPACE: &str = "liqo";
/// Namespace of the real volumes, unless another is chosen.
pub const STORAGE_NAMESPACE: &str = "liqo-storage";
/// Namespace of the leases of nodes.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";
/// Namespace of Kubernetes itself.
pub const SYSTEM_NAMESPACE: &str = "kube-system";
/// Namespace of the Service of the API server.
pub const DEFAULT_NAMESPACE: &str = "default";

/// ConfigMap of the cluster's identity.
pub const CLUSTER_ID_CONFIG_MAP: &str = "liqo-clusterid-configmap";
/// ConfigMap of the API server's authority, in every namespace.
pub const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
/// ConfigMap of the identities that EKS accepts, in [`SYSTEM_NAMESPACE`].
pub const AWS_AUTH_CONFIG_MAP: &str = "aws-auth";

/// Secret of the token that peers have to present.
pub const AUTH_TOKEN_SECRET: &str = "auth-token";
/// Beginning of the names of an identity's Secret and signing request; Kubernetes adds the rest.
pub const IDENTITY_SECRET_PREFIX: &str = "liqo-identity-";
/// Secret of the identity issued to a peer.
pub const REMOTE_CERTIFICATE_SECRET: &str = "liqo-remote-certificate";
/// Secret of the gateway's keys.
pub const WIREGUARD_SECRET: &str = "wireguard-pubkey";
/// Secret of the webhooks' certificates.
pub const WEBHOOK_SECRET: &str = "liqo-webhook-certs";
/// Secret of the settings for AWS.
pub const AWS_CONFIG_SECRET: &str = "liqo-aws-config";

/// Everything named after the controller manager.
pub const CONTROLLER_MANAGER: &str = "liqo-controller-manager";
/// Everything named after the replicator.
pub const CRD_REPLICATOR: &str = "liqo-crd-replicator";
/// Everything named after the authentication service.
pub const AUTH: &str = "liqo-auth";
/// Everything named after the discovery on the local network.
pub const DISCOVERY: &str = "liqo-discovery";
/// Everything named after the network manager.
pub const NETWORK_MANAGER: &str = "liqo-network-manager";
/// Everything named after the gateway.
pub const GATEWAY: &str = "liqo-gateway";
/// Service of the gateway's metrics.
pub const GATEWAY_METRICS: &str = "liqo-gateway-metrics";
/// Everything named after the routes of nodes.
pub const ROUTE: &str = "liqo-route";
/// Everything named after the proxy.
pub const PROXY: &str = "liqo-proxy";
/// Everything named after the metric agent.
pub const METRIC_AGENT: &str = "liqo-metric-agent";
/// Everything named after the telemetry.
pub const TELEMETRY: &str = "liqo-telemetry";
/// Job that cleans up before an uninstallation.
pub const PRE_DELETE: &str = "liqo-pre-delete";
/// Both webhook configurations.
pub const WEBHOOK: &str = "liqo-webhook";
/// Deployment, container and ServiceAccount of a virtual kubelet, in a tenant namespace.
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";
/// Registration of the metric agent at the API server.
pub const METRICS_API_SERVICE: &str = "v1alpha1.metrics.liqo.io";
/// Lease of the active controller manager.
pub const CONTROLLER_MANAGER_LEASE: &str = "66cf253f.ctrlmgr.liqo.io";
/// Lease of the active gateway.
pub const GATEWAY_LEASE: &str = "1d5hml1.gateway.net.liqo.io";
/// Service of the API server, in [`DEFAULT_NAMESPACE`].
pub const KUBERNETES_SERVICE: &str = "kubernetes";

/// ClusterRole that every peer has in its tenant namespace.
pub const ROLE_BASIC: &str = "liqo-remote-peering-basic";
/// ClusterRole of a peer that offloads here.
pub const ROLE_INCOMING: &str = "liqo-remote-peering-incoming";
/// ClusterRole of a peer that is offloaded to.
pub const ROLE_OUTGOING: &str = "liqo-remote-peering-outgoing";
/// ClusterRole of virtual kubelets in their own cluster.
pub const ROLE_VIRTUAL_KUBELET_LOCAL: &str = "liqo-virtual-kubelet-local";
/// ClusterRole of virtual kubelets in namespaces of the other cluster.
pub const ROLE_VIRTUAL_KUBELET_REMOTE: &str = "liqo-virtual-kubelet-remote";
/// Signer of the identities that peers are given.
pub const SIGNER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of the certificates of virtual kubelets.
pub const SIGNER_KUBELET: &str = "kubernetes.io/kubelet-serving";
/// Signer of the certificates of virtual kubelets on EKS.
pub const SIGNER_EKS: &str = "beta.eks.amazonaws.com/app-serving";
/// Group of the identities that peers are given.
pub const PEER_GROUP: &str = "liqo.io";
/// Beginning of the user names of virtual kubelets.
pub const VIRTUAL_KUBELET_USER_PREFIX: &str = "system:serviceaccount:liqo-tenant-";

/// The one name of a NamespaceOffloading.
pub const NAMESPACE_OFFLOADING: &str = "offloading";
/// Beginning of the name of a NatMapping; Kubernetes adds the rest.
pub const NAT_MAPPING_PREFIX: &str = "natmapping-";
/// Beginning of the name of the IpamStorage; Kubernetes adds the rest.
pub const IPAM_STORAGE_PREFIX: &str = "ipamstorage-";

/// Storage class of volumes that follow their pods, unless another is chosen.
pub const STORAGE_CLASS: &str = "liqo";
/// Provisioner of that class.
pub const STORAGE_PROVISIONER: &str = "liqo.io/storage";
/// Service by which clusters announce themselves on the local network.
pub const MDNS_SERVICE: &str = "_liqo_auth._tcp";
/// Domain of the local network.
pub const MDNS_DOMAIN: &str = "local.";

/// Secret of the token to present to a cluster.
pub fn remote_token_secret(remote: &ClusterId) -> String {
    format!("remote-token-{remote}")
}

/// RoleBinding that grants a ClusterRole to a peer.
pub fn role_binding(cluster_role: &str) -> String {
    format!("liqo-binding-{cluster_role}")
}

/// ClusterRole and ClusterRoleBinding that let a consumer read the metrics of its pods.
pub fn tenant_remote_role(consumer: &ClusterName) -> String {
    format!("liqo-tenant-remote-{consumer}")
}

/// The same for a consumer whose name another cluster has, too.
pub fn tenant_remote_namesake_role(consumer: &UniqueName) -> String {
    format!("liqo-tenant-remote-{consumer}")
}

/// ClusterRoleBinding of the virtual kubelet for a provider.
pub fn virtual_kubelet_binding(provider: &UniqueName) -> String {
    format!("liqo-virtual-kubelet-{provider}")
}

/// Secret of the reflected tokens of a pod.
pub fn token_secret(pod: &str) -> String {
    format!("{pod}-token")
}

/// ConfigMap of the authority of the home API server, in the other cluster.
pub fn reflected_root_ca(home: &ClusterId) -> String {
    let start: String = home.as_str().chars().take(5).collect();
    format!("{ROOT_CA_CONFIG_MAP}.{start}")
}

/// Volume for a claim, by the UID of the claim.
pub fn volume(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_who_they_are_about() {
        let milan: ClusterId = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap();

        assert_eq!(
            remote_token_secret(&milan),
            "remote-token-2cb4110a-c5e6-4a52-851d-d0e0d86c9174"
        );
        assert_eq!(reflected_root_ca(&milan), "kube-root-ca.crt.2cb41");
        assert_eq!(role_binding(ROLE_BASIC), "liqo-binding-liqo-remote-peering-basic");
        assert_eq!(tenant_remote_role(&"rome".parse().unwrap()), "liqo-tenant-remote-rome");
        assert_eq!(
            virtual_kubelet_binding(&"milan-ee0b4a".parse().unwrap()),
            "liqo-virtual-kubelet-milan-ee0b4a"
        );
    }
}
