//! The controller of virtual nodes: gives each its NamespaceMap, and takes it before the node goes.

use k8s_openapi::api::core::v1::Node;
use kube::api::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{finalizer, label, manager};
use liqo_api::names::ClusterId;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::apply::Writer;
use liqo_kit::keyed::Next;
use liqo_kit::watch::Key;
use liqo_peering::controller;
use liqo_peering::virtual_node::namespace_map;
use tracing::debug;

use crate::error::Error;
use crate::marks;
use crate::world::{World, is_copy, remote, tenant_of};

/// The controller of virtual nodes.
pub struct VirtualNodes {
    world: World,
    maps: Writer,
}

impl VirtualNodes {
    /// The controller, with what it needs.
    pub fn new(world: World) -> Self {
        Self { world, maps: Writer::owning(manager::VIRTUAL_NODE) }
    }

    /// Brings a virtual node one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(node) = self.world.nodes.object(&key) else { return Ok(Next::AwaitChange) };
        let Some(id) = node.labels().get(label::REMOTE_CLUSTER_ID) else {
            return Ok(Next::AwaitChange);
        };
        let id: ClusterId = id.parse()?;
        if node.metadata.deletion_timestamp.is_some() {
            return self.end(&node, &id).await;
        }
        let Some(foreign) = self.world.cluster(&id) else {
            debug!(node = key.name, "No ForeignCluster for this node yet");
            return Ok(Next::AwaitChange);
        };
        let (Some(provider), Some(tenant)) = (remote(&foreign), tenant_of(&foreign)) else {
            return Ok(Next::AwaitChange);
        };
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.world.client.clone());
        marks::hold(&nodes, &*node, manager::VIRTUAL_NODE, &[finalizer::VIRTUAL_NODE]).await?;
        let want = namespace_map(&provider, tenant, controller(&*node));
        let have = self.world.maps.object(&Key::of(&want));
        if have.is_none_or(|have| !is_already(&want, &have)) {
            let api: Api<NamespaceMap> = Api::namespaced(self.world.client.clone(), tenant);
            self.maps.apply(&api, &want, None).await?;
        }
        Ok(Next::AwaitChange)
    }

    /// Deletes the maps of a node that is going, and lets it go once they are gone.
    async fn end(&self, node: &PartialObjectMeta<Node>, id: &ClusterId) -> Result<Next, Error> {
        let all = self.world.maps.objects().into_iter();
        let own: Vec<_> = all
            .filter(|map| {
                !is_copy(&**map)
                    && map.labels().get(label::REMOTE_ID).map(String::as_str) == Some(id.as_str())
            })
            .collect();
        for map in own.iter().filter(|map| map.metadata.deletion_timestamp.is_none()) {
            let namespace = map.namespace().unwrap_or_default();
            let api: Api<NamespaceMap> = Api::namespaced(self.world.client.clone(), &namespace);
            self.maps.delete(&api, &**map).await?;
        }
        if own.is_empty() {
            let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.world.client.clone());
            marks::release(&nodes, node, manager::VIRTUAL_NODE, &[finalizer::VIRTUAL_NODE]).await?;
        }
        Ok(Next::AwaitChange)
    }
}

/// Whether a map has the labels and the owner that it should have.
fn is_already(want: &NamespaceMap, have: &NamespaceMap) -> bool {
    let labels = want.labels().iter().all(|(name, value)| have.labels().get(name) == Some(value));
    let owners = want
        .owner_references()
        .iter()
        .all(|owner| have.owner_references().iter().any(|other| other.uid == owner.uid));
    labels && owners && have.metadata.deletion_timestamp.is_none()
}
