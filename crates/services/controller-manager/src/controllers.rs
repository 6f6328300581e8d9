//! The controllers, and what they share.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::poll_fn;
use jiff::SignedDuration;
use kube::Client;
use liqo_api::keys::{event, object};
use liqo_kit::client::Manners;
use liqo_kit::controller::Runs;
use liqo_kit::events::Events;
use liqo_kit::health::Check;
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::service::Service;
use liqo_kit::watch::Key;
use liqo_peering::{foreign, kubelet};
use liqo_sharing::amounts::{CPU, MEMORY};
use liqo_sharing::quantity::Quantity;
use tokio::sync::mpsc::Receiver;
use tracing::info;

use crate::Args;
use crate::args::KubeletArgs;
use crate::error::Error;
use crate::foreign::ForeignClusters;
use crate::monitor::Monitor;
use crate::offer::{Offers, Policy};
use crate::offloading;
use crate::plugin::Plugin;
use crate::probe::Probes;
use crate::reader::Reader;
use crate::request::{self, Requests};
use crate::routes::{Routes, routes};
use crate::virtual_node::VirtualNodes;
use crate::webhooks::Quota;
use crate::world::World;

/// How many peers are probed at once: one that does not answer must not hold up the others.
const PROBES: u16 = 16;

/// Runs the controllers until the service stops.
pub async fn run(
    args: &Args,
    client: &Client,
    service: &Service,
    plugin: Option<Arc<Plugin>>,
    quota: Option<Arc<Quota>>,
    synced: Check,
) {
    let home = args.home.cluster();
    let namespace = &args.home.liqo_namespace;
    let (world, touched) = World::new(client, home, namespace, &args.offloading);
    let (routes, inboxes, offloading_inboxes) = routes();
    routes.follow(&world, touched, service);

    let monitor = Arc::new(Monitor::default());
    spawn(service, "watch node sums", Arc::clone(&monitor).follow_nodes(client.clone()));
    let reader = if let Some(plugin) = plugin.clone() {
        monitor.ignore_pods();
        Reader::Plugin(plugin)
    } else {
        spawn(service, "watch pod sums", Arc::clone(&monitor).follow_pods(client.clone()));
        let percentage = args.sharing.resource_sharing_percentage;
        Reader::Local { monitor: Arc::clone(&monitor), percentage }
    };

    // Nothing is decided on what has not been seen.
    let ready = async {
        world.wait_until_ready().await?;
        monitor.wait_until_ready().await
    };
    tokio::select! {
        result = ready => if result.is_err() { return },
        () = service.stop.cancelled() => return,
    }
    synced.pass();
    info!(home = %world.home, "Controllers started");

    let controllers = Controllers::new(args, client, service, &world, &monitor, reader.into());
    let queues = &controllers.queues;
    offloading::start(args, client, service, &world, quota, queues, offloading_inboxes);
    controllers.start(service, inboxes);
    Controllers::follow_addresses(service, &world, &monitor, &routes);
    match plugin {
        Some(plugin) => controllers.follow_plugin(service, &world, plugin, &routes),
        None => controllers.follow_amounts(service, &world, &monitor, &routes),
    }
    spawn(service, "certificate approvals", crate::approver::run(world, client.clone()));
    service.stop.cancelled().await;
}

/// Starts work that ends with the service.
pub fn spawn(
    service: &Service,
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let stop = service.stop.clone();
    service.tasks.spawn(name, async move {
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    });
}

/// How many probes of a peer's API server fail before the peer is asked where it is.
const SILENT_PROBES: u32 = 3;

/// Starts queues, and counts how their runs end.
pub struct Queues {
    runs: Runs,
}

impl Queues {
    /// Starts a queue that ends with the service.
    pub fn start<F>(
        &self,
        service: &Service,
        name: &'static str,
        workers: u16,
        mut inbox: Receiver<Key>,
        work: impl Fn(Key) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        let stop = service.stop.clone();
        let runs = self.runs.clone();
        let keys = poll_fn(move |context| inbox.poll_recv(context));
        let keys = keys.take_until(stop.cancelled_owned());
        service.tasks.spawn(name, async move {
            let queue =
                Queue::new(name).workers(workers).observed_by(|ending| runs.note(name, ending));
            queue.run(keys, work).await;
        });
    }
}

struct Controllers {
    workers: u16,
    clusters: Arc<ForeignClusters>,
    probes: Arc<Probes>,
    requests: Arc<Requests>,
    offers: Arc<Offers>,
    nodes: Arc<VirtualNodes>,
    queues: Queues,
}

