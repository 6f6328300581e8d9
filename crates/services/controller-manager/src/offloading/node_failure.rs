//! Lets pods go that are to leave a node which has failed, so that they start elsewhere.
//!
//! A pod on a node that does not answer is deleted, but never gone: its kubelet would have to say
//! so. Of pods of others, which somebody else keeps alive, that is not waited for.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::node::READY;
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use tracing::info;

use crate::error::Error;
use crate::world::World;

/// Lets pods of failed nodes go.
pub struct NodeFailures {
    world: World,
}

impl NodeFailures {
    /// The controller, with what it needs.
    pub fn new(world: World) -> Self {
        Self { world }
    }

    /// Looks at a node.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let node = self.world.offloading.nodes.as_ref().and_then(|nodes| nodes.object(&key));
        if node.is_none_or(|node| is_ready(&node)) {
            return Ok(Next::AwaitChange);
        }
        for pod in self.world.offloading.pods.objects() {
            let is_leaving = pod.metadata.deletion_timestamp.is_some();
            if !is_leaving || pod.node() != Some(key.name.as_str()) {
                continue;
            }
            let namespace = pod.namespace().unwrap_or_default();
            let pods: Api<Pod> = Api::namespaced(self.world.client.clone(), &namespace);
            let this = Preconditions { uid: pod.uid(), resource_version: None };
            let at_once = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(this),
                ..DeleteParams::default()
            };
            let deleted = or_gone(pods.delete(&pod.name_any(), &at_once).await);
            deleted.map_err(Error::request("let a pod of a failed node go"))?;
            info!(pod = %Key::of(&*pod), node = key.name, "Pod of a failed node let go");
        }
        Ok(Next::AwaitChange)
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == READY && one.status == "True")
}
