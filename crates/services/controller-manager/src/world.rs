//! What the controllers know of the cluster: stores fed by watches, and questions about them.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::{FutureExt as _, Stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, ResourceRequest};
use liqo_api::keys::{annotation, label, object};
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::net::{NetworkConfig, TunnelEndpoint};
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_identity::secret;
use liqo_kit::watch::{Ended, Key, Store, watch};

use crate::args::OffloadingArgs;
use crate::offloading;

/// The keys that a watch names.
pub type Keys = std::pin::Pin<Box<dyn Stream<Item = Key> + Send>>;

/// Everything that is watched.
#[derive(Clone)]
pub struct World {
    /// This cluster.
    pub home: Cluster,
    /// The namespace of the installation.
    pub namespace: String,
    /// A client.
    pub client: Client,
    /// Clusters.
    pub clusters: Store<ForeignCluster>,
    /// Requests, ours and received.
    pub requests: Store<ResourceRequest>,
    /// Offers, ours and received.
    pub offers: Store<ResourceOffer>,
    /// Tunnels.
    pub tunnels: Store<TunnelEndpoint>,
    /// What is said of networks, of which only the marks count here.
    pub networks: Store<PartialObjectMeta<NetworkConfig>>,
    /// Identities of this cluster at others.
    pub identities: Store<Secret>,
    /// Tokens to present to others.
    pub tokens: Store<PartialObjectMeta<Secret>>,
    /// Tenant namespaces.
    pub tenants: Store<PartialObjectMeta<Namespace>>,
    /// Roles that peers may be given.
    pub roles: Store<PartialObjectMeta<ClusterRole>>,
    /// Bindings of these roles.
    pub bindings: Vec<Store<RoleBinding>>,
    /// The Service of the authentication service.
    pub services: Store<Service>,
    /// Virtual kubelets.
    pub kubelets: Store<Deployment>,
    /// Virtual nodes.
    pub nodes: Store<PartialObjectMeta<Node>>,
    /// The namespace maps, ours and received.
    pub maps: Store<NamespaceMap>,
    /// What is watched for namespaces and pods that reach over clusters.
    pub offloading: offloading::Stores,
    /// Storage classes; not watched when no storage is offered.
    pub classes: Option<Store<StorageClass>>,
}

/// The keys of everything that is watched, by who has to know.
pub struct Touched {
    /// Clusters.
    pub clusters: Keys,
    /// Requests.
    pub requests: Keys,
    /// Offers.
    pub offers: Keys,
    /// What lies in tenant namespaces and matters to their cluster: identities, tunnels, bindings.
    pub tenant_objects: Vec<Keys>,
    /// What matters to every cluster: tokens, roles, the Service of the authentication service.
    pub shared_objects: Vec<Keys>,
    /// Tenant namespaces.
    pub tenants: Keys,
    /// Virtual kubelets.
    pub kubelets: Keys,
    /// Virtual nodes.
    pub nodes: Keys,
    /// Namespace maps.
    pub maps: Keys,
    /// What is watched for namespaces and pods that reach over clusters.
    pub offloading: offloading::Touched,
    /// Storage classes.
    pub classes: Keys,
}

