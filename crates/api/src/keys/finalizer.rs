//! Finalizers, each with who removes it and when.

use std::net::Ipv4Addr;

/// On what is copied to a peer, and on its ForeignCluster: the copies must go first.
pub const CRD_REPLICATOR: &str = "crdReplicator.liqo.io";
/// On a ForeignCluster: the probe of its API server must stop first.
pub const API_SERVER_CHECKER: &str = "APIServerChecker.liqo.io";
/// On a received ResourceOffer: the virtual kubelet must go first.
pub const VIRTUAL_KUBELET: &str = "liqo.io/virtualkubelet";
/// On a received ResourceOffer: the virtual node must be drained and go first.
pub const NODE: &str = "liqo.io/node";
/// On a virtual node: its NamespaceMap must go first.
pub const VIRTUAL_NODE: &str = "virtualnode-controller.liqo.io/finalizer";
/// On a received NamespaceMap: the namespaces it maps must go first.
pub const NAMESPACE_MAP: &str = "namespacemap-controller.liqo.io/finalizer";
/// On a NamespaceOffloading: the remote namespaces must go first.
pub const NAMESPACE_OFFLOADING: &str = "namespaceoffloading-controller.liqo.io/finalizer";
/// On a NetworkConfig: its networks must be free and its tunnel gone first.
pub const TUNNEL_ENDPOINT_CREATOR: &str = "tunnelendpointcreator.net.liqo.io";
/// On a TunnelEndpoint: the gateway must take the tunnel down first.
pub const GATEWAY: &str = "liqo-gateway.net.liqo.io";

const ROUTE_PREFIX: &str = "liqo-route.";
const ROUTE_SUFFIX: &str = ".net.liqo.io";

/// On a TunnelEndpoint: the node of this address must remove its routes first.
pub fn route(node: Ipv4Addr) -> String {
    format!("{ROUTE_PREFIX}{node}{ROUTE_SUFFIX}")
}

/// The address of the node that a finalizer of [`route`] is about.
pub fn routed_node(finalizer: &str) -> Option<Ipv4Addr> {
    finalizer.strip_prefix(ROUTE_PREFIX)?.strip_suffix(ROUTE_SUFFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_node_is_named_by_its_address() {
        assert_eq!(route(Ipv4Addr::new(172, 30, 0, 3)), "liqo-route.172.30.0.3.net.liqo.io");
    }

    #[test]
    fn other_finalizers_name_no_node() {
        assert_eq!(routed_node(GATEWAY), None);
        assert_eq!(routed_node("liqo-route..net.liqo.io"), None);
    }

    proptest! {
        #[test]
        fn the_node_is_read_back(node: Ipv4Addr) {
            prop_assert_eq!(routed_node(&route(node)), Some(node));
        }
    }
}
