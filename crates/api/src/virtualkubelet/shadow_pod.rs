//! `ShadowPod`: a pod that a consumer wants at a provider.
//!
//! The provider keeps such a pod alive on its own, also while the clusters do not see each other.

use k8s_openapi::api::core::v1::PodSpec;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Describes the pod that is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "virtualkubelet.liqo.io",
    version = "v1alpha1",
    kind = "ShadowPod",
    plural = "shadowpods",
    namespaced,
    status = "ShadowPodStatus",
    derive = "PartialEq",
    doc = "A pod that another cluster wants to have run here.",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ShadowPodSpec {
    /// Holds the specification of the pod.
    #[schemars(schema_with = "schema::pod_spec")]
    pub pod: PodSpec,
}

/// Reports what has become of the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["phase"]))]
pub struct ShadowPodStatus {
    /// Repeats the phase of the pod.
    #[serde(default)]
    pub phase: PodPhase,
}

/// Says where a pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PodPhase {
    /// It has been accepted, and not all of its containers have started.
    Pending,
    /// It has started.
    Running,
    /// All its containers have ended well.
    Succeeded,
    /// All its containers have ended, and one of them badly.
    Failed,
    /// Nobody can tell.
    #[default]
    Unknown,
}
