//! One route per webhook.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Node, NodeStatus, Pod};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::admission::{AdmissionRequest, Operation};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_admission::{Verdict, foreign_cluster, namespace_offloading, pod, shadow_pod, shortcut};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{label, object, webhook};
use liqo_api::offloading::NamespaceOffloading;
use liqo_api::virtualkubelet::ShadowPod;
use liqo_kit::retry::Backoff;
use liqo_kit::watch::{Key, Store, watch, watch_trimmed};

use super::quota::{Quota, Unknown};
use super::review::{Answer, answer};

/// What the rules have to know of other objects.
#[derive(Clone)]
pub struct Lookups {
    client: Client,
    /// Asked for with every pod, so kept at hand.
    offloadings: Store<NamespaceOffloading>,
    /// Asked for with every pod of a consumer: the namespaces of consumers, and whose they are.
    hosted: Store<PartialObjectMeta<Namespace>>,
    /// Asked for with every pod that skips the scheduler: the virtual nodes.
    nodes: Store<Node>,
    /// What consumers may use, if that is enforced.
    quota: Option<Arc<Quota>>,
}

impl Lookups {
    /// Look-ups, and the future that keeps what is at hand true.
    pub fn new(
        client: &Client,
        quota: Option<Arc<Quota>>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (offloadings, keys) = watch(Api::all(client.clone()), Config::default());
        let of_consumers = Config::default().labels(label::REMOTE_CLUSTER_ID);
        let namespaces = Api::all(client.clone());
        let (hosted, more_keys) =
            watch_trimmed(namespaces, of_consumers, Backoff::default(), keep_owner);
        let virtual_nodes = format!("{}={}", label::TYPE, label::TYPE_VIRTUAL_NODE);
        let virtual_nodes = Config::default().labels(&virtual_nodes);
        let all = Api::all(client.clone());
        let (nodes, node_keys) = watch_trimmed(all, virtual_nodes, Backoff::default(), keep_place);
        let this = Self { client: client.clone(), offloadings, hosted, nodes, quota };
        let keys = stream::select(stream::select(keys, more_keys), node_keys);
        (this, keys.for_each(|_| std::future::ready(())))
    }

    /// How a namespace is offloaded; what is not at hand yet is asked for.
    async fn offloading(
        &self,
        namespace: &str,
    ) -> Result<Option<Arc<NamespaceOffloading>>, kube::Error> {
        let key = Key::namespaced(namespace, object::NAMESPACE_OFFLOADING);
        if let Some(known) = self.offloadings.object(&key) {
            return Ok(Some(known));
        }
        let api: Api<NamespaceOffloading> = Api::namespaced(self.client.clone(), namespace);
        Ok(api.get_opt(object::NAMESPACE_OFFLOADING).await?.map(Arc::new))
    }

    /// A pod as it enters a namespace that is offloaded.
    fn placed(&self, asked: &Pod, offloading: &NamespaceOffloading) -> Pod {
        let pod = pod::placed(asked, &offloading.spec);
        // Of nodes that are not all known, none is the only one.
        if shortcut::is_wanted(offloading) && self.nodes.is_ready() {
            let nodes = self.nodes.objects();
            return shortcut::bound(pod, nodes.iter().map(AsRef::as_ref));
        }
        pod
    }

    /// Whether a ShadowPod may be made in a namespace: first whose it is, then how much it takes.
    fn new_shadow_pod(
        &self,
        pod: &ShadowPod,
        namespace: &Namespace,
        rehearsal: bool,
    ) -> Answer<ShadowPod> {
        let verdict = shadow_pod::validate_new(pod, namespace);
        match &self.quota {
            Some(quota) if verdict == Verdict::Allowed => match quota.allow(pod, rehearsal) {
                Ok(verdict) => Answer::Verdict(verdict),
                Err(Unknown(why)) => Answer::Unknown(500, why),
            },
            Some(_) | None => Answer::Verdict(verdict),
        }
    }

    /// A namespace, with its labels; what is not at hand yet is asked for.
    async fn namespace(&self, name: &str) -> Result<Namespace, kube::Error> {
        let metadata = if let Some(known) = self.hosted.object(&Key::cluster(name)) {
            known.metadata.clone()
        } else {
            let api: Api<Namespace> = Api::all(self.client.clone());
            api.get_metadata(name).await?.metadata
        };
        Ok(Namespace { metadata, ..Namespace::default() })
    }
}

