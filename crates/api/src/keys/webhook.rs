//! Admission webhooks: their names, and the paths they are served at.

/// Lets pods go to other clusters.
pub const POD: &str = "pod.mutate.liqo.io";
/// Path of [`POD`].
pub const POD_PATH: &str = "/mutate/pod";
/// Completes ForeignClusters.
pub const FOREIGN_CLUSTER_MUTATE: &str = "fc.mutate.liqo.io";
/// Path of [`FOREIGN_CLUSTER_MUTATE`].
pub const FOREIGN_CLUSTER_MUTATE_PATH: &str = "/mutate/foreign-cluster";
/// Checks ForeignClusters.
pub const FOREIGN_CLUSTER_VALIDATE: &str = "fc.validate.liqo.io";
/// Path of [`FOREIGN_CLUSTER_VALIDATE`].
pub const FOREIGN_CLUSTER_VALIDATE_PATH: &str = "/validate/foreign-cluster";
/// Checks NamespaceOffloadings.
pub const NAMESPACE_OFFLOADING: &str = "nsoff.validate.liqo.io";
/// Path of [`NAMESPACE_OFFLOADING`].
pub const NAMESPACE_OFFLOADING_PATH: &str = "/validate/namespace-offloading";
/// Checks ShadowPods.
pub const SHADOW_POD: &str = "shadowpod.validate.liqo.io";
/// Path of [`SHADOW_POD`].
pub const SHADOW_POD_PATH: &str = "/validate/shadowpods";
