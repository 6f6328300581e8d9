//! The vocabulary of Liqo: custom resources, names, labels and conditions.
//!
//! Everything that a user, another program or a peer can see is spelled here, and only here.
//! Nothing in this crate decides or touches anything.
//!
//! Custom resources keep what people and peers typed as plain text: one object with a typing error
//! must not make a whole list unreadable. The accessors beside the fields turn that text into the
//! types of [`names`] and of `ipnet`, and say what is wrong with it.

pub mod condition;
pub mod discovery;
pub mod keys;
pub mod names;
pub mod net;
pub mod offloading;
mod schema;
pub mod sharing;
pub mod virtualkubelet;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::CustomResourceExt as _;

/// Every custom resource definition, as the API server has to know it, ordered by group and kind.
///
/// Use this rather than `crd()` of the types: it also settles what the derivation leaves open.
pub fn all_crds() -> Vec<CustomResourceDefinition> {
    [
        discovery::ForeignCluster::crd(),
        discovery::ResourceRequest::crd(),
        net::IpamStorage::crd(),
        net::NatMapping::crd(),
        net::NetworkConfig::crd(),
        net::TunnelEndpoint::crd(),
        offloading::NamespaceOffloading::crd(),
        sharing::ResourceOffer::crd(),
        virtualkubelet::NamespaceMap::crd(),
        virtualkubelet::ShadowEndpointSlice::crd(),
        virtualkubelet::ShadowPod::crd(),
    ]
    .into_iter()
    .map(schema::published)
    .collect()
}
