//! `ResourceOffer`: a provider's answer to a request, accepted or refused by the consumer.
//!
//! The provider alone writes the spec, the consumer alone the status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerImage, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{ClusterId, InvalidName};
use crate::schema;

/// Describes what is lent, by whom.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sharing.liqo.io",
    version = "v1alpha1",
    kind = "ResourceOffer",
    plural = "resourceoffers",
    shortname = "offer",
    category = "liqo",
    namespaced,
    status = "ResourceOfferStatus",
    derive = "PartialEq",
    doc = "Resources that one cluster lends to another.",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "VirtualKubeletStatus", "type": "string", "jsonPath": ".status.virtualKubeletStatus"}"#,
    printcolumn = r#"{"name": "Local", "type": "string", "jsonPath": ".metadata.labels.liqo\\.io/replication"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOfferSpec {
    /// Identifies the cluster that lends.
    pub cluster_id: String,
    /// Lists container images that the lending cluster already holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::container_images")]
    pub images: Vec<ContainerImage>,
    /// Bounds how much may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_quota")]
    pub resource_quota: Option<ResourceQuotaSpec>,
    /// Labels for the virtual node, as the lending cluster describes itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// States the price of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub prices: BTreeMap<String, Quantity>,
    /// Says when the lending cluster asked for its resources back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub withdrawal_timestamp: Option<Time>,
    /// Lists the storage classes that may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_classes: Vec<StorageType>,
}

impl ResourceOfferSpec {
    /// The lending cluster's identifier, checked.
    pub fn provider(&self) -> Result<ClusterId, InvalidName> {
        self.cluster_id.parse()
    }
}

/// Describes a storage class of the lending cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageType {
    /// Names the storage class.
    pub storage_class_name: String,
    /// Says whether it is the one to take when none is asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Reports what the borrowing cluster has made of the offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["phase"]))]
pub struct ResourceOfferStatus {
    /// Says whether the offer has been accepted.
    #[serde(default)]
    pub phase: OfferPhase,
    /// Says whether the virtual node for these resources is being run.
    #[serde(default)]
    pub virtual_kubelet_status: VirtualKubeletStatus,
}

/// Says whether an offer has been accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OfferPhase {
    /// Nobody has looked at it yet.
    #[default]
    Pending,
    /// A person has to accept or refuse it.
    ManualActionRequired,
    /// It is in use.
    Accepted,
    /// It is not wanted.
    Refused,
}

/// Says whether the virtual kubelet of an offer is being run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum VirtualKubeletStatus {
    /// There is none.
    #[default]
    None,
    /// It is running.
    Created,
    /// It is emptying its node before it goes away.
    Deleting,
}
