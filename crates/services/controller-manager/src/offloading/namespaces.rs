//! The controller of NamespaceOffloadings: asks clusters for namespaces, and says what came of it.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{PartialObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{event, finalizer, label, manager, object};
use liqo_api::offloading::{NamespaceOffloading, NamespaceOffloadingStatus};
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use liqo_offloading::stretch::{Decision, Place, decide};
use liqo_peering::silence;
use liqo_replication::patch;
use serde_json::{Value, json};

use super::eviction::Evictions;
use crate::error::Error;
use crate::marks;
use crate::world::{World, is_copy, remote};

/// The controller of NamespaceOffloadings.
pub struct Namespaces {
    world: World,
    events: Events,
    evictions: Evictions,
    /// How long a cluster out of reach holds up the end of an offloading.
    patience: SignedDuration,
}

/// A cluster that namespaces may extend to.
struct Seen {
    map: Arc<NamespaceMap>,
    node: Option<Arc<PartialObjectMeta<Node>>>,
    is_given_up: bool,
}

impl Namespaces {
    /// The controller, with what it needs.
    pub fn new(world: World, events: Events, patience: SignedDuration) -> Self {
        let evictions = Evictions::new(world.client.clone());
        Self { world, events, evictions, patience }
    }

    /// Brings a NamespaceOffloading one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let found = self.world.offloading.offloadings.object(&key);
        let Some(offloading) = found.filter(|_| key.name == object::NAMESPACE_OFFLOADING) else {
            self.evictions.forget(&key);
            return Ok(Next::AwaitChange);
        };
        let namespace = offloading.namespace().unwrap_or_default();
        let api: Api<NamespaceOffloading> = Api::namespaced(self.world.client.clone(), &namespace);
        let is_ending = offloading.metadata.deletion_timestamp.is_some();
        let writer = manager::NAMESPACE_OFFLOADING;
        if is_ending {
            if !offloading.finalizers().iter().any(|one| one == finalizer::NAMESPACE_OFFLOADING) {
                return Ok(Next::AwaitChange);
            }
        } else {
            let name = finalizer::NAMESPACE_OFFLOADING;
            marks::hold(&api, &offloading, writer, &[name]).await?;
        }
        let now = Timestamp::now();
        let seen = self.clusters(now);
        let places: Vec<Place<'_>> = seen.iter().map(Seen::place).collect();
        let decision = decide(&offloading, &self.world.home, &places, now);
        self.tell(&offloading, &decision).await;
        self.label(&namespace, decision.enabled).await?;
        for (index, name) in &decision.changes {
            if let Some(seen) = seen.get(*index) {
                self.ask(&seen.map, &namespace, name.as_deref()).await?;
            }
        }
        if decision.is_over {
            let name = finalizer::NAMESPACE_OFFLOADING;
            marks::release(&api, &offloading, writer, &[name]).await?;
            return Ok(Next::AwaitChange);
        }
        report(&api, &offloading, &decision.status).await?;
        if is_ending {
            // A cluster may cease to answer without anything else happening.
            let patience = self.patience.unsigned_abs();
            return Ok(Next::RequeueAfter(patience.max(std::time::Duration::from_secs(1))));
        }
        self.evictions.look(&offloading, self.world.nodes.objects()).await
    }

    /// All clusters that namespaces may extend to, by name.
    fn clusters(&self, now: Timestamp) -> Vec<Seen> {
        let mut nodes: HashMap<String, Arc<PartialObjectMeta<Node>>> = HashMap::new();
        for node in self.world.nodes.objects() {
            if let Some(id) = node.labels().get(label::REMOTE_CLUSTER_ID) {
                nodes.insert(id.clone(), node);
            }
        }
        let mut maps = self.world.maps.objects();
        maps.retain(|map| !is_copy(&**map));
        maps.sort_by_key(|map| map.name_any());
        let seen = maps.into_iter().filter_map(|map| {
            let foreign = self.world.cluster_of_tenant(&map.namespace()?)?;
            let cluster = remote(&foreign)?;
            // Peers may write into their tenant namespaces: only this one is ours.
            let is_ours = map.name_any() == cluster.unique_name().as_str();
            let node = nodes.get(cluster.id.as_str()).cloned();
            let is_given_up = is_silent(&foreign, self.patience, now);
            is_ours.then_some(Seen { map, node, is_given_up })
        });
        seen.collect()
    }

    async fn tell(&self, offloading: &NamespaceOffloading, decision: &Decision) {
        if let Some(problem) = &decision.problem {
            let message = problem.to_string();
            let (reason, action) = (event::INVALID, "Offload");
            let note = Note { warning: true, reason, action, message: &message };
            self.events.tell(offloading, note).await;
        }
        if !decision.left_behind.is_empty() {
            let message = format!(
                "The namespace could not be removed from {}, which does not answer; it is removed \
                 there when that is back",
                decision.left_behind.join(", ")
            );
            let (reason, action) = (event::PEER_NOT_CLEANED, "Unoffload");
            let note = Note { warning: true, reason, action, message: &message };
            self.events.tell(offloading, note).await;
        }
    }

    /// Puts the label that lets pods leave on a namespace, or takes it off.
    async fn label(&self, namespace: &str, enabled: bool) -> Result<(), Error> {
        let Some(found) = self.world.offloading.namespaces.object(&Key::cluster(namespace)) else {
            return Ok(());
        };
        let value = found.labels().get(label::SCHEDULING_ENABLED).map(String::as_str);
        let wanted = enabled.then_some(label::TRUE);
        if value == wanted {
            return Ok(());
        }
        let api: Api<Namespace> = Api::all(self.world.client.clone());
        let change = json!({ "metadata": {
            "uid": found.uid(),
            "labels": { label::SCHEDULING_ENABLED: wanted },
        } });
        let patched = api.patch_metadata(namespace, &params(), &Patch::Merge(change)).await;
        or_gone(patched).map_err(Error::request("label a namespace"))?;
        Ok(())
    }

    /// Asks a cluster for a namespace, or asks for it no more.
    async fn ask(
        &self,
        map: &NamespaceMap,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<(), Error> {
        let tenant = map.namespace().unwrap_or_default();
        let api: Api<NamespaceMap> = Api::namespaced(self.world.client.clone(), &tenant);
        let change = json!({ "desiredMapping": { namespace: name } });
        let change = patch::of_field(&map.metadata, "spec", change);
        let patched = api.patch(&map.name_any(), &params(), &Patch::Merge(change)).await;
        or_gone(patched).map_err(Error::request("ask a cluster for a namespace"))?;
        Ok(())
    }
}

