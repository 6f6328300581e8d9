//! Who has to look again when something changed.
//!
//! ```text
//!  NamespaceOffloading ──> itself            virtual node's labels ──> every NamespaceOffloading
//!  NamespaceMap ──> itself, and the NamespaceOffloadings whose entry changed
//!  namespace ──> its NamespaceOffloading, and the NamespaceMaps that ask for it or made it
//!  ShadowPod, Pod ──> the ShadowPod          ForeignCluster ──> its slices, and what is to go
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt as _;
use liqo_api::keys::object;
use liqo_api::virtualkubelet::{NamespaceMap, RemoteNamespace};
use liqo_kit::service::Service;
use liqo_kit::watch::Key;
use liqo_offloading::hosting::maker;
use liqo_offloading::shadow_slice;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::stores::Touched;
use crate::routes::{Wake, wake};
use crate::world::{World, is_copy, remote};

/// How many keys may wait between a watch and a queue.
const ROOM: usize = 1024;

/// The ways to the queues.
#[derive(Clone)]
pub struct Ways {
    namespaces: Sender<Key>,
    maps: Sender<Key>,
    pods: Sender<Key>,
    slices: Sender<Key>,
    nodes: Sender<Key>,
    last: Arc<Mutex<Last>>,
}

/// The other ends.
pub struct Inboxes {
    pub(super) namespaces: Receiver<Key>,
    pub(super) maps: Receiver<Key>,
    pub(super) pods: Receiver<Key>,
    pub(super) slices: Receiver<Key>,
    pub(super) nodes: Receiver<Key>,
}

/// What was seen last of objects that change more often than what matters of them.
#[derive(Default)]
struct Last {
    maps: HashMap<Key, Entries>,
    nodes: HashMap<Key, BTreeMap<String, String>>,
}

/// What is asked of a cluster for a namespace, and what it has.
type Entries = BTreeMap<String, (Option<String>, Option<RemoteNamespace>)>;

/// The ways, and their ends.
pub fn ways() -> (Ways, Inboxes) {
    let [namespaces, maps, pods, slices, nodes] = [(); 5].map(|()| channel(ROOM));
    (
        Ways {
            namespaces: namespaces.0,
            maps: maps.0,
            pods: pods.0,
            slices: slices.0,
            nodes: nodes.0,
            last: Arc::default(),
        },
        Inboxes {
            namespaces: namespaces.1,
            maps: maps.1,
            pods: pods.1,
            slices: slices.1,
            nodes: nodes.1,
        },
    )
}

impl Ways {
    /// Follows the watches of this module.
    pub fn follow(&self, world: &World, touched: Touched, service: &Service) {
        let Touched {
            offloadings,
            namespaces,
            bindings,
            shadows,
            pods,
            shadow_slices,
            slices,
            nodes,
        } = touched;
        wake(self, world, service, "watch offloadings", offloadings, Self::offloading);
        wake(self, world, service, "watch all namespaces", namespaces, Self::namespace);
        wake(self, world, service, "watch grants", bindings, Self::binding);
        wake(self, world, service, "watch shadow pods", shadows, Self::shadow);
        wake(self, world, service, "watch pods", pods, Self::pod);
        wake(self, world, service, "watch shadow slices", shadow_slices, Self::slice);
        wake(self, world, service, "watch slices", slices, Self::slice);
        wake(self, world, service, "watch node conditions", nodes, Self::failing);
    }

    fn offloading(&self, _: &World, key: &Key) -> Vec<Wake> {
        vec![(self.namespaces.clone(), key.clone())]
    }

    fn namespace(&self, world: &World, key: &Key) -> Vec<Wake> {
        let name = &key.name;
        let offloading = Key::namespaced(name, object::NAMESPACE_OFFLOADING);
        let own = world.offloading.offloadings.object(&offloading);
        let mut found: Vec<Wake> =
            own.map(|_| (self.namespaces.clone(), offloading)).into_iter().collect();
        let namespace = world.offloading.namespaces.object(key);
        let made_by = namespace.as_ref().and_then(|namespace| maker(&namespace.metadata));
        let copies = world.maps.objects().into_iter().filter(|map| is_copy(&**map));
        let hosts = copies.filter(|map| concerns(map, name)).map(|map| Key::of(&*map));
        let hosts: BTreeSet<Key> = hosts.chain(made_by.and_then(map_key)).collect();
        found.extend(hosts.into_iter().map(|map| (self.maps.clone(), map)));
        found
    }