impl World {
    /// Watches the cluster; stores are filled while the keys are read.
    pub fn new(
        client: &Client,
        home: Cluster,
        namespace: &str,
        args: &OffloadingArgs,
    ) -> (Self, Touched) {
        let storage = args.enable_storage;
        let all = || client.clone();
        let (clusters, touched_clusters) = watch(Api::all(all()), Config::default());
        let (requests, touched_requests) = watch(Api::all(all()), Config::default());
        let (offers, touched_offers) = watch(Api::all(all()), Config::default());
        let (tunnels, touched_tunnels) = watch(Api::all(all()), Config::default());
        let (networks, touched_networks) = watch(Api::all(all()), Config::default());
        let (identities, touched_identities) =
            watch(Api::all(all()), marked(label::LOCAL_IDENTITY, label::TRUE));
        let (tokens, touched_tokens) =
            watch(Api::all(all()), Config::default().labels(secret::REMOTE_TOKENS));
        let (tenants, touched_tenants) =
            watch(Api::all(all()), Config::default().labels(label::TENANT_NAMESPACE));
        let (roles, touched_roles) =
            watch(Api::all(all()), Config::default().labels(label::REMOTE_PEERING_PERMISSIONS));
        let names = [object::ROLE_BASIC, object::ROLE_INCOMING, object::ROLE_OUTGOING];
        let (bindings, touched_bindings): (Vec<_>, Vec<Keys>) = names
            .map(|role| {
                let name = object::role_binding(role);
                let (store, keys) = watch(Api::all(all()), named(&name));
                (store, Box::pin(keys) as Keys)
            })
            .into_iter()
            .unzip();
        let (services, touched_services) =
            watch(Api::namespaced(all(), namespace), named(object::AUTH));
        let operator = marked(label::APP_MANAGED_BY, label::MANAGED_BY_ADVERTISEMENT_OPERATOR);
        let (kubelets, touched_kubelets) = watch(Api::all(all()), operator);
        let (nodes, touched_nodes) =
            watch(Api::all(all()), marked(label::TYPE, label::TYPE_VIRTUAL_NODE));
        let (maps, touched_maps) = watch(Api::all(all()), Config::default());
        let (offloading, touched_offloading) =
            offloading::Stores::new(client, args.enable_node_failure_controller);
        let (classes, touched_classes) = if storage {
            let (store, keys) = watch(Api::all(all()), Config::default());
            (Some(store), Box::pin(keys) as Keys)
        } else {
            (None, Box::pin(futures::stream::pending()) as Keys)
        };
        let world = Self {
            home,
            namespace: namespace.to_owned(),
            client: client.clone(),
            clusters,
            requests,
            offers,
            tunnels,
            networks,
            identities,
            tokens,
            tenants,
            roles,
            bindings,
            services,
            kubelets,
            nodes,
            maps,
            offloading,
            classes,
        };
        let mut tenant_objects: Vec<Keys> = vec![
            Box::pin(touched_tunnels),
            Box::pin(touched_networks),
            Box::pin(touched_identities),
        ];
        tenant_objects.extend(touched_bindings);
        let touched = Touched {
            clusters: Box::pin(touched_clusters),
            requests: Box::pin(touched_requests),
            offers: Box::pin(touched_offers),
            tenant_objects,
            shared_objects: vec![
                Box::pin(touched_tokens),
                Box::pin(touched_roles),
                Box::pin(touched_services),
            ],
            tenants: Box::pin(touched_tenants),
            kubelets: Box::pin(touched_kubelets),
            nodes: Box::pin(touched_nodes),
            maps: Box::pin(touched_maps),
            offloading: touched_offloading,
            classes: touched_classes,
        };
        (world, touched)
    }

    /// Waits until everything has been seen once; nothing may be decided before.
    pub async fn wait_until_ready(&self) -> Result<(), Ended> {
        let mut waits = vec![
            self.clusters.wait_until_ready().boxed(),
            self.requests.wait_until_ready().boxed(),
            self.offers.wait_until_ready().boxed(),
            self.tunnels.wait_until_ready().boxed(),
            self.networks.wait_until_ready().boxed(),
            self.identities.wait_until_ready().boxed(),
            self.tokens.wait_until_ready().boxed(),
            self.tenants.wait_until_ready().boxed(),
            self.roles.wait_until_ready().boxed(),
            self.services.wait_until_ready().boxed(),
            self.kubelets.wait_until_ready().boxed(),
            self.nodes.wait_until_ready().boxed(),
            self.maps.wait_until_ready().boxed(),
        ];
        waits.extend(self.offloading.waits());
        waits.extend(self.bindings.iter().map(|store| store.wait_until_ready().boxed()));
        waits.extend(self.classes.iter().map(|store| store.wait_until_ready().boxed()));
        try_join_all(waits).await?;
        Ok(())
    }

    /// The ForeignCluster of a cluster: the oldest, if there are several.
    pub fn cluster(&self, id: &ClusterId) -> Option<Arc<ForeignCluster>> {
        let all = self.clusters.objects().into_iter();
        all.filter(|foreign| id_of(foreign) == Some(id.as_str())).min_by_key(|foreign| age(foreign))
    }

    /// Whether an older cluster has the same name.
    pub fn has_namesake(&self, cluster: &Cluster) -> bool {
        let Some(foreign) = self.cluster(&cluster.id) else { return false };
        self.clusters.objects().iter().any(|other| {
            remote(other).is_some_and(|known| known.name == cluster.name && known.id != cluster.id)
                && age(other) < age(&foreign)
        })
    }

    /// The ForeignCluster that a tenant namespace is kept for.
    pub fn cluster_of_tenant(&self, namespace: &str) -> Option<Arc<ForeignCluster>> {
        let all = self.clusters.objects().into_iter();
        all.filter(|foreign| is_tenant_of(foreign, namespace)).min_by_key(|foreign| age(foreign))
    }

    /// The name of an older ForeignCluster of the same cluster.
    pub fn elder(&self, foreign: &ForeignCluster) -> Option<String> {
        let id = id_of(foreign)?;
        let all = self.clusters.objects().into_iter();
        let oldest = all.filter(|other| id_of(other) == Some(id)).min_by_key(|other| age(other))?;
        (oldest.uid() != foreign.uid() && age(&oldest) < age(foreign)).then(|| oldest.name_any())
    }

    /// The tenant namespaces of a cluster; there should be one.
    pub fn tenants_of(&self, id: &ClusterId) -> Vec<Namespace> {
        let all = self.tenants.objects().into_iter();
        let own = all.filter(|tenant| {
            tenant.labels().get(label::CLUSTER_ID).map(String::as_str) == Some(id.as_str())
                && tenant.metadata.deletion_timestamp.is_none()
        });
        let bare = |tenant: Arc<PartialObjectMeta<Namespace>>| Namespace {
            metadata: tenant.metadata.clone(),
            ..Namespace::default()
        };
        own.map(bare).collect()
    }

