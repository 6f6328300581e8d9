//! `IpamStorage`: the ledger of networks and addresses that have been given away.
//!
//! There is one in a cluster, and the network manager alone writes it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Describes every network and address in use.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "net.liqo.io",
    version = "v1alpha1",
    kind = "IpamStorage",
    plural = "ipamstorages",
    category = "liqo",
    derive = "PartialEq",
    doc = "The networks and addresses that this cluster has given away."
)]
#[serde(rename_all = "camelCase")]
pub struct IpamStorageSpec {
    /// Holds the allocator's record of each prefix.
    #[schemars(schema_with = "schema::bytes_by_name")]
    pub prefixes: BTreeMap<String, ByteString>,
    /// Lists the networks from which prefixes are taken, in order.
    pub pools: Vec<String>,
    /// Lists the networks that are never given away.
    pub reserved_subnets: Vec<String>,
    /// Holds the networks in use with each peer, by its cluster ID.
    pub cluster_subnets: BTreeMap<String, Subnets>,
    /// States the network under which this cluster exposes addresses that are not pods.
    #[serde(rename = "externalCIDR")]
    pub external_cidr: String,
    /// States the network of this cluster's pods.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// States the network of this cluster's services.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: String,
    /// Holds every exposed address, by its original one.
    pub endpoint_mappings: BTreeMap<String, EndpointMapping>,
    /// Names the peers that have a NatMapping, by cluster ID.
    #[expect(clippy::zero_sized_map_values, reason = "the wire format is a map of empty objects")]
    pub nat_mappings_configured: BTreeMap<String, NatMappingConfigured>,
}

/// Holds the networks in use with one peer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnets {
    /// States the prefix of this cluster's pods at the peer, or `None` if it is their own.
    #[serde(rename = "localNATPodCIDR")]
    pub local_nat_pod_cidr: String,
    /// States the prefix of the peer's pods in this cluster.
    #[serde(rename = "remotePodCIDR")]
    pub remote_pod_cidr: String,
    /// States the prefix of this cluster's exposed addresses at the peer, or `None` likewise.
    #[serde(rename = "localNATExternalCIDR")]
    pub local_nat_external_cidr: String,
    /// States the prefix of the peer's exposed addresses in this cluster.
    #[serde(rename = "remoteExternalCIDR")]
    pub remote_external_cidr: String,
}

/// Holds where an address is exposed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointMapping {
    /// States the address in this cluster's own external network.
    #[serde(rename = "ExternalCIDROriginalIP")]
    pub external_cidr_original_ip: String,
    /// Holds the address that each peer uses, by its cluster ID.
    pub cluster_mappings: BTreeMap<String, ClusterMapping>,
}

/// Holds the address that one peer uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ClusterMapping {
    /// States the address in the external network as the peer knows it.
    #[serde(rename = "ExternalCIDRNattedIP")]
    pub external_cidr_natted_ip: String,
}

/// Marks a peer as having a NatMapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct NatMappingConfigured {}
