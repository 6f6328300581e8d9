//! Finalizers and owners on objects that several writers share.
//!
//! Both are lists of which each writer has some entries. They are written whole, on the condition
//! that nobody has written since they were read: whoever was slower reads again, and tries again.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};
use kube::api::{PartialObjectMeta, PartialObjectMetaExt as _, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use liqo_kit::retry::or_gone;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// How often somebody else may be faster before that is a failure.
const TRIES: usize = 5;

/// Puts finalizers on an object.
pub async fn hold<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    finalizers: &[&str],
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    write(api, object, manager, |metadata| {
        let finalizers = with(metadata, finalizers)?;
        Some(ObjectMeta { finalizers: Some(finalizers), ..ObjectMeta::default() })
    })
    .await
}

/// The finalizers with some more; nothing when all are there, or it is too late.
fn with(metadata: &ObjectMeta, finalizers: &[&str]) -> Option<Vec<String>> {
    let mut all = metadata.finalizers.clone().unwrap_or_default();
    let missing: Vec<_> =
        finalizers.iter().filter(|name| !all.iter().any(|there| there == *name)).collect();
    if metadata.deletion_timestamp.is_some() || missing.is_empty() {
        return None;
    }
    all.extend(missing.into_iter().map(|name| (*name).to_owned()));
    Some(all)
}

/// Takes finalizers from an object.
pub async fn release<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    finalizers: &[&str],
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    write(api, object, manager, |metadata| {
        let all = metadata.finalizers.as_ref()?;
        let rest: Vec<_> =
            all.iter().filter(|name| !finalizers.contains(&name.as_str())).cloned().collect();
        (rest.len() < all.len())
            .then(|| ObjectMeta { finalizers: Some(rest), ..ObjectMeta::default() })
    })
    .await
}

/// Makes a copy of a peer's object belong to another, and puts finalizers on it, in one write; a
/// controller before is replaced.
///
/// Which field the peer wrote when it made the copy is forgotten: that would go back to the peer with
/// every change from here on, and nobody ever asks.
pub async fn own<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    owner: OwnerReference,
    finalizers: &[&str],
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    write(api, object, manager, |metadata| {
        let before = metadata.owner_references.clone().unwrap_or_default();
        if before.contains(&owner) {
            return None;
        }
        let is_other = |one: &OwnerReference| one.uid != owner.uid && one.controller != Some(true);
        let others = before.into_iter().filter(is_other);
        let all = others.chain([owner.clone()]).collect();
        Some(ObjectMeta {
            owner_references: Some(all),
            finalizers: with(metadata, finalizers),
            // One that says nothing stands for none.
            managed_fields: Some(vec![ManagedFieldsEntry::default()]),
            ..ObjectMeta::default()
        })
    })
    .await
}

/// Writes what a change makes of the metadata; nothing when it makes nothing of it.
async fn write<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    change: impl Fn(&ObjectMeta) -> Option<ObjectMeta>,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let mut current = object.meta().clone();
    let name = object.name_any();
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    for _ in 1..TRIES {
        let Some(wanted) = change(&current) else { return Ok(()) };
        let (uid, resource_version) = (current.uid.clone(), current.resource_version.clone());
        let partial: PartialObjectMeta<K> =
            ObjectMeta { uid, resource_version, ..wanted }.into_request_partial();
        match or_gone(api.patch(&name, &params, &Patch::Merge(&partial)).await) {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Error::request("mark an object")(error)),
        }
        let live = api.get_metadata_opt(&name).await.map_err(Error::request("read an object"))?;
        match live {
            Some(live) if live.metadata.uid == object.meta().uid => current = live.metadata,
            // Another one has its name by now.
            Some(_) | None => return Ok(()),
        }
    }
    let busy = kube::core::Status { code: 409, ..kube::core::Status::failure("busy", "Conflict") };
    Err(Error::request("mark an object that others keep changing")(kube::Error::Api(Box::new(
        busy,
    ))))
}
