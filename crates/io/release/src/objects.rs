//! Objects of any kind: looked at, applied, deleted.

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::manager;
use liqo_install::object::Id;
use serde_json::Value;

use crate::{Engine, Error};

/// How many requests are under way at a time.
const AT_ONCE: usize = 8;

/// An object as it is wanted, and as it is.
pub struct Pair {
    /// Which object.
    pub id: Id,
    /// As it is wanted.
    pub want: Value,
    /// As it is, if it is there.
    pub have: Option<Value>,
}

impl Engine<'_> {
    /// Looks at objects; the answer has them in the same order.
    pub(crate) async fn look(&self, wanted: Vec<Value>) -> Result<Vec<Pair>, Error> {
        let pairs = wanted.into_iter().filter_map(|want| {
            let id = Id::of(&want, &self.namespace)?;
            Some(async {
                let have = self.get(&id, &want).await?;
                Ok::<_, Error>(Pair { id, want, have })
            })
        });
        stream::iter(pairs).buffered(AT_ONCE).try_collect().await
    }

    /// Makes sure that the cluster knows the kinds that not every cluster does.
    pub(crate) async fn kinds_exist(&self, objects: &[Value]) -> Result<(), Error> {
        let text = |object: &Value, key: &str| object.get(key)?.as_str().map(str::to_owned);
        let kinds = objects.iter().filter_map(|object| {
            let (version, kind) = (text(object, "apiVersion")?, text(object, "kind")?);
            let group = version.split('/').next()?;
            let is_extra = group.contains('.') && !group.ends_with(".k8s.io");
            is_extra.then_some((version, kind))
        });
        for (version, kind) in kinds.collect::<BTreeSet<_>>() {
            let known = match self.client.list_api_group_resources(&version).await {
                Err(kube::Error::Api(status)) if status.code == 404 => false,
                other => {
                    let list = other.map_err(Error::request(format!("look for {version}")))?;
                    list.resources.iter().any(|one| one.kind == kind)
                }
            };
            if !known {
                return Err(Error::NoKind { kind, version });
            }
        }
        Ok(())
    }

    async fn get(&self, id: &Id, object: &Value) -> Result<Option<Value>, Error> {
        let live = match self.api(id, object).get_opt(&id.name).await {
            // The kind itself is not there.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            other => other.map_err(Error::request(format!("look at {id}")))?,
        };
        Ok(live.and_then(|live| serde_json::to_value(live).ok()))
    }

    /// Makes objects as they are wanted: kind after kind, all of a kind at once.
    pub(crate) async fn apply(&self, objects: &[Value]) -> Result<(), Error> {
        let kind = |object: &Value| object.get("kind").cloned();
        for group in objects.chunk_by(|left, right| kind(left) == kind(right)) {
            let writes = group.iter().map(|object| self.apply_one(object));
            let () = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await?;
        }
        Ok(())
    }

    async fn apply_one(&self, object: &Value) -> Result<(), Error> {
        let Some(id) = Id::of(object, &self.namespace) else { return Ok(()) };
        self.report.detail(&format!("apply {id}"));
        // Fields that are sent are the release's; all others stay whose they are.
        let params = PatchParams::apply(manager::LIQOCTL).force();
        let api = self.api(&id, object);
        let written = api.patch(&id.name, &params, &Patch::Apply(object)).await;
        written.map(drop).map_err(Error::request(format!("apply {id}")))
    }

    /// Deletes objects, the last first, and waits until they are gone; `is_ours` tells which.
    pub(crate) async fn delete(
        &self,
        objects: Vec<Value>,
        is_ours: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        let mut pairs = self.look(objects).await?;
        pairs.reverse();
        for group in pairs.chunk_by(|left, right| left.id.kind == right.id.kind) {
            let ours = |pair: &&Pair| pair.have.as_ref().is_some_and(&is_ours);
            let deletions = group.iter().filter(ours).map(|pair| self.delete_one(pair));
            let () = stream::iter(deletions).buffer_unordered(AT_ONCE).try_collect().await?;
        }
        Ok(())
    }

    async fn delete_one(&self, pair: &Pair) -> Result<(), Error> {
        let id = &pair.id;
        self.report.detail(&format!("delete {id}"));
        let uid = pair.have.as_ref().and_then(|have| have.pointer("/metadata/uid"));
        let uid = uid.and_then(Value::as_str).unwrap_or_default();
        self.delete_and_wait(&self.api(id, &pair.want), &id.name, uid, &id.to_string()).await
    }

    /// Deletes one object, and waits until it is gone.
    pub(crate) async fn delete_and_wait<K>(
        &self,
        api: &Api<K>,
        name: &str,
        uid: &str,
        what: &str,
    ) -> Result<(), Error>
    where
        K: kube::Resource + Clone + Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params =
            DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match api.delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            // It goes already, or it is another one of the same name, and the wait ends at once.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Ok(_) => {}
            Err(error) => return Err(Error::request(format!("delete {what}"))(error)),
        }
        await_condition(api.clone(), name, conditions::is_deleted(uid))
            .await
            .map(drop)
            .map_err(|source| Error::Wait { what: what.to_owned(), source: Box::new(source) })
    }

    /// The place where an object lives.
    pub(crate) fn api(&self, id: &Id, object: &Value) -> Api<DynamicObject> {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        let kind = GroupVersionKind::gvk(&id.group, version, &id.kind);
        let resource = ApiResource::from_gvk(&kind);
        match &id.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// Identity of a live object.
pub fn uid<K: kube::Resource>(object: &K) -> String {
    object.uid().unwrap_or_default()
}
