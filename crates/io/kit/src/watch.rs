//! Stores fed by watches, and the keys of what was touched.
//!
//! A watch that was interrupted starts again with a list, and nobody names what was deleted
//! meanwhile: it is what was known before and is not listed any more. Two rules follow:
//!
//! - the stream of keys names what vanished across a list, too;
//! - a store that was never filled looks like a world where everything was deleted, so nothing is
//!   decided before [`Store::wait_until_ready`].
//!
//! Keys are only named once the store shows what they are named for.

mod shelf;

use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch::{Receiver, channel};
use tracing::{debug, warn};

pub use self::shelf::Packing;
use self::shelf::{Kept, Shelf};
use crate::keyed::chain;
use crate::retry::Backoff;

/// Namespace and name: what identifies an object of a known kind, here or remote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace, unless the kind has none.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of an object; one without a name, which no API server returns, has an empty name.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace(), name: object.name_any() }
    }

    /// A key within a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// A key of a kind that has no namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Whether one state of an object came after another one of the same object.
///
/// Versions are numbers wherever anybody has seen them; where they are not, states that differ count
/// as newer.
pub fn is_newer(one: &ObjectMeta, than: &ObjectMeta) -> bool {
    let number = |state: &ObjectMeta| state.resource_version.as_ref()?.parse::<u64>().ok();
    match (number(one), number(than)) {
        (Some(one), Some(than)) => one > than,
        (None, _) | (_, None) => one.resource_version != than.resource_version,
    }
}

/// What a watch can be about: objects whose kind is known at compile time.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The watch has ended, so its store will never be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watch ended before its first list")]
pub struct Ended;

/// The objects of a watch as they are known now, without their `managedFields`; a clone is the same.
pub struct Store<K> {
    objects: Arc<RwLock<Shelf<K>>>,
    ready: Receiver<bool>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), ready: self.ready.clone() }
    }
}

impl<K> Store<K> {
    /// The object with this key, if there is one.
    pub fn object(&self, key: &Key) -> Option<Arc<K>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(key)
    }

    /// All objects, in no order.
    pub fn objects(&self) -> Vec<Arc<K>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.objects().collect()
    }

    /// The keys of all objects, in no order.
    pub fn keys(&self) -> Vec<Key> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.keys().cloned().collect()
    }

    /// Whether there was a whole list.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits for the first whole list. The stream of keys must be read meanwhile.
    pub async fn wait_until_ready(&self) -> Result<(), Ended> {
        self.ready.clone().wait_for(|ready| *ready).await.map(|_| ()).map_err(|_| Ended)
    }
}

/// Watches objects: a store, and the keys of what was touched.
///
/// With an `Api<PartialObjectMeta<K>>`, only metadata crosses the wire and fills the store.
/// The store is fed while the stream is read. Interruptions are logged and overcome; the stream
/// never ends by itself.
pub fn watch<K: Object>(
    api: Api<K>,
    config: watcher::Config,
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K>) {
    feed(kube::runtime::watcher(api, config).default_backoff(), |_| {}, None)
}

/// The same, with waits of one's own choice after interruptions.
pub fn watch_with<K: Object>(
    api: Api<K>,
    config: watcher::Config,
    backoff: Backoff,
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K>) {
    watch_trimmed(api, config, backoff, |_| {})
}

/// The same, where the store keeps no more of an object than `trim` leaves.
pub fn watch_trimmed<K: Object>(
    api: Api<K>,
    config: watcher::Config,
    backoff: Backoff,
    trim: fn(&mut K),
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K>) {
    let events = kube::runtime::watcher(api, config).backoff(Waits { backoff, failures: 0 });
    feed(events, trim, None)
}

/// The same, where the store keeps objects packed: an object is made anew whenever it is asked for.
pub fn watch_packed<K: Object>(
    api: Api<K>,
    config: watcher::Config,
    backoff: Backoff,
    packing: Packing<K>,
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K>) {
    let events = kube::runtime::watcher(api, config).backoff(Waits { backoff, failures: 0 });
    feed(events, packing.trim, Some(packing))
}

/// The same watch for somebody who waits for its first list: that is what the API server has at hand.
///
/// To list the very latest, an API server asks its store how far that is: a tenth of a second
/// whenever anybody writes to the cluster. What it has at hand may be a moment old, and the watch
/// shows what came since. So this is not for a list whose gaps are taken for deletions.
pub fn at_hand(config: watcher::Config) -> watcher::Config {
    config.any_semantic()
}

