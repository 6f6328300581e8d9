//! `NamespaceOffloading`: extends the namespace it lies in to other clusters.
//!
//! There is at most one in a namespace, under a fixed name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Describes where the namespace extends to, and which pods follow.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "offloading.liqo.io",
    version = "v1alpha1",
    kind = "NamespaceOffloading",
    plural = "namespaceoffloadings",
    shortname = "nsof",
    category = "liqo",
    namespaced,
    status = "NamespaceOffloadingStatus",
    derive = "PartialEq",
    doc = "The extension of a namespace to other clusters; its name is always 'offloading'.",
    printcolumn = r#"{"name": "NamespaceMappingStrategy", "type": "string", "jsonPath": ".spec.namespaceMappingStrategy"}"#,
    printcolumn = r#"{"name": "PodOffloadingStrategy", "type": "string", "jsonPath": ".spec.podOffloadingStrategy"}"#,
    printcolumn = r#"{"name": "OffloadingPhase", "type": "string", "jsonPath": ".status.offloadingPhase"}"#,
    printcolumn = r#"{"name": "RemoteNamespaceName", "type": "string", "jsonPath": ".status.remoteNamespaceName", "priority": 10}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.namespaceMappingStrategy == oldSelf.namespaceMappingStrategy",
    "message": "namespaceMappingStrategy cannot change; delete the NamespaceOffloading and create \
                it again",
}]))]
pub struct NamespaceOffloadingSpec {
    /// Says how the namespace is called in the other clusters.
    #[serde(default)]
    pub namespace_mapping_strategy: NamespaceMappingStrategy,
    /// Says where pods of the namespace may run.
    #[serde(default)]
    pub pod_offloading_strategy: PodOffloadingStrategy,
    /// Selects the clusters by the labels of their virtual nodes; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_selector")]
    pub cluster_selector: Option<NodeSelector>,
}

/// Says how a namespace is called in other clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum NamespaceMappingStrategy {
    /// As at home; it fails where the name is taken.
    EnforceSameName,
    /// As at home, followed by the name of the home cluster.
    #[default]
    DefaultName,
}

/// Says where pods may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PodOffloadingStrategy {
    /// At home only.
    Local,
    /// In other clusters only.
    Remote,
    /// Anywhere.
    #[default]
    LocalAndRemote,
}

/// Reports how far the namespace extends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOffloadingStatus {
    /// Names the namespace in the other clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_namespace_name: Option<String>,
    /// Sums up the state over all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OffloadingPhase")]
    pub offloading_phase: Option<OffloadingPhase>,
    /// Reports the state in each cluster, by the cluster's unique name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remote_namespaces_conditions: BTreeMap<String, Vec<RemoteNamespaceCondition>>,
    /// Says which generation of the spec this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Sums up how far a namespace extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OffloadingPhase {
    /// It exists in every selected cluster.
    Ready,
    /// No cluster is selected.
    NoClusterSelected,
    /// It does not exist in every selected cluster yet.
    InProgress,
    /// It cannot be created in some of the selected clusters.
    SomeFailed,
    /// It cannot be created in any of the selected clusters.
    AllFailed,
    /// It is being removed from the other clusters.
    Terminating,
}

/// Reports one aspect of a namespace in one other cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteNamespaceCondition {
    /// Names the aspect.
    #[serde(rename = "type")]
    pub kind: RemoteNamespaceConditionType,
    /// Says whether it is so.
    pub status: ConditionStatus,
    /// Says since when it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Time>,
    /// Says why in one word, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Says why in a sentence, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Names an aspect of a namespace in another cluster.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum RemoteNamespaceConditionType {
    /// Whether the cluster is selected.
    OffloadingRequired,
    /// Whether the namespace exists there.
    Ready,
}

/// Says whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
    Unknown,
}
