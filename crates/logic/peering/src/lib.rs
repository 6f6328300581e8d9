//! How two clusters come together and part: values in, decisions out.
//!
//! - [`foreign`]: a ForeignCluster, on both sides: identity, request, grants, conditions;
//! - [`request`]: a received ResourceRequest, on the provider: allow or deny, offer, withdrawal;
//! - [`offer`]: a received ResourceOffer, on the consumer: accept, run a virtual kubelet, stop it;
//! - [`kubelet`]: the objects that make a virtual kubelet run;
//! - [`grants`]: what a peer may do here, and when;
//! - [`in_band`]: two clusters that are introduced to each other, to talk through the tunnel;
//! - [`progress`]: how far a peering has come;
//! - [`silence`]: when a peer that does not answer is asked where it is;
//! - [`virtual_node`]: the NamespaceMap of a virtual node;
//! - [`approval`]: which certificates of virtual kubelets are signed.

pub mod approval;
pub mod conditions;
pub mod foreign;
pub mod grants;
pub mod in_band;
pub mod kubelet;
pub mod offer;
pub mod progress;
pub mod request;
pub mod silence;
pub mod virtual_node;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use liqo_api::Time;

/// How long a peer that does not answer can hold up what is to end here, unless told otherwise.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The reference by which an object is owned by the one that controls it.
pub fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..plain(owner) }
}

fn plain<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

/// How long it is until something that began has lasted long enough; nothing once it has.
fn until(began: Option<&Time>, length: SignedDuration, now: Timestamp) -> Option<SignedDuration> {
    let began = began.map_or(now, |Time(began)| *began);
    let left = length - now.duration_since(began);
    left.is_positive().then_some(left)
}

/// The sooner of two times, if any.
fn sooner(one: Option<SignedDuration>, other: Option<SignedDuration>) -> Option<SignedDuration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod fixtures;
