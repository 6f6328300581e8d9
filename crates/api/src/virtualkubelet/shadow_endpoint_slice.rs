//! `ShadowEndpointSlice`: endpoints of a service as a provider has to see them.
//!
//! The provider turns it into an `EndpointSlice`, whose endpoints are ready only while the cluster
//! they come from can be reached.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Describes the slice that is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "virtualkubelet.liqo.io",
    version = "v1alpha1",
    kind = "ShadowEndpointSlice",
    plural = "shadowendpointslices",
    namespaced,
    derive = "PartialEq",
    doc = "Endpoints of a service that live in another cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ShadowEndpointSliceSpec {
    /// Holds the content of the EndpointSlice to create.
    pub template: EndpointSliceTemplate,
}

/// Holds the content of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSliceTemplate {
    /// Lists the endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::endpoints")]
    pub endpoints: Option<Vec<Endpoint>>,
    /// Lists the ports that every endpoint offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::endpoint_ports")]
    pub ports: Option<Vec<EndpointPort>>,
    /// Says what kind of addresses the endpoints have: `IPv4`, `IPv6` or `FQDN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_type: Option<String>,
}
