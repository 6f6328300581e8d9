//! Pods in the other cluster that wait for a node there.
//!
//! Most get one within a moment, and what is told of them until then is a third of all that is told of
//! a pod. So they are watched only while somebody misses one: its ShadowPod is there for a while, or it
//! was seen before, or the other cluster warns of it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::watcher::Config;
use liqo_kit::keyed::Touch;
use liqo_kit::watch::{Key, Store, watch_packed};
use liqo_pod_offloading::lean::RemotePod;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::side::{PACKING, Side};
use super::{Pods, Scene};
use crate::reflection::link::BACKOFF;

/// How long a pod may be missed before it is looked for among those without a node.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long they are watched after somebody has asked for one.
const KEEP: Duration = Duration::from_secs(30);

/// Selects pods that have a node.
pub(super) const PLACED: &str = "spec.nodeName!=";
/// Selects pods that have none.
const UNPLACED: &str = "spec.nodeName=";

/// The pods of one namespace in the other cluster that wait for a node, as far as anybody asks.
pub(super) struct Waiting {
    store: Mutex<Option<Store<RemotePod>>>,
    /// Until when they are watched.
    until: Sender<Instant>,
}

impl Waiting {
    /// Nobody asks yet.
    pub(super) fn new() -> Self {
        Self { store: Mutex::default(), until: Sender::new(Instant::now()) }
    }

    /// One of them, if they are watched.
    pub(super) fn pod(&self, key: &Key) -> Option<Arc<RemotePod>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.object(key)
    }

    /// Has them watched from now on, for a while.
    pub(super) fn ask(&self) {
        self.until.send_replace(Instant::now() + KEEP);
    }

    async fn until_asked(&self) {
        let mut until = self.until.subscribe();
        // Whoever could ask is held by this very value.
        let _ = until.wait_for(|until| *until > Instant::now()).await;
    }

    /// Waits until nobody has asked for a while, and no pod waits.
    async fn until_over(&self, store: &Store<RemotePod>) {
        loop {
            let until = *self.until.borrow();
            sleep_until(until).await;
            if *self.until.borrow() > Instant::now() {
                continue;
            }
            if store.keys().is_empty() {
                return;
            }
            self.ask();
        }
    }

    fn set(&self, store: Option<Store<RemotePod>>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }
}

impl Pods {
    /// Watches the pods of a namespace that wait for a node, whenever somebody asks for one; never ends
    /// by itself.
    pub(super) async fn watch_waiting(&self, side: &Side, config: Config) {
        let (config, waiting) = (config.fields(UNPLACED), &side.waiting);
        loop {
            waiting.until_asked().await;
            debug!(namespace = side.place.home_namespace, "Pods without a node are watched");
            let (store, keys) = watch_packed(side.api(), config.clone(), BACKOFF, PACKING);
            waiting.set(Some(store.clone()));
            let mut keys = pin!(keys);
            let forward = async {
                while let Some(key) = keys.next().await {
                    self.touch(side, Touch { key: key.name, is_urgent: true }).await;
                }
            };
            tokio::select! {
                () = forward => {}
                () = waiting.until_over(&store) => {}
            }
            waiting.set(None);
        }
    }

    /// Looks for a pod that is missed among those without a node; when to look again.
    pub(super) fn miss(&self, scene: &Scene<'_>) -> Option<Duration> {
        let Some(side) = scene.side.as_ref().filter(|_| scene.is_missed()) else {
            self.with(scene.key, |memory| memory.missed = None);
            return None;
        };
        let now = Instant::now();
        let wait = self.with(scene.key, |memory| {
            let since = *memory.missed.get_or_insert(now);
            // One that was there and is not is made anew.
            let patience = if memory.mirrored.is_some() { Duration::ZERO } else { PATIENCE };
            (since + patience).duration_since(now)
        });
        if !wait.is_zero() {
            return Some(wait);
        }
        side.waiting.ask();
        Some(KEEP)
    }
}
