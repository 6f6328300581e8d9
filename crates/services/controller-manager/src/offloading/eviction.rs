//! Evicts pods that a changed NamespaceOffloading would place elsewhere, where that is asked for.
//!
//! Pods are listed once for each change of what decides their place, and again after a while as long
//! as a disruption budget keeps some of them.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::offloading::NamespaceOffloading;
use liqo_kit::eviction::evict;
use liqo_kit::keyed::Next;
use liqo_kit::watch::Key;
use liqo_offloading::eviction::{VirtualNodes, is_wanted, violation};
use liqo_offloading::selector::Selector;
use tracing::{debug, info};

use crate::error::Error;

/// How long a disruption budget is left alone before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Evicts pods.
pub struct Evictions {
    client: Client,
    /// What decided the places of pods when all of them were right.
    done: Mutex<HashMap<Key, u64>>,
}

impl Evictions {
    /// Evictions by a client.
    pub fn new(client: Client) -> Self {
        Self { client, done: Mutex::default() }
    }

    /// Forgets a namespace.
    pub fn forget(&self, key: &Key) {
        self.done().remove(key);
    }

    /// Looks at the pods of a namespace, if that is asked for and something has changed.
    pub async fn look(
        &self,
        offloading: &NamespaceOffloading,
        nodes: Vec<Arc<PartialObjectMeta<Node>>>,
    ) -> Result<Next, Error> {
        let key = Key::of(offloading);
        let selector = Selector::read(offloading.spec.cluster_selector.as_ref());
        let (true, Ok(selector)) = (is_wanted(offloading), selector) else {
            self.forget(&key);
            return Ok(Next::AwaitChange);
        };
        let nodes: VirtualNodes =
            nodes.into_iter().map(|node| (node.name_any(), node.labels().clone())).collect();
        let state = digest(offloading, &nodes);
        if self.done().get(&key) == Some(&state) {
            return Ok(Next::AwaitChange);
        }
        let namespace = offloading.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let all = pods.list(&ListParams::default()).await;
        let all = all.map_err(Error::request("list the pods of a namespace"))?;
        let strategy = offloading.spec.pod_offloading_strategy;
        let mut kept = 0_usize;
        for pod in &all.items {
            let Some(why) = violation(pod, strategy, &selector, &nodes) else { continue };
            if evict(&pods, &pod.name_any()).await.map_err(Error::request("evict a pod"))? {
                info!(pod = %Key::of(pod), why, "Pod evicted");
            } else {
                debug!(pod = %Key::of(pod), "A disruption budget keeps the pod");
                kept += 1;
            }
        }
        if kept > 0 {
            return Ok(Next::RequeueAfter(ASK_AGAIN));
        }
        self.done().insert(key, state);
        Ok(Next::AwaitChange)
    }

    fn done(&self) -> MutexGuard<'_, HashMap<Key, u64>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What decides the places of pods.
fn digest(offloading: &NamespaceOffloading, nodes: &VirtualNodes) -> u64 {
    let mut hasher = DefaultHasher::new();
    (offloading.uid(), offloading.metadata.generation, nodes).hash(&mut hasher);
    hasher.finish()
}
