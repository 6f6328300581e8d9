//! `NatMapping`: the addresses of this cluster that one peer may reach besides pods.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{ClusterId, InvalidName};

/// Describes which address a peer uses for which.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "net.liqo.io",
    version = "v1alpha1",
    kind = "NatMapping",
    plural = "natmappings",
    category = "liqo",
    status = "NatMappingStatus",
    derive = "PartialEq",
    doc = "Addresses of this cluster that a peer reaches under other ones."
)]
#[serde(rename_all = "camelCase")]
pub struct NatMappingSpec {
    /// Identifies the peer.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// States the network of the peer's pods, as used in this cluster.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// States the network of this cluster's exposed addresses, as used by the peer.
    #[serde(rename = "externalCIDR")]
    pub external_cidr: String,
    /// Holds for each exposed address the one that the peer uses.
    pub cluster_mappings: BTreeMap<String, String>,
}

impl NatMappingSpec {
    /// The peer's identifier, checked.
    pub fn peer(&self) -> Result<ClusterId, InvalidName> {
        self.cluster_id.parse()
    }
}

/// Reports nothing so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct NatMappingStatus {}
