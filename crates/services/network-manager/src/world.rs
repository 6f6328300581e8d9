//! What is watched, and which peer everything is about.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, BoxStream, StreamExt as _};
use futures::{FutureExt as _, Stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{annotation, label, secret};
use liqo_api::names::ClusterId;
use liqo_api::net::{NatMapping, NetworkConfig, TunnelEndpoint};
use liqo_kit::retry::Backoff;
use liqo_kit::watch::{Ended, Key, Store, watch, watch_trimmed};
use liqo_network_exchange::gateway::{Gateway, NoGateway, gateway};
use liqo_network_exchange::told;

use crate::book::Book;

/// Everything that is watched.
#[derive(Clone)]
pub struct World {
    /// Peers.
    pub clusters: Store<ForeignCluster>,
    /// What peers are told, and what they tell.
    pub configs: Store<NetworkConfig>,
    /// Tunnels.
    pub tunnels: Store<TunnelEndpoint>,
    /// What gateways translate.
    pub mappings: Store<NatMapping>,
    /// The namespaces that are kept for peers, known or not.
    tenants: Store<Namespace>,
    services: Store<Service>,
    keys: Store<Secret>,
    book: Arc<Book>,
}

/// The peers that have to be looked at.
pub struct Touched {
    /// Because of what they are told, tell, or are.
    pub peers: BoxStream<'static, ClusterId>,
    /// Because of what gateways translate for them.
    pub mappings: BoxStream<'static, ClusterId>,
}

impl World {
    /// Watches the cluster; stores are filled while both streams are read.
    pub fn new(client: &Client, namespace: &str, book: Arc<Book>) -> (Self, Touched) {
        let all = || client.clone();
        let marked = |name: &str, value: &str| Config::default().labels(&format!("{name}={value}"));
        let (clusters, touched_clusters) = watch(Api::all(all()), Config::default());
        let (configs, touched_configs) = watch(Api::all(all()), Config::default());
        let (tunnels, touched_tunnels) = watch(Api::all(all()), Config::default());
        let (mappings, touched_mappings) = watch(Api::all(all()), Config::default());
        let (tenants, touched_tenants) =
            watch(Api::all(all()), marked(label::TENANT_NAMESPACE, label::TRUE));
        let (services, touched_services) =
            watch(Api::namespaced(all(), namespace), marked(label::GATEWAY, label::TRUE));
        let (keys, touched_keys) = watch_trimmed(
            Api::namespaced(all(), namespace),
            marked(label::TUNNEL_KEY, label::TUNNEL_KEY_WIREGUARD),
            Backoff::default(),
            keep_public,
        );
        let world = Self { clusters, configs, tunnels, mappings, tenants, services, keys, book };
        let of = |find: fn(&Self, &Key) -> Vec<ClusterId>| {
            let world = world.clone();
            move |key: Key| stream::iter(find(&world, &key))
        };
        let peers: Vec<BoxStream<'static, ClusterId>> = vec![
            touched_clusters.flat_map(of(Self::of_cluster)).boxed(),
            touched_configs.flat_map(of(Self::of_config)).boxed(),
            touched_tunnels.flat_map(of(Self::of_tunnel)).boxed(),
            touched_tenants.flat_map(of(Self::of_tenant)).boxed(),
            touched_services.flat_map(of(Self::of_all)).boxed(),
            touched_keys.flat_map(of(Self::of_all)).boxed(),
        ];
        let mappings = touched_mappings.flat_map(of(Self::of_mapping)).boxed();
        (world, Touched { peers: stream::select_all(peers).boxed(), mappings })
    }

    /// Waits until everything has been seen once; nothing may be decided before.
    pub async fn ready(&self) -> Result<(), Ended> {
        let waits = vec![
            self.clusters.wait_until_ready().boxed(),
            self.configs.wait_until_ready().boxed(),
            self.tunnels.wait_until_ready().boxed(),
            self.tenants.wait_until_ready().boxed(),
            self.services.wait_until_ready().boxed(),
            self.keys.wait_until_ready().boxed(),
        ];
        try_join_all(waits).await.map(drop)
    }

    /// The ForeignCluster of a peer: the oldest, if there are several.
    pub fn cluster(&self, peer: &ClusterId) -> Option<Arc<ForeignCluster>> {
        let all = self.clusters.objects().into_iter();
        let own = all.filter(|cluster| id_of(cluster).as_ref() == Some(peer));
        own.min_by_key(|cluster| age(&**cluster))
    }

    /// The namespace that is kept for a peer: as its ForeignCluster says, or else as the namespace
    /// itself does. Whoever connects clusters by hand makes it first.
    pub fn namespace(&self, peer: &ClusterId, cluster: Option<&ForeignCluster>) -> Option<String> {
        if let Some(namespace) = cluster.and_then(told::namespace) {
            return Some(namespace.to_owned());
        }
        let own = self.tenants.objects().into_iter();
        let mut own = own.filter(|tenant| tenant_of(tenant).as_ref() == Some(peer));
        let one = own.next()?;
        // Of two, either could be somebody else's.
        own.next().is_none().then(|| one.name_any())
    }

    /// What a peer was told, by us or by hand; it has the name of the peer, where that is known.
    pub fn told(
        &self,
        peer: &ClusterId,
        namespace: &str,
        cluster: Option<&ForeignCluster>,
    ) -> Option<Arc<NetworkConfig>> {
        let listener = cluster.and_then(|cluster| told::listener_in(cluster, namespace));
        let name = listener.map(|listener| listener.remote.unique_name().to_string());
        let is_it = |config: &NetworkConfig| {
            !told::is_copy(config) && name.as_ref().is_none_or(|name| config.name_any() == *name)
        };
        first(self.within(peer, namespace).filter(|config| is_it(config)))
    }

    /// What a peer told us: in its own namespace, where nobody else may write.
    pub fn heard(&self, peer: &ClusterId, namespace: &str) -> Option<Arc<NetworkConfig>> {
        first(self.within(peer, namespace).filter(|config| told::is_copy(config)))
    }

    fn within(
        &self,
        peer: &ClusterId,
        namespace: &str,
    ) -> impl Iterator<Item = Arc<NetworkConfig>> {
        let all = self.about(peer).into_iter();
        all.filter(move |config| config.namespace().as_deref() == Some(namespace))
    }

    /// All that is said between us and a peer, wherever it lies.
    pub fn about(&self, peer: &ClusterId) -> Vec<Arc<NetworkConfig>> {
        let all = self.configs.objects().into_iter();
        all.filter(|config| told::peer(config) == Some(peer.as_str())).collect()
    }

    /// The tunnels to a peer, the oldest first; there should be one.
    pub fn tunnels(&self, peer: &ClusterId) -> Vec<Arc<TunnelEndpoint>> {
        let all = self.tunnels.objects().into_iter();
        let mut own: Vec<_> =
            all.filter(|tunnel| peer_of(&**tunnel).as_ref() == Some(peer)).collect();
        own.sort_by_key(|tunnel| age(&**tunnel));
        own
    }

    /// What gateways translate for a peer, the oldest first; there should be one.
    pub fn mappings(&self, peer: &ClusterId) -> Vec<Arc<NatMapping>> {
        let all = self.mappings.objects().into_iter();
        let mut own: Vec<_> =
            all.filter(|mapping| mapping.spec.cluster_id == peer.as_str()).collect();
        own.sort_by_key(|mapping| age(&**mapping));
        own
    }

    /// What peers are told of our gateway.
    pub fn gateway(&self) -> Result<Gateway, NoGateway> {
        let service = self.services.objects().into_iter().min_by_key(|service| service.name_any());
        let key = self.keys.objects().into_iter().min_by_key(|key| age(&**key));
        gateway(service.as_deref(), key.as_deref())
    }

    /// The peers whose networks had no place.
    pub fn refused(&self) -> Vec<ClusterId> {
        let all = self.configs.objects().into_iter();
        all.filter(|config| config.annotations().contains_key(annotation::NETWORK_REFUSED))
            .filter_map(|config| told::peer(&config)?.parse().ok())
            .collect()
    }

    fn of_cluster(&self, key: &Key) -> Vec<ClusterId> {
        self.one_or_all(self.clusters.object(key), id_of)
    }

    fn of_config(&self, key: &Key) -> Vec<ClusterId> {
        self.one_or_all(self.configs.object(key), |config| told::peer(config)?.parse().ok())
    }

    fn of_tunnel(&self, key: &Key) -> Vec<ClusterId> {
        self.one_or_all(self.tunnels.object(key), peer_of)
    }

    fn of_mapping(&self, key: &Key) -> Vec<ClusterId> {
        self.one_or_all(self.mappings.object(key), |mapping| mapping.spec.peer().ok())
    }

    fn of_tenant(&self, key: &Key) -> Vec<ClusterId> {
        self.one_or_all(self.tenants.object(key), tenant_of)
    }

    fn of_all(&self, _: &Key) -> Vec<ClusterId> {
        self.everybody()
    }

    /// The peer that an object is about. What is gone does not say, so it may be any: of those that
    /// are there now, and those of which something is left, if only in the ledger.
    fn one_or_all<K>(
        &self,
        object: Option<Arc<K>>,
        peer: impl Fn(&K) -> Option<ClusterId>,
    ) -> Vec<ClusterId> {
        match object {
            Some(object) => peer(&object).into_iter().collect(),
            None => self.everybody(),
        }
    }

    fn everybody(&self) -> Vec<ClusterId> {
        let (clusters, configs) = (self.clusters.objects(), self.configs.objects());
        let (tunnels, mappings) = (self.tunnels.objects(), self.mappings.objects());
        let ledger = self.book.ledger();
        let clusters = clusters.iter().filter_map(|cluster| id_of(cluster));
        let configs = configs.iter().filter_map(|config| told::peer(config)?.parse().ok());
        let tunnels = tunnels.iter().filter_map(|tunnel| peer_of(&**tunnel));
        let mappings = mappings.iter().filter_map(|mapping| mapping.spec.peer().ok());
        let all = clusters.chain(configs).chain(tunnels).chain(mappings);
        all.chain(ledger.peers().cloned()).collect()
    }
}

