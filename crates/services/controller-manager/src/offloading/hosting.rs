//! The controller of NamespaceMaps that consumers sent: makes namespaces for them, and removes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{event, finalizer, label, manager};
use liqo_api::names::ClusterId;
use liqo_api::virtualkubelet::{NamespaceMap, NamespaceMapStatus, RemoteNamespace};
use liqo_kit::apply::Writer;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::{Next, chain};
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use liqo_offloading::hosting::{Entry, Host, Step, binding, is_made_for, maker, phase};
use liqo_replication::patch;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::error::Error;
use crate::marks;
use crate::world::{World, is_copy};

/// The controller of NamespaceMaps that consumers sent.
pub struct Hosting {
    world: World,
    events: Events,
    host: Host,
    bindings: Writer,
    namespaces: Writer,
}

impl Hosting {
    /// The controller, with what it needs.
    pub fn new(world: World, events: Events, host: Host) -> Self {
        let [bindings, namespaces] = [(); 2].map(|()| Writer::owning(manager::NAMESPACE_MAP));
        Self { world, events, host, bindings, namespaces }
    }

    /// Brings a NamespaceMap one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(map) = self.world.maps.object(&key) else { return self.sweep(&key).await };
        if !is_copy(&*map) {
            return Ok(Next::AwaitChange);
        }
        let Some(consumer) = self.consumer(&map) else { return Ok(Next::AwaitChange) };
        let tenant = map.namespace().unwrap_or_default();
        let api: Api<NamespaceMap> = Api::namespaced(self.world.client.clone(), &tenant);
        let is_ending = map.metadata.deletion_timestamp.is_some();
        if !is_ending {
            let name = finalizer::NAMESPACE_MAP;
            marks::hold(&api, &map, manager::NAMESPACE_MAP, &[name]).await?;
        }
        let entries = self.entries(&map, &consumer);
        if is_ending && entries.is_empty() {
            let name = finalizer::NAMESPACE_MAP;
            marks::release(&api, &map, manager::NAMESPACE_MAP, &[name]).await?;
            return Ok(Next::AwaitChange);
        }
        let mut status = NamespaceMapStatus::default();
        let before = map.status.clone().unwrap_or_default();
        let mut failure = None;
        for entry in entries {
            let done = self.act(&map, &consumer, &entry).await;
            let earlier = before.current_mapping.get(&entry.local).and_then(|one| one.phase);
            let now = phase(&entry.step, done.is_ok(), earlier);
            self.tell(&map, &entry, done.as_ref().err()).await;
            failure = failure.or(done.err());
            let remote_namespace = Some(entry.remote);
            // What is asked for comes last, and is what is reported.
            let current = RemoteNamespace { remote_namespace, phase: Some(now) };
            status.current_mapping.insert(entry.local, current);
        }
        report(&api, &map, &status).await?;
        // The others are not held up by one that failed.
        failure.map_or(Ok(Next::AwaitChange), Err)
    }

    /// Deletes what was made for a NamespaceMap that went without a word: whoever may write to it
    /// can also take off the finalizer that it waits for.
    async fn sweep(&self, key: &Key) -> Result<Next, Error> {
        let all = self.world.offloading.namespaces.objects();
        let text = key.to_string();
        let left = all.into_iter().filter(|namespace| {
            maker(&namespace.metadata) == Some(text.as_str())
                && namespace.labels().contains_key(label::REMOTE_CLUSTER_ID)
                && namespace.metadata.deletion_timestamp.is_none()
        });
        let left: Vec<_> = left.collect();
        if left.is_empty() {
            return Ok(Next::AwaitChange);
        }
        let tenant = key.namespace.as_deref().unwrap_or_default();
        let maps: Api<NamespaceMap> = Api::namespaced(self.world.client.clone(), tenant);
        let live = maps.get_metadata_opt(&key.name).await;
        // What is there but not seen yet is going to touch this.
        if live.map_err(Error::request("read the map of a namespace"))?.is_none() {
            let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.world.client.clone());
            for namespace in left {
                self.namespaces.delete(&api, &*namespace).await?;
                warn!(namespace = namespace.name_any(), map = %key, "Namespace without a map deleted");
            }
        }
        Ok(Next::AwaitChange)
    }

    /// Whose a NamespaceMap is: that of the cluster that its namespace is kept for.
    fn consumer(&self, map: &NamespaceMap) -> Option<ClusterId> {
        let tenant = map.namespace().unwrap_or_default();
        let claimed = map.labels().get(label::ORIGIN_ID).cloned().unwrap_or_default();
        let kept = self.world.tenants.object(&Key::cluster(&tenant));
        let kept = kept.and_then(|kept| kept.labels().get(label::CLUSTER_ID).cloned());
        match kept {
            Some(kept) if kept == claimed => kept.parse().ok(),
            // Nothing is made for it any more, whoever it is.
            _ if map.metadata.deletion_timestamp.is_some() => claimed.parse().ok(),
            kept => {
                let kept = kept.unwrap_or_default();
                warn!(map = %Key::of(map), claimed, kept, "NamespaceMap of another cluster ignored");
                None
            }
        }
    }

    fn entries(&self, map: &NamespaceMap, consumer: &ClusterId) -> Vec<Entry> {
        let namespaces = &self.world.offloading.namespaces;
        let all: Vec<Arc<PartialObjectMeta<Namespace>>> = namespaces.objects();
        let mut made: Vec<_> =
            all.iter().map(|one| &one.metadata).filter(|one| is_made_for(one, map)).collect();
        made.sort_by(|one, other| one.name.cmp(&other.name));
        let find =
            |name: &str| namespaces.object(&Key::cluster(name)).map(|found| found.metadata.clone());
        self.host.entries(map, consumer, made, find)
    }

    async fn act(
        &self,
        map: &NamespaceMap,
        consumer: &ClusterId,
        entry: &Entry,
    ) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.world.client.clone());
        match &entry.step {
            Step::Make => {
                let namespace = self.host.namespace(map, consumer, entry);
                let params = PostParams {
                    field_manager: Some(manager::NAMESPACE_MAP.to_owned()),
                    ..PostParams::default()
                };
                let made = api.create(&params, &namespace).await;
                made.map_err(Error::request("make a namespace for a consumer"))?;
                info!(namespace = entry.remote, %consumer, "Namespace made");
                self.open(map, consumer, &entry.remote, true).await
            }
            Step::Keep { mend } => {
                if *mend {
                    let labels = json!({ label::REMOTE_CLUSTER_ID: consumer.as_str() });
                    let change = Patch::Merge(json!({ "metadata": { "labels": labels } }));
                    let mended = api.patch_metadata(&entry.remote, &params(), &change).await;
                    mended.map_err(Error::request("label the namespace of a consumer"))?;
                }
                self.open(map, consumer, &entry.remote, false).await
            }
            Step::Remove => {
                let found = self.world.offloading.namespaces.object(&Key::cluster(&entry.remote));
                let Some(found) = found else { return Ok(()) };
                let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.world.client.clone());
                self.namespaces.delete(&api, &*found).await?;
                info!(namespace = entry.remote, %consumer, "Namespace deleted");
                Ok(())
            }
            Step::Await | Step::Refuse(_) | Step::Leave => Ok(()),
        }
    }

    /// Opens a namespace to the consumer, unless it is.
    async fn open(
        &self,
        map: &NamespaceMap,
        consumer: &ClusterId,
        namespace: &str,
        is_new: bool,
    ) -> Result<(), Error> {
        let want = binding(map, consumer, namespace);
        let known = self.world.offloading.bindings.object(&Key::of(&want));
        // Others may have put marks of their own on it.
        let has = |all: &BTreeMap<String, String>, some: &BTreeMap<String, String>| {
            some.iter().all(|(name, value)| all.get(name) == Some(value))
        };
        let is_open = known.is_some_and(|known| {
            has(known.labels(), want.labels()) && has(known.annotations(), want.annotations())
        });
        if is_open && !is_new {
            return Ok(());
        }
        let api: Api<RoleBinding> = Api::namespaced(self.world.client.clone(), namespace);
        self.bindings.apply(&api, &want, None).await?;
        Ok(())
    }

    /// Tells why a namespace cannot be had.
    async fn tell(&self, map: &NamespaceMap, entry: &Entry, error: Option<&Error>) {
        let why = match (&entry.step, error) {
            (Step::Refuse(why), _) => why.clone(),
            (_, Some(error)) => chain(error),
            (_, None) => return,
        };
        let message =
            format!("Namespace {} cannot be had for {}: {why}", entry.remote, entry.local);
        let reason = event::CREATION_LOOP_BACK_OFF;
        let note = Note { warning: true, reason, action: "Host", message: &message };
        self.events.tell(map, note).await;
    }
}

async fn report(
    api: &Api<NamespaceMap>,
    map: &NamespaceMap,
    status: &NamespaceMapStatus,
) -> Result<(), Error> {
    let value = |mapping: Option<&BTreeMap<String, RemoteNamespace>>| {
        let mapping = mapping.and_then(|mapping| serde_json::to_value(mapping).ok());
        mapping.unwrap_or_else(|| json!({}))
    };
    let before = value(map.status.as_ref().map(|status| &status.current_mapping));
    let after = value(Some(&status.current_mapping));
    let Some(change) = patch::between(&before, &after) else { return Ok(()) };
    let change: Value = json!({ "currentMapping": change });
    let change = patch::of_field(&map.metadata, "status", change);
    let patched = api.patch_status(&map.name_any(), &params(), &Patch::Merge(change)).await;
    or_gone(patched).map_err(Error::request("report on the namespaces of a consumer"))?;
    Ok(())
}

fn params() -> PatchParams {
    let field_manager = Some(manager::NAMESPACE_MAP.to_owned());
    PatchParams { field_manager, ..PatchParams::default() }
}
