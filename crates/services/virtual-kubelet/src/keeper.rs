//! Keeps the node as it should be, and sees it off.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeStatus, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::Time;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{ForeignCluster, PeeringConditionStatus, PeeringConditionType};
use liqo_api::keys::{finalizer, label, manager};
use liqo_api::net::{ConnectionStatus, TunnelEndpoint};
use liqo_api::sharing::ResourceOffer;
use liqo_kit::apply::{self, Outcome, Writer};
use liqo_kit::eviction::evict;
use liqo_kit::keyed::Next;
use liqo_kit::retry::{Failure, Retry, or_gone};
use liqo_kit::watch::{Ended, Key, Object, Store, at_hand, watch_with};
use liqo_pod_offloading::lean::HomePod;
use liqo_reflection::claims::Storage;
use liqo_virtual_node::drain::{self, Guest, Step};
use liqo_virtual_node::node;
use liqo_virtual_node::status::{self, Links};
use liqo_virtual_node::{Fate, Settings, fate, storage_class};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::Args;
use crate::reflection::link::BACKOFF;

/// How often pods whose disruption budget said no are asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What the node follows from.
pub(crate) struct Sources {
    offers: Store<ResourceOffer>,
    clusters: Store<ForeignCluster>,
    tunnels: Option<Store<TunnelEndpoint>>,
    nodes: Store<Node>,
    pods: Store<HomePod>,
}

type Touches = BoxStream<'static, ()>;

impl Sources {
    /// Watches everything but pods; the stream has an item whenever something changed.
    pub(crate) fn watch(
        client: &Client,
        namespace: &str,
        settings: &Settings,
        pods: Store<HomePod>,
    ) -> (Self, SelectAll<Touches>) {
        let mut touches = SelectAll::new();
        // Also where nothing matches, there is a first look.
        touches.push(futures::stream::once(async {}).boxed());
        let labels = |key: &str| at_hand(Config::default().labels(&of(key, settings)));
        let offers = Api::namespaced(client.clone(), namespace);
        let offers = follow(offers, labels(label::ORIGIN_ID), &mut touches);
        let clusters = Api::all(client.clone());
        let clusters = follow(clusters, labels(label::CLUSTER_ID), &mut touches);
        let tunnels = settings.checks_network.then(|| {
            let tunnels = Api::namespaced(client.clone(), namespace);
            follow(tunnels, labels(label::PEER_ID), &mut touches)
        });
        let this = format!("metadata.name={}", settings.name);
        let nodes = Api::all(client.clone());
        let nodes = follow(nodes, at_hand(Config::default().fields(&this)), &mut touches);
        (Self { offers, clusters, tunnels, nodes, pods }, touches)
    }

    async fn ready(&self) -> Result<(), Ended> {
        self.offers.wait_until_ready().await?;
        self.clusters.wait_until_ready().await?;
        if let Some(tunnels) = &self.tunnels {
            tunnels.wait_until_ready().await?;
        }
        self.nodes.wait_until_ready().await
    }

    /// What is known of the other cluster; of an API server that nobody asked yet, nothing bad is.
    fn links(&self) -> Links {
        let conditions = |cluster: &ForeignCluster| {
            let conditions = cluster.status.as_ref().map(|status| &*status.peering_conditions);
            peering_status(conditions.unwrap_or_default(), PeeringConditionType::ApiServerStatus)
        };
        let answers =
            |cluster: &Arc<ForeignCluster>| conditions(cluster) != PeeringConditionStatus::Error;
        let connected = |tunnel: &Arc<TunnelEndpoint>| {
            let connection = tunnel.status.as_ref().and_then(|status| status.connection.as_ref());
            connection.and_then(|connection| connection.status) == Some(ConnectionStatus::Connected)
        };
        Links {
            api_server: self.clusters.objects().iter().all(answers),
            tunnel: self.tunnels.iter().flat_map(Store::objects).any(|tunnel| connected(&tunnel)),
        }
    }
}

/// The selector of what is about the provider.
fn of(key: &str, settings: &Settings) -> String {
    format!("{key}={}", settings.provider)
}

fn follow<K: Object>(api: Api<K>, config: Config, touches: &mut SelectAll<Touches>) -> Store<K> {
    let (store, keys) = watch_with(api, config, BACKOFF);
    touches.push(keys.map(drop).boxed());
    store
}