impl Controllers {
    fn new(
        args: &Args,
        client: &Client,
        service: &Service,
        world: &World,
        monitor: &Arc<Monitor>,
        reader: Arc<Reader>,
    ) -> Self {
        let Args { peering, sharing, process, offloading, home, .. } = args;
        let events = |name| Arc::new(Events::new(client.clone(), name));
        let told = events(event::FROM_FOREIGN_CLUSTER);
        let resync = process.resync_period;
        let patience = peering.unreachable_peer_patience;
        let interval = peering.foreign_cluster_ping_interval;
        let settings = foreign::Settings {
            auto_join: peering.auto_join_discovered_clusters,
            external_network: peering.disable_internal_network,
            is_probing: !interval.is_zero(),
            patience,
        };
        let clusters = ForeignClusters::new(
            world.clone(),
            Arc::clone(monitor),
            Arc::clone(&told),
            settings,
            resync,
            SignedDuration::try_from(interval * SILENT_PROBES).unwrap_or(SignedDuration::MAX),
        );
        let manners = Manners { component: object::CONTROLLER_MANAGER, limits: args.client };
        let limit = peering.foreign_cluster_ping_timeout;
        let probes = Probes::new(world.clone(), told, manners, interval, limit);
        let settings = request::Settings {
            is_open: peering.enable_incoming_peering,
            patience,
            threshold: sharing.offer_update_threshold_percentage,
            labels: home.cluster_labels.0.clone(),
            storage_class: offloading.real_storage_class_name.clone(),
            resync,
        };
        let requests = Requests::new(world.clone(), reader, settings);
        let auto_accept = !peering.offer_disable_auto_accept;
        let policy = Policy { auto_accept, patience, resync };
        let settings = kubelet_settings(&args.kubelet, &args.offloading.virtual_storage_class_name);
        let told = events(event::FROM_RESOURCE_OFFER);
        let offers = Offers::new(world.clone(), told, settings, policy);
        Self {
            workers: peering.foreign_cluster_workers,
            clusters: Arc::new(clusters),
            probes: Arc::new(probes),
            requests: Arc::new(requests),
            offers: Arc::new(offers),
            nodes: Arc::new(VirtualNodes::new(world.clone())),
            queues: Queues { runs: Runs::register(&service.metrics) },
        }
    }

    fn start(&self, service: &Service, inboxes: crate::routes::Inboxes) {
        let clusters = Arc::clone(&self.clusters);
        self.queues.start(
            service,
            "foreign-clusters",
            self.workers,
            inboxes.clusters,
            move |key| {
                let controller = Arc::clone(&clusters);
                async move { controller.reconcile(key).await }
            },
        );
        let probes = Arc::clone(&self.probes);
        self.queues.start(service, "api-servers", PROBES, inboxes.probes, move |key| {
            let controller = Arc::clone(&probes);
            async move { controller.reconcile(key).await }
        });
        let requests = Arc::clone(&self.requests);
        self.queues.start(service, "requests", 1, inboxes.requests, move |key| {
            let controller = Arc::clone(&requests);
            async move { controller.reconcile(key).await }
        });
        let offers = Arc::clone(&self.offers);
        self.queues.start(service, "offers", 1, inboxes.offers, move |key| {
            let controller = Arc::clone(&offers);
            async move { controller.reconcile(key).await }
        });
        let nodes = Arc::clone(&self.nodes);
        self.queues.start(service, "virtual-nodes", 1, inboxes.nodes, move |key| {
            let controller = Arc::clone(&nodes);
            async move { controller.reconcile(key).await }
        });
    }

    /// Looks at offers again when what is free has changed enough.
    fn follow_amounts(
        &self,
        service: &Service,
        world: &World,
        monitor: &Arc<Monitor>,
        routes: &Routes,
    ) {
        let (requests, world) = (Arc::clone(&self.requests), world.clone());
        let (monitor, routes) = (Arc::clone(monitor), routes.clone());
        spawn(service, "watch amounts", async move {
            monitor.on_amounts(|| requests.look_again(&world, &routes, None)).await;
        });
    }

    /// Looks at offers again when the plugin says so.
    fn follow_plugin(
        &self,
        service: &Service,
        world: &World,
        plugin: Arc<Plugin>,
        routes: &Routes,
    ) {
        let (requests, world, routes) = (Arc::clone(&self.requests), world.clone(), routes.clone());
        spawn(service, "watch plugin", async move {
            plugin.follow(|consumer| requests.look_again(&world, &routes, consumer)).await;
        });
    }

    /// Looks at clusters again when we may be reached elsewhere.
    fn follow_addresses(service: &Service, world: &World, monitor: &Arc<Monitor>, routes: &Routes) {
        let (monitor, world, routes) = (Arc::clone(monitor), world.clone(), routes.clone());
        spawn(service, "watch addresses", async move {
            monitor
                .on_addresses(|| async {
                    for (route, key) in routes.all_clusters(&world) {
                        let _ = route.send(key).await;
                    }
                })
                .await;
        });
    }
}

fn kubelet_settings(args: &KubeletArgs, storage_class: &str) -> kubelet::Settings {
    let amounts = |cpu, memory| {
        let pairs = [(CPU, cpu), (MEMORY, memory)].into_iter();
        let some = pairs.filter(|(_, amount): &(_, Quantity)| !amount.is_zero());
        some.map(|(name, amount)| (name.to_owned(), amount.into())).collect()
    };
    let address = &args.kubelet_metrics_address;
    kubelet::Settings {
        image: args.kubelet_image.clone(),
        annotations: args.kubelet_extra_annotations.0.clone(),
        labels: args.kubelet_extra_labels.0.clone(),
        args: args.kubelet_extra_args.0.clone(),
        requests: amounts(args.kubelet_cpu_requests, args.kubelet_ram_requests),
        limits: amounts(args.kubelet_cpu_limits, args.kubelet_ram_limits),
        metrics: args.kubelet_metrics_enabled.then(|| (address.to_string(), address.port)),
        ipam: (!args.kubelet_ipam_server.is_empty()).then(|| args.kubelet_ipam_server.clone()),
        storage_class: (storage_class != object::STORAGE_CLASS).then(|| storage_class.to_owned()),
        node_annotations: args.node_extra_annotations.0.clone(),
        node_labels: args.node_extra_labels.0.clone(),
        // Those who vouch for it here do so there, too.
        authority: std::fs::read_to_string(Path::new(kubelet::ACCESS).join(kubelet::AUTHORITY))
            .ok(),
    }
}