/// The waits of a watch that is interrupted again and again.
struct Waits {
    backoff: Backoff,
    failures: u32,
}

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        Some(self.backoff.jittered(self.failures))
    }
}

impl kube::runtime::utils::Backoff for Waits {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Feeds a store from the events of a watch, and names the keys they touched.
fn feed<K, S>(
    events: S,
    trim: fn(&mut K),
    packing: Option<Packing<K>>,
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K, S>)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    S: Stream<Item = watcher::Result<Event<K>>> + Send,
{
    let objects = Arc::new(RwLock::new(Shelf::new(packing)));
    let (tell_ready, ready) = channel(false);
    let mut writer = Writer { objects: Arc::clone(&objects), listed: HashMap::new() };
    let keys = events.filter_map(move |event| {
        let touched = match event {
            Ok(event) => {
                let event = event.modify(|object| {
                    object.meta_mut().managed_fields = None;
                    trim(object);
                });
                let is_whole = matches!(event, Event::InitDone);
                let touched = writer.write(event);
                if is_whole {
                    tell_ready.send_replace(true);
                }
                Some(stream::iter(touched))
            }
            Err(error) => {
                let kind = K::kind(&());
                if is_expired(&error) {
                    debug!(%kind, "Watch begins anew");
                } else {
                    warn!(%kind, error = chain(&error), "Watch interrupted");
                }
                None
            }
        };
        std::future::ready(touched)
    });
    (Store { objects, ready }, keys.flatten())
}

/// Who writes to a store.
struct Writer<K> {
    objects: Arc<RwLock<Shelf<K>>>,
    /// What the list that is going on has shown.
    listed: HashMap<Key, Kept<K>>,
}

impl<K: ResourceExt> Writer<K> {
    /// Writes what an event says; the keys that it touches, those that it silently drops included.
    fn write(&mut self, event: Event<K>) -> Vec<Key> {
        match event {
            Event::Apply(object) => {
                let key = Key::of(&object);
                self.objects().insert(key.clone(), object);
                vec![key]
            }
            Event::Delete(object) => {
                let key = Key::of(&object);
                self.objects().remove(&key);
                vec![key]
            }
            Event::Init => {
                self.listed = HashMap::new();
                Vec::new()
            }
            Event::InitApply(object) => {
                let key = Key::of(&object);
                let kept = self.objects().keep(object);
                self.listed.insert(key, kept);
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let mut objects = self.objects();
                let before = objects.replace(listed);
                difference(&before, &objects)
            }
        }
    }

