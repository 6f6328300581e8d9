//! The taint that keeps pods off virtual nodes unless they may leave the cluster.

/// The key of the taint, and of the toleration of pods that may leave.
pub const KEY: &str = "virtual-node.liqo.io/not-allowed";
/// The value of the taint.
pub const VALUE: &str = "true";
/// The effect of the taint, and of the toleration.
pub const EFFECT: &str = "NoExecute";
/// The operator of the toleration.
pub const OPERATOR: &str = "Exists";
