//! What is watched: of objects that there may be thousands of, no more than what is read.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Node, NodeStatus};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{annotation, label};
use liqo_api::offloading::NamespaceOffloading;
use liqo_api::virtualkubelet::ShadowEndpointSlice;
use liqo_kit::client::concise;
use liqo_kit::retry::Backoff;
use liqo_kit::watch::{Ended, Packing, Store, watch, watch_packed, watch_trimmed};
use liqo_offloading::slim::{SlimPod, SlimShadow};

use crate::world::Keys;

/// Labels of namespaces that are read.
const LABELS: [&str; 2] = [label::SCHEDULING_ENABLED, label::REMOTE_CLUSTER_ID];
/// Annotations of namespaces that are read.
const ANNOTATIONS: [&str; 2] = [annotation::MANAGED_BY_NAMESPACE_MAP, annotation::ORIGINAL_NAME];

/// Everything that is watched.
#[derive(Clone)]
pub struct Stores {
    /// Namespaces that extend to other clusters.
    pub offloadings: Store<NamespaceOffloading>,
    /// All namespaces, with the marks of ours.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
    /// What opens namespaces to consumers.
    pub bindings: Store<PartialObjectMeta<RoleBinding>>,
    /// Pods that consumers want here.
    pub shadows: Store<SlimShadow>,
    /// The pods that are kept alive for them.
    pub pods: Store<SlimPod>,
    /// Endpoints that consumers have.
    pub shadow_slices: Store<ShadowEndpointSlice>,
    /// What was made of them.
    pub slices: Store<EndpointSlice>,
    /// Nodes with their conditions; not watched when nobody asks for it.
    pub nodes: Option<Store<Node>>,
}

/// The keys of everything that is watched.
pub struct Touched {
    pub(super) offloadings: Keys,
    pub(super) namespaces: Keys,
    pub(super) bindings: Keys,
    pub(super) shadows: Keys,
    pub(super) pods: Keys,
    pub(super) shadow_slices: Keys,
    pub(super) slices: Keys,
    pub(super) nodes: Keys,
}

impl Stores {
    /// Watches the cluster; stores are filled while the keys are read.
    pub fn new(client: &Client, with_nodes: bool) -> (Self, Touched) {
        let all = || client.clone();
        let marked = |name: &str, value: &str| Config::default().labels(&format!("{name}={value}"));
        let (offloadings, touched_offloadings) = watch(Api::all(all()), Config::default());
        let (namespaces, touched_namespaces) =
            watch_trimmed(Api::all(all()), Config::default(), Backoff::default(), trim_namespace);
        let (bindings, touched_bindings) =
            watch(Api::all(all()), Config::default().labels(label::REMOTE_CLUSTER_ID));
        let (shadows, touched_shadows) = watch_packed(
            Api::all(all()),
            Config::default(),
            Backoff::default(),
            Packing::json(|_: &mut SlimShadow| {}),
        );
        let (pods, touched_pods) = watch_packed(
            Api::all(concise(client)),
            marked(label::MANAGED_BY, label::MANAGED_BY_SHADOW_POD),
            Backoff::default(),
            Packing::json(|_: &mut SlimPod| {}),
        );
        let (shadow_slices, touched_shadow_slices) = watch(Api::all(all()), Config::default());
        let ours = label::MANAGED_BY_SHADOW_ENDPOINT_SLICE;
        let (slices, touched_slices) = watch(Api::all(all()), marked(label::MANAGED_BY, ours));
        let (nodes, touched_nodes) = if with_nodes {
            let physical = format!("{}!={}", label::TYPE, label::TYPE_VIRTUAL_NODE);
            let config = Config::default().labels(&physical);
            let (store, keys) =
                watch_trimmed(Api::all(all()), config, Backoff::default(), trim_node);
            (Some(store), keys.boxed())
        } else {
            (None, futures::stream::pending().boxed())
        };
        let stores =
            Self { offloadings, namespaces, bindings, shadows, pods, shadow_slices, slices, nodes };
        let touched = Touched {
            offloadings: touched_offloadings.boxed(),
            namespaces: touched_namespaces.boxed(),
            bindings: touched_bindings.boxed(),
            shadows: touched_shadows.boxed(),
            pods: touched_pods.boxed(),
            shadow_slices: touched_shadow_slices.boxed(),
            slices: touched_slices.boxed(),
            nodes: touched_nodes,
        };
        (stores, touched)
    }

    /// What has to be waited for before anything is decided.
    pub fn waits(&self) -> Vec<BoxFuture<'_, Result<(), Ended>>> {
        let mut waits = vec![
            self.offloadings.wait_until_ready().boxed(),
            self.namespaces.wait_until_ready().boxed(),
            self.bindings.wait_until_ready().boxed(),
            self.shadows.wait_until_ready().boxed(),
            self.pods.wait_until_ready().boxed(),
            self.shadow_slices.wait_until_ready().boxed(),
            self.slices.wait_until_ready().boxed(),
        ];
        waits.extend(self.nodes.iter().map(|store| store.wait_until_ready().boxed()));
        waits
    }
}

fn trim_namespace(namespace: &mut PartialObjectMeta<Namespace>) {
    let only = |texts: Option<BTreeMap<String, String>>, names: &[&str]| {
        let texts = texts.into_iter().flatten().filter(|(name, _)| names.contains(&name.as_str()));
        Some(texts.collect::<BTreeMap<_, _>>()).filter(|texts| !texts.is_empty())
    };
    let metadata = &mut namespace.metadata;
    metadata.labels = only(metadata.labels.take(), &LABELS);
    metadata.annotations = only(metadata.annotations.take(), &ANNOTATIONS);
    metadata.owner_references = None;
}

fn trim_node(node: &mut Node) {
    let conditions = node.status.take().and_then(|status| status.conditions);
    node.status = Some(NodeStatus { conditions, ..NodeStatus::default() });
    node.spec = None;
    node.metadata.labels = None;
    node.metadata.annotations = None;
}
