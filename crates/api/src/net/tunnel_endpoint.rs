//! `TunnelEndpoint`: all that gateways and nodes need to know of the tunnel to one cluster.
//!
//! The network manager writes the spec, the gateway the status. It never leaves its cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::not_translated;
use crate::discovery::ClusterIdentity;
use crate::schema;

/// Describes the two networks that the tunnel joins, and its far end.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "net.liqo.io",
    version = "v1alpha1",
    kind = "TunnelEndpoint",
    plural = "tunnelendpoints",
    category = "liqo",
    namespaced,
    status = "TunnelEndpointStatus",
    derive = "PartialEq",
    doc = "The tunnel to another cluster.",
    printcolumn = r#"{"name": "Peering Cluster", "type": "string", "jsonPath": ".spec.clusterIdentity.clusterName"}"#,
    printcolumn = r#"{"name": "Endpoint IP", "type": "string", "jsonPath": ".spec.endpointIP", "priority": 1}"#,
    printcolumn = r#"{"name": "Backend type", "type": "string", "jsonPath": ".spec.backendType"}"#,
    printcolumn = r#"{"name": "Latency", "type": "string", "jsonPath": ".status.connection.latency.value", "priority": 1}"#,
    printcolumn = r#"{"name": "Connection status", "type": "string", "jsonPath": ".status.connection.status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TunnelEndpointSpec {
    /// Says which cluster is at the far end.
    pub cluster_identity: ClusterIdentity,
    /// States the network of this cluster's pods.
    #[serde(rename = "localPodCIDR")]
    pub local_pod_cidr: String,
    /// States the prefix of this cluster's pods at the far end, or `None` if it is their own.
    #[serde(rename = "localNATPodCIDR", default = "not_translated")]
    pub local_nat_pod_cidr: String,
    /// States the network under which this cluster exposes addresses that are not pods.
    #[serde(rename = "localExternalCIDR")]
    pub local_external_cidr: String,
    /// States the prefix of this cluster's exposed addresses at the far end, or `None` likewise.
    #[serde(rename = "localNATExternalCIDR", default = "not_translated")]
    pub local_nat_external_cidr: String,
    /// States the network of the remote pods, as their own cluster has it.
    #[serde(rename = "remotePodCIDR")]
    pub remote_pod_cidr: String,
    /// States the prefix of the remote pods in this cluster, or `None` if it is their own.
    #[serde(rename = "remoteNATPodCIDR", default = "not_translated")]
    pub remote_nat_pod_cidr: String,
    /// States the network under which the far end exposes addresses that are not pods.
    #[serde(rename = "remoteExternalCIDR")]
    pub remote_external_cidr: String,
    /// States the prefix of the far end's exposed addresses in this cluster, or `None` likewise.
    #[serde(rename = "remoteNATExternalCIDR", default = "not_translated")]
    pub remote_nat_external_cidr: String,
    /// Locates the remote gateway by address or DNS name.
    #[serde(rename = "endpointIP")]
    pub endpoint_ip: String,
    /// Names the technology of the tunnel.
    pub backend_type: String,
    /// Holds what the tunnel's technology needs to know of the far end.
    #[serde(rename = "backend_config")]
    pub backend_config: BTreeMap<String, String>,
}

/// Reports how the tunnel is doing and where it starts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelEndpointStatus {
    /// Names the interface of the tunnel.
    #[serde(rename = "tunnelIFaceName", skip_serializing_if = "Option::is_none")]
    pub tunnel_iface_name: Option<String>,
    /// Numbers the interface of the tunnel.
    #[serde(rename = "tunnelIFaceIndex", skip_serializing_if = "Option::is_none")]
    pub tunnel_iface_index: Option<i64>,
    /// Names the interface that leads from the gateway's node into the gateway.
    #[serde(rename = "vethIFaceName", skip_serializing_if = "Option::is_none")]
    pub veth_iface_name: Option<String>,
    /// Numbers the interface that leads from the gateway's node into the gateway.
    #[serde(rename = "vethIFaceIndex", skip_serializing_if = "Option::is_none")]
    pub veth_iface_index: Option<i64>,
    /// States the address by which the gateway's node reaches the gateway.
    #[serde(rename = "vethIP", skip_serializing_if = "Option::is_none")]
    pub veth_ip: Option<String>,
    /// States the address of the node that runs the active gateway.
    #[serde(rename = "gatewayIP", skip_serializing_if = "Option::is_none")]
    pub gateway_ip: Option<String>,
    /// Reports how the tunnel is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
}

/// Reports how a tunnel is doing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Says whether the far end answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ConnectionStatus")]
    pub status: Option<ConnectionStatus>,
    /// Says the same in a sentence, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Repeats the settings in use for the far end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_configuration: BTreeMap<String, String>,
    /// Reports how long an answer takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Says whether the far end of a tunnel answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConnectionStatus {
    /// It is set up, and nothing has been heard yet.
    Connecting,
    /// It answers.
    Connected,
    /// It cannot be set up, or has fallen silent.
    Error,
}

/// Reports how long the far end of a tunnel took to answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// States the time an answer took, with its unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Says when it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub timestamp: Option<Time>,
}
