//! Sources: the objects of one kind that are to be copied, watched once for all peers.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{finalizer, manager};
use liqo_api::names::ClusterId;
use liqo_kit::tasks::Tasks;
use liqo_kit::watch::{Key, Store, watch};
use liqo_replication::carried::{self, Carried};
use liqo_replication::kind::Copied;
use liqo_replication::patch;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

/// How many keys a reader may be behind before it is told to look at everything.
const BEHIND: usize = 256;

/// The sources of one kind; a clone is the same.
pub struct Local<K: Copied + 'static> {
    client: Client,
    store: Store<Carried<K>>,
    touched: Sender<Key>,
}

impl<K: Copied + 'static> Clone for Local<K> {
    fn clone(&self) -> Self {
        let (client, touched) = (self.client.clone(), self.touched.clone());
        Self { client, store: self.store.clone(), touched }
    }
}

impl<K: Copied + 'static> Local<K> {
    /// Watches the sources of a kind.
    pub fn follow(client: &Client, tasks: &Tasks) -> Self {
        let all: Api<Carried<K>> = Api::all(client.clone());
        let (store, keys) = watch(all, Config::default().labels(&carried::sources()));
        let (touched, _) = broadcast::channel(BEHIND);
        let tell = touched.clone();
        tasks.spawn("sources", async move {
            let mut keys = Box::pin(keys);
            while let Some(key) = keys.next().await {
                // Nobody has to listen.
                let _ = tell.send(key);
            }
        });
        Self { client: client.clone(), store, touched }
    }

    /// A source in a namespace, if it is for this peer.
    pub fn source(&self, namespace: &str, name: &str, peer: &ClusterId) -> Option<Arc<Carried<K>>> {
        let source = self.store.object(&Key::namespaced(namespace, name))?;
        (source.remote_id() == Some(peer.as_str())).then_some(source)
    }

    /// Whether there is a source in a namespace for this peer.
    pub fn is_any(&self, namespace: &str, peer: &ClusterId) -> bool {
        self.names(namespace).iter().any(|name| self.source(namespace, name, peer).is_some())
    }

    /// The names of the sources in a namespace.
    pub fn names(&self, namespace: &str) -> Vec<String> {
        let keys = self.keys();
        keys.into_iter().filter(|key| is_in(key, namespace)).map(|key| key.name).collect()
    }

    /// The names of what is touched in a namespace from here on.
    pub fn touched(&self, namespace: &str) -> impl Stream<Item = String> + Send + use<K> {
        let namespace = namespace.to_owned();
        self.touched_anywhere()
            .filter(move |key| std::future::ready(is_in(key, &namespace)))
            .map(|key| key.name)
    }

    /// The requests for sources in a namespace.
    pub fn api(&self, namespace: &str) -> Api<Carried<K>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn touched_anywhere(&self) -> impl Stream<Item = Key> + Send + use<K> {
        let start = (self.clone(), self.touched.subscribe());
        let keys = stream::unfold(start, async |(this, mut receiver): (Self, Receiver<Key>)| {
            let keys = match receiver.recv().await {
                Ok(key) => vec![key],
                Err(RecvError::Lagged(_)) => this.keys(),
                Err(RecvError::Closed) => return None,
            };
            Some((stream::iter(keys), (this, receiver)))
        });
        keys.flatten()
    }

    fn keys(&self) -> Vec<Key> {
        self.store.objects().iter().map(|object| Key::of(object.as_ref())).collect()
    }

    async fn release_one(&self, key: &Key) -> kube::Result<()> {
        let Some(source) = self.store.object(key).filter(|source| source.is_held()) else {
            return Ok(());
        };
        let api = self.api(key.namespace.as_deref().unwrap_or_default());
        let change = patch::of_finalizer(&source.metadata, finalizer::CRD_REPLICATOR, false);
        match api.patch(&key.name, &written_by_us(), &Patch::Merge(change)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop),
        }
    }
}

/// What is asked of the sources of every kind.
pub trait Sources: Send + Sync {
    /// Waits for the first whole list; false when there will be none.
    fn ready(&self) -> BoxFuture<'_, bool>;

    /// What is touched from here on.
    fn touched(&self) -> stream::BoxStream<'static, Key>;

    /// The sources for a peer that wait for us before they go.
    fn held_for(&self, peer: &ClusterId) -> Vec<Key>;

    /// The sources that are to go and wait for us, while their peer is not one of those known.
    fn strays(&self, is_known: &dyn Fn(&str) -> bool) -> Vec<Key>;

    /// Lets a source go.
    fn release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, kube::Result<()>>;
}

impl<K: Copied + Send + Sync + 'static> Sources for Local<K> {
    fn ready(&self) -> BoxFuture<'_, bool> {
        async { self.store.wait_until_ready().await.is_ok() }.boxed()
    }

    fn touched(&self) -> stream::BoxStream<'static, Key> {
        self.touched_anywhere().boxed()
    }

    fn held_for(&self, peer: &ClusterId) -> Vec<Key> {
        let objects = self.store.objects();
        let held = objects
            .iter()
            .filter(|source| source.is_held() && source.remote_id() == Some(peer.as_str()));
        held.map(|source| Key::of(source.as_ref())).collect()
    }

    fn strays(&self, is_known: &dyn Fn(&str) -> bool) -> Vec<Key> {
        let objects = self.store.objects();
        let strays = objects.iter().filter(|source| {
            source.is_held() && source.is_ending() && !source.remote_id().is_some_and(is_known)
        });
        strays.map(|source| Key::of(source.as_ref())).collect()
    }

    fn release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, kube::Result<()>> {
        self.release_one(key).boxed()
    }
}

/// The parameters of every change.
pub fn written_by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::CRD_REPLICATOR.to_owned()),
        ..PatchParams::default()
    }
}

fn is_in(key: &Key, namespace: &str) -> bool {
    key.namespace.as_deref() == Some(namespace)
}