/// Why the node is not as it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Something is not watched any more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The API server did not take it.
    #[error(transparent)]
    Write(#[from] apply::Error),
    /// The API server refused something else.
    #[error("cannot {action}")]
    Request { action: &'static str, source: kube::Error },
    /// Somebody has a node of this name.
    #[error("there is a node {0} that is not the virtual node of this cluster; rename one of them")]
    Taken(String),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Ended(_) => Retry::Soon,
            Self::Write(error) => error.retry(),
            Self::Request { source, .. } => source.retry(),
            Self::Taken(_) => Retry::Never,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Ended(_) => "Interrupted",
            Self::Write(error) => error.reason(),
            Self::Request { source, .. } => source.reason(),
            Self::Taken(_) => "NameTaken",
        }
    }
}

/// What the keeper tells others.
pub(crate) struct News {
    /// The node whose lease is renewed.
    pub(crate) renewal: watch::Sender<Option<String>>,
    /// Whether the other cluster answers.
    pub(crate) answers: watch::Sender<bool>,
    /// Whether claims can have volumes there, once that is known.
    pub(crate) storage: watch::Sender<Option<Storage>>,
}

/// Keeps one node.
pub(crate) struct Keeper {
    settings: Settings,
    patience: Duration,
    sources: Sources,
    nodes: Api<Node>,
    offers: Api<ResourceOffer>,
    client: Client,
    metadata: Writer,
    status: Writer,
    news: News,
    insists_on_storage: bool,
    class: Option<String>,
    /// Since when the node has been leaving.
    leaving: Mutex<Option<Instant>>,
}

impl Keeper {
    pub(crate) fn new(
        client: Client,
        args: &Args,
        settings: Settings,
        sources: Sources,
        news: News,
    ) -> Self {
        Self {
            settings,
            patience: args.node_drain_timeout,
            sources,
            nodes: Api::all(client.clone()),
            offers: Api::namespaced(client.clone(), &args.tenant_namespace),
            client,
            metadata: Writer::owning(manager::VIRTUAL_KUBELET),
            status: Writer::owning(manager::VIRTUAL_KUBELET),
            news,
            insists_on_storage: args.reflection.enable_storage,
            class: args.reflection.remote_real_storage_class_name.clone(),
            leaving: Mutex::default(),
        }
    }

    /// Makes the node as it should be now.
    pub(crate) async fn keep(self: Arc<Self>) -> Result<Next, Error> {
        self.sources.ready().await?;
        let answers = self.sources.links().api_server;
        self.news.answers.send_if_modified(|known| std::mem::replace(known, answers) != answers);
        let node = self.sources.nodes.object(&Key::cluster(&self.settings.name));
        let offers = self.sources.offers.objects();
        let offers: Vec<&ResourceOffer> = offers.iter().map(|offer| &**offer).collect();
        match fate(offers.iter().copied()) {
            Fate::Serve(offer) => {
                self.set_leaving(false);
                self.tell_storage(offer);
                self.claim(offer).await?;
                self.show(offer, node.as_deref()).await
            }
            Fate::Leave(offer) => {
                let next = self.leave(node.as_deref()).await?;
                if next.is_none() {
                    self.release(offer).await?;
                }
                Ok(next.unwrap_or(Next::AwaitChange))
            }
            Fate::Vanish if node.is_some() && self.is_offered().await? => Ok(Next::AwaitChange),
            Fate::Vanish => Ok(self.leave(node.as_deref()).await?.unwrap_or(Next::AwaitChange)),
        }
    }

    /// Whether there is an offer that the watch has yet to show: a node that is used is not emptied
    /// because a list was old.
    async fn is_offered(&self) -> Result<bool, Error> {
        let params = ListParams::default().labels(&of(label::ORIGIN_ID, &self.settings)).limit(1);
        let found = self.offers.list_metadata(&params).await;
        let refuse = |source| Error::Request { action: "look for an offer", source };
        Ok(!found.map_err(refuse)?.items.is_empty())
    }

