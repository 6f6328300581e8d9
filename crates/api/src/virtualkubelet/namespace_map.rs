//! `NamespaceMap`: which namespaces a consumer wants at a provider, and which it has.
//!
//! The consumer writes the spec, the provider the status.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Describes which namespaces are wanted at the provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "virtualkubelet.liqo.io",
    version = "v1alpha1",
    kind = "NamespaceMap",
    plural = "namespacemaps",
    category = "liqo",
    namespaced,
    status = "NamespaceMapStatus",
    derive = "PartialEq",
    doc = "The namespaces of one cluster that another one hosts.",
    printcolumn = r#"{"name": "Local", "type": "string", "jsonPath": ".metadata.labels.liqo\\.io/replication"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceMapSpec {
    /// Holds for each local namespace the name wanted at the provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub desired_mapping: BTreeMap<String, String>,
}

/// Reports which namespaces exist at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceMapStatus {
    /// Holds for each local namespace what has become of it at the provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub current_mapping: BTreeMap<String, RemoteNamespace>,
}

/// Reports what has become of a namespace at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteNamespace {
    /// Names the namespace at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_namespace: Option<String>,
    /// Says whether it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MappingPhase")]
    pub phase: Option<MappingPhase>,
}

/// Says whether a namespace exists at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MappingPhase {
    /// It exists and may be used.
    Accepted,
    /// It cannot be created, and is tried again.
    CreationLoopBackOff,
    /// It is being removed.
    Terminating,
}
