//! The messages of resource plugins, as they know them.

use std::collections::HashMap;

/// A cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterIdentity {
    /// What programs call it; empty for all.
    #[prost(string, tag = "1")]
    pub cluster_id: String,
}

/// Amounts of resources, by their names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceList {
    /// The amounts.
    #[prost(map = "string, message", tag = "1")]
    pub resources: HashMap<String, Quantity>,
}

/// A quantity, as Kubernetes writes it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Quantity {
    /// The text.
    #[prost(string, optional, tag = "1")]
    pub string: Option<String>,
}

/// Nothing.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Empty {}
