//! Finalizers and owners on objects that several writers share.
//!
//! Both are lists of which each writer has some entries. They are written whole, on the condition
//! that nobody has written since they were read: whoever was slower tries again.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{PartialObjectMeta, PartialObjectMetaExt as _, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, or_gone};

/// Puts a finalizer on an object.
pub async fn hold<K>(api: &Api<K>, object: &K, manager: &str, finalizer: &str) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    if object.finalizers().iter().any(|name| name == finalizer) {
        return Ok(());
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    write(api, object, manager, ObjectMeta { finalizers: Some(finalizers), ..seen(object) }).await
}

/// Takes a finalizer from an object.
pub async fn release<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    finalizer: &str,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    if object.finalizers().iter().all(|name| name != finalizer) {
        return Ok(());
    }
    let rest = object.finalizers().iter().filter(|name| *name != finalizer).cloned().collect();
    write(api, object, manager, ObjectMeta { finalizers: Some(rest), ..seen(object) }).await
}

/// Makes an object belong to another; a controller before is replaced.
pub async fn own<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    owner: OwnerReference,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let others = object.owner_references().iter();
    let mut owners: Vec<_> = others
        .filter(|other| other.uid != owner.uid && other.controller != Some(true))
        .cloned()
        .collect();
    owners.push(owner);
    let metadata = ObjectMeta { owner_references: Some(owners), ..seen(object) };
    write(api, object, manager, metadata).await
}

/// What tells the version that was seen.
fn seen<K: Resource>(object: &K) -> ObjectMeta {
    ObjectMeta {
        uid: object.meta().uid.clone(),
        resource_version: object.meta().resource_version.clone(),
        ..ObjectMeta::default()
    }
}

async fn write<K>(
    api: &Api<K>,
    object: &K,
    manager: &str,
    metadata: ObjectMeta,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let partial: PartialObjectMeta<K> = metadata.into_request_partial();
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let result = api.patch(&object.name_any(), &params, &Patch::Merge(&partial)).await;
    or_gone(result).map_err(Error::request("mark an object"))?;
    Ok(())
}