    fn binding(&self, world: &World, key: &Key) -> Vec<Wake> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let namespace = world.offloading.namespaces.object(&Key::cluster(namespace));
        let made_by = namespace.as_ref().and_then(|namespace| maker(&namespace.metadata));
        made_by.and_then(map_key).map(|map| (self.maps.clone(), map)).into_iter().collect()
    }

    /// Those that a NamespaceMap concerns.
    pub fn map(&self, world: &World, key: &Key) -> Vec<Wake> {
        let map = world.maps.object(key);
        if map.as_ref().is_some_and(|map| is_copy(&**map)) {
            return vec![(self.maps.clone(), key.clone())];
        }
        let now = map.as_deref().map(entries);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &now {
            Some(now) => last.maps.insert(key.clone(), now.clone()),
            None => last.maps.remove(key),
        };
        drop(last);
        match (before, now) {
            (Some(before), Some(now)) => {
                let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
                let changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
                let key = |name: &String| Key::namespaced(name, object::NAMESPACE_OFFLOADING);
                changed.map(|name| (self.namespaces.clone(), key(name))).collect()
            }
            // It was not ours, as far as anybody knows.
            (None, None) => vec![(self.maps.clone(), key.clone())],
            (Some(_), None) | (None, Some(_)) => self.all_namespaces(world),
        }
    }

    /// Those that a virtual node concerns.
    pub fn node(&self, world: &World, key: &Key) -> Vec<Wake> {
        let now = world.nodes.object(key).map(|node| node.labels().clone());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &now {
            Some(now) => last.nodes.insert(key.clone(), now.clone()),
            None => last.nodes.remove(key),
        };
        drop(last);
        if before == now { vec![] } else { self.all_namespaces(world) }
    }

    /// Those that a ForeignCluster concerns.
    pub fn cluster(&self, world: &World, key: &Key) -> Vec<Wake> {
        let cluster = world.clusters.object(key).as_deref().and_then(remote);
        let slices = world.offloading.shadow_slices.objects().into_iter();
        let own = slices.filter(|slice| {
            cluster
                .as_ref()
                .is_none_or(|cluster| shadow_slice::origin(slice) == Some(cluster.id.as_str()))
        });
        let mut found: Vec<Wake> =
            own.map(|slice| (self.slices.clone(), Key::of(&*slice))).collect();
        let offloadings = world.offloading.offloadings.objects().into_iter();
        let ending = offloadings.filter(|one| one.metadata.deletion_timestamp.is_some());
        found.extend(ending.map(|one| (self.namespaces.clone(), Key::of(&*one))));
        found
    }

    /// Those that a tenant namespace concerns.
    pub fn tenant(&self, world: &World, key: &Key) -> Vec<Wake> {
        let copies =
            world.maps.objects().into_iter().filter(|map| {
                is_copy(&**map) && map.namespace().as_deref() == Some(key.name.as_str())
            });
        copies.map(|map| (self.maps.clone(), Key::of(&*map))).collect()
    }

    fn all_namespaces(&self, world: &World) -> Vec<Wake> {
        let all = world.offloading.offloadings.objects().into_iter();
        all.map(|one| (self.namespaces.clone(), Key::of(&*one))).collect()
    }

    fn shadow(&self, _: &World, key: &Key) -> Vec<Wake> {
        vec![(self.pods.clone(), key.clone())]
    }

    fn pod(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found = vec![(self.pods.clone(), key.clone())];
        let pod = world.offloading.pods.object(key).filter(|_| world.offloading.nodes.is_some());
        let pod = pod.filter(|pod| pod.metadata.deletion_timestamp.is_some());
        let node = pod.as_ref().and_then(|pod| pod.node()).map(Key::cluster);
        found.extend(node.map(|node| (self.nodes.clone(), node)));
        found
    }

    fn slice(&self, _: &World, key: &Key) -> Vec<Wake> {
        vec![(self.slices.clone(), key.clone())]
    }

    fn failing(&self, _: &World, key: &Key) -> Vec<Wake> {
        vec![(self.nodes.clone(), key.clone())]
    }
}

/// The NamespaceMap that a namespace says it was made for.
fn map_key(text: &str) -> Option<Key> {
    text.split_once('/').map(|(namespace, name)| Key::namespaced(namespace, name))
}

/// Whether a NamespaceMap asks for a namespace, or has it.
fn concerns(map: &NamespaceMap, namespace: &str) -> bool {
    let current = map.status.iter().flat_map(|status| status.current_mapping.values());
    let current = current.filter_map(|entry| entry.remote_namespace.as_deref());
    map.spec
        .desired_mapping
        .values()
        .map(String::as_str)
        .chain(current)
        .any(|name| name == namespace)
}

fn entries(map: &NamespaceMap) -> Entries {
    let mut entries = Entries::new();
    for (name, wanted) in &map.spec.desired_mapping {
        entries.entry(name.clone()).or_default().0 = Some(wanted.clone());
    }
    for (name, current) in map.status.iter().flat_map(|status| &status.current_mapping) {
        entries.entry(name.clone()).or_default().1 = Some(current.clone());
    }
    entries
}