    fn objects(&self) -> RwLockWriteGuard<'_, Shelf<K>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a watch only has to list again, because the API server has forgotten where it was: that
/// happens every few minutes where there is little to see, and no bookmarks, as with Events.
fn is_expired(error: &watcher::Error) -> bool {
    let (watcher::Error::WatchError(status)
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 410
}

/// The keys of what came, changed or vanished between two lists.
fn difference<K: ResourceExt>(before: &HashMap<Key, Kept<K>>, after: &Shelf<K>) -> Vec<Key> {
    let version = |object: Option<Arc<K>>| object?.meta().resource_version.clone();
    let is_as_before = |key: &Key| {
        let earlier = before.get(key).and_then(|kept| version(after.whole(kept)));
        earlier.is_some() && earlier == version(after.get(key))
    };
    let changed = after.keys().filter(|key| !is_as_before(key));
    let vanished = before.keys().filter(|key| !after.has(key));
    let mut touched: Vec<Key> = changed.chain(vanished).cloned().collect();
    touched.sort();
    touched
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::channel::mpsc::UnboundedSender;
    use futures::stream::BoxStream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

    use super::*;

    #[test]
    fn a_later_state_is_newer() {
        let state = |version: &str| ObjectMeta {
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        assert!(is_newer(&state("10"), &state("9")));
        assert!(!is_newer(&state("9"), &state("10")) && !is_newer(&state("9"), &state("9")));
        assert!(is_newer(&state("b"), &state("a")) && !is_newer(&state("a"), &state("a")));
    }

    #[test]
    fn nothing_is_named_before_the_first_list_is_whole() {
        let mut shown = Shown::default();
        assert_eq!(shown.names([Event::Init, Event::InitApply(map("a", "1"))]), [""; 0]);
        assert_eq!(shown.names([Event::InitDone]), ["shop/a"]);
    }

    #[test]
    fn a_deletion_names_its_key() {
        let mut shown = Shown::listed(&["a"]);
        assert_eq!(shown.names([Event::Delete(map("a", "2"))]), ["shop/a"]);
    }

    #[test]
    fn a_list_names_what_vanished_changed_or_came_and_nothing_else() {
        let mut shown = Shown::listed(&["changed", "same", "vanished"]);
        let relist = [
            Event::Init,
            Event::InitApply(map("changed", "2")),
            Event::InitApply(map("same", "1")),
            Event::InitApply(map("came", "1")),
            Event::InitDone,
        ];
        assert_eq!(shown.names(relist), ["shop/came", "shop/changed", "shop/vanished"]);
        assert_eq!(
            shown.names([Event::Init, Event::InitDone]),
            ["shop/came", "shop/changed", "shop/same"]
        );
    }

    #[test]
    fn a_list_that_breaks_off_forgets_nothing() {
        let mut shown = Shown::listed(&["a"]);
        let broken = [Event::Init, Event::InitApply(map("b", "1")), Event::Init];
        assert_eq!(shown.names(broken), [""; 0]);
        assert_eq!(shown.names([Event::InitDone]), ["shop/a"]);
    }

    #[tokio::test]
    async fn a_key_is_named_once_the_store_shows_why() {
        let events = [Event::Init, Event::InitApply(map("a", "1")), Event::InitDone];
        let (store, keys) = feed(stream::iter(events.map(Ok)), |_| {}, None);
        assert!(store.wait_until_ready().now_or_never().is_none());
        let key = keys.boxed().next().await.unwrap();
        assert_eq!(store.object(&key).unwrap().metadata.resource_version.as_deref(), Some("1"));
        store.wait_until_ready().await.unwrap();
    }

    #[tokio::test]
    async fn managed_fields_never_reach_the_store() {
        let mut object = map("a", "1");
        object.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
        let events = [Event::Init, Event::InitApply(object), Event::InitDone];
        let (store, keys) = feed(stream::iter(events.map(Ok)), |_| {}, None);
        let keys: Vec<Key> = keys.collect().await;
        assert_eq!(store.object(&keys[0]).unwrap().metadata.managed_fields, None);
    }

    #[tokio::test]
    async fn everybody_who_waits_for_the_first_list_is_woken() {
        let (send, events) = futures::channel::mpsc::unbounded();
        let (store, keys) = feed(events, |_| {}, None);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.wait_until_ready().await })
            })
            .collect();
        let reading = tokio::spawn(keys.count());
        tokio::task::yield_now().await;
        for event in [Event::Init, Event::InitApply(map("a", "1")), Event::InitDone] {
            send.unbounded_send(Ok(event)).unwrap();
        }
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        drop(send);
        assert_eq!(reading.await.unwrap(), 1);
        store.wait_until_ready().await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_is_never_filled_says_so() {
        let (store, keys) = feed(stream::iter([Ok(Event::<ConfigMap>::Init)]), |_| {}, None);
        assert_eq!(keys.count().await, 0);
        assert_eq!(store.wait_until_ready().await, Err(Ended));
    }

    fn map(name: &str, version: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    /// A watch whose events a test sends, and the keys it names.
    struct Shown {
        send: UnboundedSender<watcher::Result<Event<ConfigMap>>>,
        keys: BoxStream<'static, Key>,
    }

    impl Default for Shown {
        fn default() -> Self {
            let (send, events) = futures::channel::mpsc::unbounded();
            let (_, keys) = feed(events, |_| {}, None);
            Self { send, keys: keys.boxed() }
        }
    }

    impl Shown {
        fn listed(names: &[&str]) -> Self {
            let mut shown = Self::default();
            shown.names([Event::Init]);
            shown.names(names.iter().map(|name| Event::InitApply(map(name, "1"))));
            shown.names([Event::InitDone]);
            shown
        }

        fn names(&mut self, events: impl IntoIterator<Item = Event<ConfigMap>>) -> Vec<String> {
            for event in events {
                self.send.unbounded_send(Ok(event)).unwrap();
            }
            let mut names = Vec::new();
            while let Some(key) = self.keys.next().now_or_never() {
                names.push(key.unwrap().to_string());
            }
            names
        }
    }
}
