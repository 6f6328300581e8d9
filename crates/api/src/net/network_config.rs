//! `NetworkConfig`: one cluster tells another how its network looks and where its gateway is.
//!
//! The sender writes the spec. The receiver writes into the status under which prefixes it will
//! know the sender's networks.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InvalidNetwork, network};
use crate::discovery::ClusterIdentity;

/// Describes the network of the sender.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "net.liqo.io",
    version = "v1alpha1",
    kind = "NetworkConfig",
    plural = "networkconfigs",
    category = "liqo",
    namespaced,
    status = "NetworkConfigStatus",
    derive = "PartialEq",
    doc = "The network of one cluster, as told to another.",
    printcolumn = r#"{"name": "Peering Cluster", "type": "string", "jsonPath": ".spec.cluster.clusterName"}"#,
    printcolumn = r#"{"name": "Endpoint IP", "type": "string", "jsonPath": ".spec.endpointIP", "priority": 1}"#,
    printcolumn = r#"{"name": "VPN Backend", "type": "string", "jsonPath": ".spec.backendType", "priority": 1}"#,
    printcolumn = r#"{"name": "Processed", "type": "string", "jsonPath": ".status.processed"}"#,
    printcolumn = r#"{"name": "Local", "type": "string", "jsonPath": ".metadata.labels.liqo\\.io/replication"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfigSpec {
    /// Says which cluster this is told to.
    #[serde(rename = "cluster")]
    pub receiver: ClusterIdentity,
    /// States the network of the sender's pods.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// States the network under which the sender exposes addresses that are not pods.
    #[serde(rename = "externalCIDR")]
    pub external_cidr: String,
    /// Locates the sender's gateway by address or DNS name.
    #[serde(rename = "endpointIP")]
    pub endpoint_ip: String,
    /// Names the technology of the tunnel.
    pub backend_type: String,
    /// Holds what the tunnel's technology needs to know of the sender.
    #[serde(rename = "backend_config")]
    pub backend_config: BTreeMap<String, String>,
}

impl NetworkConfigSpec {
    /// The network of the sender's pods.
    pub fn pod_network(&self) -> Result<Ipv4Net, InvalidNetwork> {
        network(&self.pod_cidr)
    }

    /// The network under which the sender exposes addresses that are not pods.
    pub fn external_network(&self) -> Result<Ipv4Net, InvalidNetwork> {
        network(&self.external_cidr)
    }
}

/// Reports under which prefixes the receiver knows the sender's networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["processed"]))]
pub struct NetworkConfigStatus {
    /// Says whether the receiver has made up its mind.
    #[serde(default)]
    pub processed: bool,
    /// States the prefix of the sender's pods at the receiver, or `None` if it is the sender's own.
    #[serde(rename = "podCIDRNAT", skip_serializing_if = "Option::is_none")]
    pub pod_cidr_nat: Option<String>,
    /// States the prefix of the sender's exposed addresses at the receiver, or `None` likewise.
    #[serde(rename = "externalCIDRNAT", skip_serializing_if = "Option::is_none")]
    pub external_cidr_nat: Option<String>,
}