/// The streams that name peers, as one.
pub fn merged(
    streams: Vec<BoxStream<'static, ClusterId>>,
) -> impl Stream<Item = ClusterId> + Send + 'static {
    stream::select_all(streams)
}

fn id_of(cluster: &ForeignCluster) -> Option<ClusterId> {
    cluster.spec.cluster_identity.as_ref()?.cluster_id.parse().ok()
}

fn peer_of(object: &impl Resource) -> Option<ClusterId> {
    object.meta().labels.as_ref()?.get(label::PEER_ID)?.parse().ok()
}

fn tenant_of(namespace: &Namespace) -> Option<ClusterId> {
    namespace.labels().get(label::CLUSTER_ID)?.parse().ok()
}

/// The oldest, if there are several; but one that goes is followed by the one that follows it.
fn first(configs: impl Iterator<Item = Arc<NetworkConfig>>) -> Option<Arc<NetworkConfig>> {
    configs.min_by_key(|config| (config.metadata.deletion_timestamp.is_some(), age(&**config)))
}

/// What decides who is older; identifiers decide between equals.
fn age(object: &impl Resource) -> (Option<Timestamp>, Option<String>) {
    let meta = object.meta();
    (meta.creation_timestamp.as_ref().map(|time| time.0), meta.uid.clone())
}

/// The private key of the gateway is nobody's business here.
fn keep_public(key: &mut Secret) {
    if let Some(data) = &mut key.data {
        data.retain(|name, _| name == secret::WIREGUARD_PUBLIC_KEY);
    }
}
