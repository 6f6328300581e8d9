//! `offloading.liqo.io`: which namespaces extend to other clusters.

mod namespace_offloading;

pub use namespace_offloading::{
    ConditionStatus, NamespaceMappingStrategy, NamespaceOffloading, NamespaceOffloadingSpec,
    NamespaceOffloadingStatus, OffloadingPhase, PodOffloadingStrategy, RemoteNamespaceCondition,
    RemoteNamespaceConditionType,
};
