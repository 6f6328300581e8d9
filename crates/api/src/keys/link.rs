//! What marks the data plane in the kernel of a node.

use std::net::Ipv4Addr;

/// Technology of tunnels in `backendType`.
pub const BACKEND_WIREGUARD: &str = "wireguard";
/// Network namespace of the gateway.
pub const GATEWAY_NETNS: &str = "liqo-netns";
/// Interface on the node that leads into the gateway.
pub const HOST_VETH: &str = "liqo.host";
/// Interface in the gateway that leads to the node.
pub const GATEWAY_VETH: &str = "liqo.gateway";
/// Interface of the tunnels.
pub const TUNNEL: &str = "liqo.tunnel";
/// Interface of the overlay between nodes.
pub const OVERLAY: &str = "liqo.vxlan";
/// Address of the node towards the gateway, in `status.vethIP`.
pub const HOST_VETH_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 100, 1);
/// Address of the gateway towards the node.
pub const GATEWAY_VETH_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 100, 2);
/// Address of the tunnel's interface, and the one that peers probe.
pub const TUNNEL_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
/// First byte of the addresses of the overlay; the others are those of the node.
pub const OVERLAY_FIRST_OCTET: u8 = 240;
/// Network identifier of the overlay.
pub const OVERLAY_VNI: u32 = 18952;
/// Routing table of every route to another cluster.
pub const ROUTING_TABLE: u32 = 18952;
