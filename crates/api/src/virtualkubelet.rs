//! `virtualkubelet.liqo.io`: what the virtual kubelet asks of the cluster behind its node.

mod namespace_map;
mod shadow_endpoint_slice;
mod shadow_pod;

pub use namespace_map::{
    MappingPhase, NamespaceMap, NamespaceMapSpec, NamespaceMapStatus, RemoteNamespace,
};
pub use shadow_endpoint_slice::{
    EndpointSliceTemplate, ShadowEndpointSlice, ShadowEndpointSliceSpec,
};
pub use shadow_pod::{PodPhase, ShadowPod, ShadowPodSpec, ShadowPodStatus};