    /// The latest identity of this cluster at another one.
    pub fn identity_at(&self, id: &ClusterId, now: Timestamp) -> Option<Arc<Secret>> {
        let all: Vec<_> = self
            .identities
            .objects()
            .into_iter()
            .filter(|identity| {
                identity.labels().get(label::CLUSTER_ID).map(String::as_str) == Some(id.as_str())
            })
            .collect();
        let latest = secret::latest(all.iter().map(Arc::as_ref), now)?.uid();
        all.into_iter().find(|identity| identity.uid() == latest)
    }

    /// Our request in a tenant namespace.
    pub fn own_request(&self, tenant: &str) -> Option<Arc<ResourceRequest>> {
        let key = Key::namespaced(tenant, self.home.name.to_string());
        self.requests.object(&key).filter(|request| !is_copy(&**request))
    }

    /// The request received in a tenant namespace.
    pub fn received_request(&self, tenant: &str) -> Option<Arc<ResourceRequest>> {
        self.requests
            .objects()
            .into_iter()
            .find(|request| is_copy(&**request) && request.namespace().as_deref() == Some(tenant))
    }

    /// Our offer in a tenant namespace.
    pub fn own_offer(&self, tenant: &str) -> Option<Arc<ResourceOffer>> {
        let key = Key::namespaced(tenant, self.home.name.to_string());
        self.offers.object(&key).filter(|offer| !is_copy(&**offer))
    }

    /// The offer received in a tenant namespace.
    pub fn received_offer(&self, tenant: &str) -> Option<Arc<ResourceOffer>> {
        self.offers
            .objects()
            .into_iter()
            .find(|offer| is_copy(&**offer) && offer.namespace().as_deref() == Some(tenant))
    }

    /// The tunnel to a cluster.
    pub fn tunnel_to(&self, id: &ClusterId) -> Option<Arc<TunnelEndpoint>> {
        let all = self.tunnels.objects().into_iter();
        let own = all.filter(|tunnel| {
            tunnel.labels().get(label::PEER_ID).map(String::as_str) == Some(id.as_str())
        });
        own.min_by_key(|tunnel| (tunnel.namespace(), tunnel.name_any()))
    }

    /// Why what is said of networks in a tenant namespace is refused.
    pub fn network_refusal(&self, tenant: &str) -> Option<String> {
        let all = self.networks.objects().into_iter();
        let own = all.filter(|config| config.namespace().as_deref() == Some(tenant));
        own.filter_map(|config| config.annotations().get(annotation::NETWORK_REFUSED).cloned())
            .min()
    }

    /// The virtual nodes that stand for a cluster.
    pub fn nodes_of(&self, id: &ClusterId) -> Vec<Arc<PartialObjectMeta<Node>>> {
        let all = self.nodes.objects().into_iter();
        all.filter(|node| {
            node.labels().get(label::REMOTE_CLUSTER_ID).map(String::as_str) == Some(id.as_str())
        })
        .collect()
    }
}

/// Whether an object is a copy that a peer sent.
pub fn is_copy(object: &impl Resource) -> bool {
    let labels = object.meta().labels.as_ref();
    labels.and_then(|labels| labels.get(label::REPLICATED)).map(String::as_str) == Some(label::TRUE)
}

/// Whether a namespace is the one that is kept for a cluster.
pub fn is_tenant_of(foreign: &ForeignCluster, namespace: &str) -> bool {
    let status = foreign.status.as_ref();
    match status.and_then(|status| status.tenant_namespace.local.as_deref()) {
        Some(local) => local == namespace,
        None => remote(foreign)
            .and_then(|cluster| cluster.tenant_namespace().ok())
            .is_some_and(|name| name.as_str() == namespace),
    }
}

/// The cluster that a ForeignCluster is about, once that is known.
pub fn remote(foreign: &ForeignCluster) -> Option<Cluster> {
    foreign.spec.cluster_identity.as_ref()?.parse().ok()
}

/// The tenant namespace of a ForeignCluster, if it is known to exist.
pub fn tenant_of(foreign: &ForeignCluster) -> Option<&str> {
    foreign.status.as_ref()?.tenant_namespace.local.as_deref()
}

fn id_of(foreign: &ForeignCluster) -> Option<&str> {
    let id = foreign.spec.cluster_identity.as_ref()?.cluster_id.as_str();
    (!id.is_empty()).then_some(id)
}

/// What decides who is older; names decide between equals.
fn age(foreign: &ForeignCluster) -> (Option<Timestamp>, String) {
    let created = foreign.metadata.creation_timestamp.as_ref();
    (created.map(|time| time.0), foreign.name_any())
}

fn marked(name: &str, value: &str) -> Config {
    Config::default().labels(&format!("{name}={value}"))
}

fn named(name: &str) -> Config {
    Config::default().fields(&format!("metadata.name={name}"))
}
