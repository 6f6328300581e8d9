//! `ResourceRequest`: a consumer asks a provider for resources, and takes the request back.
//!
//! The consumer alone writes the spec, the provider alone the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterIdentity;
use crate::schema;

/// Describes who asks for resources.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "discovery.liqo.io",
    version = "v1alpha1",
    kind = "ResourceRequest",
    plural = "resourcerequests",
    category = "liqo",
    namespaced,
    status = "ResourceRequestStatus",
    derive = "PartialEq",
    doc = "A cluster's wish to use resources of another one.",
    printcolumn = r#"{"name": "Local", "type": "string", "jsonPath": ".metadata.labels.liqo\\.io/replication"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequestSpec {
    /// Says which cluster asks.
    pub cluster_identity: ClusterIdentity,
    /// Locates the authentication service of the cluster that asks.
    pub auth_url: String,
    /// Says when the request was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub withdrawal_timestamp: Option<Time>,
}

/// Reports what the provider has answered.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["offerState"]))]
pub struct ResourceRequestStatus {
    /// Says whether a ResourceOffer answers this request.
    #[serde(default)]
    pub offer_state: OfferState,
    /// Says when the offer was taken back and removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub offer_withdrawal_timestamp: Option<Time>,
}

/// Says whether a request has been answered with an offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OfferState {
    /// There is no offer.
    #[default]
    None,
    /// The offer exists.
    Created,
}