impl Seen {
    fn place(&self) -> Place<'_> {
        let node = self.node.as_ref().and_then(|node| {
            Some((node.metadata.name.as_deref()?, node.metadata.labels.as_ref()?))
        });
        Place { map: &self.map, node, is_given_up: self.is_given_up }
    }
}

/// Whether a cluster has not answered for too long.
fn is_silent(cluster: &ForeignCluster, patience: SignedDuration, now: Timestamp) -> bool {
    silence::since(cluster).is_some_and(|since| now.duration_since(since) >= patience)
}

async fn report(
    api: &Api<NamespaceOffloading>,
    offloading: &NamespaceOffloading,
    status: &NamespaceOffloadingStatus,
) -> Result<(), Error> {
    let before = value(offloading.status.as_ref());
    let Some(change) = patch::between(&before, &value(Some(status))) else { return Ok(()) };
    let change = patch::of_field(&offloading.metadata, "status", change);
    let patched = api.patch_status(&offloading.name_any(), &params(), &Patch::Merge(change)).await;
    or_gone(patched).map_err(Error::request("report how far a namespace extends"))?;
    Ok(())
}

fn value(status: Option<&NamespaceOffloadingStatus>) -> Value {
    status.and_then(|status| serde_json::to_value(status).ok()).unwrap_or(Value::Null)
}

fn params() -> PatchParams {
    let field_manager = Some(manager::NAMESPACE_OFFLOADING.to_owned());
    PatchParams { field_manager, ..PatchParams::default() }
}
