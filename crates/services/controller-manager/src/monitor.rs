//! What is free in this cluster, from watches of nodes and pods of which only sums are kept.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, NodeStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::label;
use liqo_api::names::ClusterId;
use liqo_kit::client::concise;
use liqo_kit::watch::{Ended, Key};
use liqo_sharing::amounts::Amounts;
use liqo_sharing::ledger::{Ledger, NodeShare, PodShare};
use tokio::sync::watch;
use tracing::warn;

/// How long changes are collected before somebody is told again: pods come in crowds.
const PAUSE: Duration = Duration::from_millis(500);

/// What is known, and since when it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    has_nodes: bool,
    has_pods: bool,
    /// Counts changes of amounts.
    amounts: u64,
    /// Counts changes of addresses.
    addresses: u64,
}

/// What is free, and where nodes are.
pub struct Monitor {
    ledger: Mutex<Ledger>,
    /// Nodes with nothing but their addresses.
    addresses: Mutex<BTreeMap<String, Node>>,
    progress: watch::Sender<Progress>,
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            ledger: Mutex::default(),
            addresses: Mutex::default(),
            progress: watch::Sender::new(Progress::default()),
        }
    }
}

impl Monitor {
    /// What is free for another cluster.
    pub fn free(&self, consumer: &ClusterId) -> Amounts {
        lock(&self.ledger).free(consumer)
    }

    /// The nodes of this cluster, by name, with their addresses only.
    pub fn nodes(&self) -> Vec<Node> {
        lock(&self.addresses).values().cloned().collect()
    }

    /// Waits until all nodes and pods are known.
    pub async fn wait_until_ready(&self) -> Result<(), Ended> {
        let mut progress = self.progress.subscribe();
        let is_ready = |progress: &Progress| progress.has_nodes && progress.has_pods;
        progress.wait_for(is_ready).await.map_err(|_| Ended)?;
        Ok(())
    }

    /// Calls back when amounts have changed, at once and then once per [`PAUSE`].
    pub async fn on_amounts<F: Future<Output = ()>>(&self, mut tell: impl FnMut() -> F) {
        let mut progress = self.progress.subscribe();
        let mut seen = progress.borrow_and_update().amounts;
        while progress.changed().await.is_ok() {
            let now = progress.borrow_and_update().amounts;
            if std::mem::replace(&mut seen, now) != now {
                tell().await;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Calls back when the addresses of nodes have changed.
    pub async fn on_addresses<F: Future<Output = ()>>(&self, mut tell: impl FnMut() -> F) {
        let mut progress = self.progress.subscribe();
        let mut seen = progress.borrow_and_update().addresses;
        while progress.changed().await.is_ok() {
            let now = progress.borrow_and_update().addresses;
            if std::mem::replace(&mut seen, now) != now {
                tell().await;
            }
        }
    }

    /// Follows the nodes of the cluster.
    pub async fn follow_nodes(self: Arc<Self>, client: Client) {
        let selector = format!("{}!={}", label::TYPE, label::TYPE_VIRTUAL_NODE);
        let config = Config::default().labels(&selector);
        let mut events = watcher(Api::<Node>::all(client), config).default_backoff().boxed();
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any());
                    self.node(&node.name_any(), Some(&node));
                }
                Ok(Event::InitDone) => {
                    lock(&self.ledger).keep_nodes(|name| listed.contains(name));
                    lock(&self.addresses).retain(|name, _| listed.contains(name));
                    self.progress.send_modify(|progress| {
                        progress.has_nodes = true;
                        progress.amounts += 1;
                        progress.addresses += 1;
                    });
                }
                Ok(Event::Apply(node)) => self.node(&node.name_any(), Some(&node)),
                Ok(Event::Delete(node)) => self.node(&node.name_any(), None),
                Err(error) => warn!(%error, "Watch of nodes interrupted"),
            }
        }
    }

    /// Goes without pods.
    pub fn ignore_pods(&self) {
        self.progress.send_modify(|progress| progress.has_pods = true);
    }

    /// Follows the pods that run in the cluster.
    pub async fn follow_pods(self: Arc<Self>, client: Client) {
        let selector = format!("{}!={}", label::SHADOW_POD, label::TRUE);
        let config = Config::default().labels(&selector).fields("status.phase=Running");
        let mut events =
            watcher(Api::<Pod>::all(concise(&client)), config).default_backoff().boxed();
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => {
                    let key = Key::of(&pod).to_string();
                    self.pod(&key, PodShare::of(&pod));
                    listed.insert(key);
                }
                Ok(Event::InitDone) => {
                    lock(&self.ledger).keep_pods(|key| listed.contains(key));
                    listed = HashSet::new();
                    self.progress.send_modify(|progress| {
                        progress.has_pods = true;
                        progress.amounts += 1;
                    });
                }
                Ok(Event::Apply(pod)) => self.pod(&Key::of(&pod).to_string(), PodShare::of(&pod)),
                Ok(Event::Delete(pod)) => self.pod(&Key::of(&pod).to_string(), None),
                Err(error) => warn!(%error, "Watch of pods interrupted"),
            }
        }
    }

    fn node(&self, name: &str, node: Option<&Node>) {
        if lock(&self.ledger).node(name, node.and_then(NodeShare::of)) {
            self.progress.send_modify(|progress| progress.amounts += 1);
        }
        let bare = node.map(only_addresses);
        let mut addresses = lock(&self.addresses);
        if addresses.get(name) == bare.as_ref() {
            return;
        }
        match bare {
            Some(node) => addresses.insert(name.to_owned(), node),
            None => addresses.remove(name),
        };
        drop(addresses);
        self.progress.send_modify(|progress| progress.addresses += 1);
    }

    fn pod(&self, key: &str, share: Option<PodShare>) {
        if lock(&self.ledger).pod(key, share) {
            self.progress.send_modify(|progress| progress.amounts += 1);
        }
    }
}

/// What has to be known of a node to reach it.
fn only_addresses(node: &Node) -> Node {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.clone());
    Node {
        metadata: ObjectMeta { name: node.metadata.name.clone(), ..ObjectMeta::default() },
        status: Some(NodeStatus { addresses, ..NodeStatus::default() }),
        ..Node::default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