/// Drops from a namespace all but whose it is.
fn keep_owner(namespace: &mut PartialObjectMeta<Namespace>) {
    let metadata = std::mem::take(&mut namespace.metadata);
    let mut labels = metadata.labels.unwrap_or_default();
    labels.retain(|name, _| name == label::REMOTE_CLUSTER_ID);
    namespace.metadata =
        ObjectMeta { name: metadata.name, labels: Some(labels), ..ObjectMeta::default() };
}

/// Drops from a node all but which pods it takes.
fn keep_place(node: &mut Node) {
    let metadata = std::mem::take(&mut node.metadata);
    node.metadata = ObjectMeta {
        name: metadata.name,
        labels: metadata.labels,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    };
    let conditions = node.status.take().and_then(|status| status.conditions);
    node.status = Some(NodeStatus { conditions, ..NodeStatus::default() });
}

/// All webhooks.
pub fn routes(lookups: Lookups) -> Router {
    Router::new()
        .route(webhook::POD_PATH, post(place_pod))
        .route(webhook::FOREIGN_CLUSTER_MUTATE_PATH, post(label_cluster))
        .route(webhook::FOREIGN_CLUSTER_VALIDATE_PATH, post(validate_cluster))
        .route(webhook::NAMESPACE_OFFLOADING_PATH, post(validate_offloading))
        .route(webhook::SHADOW_POD_PATH, post(validate_shadow_pod))
        .with_state(lookups)
}

async fn place_pod(State(lookups): State<Lookups>, body: Bytes) -> Response {
    let judge = async |request: AdmissionRequest<Pod>| {
        let namespace = request.namespace.clone().unwrap_or_default();
        let Some(asked) = request.object else { return missing() };
        match lookups.offloading(&namespace).await {
            Ok(Some(offloading)) => Answer::Changed(Box::new(lookups.placed(&asked, &offloading))),
            Ok(None) => Answer::Unknown(
                500,
                format!(
                    "namespace {namespace} is labelled as offloaded but has no NamespaceOffloading \
                     '{}': create it, or remove the label",
                    object::NAMESPACE_OFFLOADING
                ),
            ),
            Err(error) => {
                Answer::Unknown(500, format!("cannot read the NamespaceOffloading: {error}"))
            }
        }
    };
    Box::pin(answer(body, judge)).await
}

async fn label_cluster(body: Bytes) -> Response {
    let judge = async |request: AdmissionRequest<ForeignCluster>| match request.object {
        Some(asked) => Answer::Changed(Box::new(foreign_cluster::labelled(&asked))),
        None => missing(),
    };
    Box::pin(answer(body, judge)).await
}

async fn validate_cluster(body: Bytes) -> Response {
    let judge = async |request: AdmissionRequest<ForeignCluster>| match request {
        AdmissionRequest { object: Some(new), old_object: Some(old), .. } => {
            Answer::Verdict(foreign_cluster::validate(&old, &new))
        }
        AdmissionRequest { .. } => Answer::Verdict(Verdict::Allowed),
    };
    Box::pin(answer(body, judge)).await
}

async fn validate_offloading(body: Bytes) -> Response {
    let judge = async |request: AdmissionRequest<NamespaceOffloading>| match request.object {
        Some(new) => {
            Answer::Verdict(namespace_offloading::validate(request.old_object.as_ref(), &new))
        }
        None => missing(),
    };
    Box::pin(answer(body, judge)).await
}

async fn validate_shadow_pod(State(lookups): State<Lookups>, body: Bytes) -> Response {
    let judge = async |request: AdmissionRequest<ShadowPod>| {
        let namespace = request.namespace.clone().unwrap_or_default();
        match (request.operation, request.old_object, request.object) {
            (Operation::Create, _, Some(new)) => match lookups.namespace(&namespace).await {
                Ok(namespace) => lookups.new_shadow_pod(&new, &namespace, request.dry_run),
                Err(error) => {
                    Answer::Unknown(400, format!("cannot read namespace {namespace}: {error}"))
                }
            },
            (Operation::Update, Some(old), Some(new)) => {
                Answer::Verdict(shadow_pod::validate_change(&old, &new))
            }
            _ => Answer::Verdict(Verdict::Allowed),
        }
    };
    Box::pin(answer(body, judge)).await
}

fn missing<K>() -> Answer<K> {
    Answer::Unknown(400, "the review has no object".to_owned())
}
