//! Namespaces and pods that reach over clusters: what is watched for them, and who works on it.
//!
//! ```text
//!  consumer                                provider
//!  NamespaceOffloading ──> NamespaceMap ─ ─ ─> NamespaceMap ──> Namespace, RoleBinding
//!  (namespaces)            (copied by the      (hosting)
//!                           crd-replicator)    ShadowPod ──> Pod (shadow_pods)
//!                                              ShadowEndpointSlice ──> EndpointSlice (shadow_slices)
//! ```

mod eviction;
mod hosting;
mod namespaces;
mod node_failure;
mod shadow_pods;
mod shadow_slices;
mod stores;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use liqo_api::keys::event;
use liqo_kit::events::Events;
use liqo_kit::service::Service;
use liqo_offloading::hosting::Host;

use self::hosting::Hosting;
use self::namespaces::Namespaces;
use self::node_failure::NodeFailures;
use self::shadow_pods::ShadowPods;
use self::shadow_slices::ShadowSlices;
pub use self::stores::{Stores, Touched};
pub use self::ways::{Inboxes, Ways, ways};
use crate::Args;
use crate::controllers::Queues;
use crate::webhooks::Quota;
use crate::world::World;

/// NamespaceMaps that are worked on at once.
const MAPS: u16 = 4;
/// NamespaceOffloadings that are worked on at once.
const NAMESPACES: u16 = 4;

/// Starts the controllers.
pub fn start(
    args: &Args,
    client: &Client,
    service: &Service,
    world: &World,
    quota: Option<Arc<Quota>>,
    queues: &Queues,
    inboxes: Inboxes,
) {
    let events = |name| Events::new(client.clone(), name);
    let told = events(event::FROM_NAMESPACE_OFFLOADING);
    let patience = args.peering.unreachable_peer_patience;
    let namespaces = Arc::new(Namespaces::new(world.clone(), told, patience));
    queues.start(service, "namespaces", NAMESPACES, inboxes.namespaces, move |key| {
        let controller = Arc::clone(&namespaces);
        async move { controller.reconcile(key).await }
    });
    let own = [args.home.liqo_namespace.clone(), args.offloading.storage_namespace.clone()];
    let labels: BTreeMap<_, _> = args.offloading.hosted_namespace_labels.0.clone();
    let host = Host { own: own.into(), labels };
    let hosting = Arc::new(Hosting::new(world.clone(), events(event::FROM_NAMESPACE_MAP), host));
    queues.start(service, "hosted-namespaces", MAPS, inboxes.maps, move |key| {
        let controller = Arc::clone(&hosting);
        async move { controller.reconcile(key).await }
    });
    let pods = Arc::new(ShadowPods::new(world.clone(), quota));
    let workers = args.offloading.shadow_pod_ctrl_workers;
    queues.start(service, "shadow-pods", workers, inboxes.pods, move |key| {
        let controller = Arc::clone(&pods);
        async move { controller.reconcile(key).await }
    });
    let slices = Arc::new(ShadowSlices::new(world.clone()));
    let workers = args.offloading.shadow_endpointslice_ctrl_workers;
    queues.start(service, "shadow-endpoint-slices", workers, inboxes.slices, move |key| {
        let controller = Arc::clone(&slices);
        async move { controller.reconcile(key).await }
    });
    let failures = Arc::new(NodeFailures::new(world.clone()));
    queues.start(service, "node-failures", 1, inboxes.nodes, move |key| {
        let controller = Arc::clone(&failures);
        async move { controller.reconcile(key).await }
    });
}
