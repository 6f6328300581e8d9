//! Who has to look again when something changed.
//!
//! ```text
//!  ForeignCluster ──> itself, its requests, its offers, its virtual node, the probe
//!  request ─────────> itself, its cluster          offer ──> itself, its cluster, its request
//!  in a tenant namespace ──> the cluster it is kept for
//!  tokens, roles, our own address ──> every cluster
//! ```
//!
//! What vanished is not in any store; where it lay says enough.

use futures::StreamExt as _;
use kube::ResourceExt as _;
use liqo_api::keys::label;
use liqo_kit::service::Service;
use liqo_kit::watch::Key;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::controllers::spawn;
use crate::offloading::{self, Ways, ways};
use crate::world::{Keys, Touched, World, is_copy, is_tenant_of, remote};

/// How many keys may wait between a watch and a queue.
const ROOM: usize = 1024;

/// A key, and the queue that has to work on it.
pub type Wake = (Sender<Key>, Key);

/// The ways to the queues.
#[derive(Clone)]
pub struct Routes {
    /// To the controller of ForeignClusters.
    pub clusters: Sender<Key>,
    /// To the probe of remote API servers.
    pub probes: Sender<Key>,
    /// To the controller of requests received.
    pub requests: Sender<Key>,
    /// To the controller of offers received.
    pub offers: Sender<Key>,
    /// To the controller of virtual nodes.
    pub nodes: Sender<Key>,
    /// To the controllers of what reaches over clusters.
    pub offloading: Ways,
}

/// The other ends.
pub struct Inboxes {
    /// Of the controller of ForeignClusters.
    pub clusters: Receiver<Key>,
    /// Of the probe of remote API servers.
    pub probes: Receiver<Key>,
    /// Of the controller of requests received.
    pub requests: Receiver<Key>,
    /// Of the controller of offers received.
    pub offers: Receiver<Key>,
    /// Of the controller of virtual nodes.
    pub nodes: Receiver<Key>,
}

/// The ways, and their ends.
pub fn routes() -> (Routes, Inboxes, offloading::Inboxes) {
    let [clusters, probes, requests, offers, nodes] = [(); 5].map(|()| channel(ROOM));
    let (offloading, offloading_inboxes) = ways();
    (
        Routes {
            clusters: clusters.0,
            probes: probes.0,
            requests: requests.0,
            offers: offers.0,
            nodes: nodes.0,
            offloading,
        },
        Inboxes {
            clusters: clusters.1,
            probes: probes.1,
            requests: requests.1,
            offers: offers.1,
            nodes: nodes.1,
        },
        offloading_inboxes,
    )
}

impl Routes {
    /// Follows all watches.
    pub fn follow(&self, world: &World, touched: Touched, service: &Service) {
        let Touched {
            clusters,
            requests,
            offers,
            tenant_objects,
            shared_objects,
            tenants,
            kubelets,
            nodes,
            maps,
            offloading,
            classes,
        } = touched;
        self.offloading.follow(world, offloading, service);
        wake(self, world, service, "watch clusters", clusters, Self::cluster);
        wake(self, world, service, "watch requests", requests, Self::request);
        wake(self, world, service, "watch offers", offers, Self::offer);
        for keys in tenant_objects {
            wake(self, world, service, "watch tenants", keys, Self::in_tenant);
        }
        for keys in shared_objects {
            wake(self, world, service, "watch tokens", keys, Self::shared);
        }
        wake(self, world, service, "watch namespaces", tenants, Self::tenant);
        wake(self, world, service, "watch kubelets", kubelets, Self::kubelet);
        wake(self, world, service, "watch nodes", nodes, Self::node);
        wake(self, world, service, "watch maps", maps, Self::map);
        wake(self, world, service, "watch classes", classes, Self::class);
    }