    /// Tells what volumes are offered.
    fn tell_storage(&self, offer: &ResourceOffer) {
        let class = self.class.as_deref();
        let storage = Storage::of(self.insists_on_storage, class, storage_class(offer));
        self.news.storage.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&storage);
            *known = Some(storage);
            changed
        });
    }

    /// The offer must not go before the node.
    async fn claim(&self, offer: &ResourceOffer) -> Result<(), Error> {
        if offer.finalizers().iter().any(|name| name == finalizer::NODE) {
            return Ok(());
        }
        let finalizers: Vec<&str> =
            offer.finalizers().iter().map(String::as_str).chain([finalizer::NODE]).collect();
        self.set_finalizers(offer, &finalizers, "claim the offer").await
    }

    /// The node is gone; the offer may go, too.
    async fn release(&self, offer: &ResourceOffer) -> Result<(), Error> {
        if !offer.finalizers().iter().any(|name| name == finalizer::NODE) {
            return Ok(());
        }
        let finalizers: Vec<&str> = offer
            .finalizers()
            .iter()
            .map(String::as_str)
            .filter(|name| *name != finalizer::NODE)
            .collect();
        info!(offer = offer.name_any(), "Released");
        self.set_finalizers(offer, &finalizers, "release the offer").await
    }

    async fn set_finalizers(
        &self,
        offer: &ResourceOffer,
        finalizers: &[&str],
        action: &'static str,
    ) -> Result<(), Error> {
        // The version guards the finalizers of others.
        let metadata = json!({
            "finalizers": finalizers,
            "resourceVersion": offer.resource_version(),
        });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let patched = self.offers.patch(&offer.name_any(), &PatchParams::default(), &patch).await;
        or_gone(patched).map(drop).map_err(|source| Error::Request { action, source })
    }

    /// Shows an offer.
    async fn show(&self, offer: &ResourceOffer, have: Option<&Node>) -> Result<Next, Error> {
        if let Some(node) = have {
            if !node::is_ours(node, &self.settings) {
                return Err(Error::Taken(self.settings.name.clone()));
            }
            if node.metadata.deletion_timestamp.is_some() {
                // Somebody deletes it by hand: it comes back when it is gone.
                self.news.renewal.send_replace(None);
                return Ok(Next::AwaitChange);
            }
        }
        if have.is_none() {
            self.register().await?;
        }
        let wanted = node::wanted(&self.settings, offer);
        let node = match self.metadata.apply(&self.nodes, &wanted, have).await? {
            Outcome::Applied(node) => *node,
            Outcome::Skipped => have.cloned().unwrap_or_default(),
        };
        self.news.renewal.send_if_modified(|renewed| {
            let uid = node.uid();
            let changed = *renewed != uid;
            *renewed = uid;
            changed
        });
        let node = self.settle(node).await?;
        self.write_status(Some(offer), &node).await?;
        Ok(Next::AwaitChange)
    }

    /// Makes the node, unless it is there and was not seen yet.
    async fn register(&self) -> Result<(), Error> {
        let new = node::new(&self.settings);
        let params = PostParams {
            field_manager: Some(manager::VIRTUAL_NODE.to_owned()),
            ..PostParams::default()
        };
        match self.nodes.create(&params, &new).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let there = self.nodes.get_opt(&self.settings.name).await;
                let there = there
                    .map_err(|source| Error::Request { action: "look for the node", source })?;
                match there {
                    Some(node) if !node::is_ours(&node, &self.settings) => {
                        Err(Error::Taken(self.settings.name.clone()))
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Err(source) => Err(Error::Request { action: "make the node", source }),
        }
    }

    /// Gives the node its taint, if somebody took it, and lifts the cordon of a withdrawal that was taken back.
    async fn settle(&self, mut node: Node) -> Result<Node, Error> {
        if node::is_cordoned(&node) {
            node = self.cordon(&node, None).await?;
        }
        let Some(taints) = node::missing_taint(&node) else { return Ok(node) };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": node.resource_version() },
            "spec": { "taints": taints },
        }));
        self.nodes
            .patch(&node.name_any(), &PatchParams::default(), &patch)
            .await
            .map_err(|source| Error::Request { action: "taint the node", source })
    }

    /// Keeps pods off the node, or gives that up; a user's own cordon is somebody else's field.
    async fn cordon(&self, node: &Node, cordon: Option<bool>) -> Result<Node, Error> {
        let want = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": node.name_any(), "uid": node.uid() },
            "spec": cordon.map_or(json!({}), |cordon| json!({ "unschedulable": cordon })),
        });
        let params = PatchParams::apply(manager::DRAIN).force();
        self.nodes
            .patch(&node.name_any(), &params, &Patch::Apply(&want))
            .await
            .map_err(|source| Error::Request { action: "cordon the node", source })
    }

    async fn write_status(&self, offer: Option<&ResourceOffer>, node: &Node) -> Result<(), Error> {
        let now = Time(Timestamp::now());
        let links = self.sources.links();
        let status = status::wanted(&self.settings, offer, links, node, &now);
        self.tell(node, &status);
        let want = Node {
            metadata: kube::api::ObjectMeta {
                name: node.metadata.name.clone(),
                ..kube::api::ObjectMeta::default()
            },
            status: Some(status),
            ..Node::default()
        };
        self.status.apply_status(&self.nodes, &want, Some(node)).await?;
        Ok(())
    }

    /// Logs what a user would notice: whether the node is ready, when that changes.
    fn tell(&self, node: &Node, status: &NodeStatus) {
        let ready = |status: Option<&NodeStatus>| {
            let conditions = status.and_then(|status| status.conditions.as_ref());
            conditions.and_then(|conditions| conditions.first().cloned())
        };
        let (before, after) = (ready(node.status.as_ref()), ready(Some(status)));
        let state = |condition: &Option<_>| {
            condition.as_ref().map(|c: &k8s_openapi::api::core::v1::NodeCondition| c.status.clone())
        };
        if state(&before) != state(&after)
            && let Some(condition) = after
        {
            let why = condition.message.unwrap_or_default();
            info!(node = self.settings.name, ready = condition.status, why, "Node changed");
        }
    }

    /// Sees the node off; nothing when it is gone.
    async fn leave(&self, node: Option<&Node>) -> Result<Option<Next>, Error> {
        let Some(node) = node.filter(|node| node::is_ours(node, &self.settings)) else {
            self.news.renewal.send_replace(None);
            self.set_leaving(false);
            return Ok(None);
        };
        let since = self.set_leaving(true).unwrap_or_else(Instant::now);
        self.write_status(None, node).await?;
        if !node::is_cordoned(node) {
            self.cordon(node, Some(true)).await?;
        }
        self.sources.pods.wait_until_ready().await?;
        let pods = self.sources.pods.objects();
        let mut asked = false;
        for pod in &pods {
            asked |= self.see_off(pod, since.elapsed()).await?;
        }
        if !pods.is_empty() {
            debug!(pods = pods.len(), "Waiting for pods to leave");
            // Pods that go touch the node; only those that were asked have to be asked again.
            return Ok(Some(if asked { Next::RequeueAfter(ASK_AGAIN) } else { Next::AwaitChange }));
        }
        if node.metadata.deletion_timestamp.is_none() {
            self.metadata.delete(&self.nodes, node).await?;
            info!(node = self.settings.name, "Emptied and deleted");
        }
        // Its end touches it, too.
        Ok(Some(Next::AwaitChange))
    }

    /// Does what is next about a pod; whether it has to be looked at again.
    async fn see_off(&self, pod: &HomePod, leaving_for: Duration) -> Result<bool, Error> {
        let pods: Api<Pod> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let name = pod.name_any();
        let refuse = |source| Error::Request { action: "see a pod off", source };
        let guest = Guest { is_leaving: pod.is_leaving(), has_started: pod.has_started() };
        match drain::step(guest, leaving_for, self.patience) {
            Step::Evict => evict(&pods, &name).await.map_err(refuse).map(|_| true),
            Step::Delete => {
                warn!(pod = %Key::of(pod), "Deleted in spite of its disruption budget");
                let deleted = pods.delete(&name, &DeleteParams::background()).await;
                or_gone(deleted).map_err(refuse).map(|_| true)
            }
            Step::Confirm => {
                let at_once = DeleteParams::background().grace_period(0);
                let deleted = pods.delete(&name, &at_once).await;
                or_gone(deleted).map_err(refuse).map(|_| false)
            }
            Step::Await => Ok(true),
        }
    }

    /// Notes whether the node is leaving; since when, if it is.
    fn set_leaving(&self, leaves: bool) -> Option<Instant> {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        *leaving = leaves.then(|| leaving.unwrap_or_else(Instant::now));
        *leaving
    }

    /// Whether the node is leaving, and has to know when its pods are gone.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