    fn cluster(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found =
            vec![(self.clusters.clone(), key.clone()), (self.probes.clone(), key.clone())];
        let foreign = world.clusters.object(key);
        let is_own = |namespace: Option<String>| match (&foreign, namespace) {
            (Some(foreign), Some(namespace)) => is_tenant_of(foreign, &namespace),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let requests = world.requests.objects().into_iter();
        let requests = requests.filter(|one| is_copy(&**one) && is_own(one.namespace()));
        found.extend(requests.map(|one| (self.requests.clone(), Key::of(&*one))));
        let offers = world.offers.objects().into_iter();
        let offers = offers.filter(|one| is_copy(&**one) && is_own(one.namespace()));
        found.extend(offers.map(|one| (self.offers.clone(), Key::of(&*one))));
        match foreign.as_deref().and_then(remote) {
            Some(cluster) => {
                let nodes = world.nodes_of(&cluster.id).into_iter();
                found.extend(nodes.map(|node| (self.nodes.clone(), Key::of(&*node))));
                // Another one may have waited for this one to go, or to be known.
            }
            None => found.extend(self.all_clusters(world)),
        }
        found.extend(self.offloading.cluster(world, key));
        found
    }

    fn request(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found = self.in_tenant(world, key);
        let request = world.requests.object(key);
        if request.as_ref().is_none_or(|request| is_copy(&**request)) {
            found.push((self.requests.clone(), key.clone()));
        }
        if request.is_none_or(|request| !is_copy(&*request)) {
            // An offer may be on its way, or will not come.
            found.push((self.offers.clone(), key.clone()));
        }
        found
    }

    fn offer(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found = self.in_tenant(world, key);
        found.push((self.offers.clone(), key.clone()));
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let request = world.received_request(namespace);
        found.extend(request.map(|request| (self.requests.clone(), Key::of(&*request))));
        found
    }

    fn in_tenant(&self, world: &World, key: &Key) -> Vec<Wake> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        match world.cluster_of_tenant(namespace) {
            Some(foreign) => {
                let key = Key::of(&*foreign);
                vec![(self.clusters.clone(), key.clone()), (self.probes.clone(), key)]
            }
            None => vec![],
        }
    }

    fn tenant(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found = self.offloading.tenant(world, key);
        let foreign = world.cluster_of_tenant(&key.name);
        found.extend(foreign.map(|foreign| (self.clusters.clone(), Key::of(&*foreign))));
        found
    }

    fn shared(&self, world: &World, _: &Key) -> Vec<Wake> {
        self.all_clusters(world)
    }

    /// Every cluster.
    pub fn all_clusters(&self, world: &World) -> Vec<Wake> {
        let all = world.clusters.objects().into_iter();
        all.map(|foreign| (self.clusters.clone(), Key::of(&*foreign))).collect()
    }

    fn kubelet(&self, world: &World, key: &Key) -> Vec<Wake> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let offer = world.received_offer(namespace);
        // Without an offer, where it lies says enough.
        vec![(self.offers.clone(), offer.map_or_else(|| key.clone(), |offer| Key::of(&*offer)))]
    }

    fn node(&self, world: &World, key: &Key) -> Vec<Wake> {
        let mut found = self.offloading.node(world, key);
        found.push((self.nodes.clone(), key.clone()));
        found
    }

    fn map(&self, world: &World, key: &Key) -> Vec<Wake> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let foreign = world.cluster_of_tenant(namespace);
        let cluster = foreign.as_deref().and_then(remote);
        let nodes = cluster.map(|cluster| world.nodes_of(&cluster.id)).unwrap_or_default();
        let mut found = self.offloading.map(world, key);
        found.extend(nodes.into_iter().map(|node| (self.nodes.clone(), Key::of(&*node))));
        found
    }

    fn class(&self, world: &World, _: &Key) -> Vec<Wake> {
        self.received_requests(world)
    }

    /// Every request that was received.
    pub fn received_requests(&self, world: &World) -> Vec<Wake> {
        let all = world.requests.objects().into_iter().filter(|request| {
            request.labels().get(label::REPLICATED).map(String::as_str) == Some(label::TRUE)
        });
        all.map(|request| (self.requests.clone(), Key::of(&*request))).collect()
    }
}

/// Has everything looked at that a key of a watch is about, as long as the watch goes on.
pub fn wake<T: Clone + Send + 'static>(
    ways: &T,
    world: &World,
    service: &Service,
    name: &'static str,
    mut keys: Keys,
    find: fn(&T, &World, &Key) -> Vec<Wake>,
) {
    let (ways, world) = (ways.clone(), world.clone());
    spawn(service, name, async move {
        while let Some(key) = keys.next().await {
            for (way, key) in find(&ways, &world, &key) {
                // A queue that has ended needs no keys.
                let _ = way.send(key).await;
            }
        }
    });
}
