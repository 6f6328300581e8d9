//! Runs a virtual node: what another cluster lends, as a node of this one.
//!
//! ```text
//! ResourceOffer ─┐
//! ForeignCluster ┼─> one key ─> keeper ─> Node, its status; when the offer goes: pods out, Node gone
//! TunnelEndpoint ┤              lease  ─> Lease, while the node is there
//! Node, its pods ┘
//! NamespaceMap ─────> reflection ─> copies in the other cluster
//! pods here and there ──> pods ───> ShadowPods in the other cluster, statuses here
//! API server ───────> port ───────> logs of pods in the other cluster, and streams into them
//! ```

pub mod addresses;
mod args;
mod keeper;
mod lease;
mod pods;
mod port;
mod reflection;

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::object;
use liqo_api::names::Cluster;
use liqo_kit::client::{self, Manners};
use liqo_kit::keyed::Queue;
use liqo_kit::metrics::Metrics;
use liqo_kit::service::{self, Service};
use liqo_kit::tasks::Tasks;
use liqo_kit::watch::{Key, Packing, Store, watch_packed};
use liqo_pod_offloading::lean::HomePod;
use liqo_reflection::{Place, ServiceAccounts};
use liqo_virtual_node::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::addresses::{Addresses, Ipam, Translator, leftovers};
pub use self::args::Args;
use self::keeper::{Keeper, News, Sources};
use self::pods::{Entrance, Ground, Pods, entrance, noticed};
use self::reflection::claims::Volumes;
use self::reflection::counts::Counts;
use self::reflection::link::{BACKOFF, Link};
use self::reflection::namespaces::Activation;
pub use self::reflection::namespaces::Namespaces;
use self::reflection::{Scope, kinds};

/// Why a virtual kubelet ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// What this cluster can do is not to be had.
    #[error("cannot ask the API server for its version and abilities")]
    Version(#[source] kube::Error),
    /// A server cannot be started.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// Nobody can be asked what addresses are called.
    #[error(transparent)]
    Addresses(#[from] addresses::NoServer),
}

/// What a virtual kubelet is given.
pub struct Process {
    /// This cluster.
    pub client: Client,
    /// How it presents itself to the other one.
    pub manners: Manners,
    /// What it measures.
    pub metrics: Metrics,
    /// The owner of its tasks.
    pub tasks: Arc<Tasks>,
    /// Cancelled when it has to end.
    pub stop: CancellationToken,
}

/// Runs a virtual node until told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run("virtual-kubelet", &logs, async |service: Service| {
        let manners = Manners { component: object::VIRTUAL_KUBELET, limits: args.client };
        let client = manners.home(args.home_kubeconfig.as_deref()).await?;
        if args.metrics_enabled {
            service.serve_metrics(&args.metrics_address).await?;
        }
        let Service { metrics, tasks, stop, .. } = service;
        serve(Process { client, manners, metrics, tasks, stop }, &args).await
    })
    .await
}

/// The same on a given cluster.
pub async fn serve(process: Process, args: &Args) -> Result<(), Error> {
    let Process { client, stop, .. } = &process;
    let (client, stop) = (client.clone(), stop.clone());
    let version = client.apiserver_version().await.map_err(Error::Version)?;
    let settings = Settings {
        name: args.nodename.clone(),
        provider: args.foreign_cluster_id.clone(),
        address: args.node_ip,
        port: args.listen_port,
        version: version.git_version,
        labels: args.node_extra_labels.0.clone(),
        annotations: args.node_extra_annotations.0.clone(),
        checks_network: args.node_check_network,
    };
    info!(node = settings.name, cluster = %settings.provider, "Showing");
    let on_node = Config::default().fields(&format!("spec.nodeName={}", settings.name));
    let pods = Api::all(client.clone());
    let packing = Packing { trim: HomePod::trim, pack: HomePod::pack, unpack: HomePod::unpack };
    let (pods, touched_pods) = watch_packed(pods, on_node, BACKOFF, packing);
    let (notice, noticing) = watch::channel(());
    let touched_pods = noticed(touched_pods, notice);
    let (sources, touched) =
        Sources::watch(&client, &args.tenant_namespace, &settings, pods.clone());
    let (renewal, renewed) = watch::channel(None);
    let (answers, answering) = watch::channel(true);
    let (storage, volumes) = Volumes::channel(&args.reflection);
    let lease = lease::Lease {
        client: client.clone(),
        duration: args.node_lease_duration,
        node: settings.name.clone(),
    };
    // They end with this function: whatever is under way is safe to leave half-way.
    let tasks = process.tasks.child();
    let tokens = entrance::tokens(&client, &args.reflection).await.map_err(Error::Version)?;
    let reflection = Reflection { args, tokens, tasks: &tasks, answers: answering, volumes };
    reflection.start(&process, pods, touched_pods)?;
    let news = News { renewal, answers, storage };
    let keeper = Arc::new(Keeper::new(client, args, settings, sources, news));
    let node = Key::cluster(args.nodename.clone());
    let touched = stream::select(touched, departures(noticing, Arc::clone(&keeper)));
    let touched = touched.map(move |()| node.clone()).take_until(stop.clone().cancelled_owned());
    let keeping = Queue::new("node").run(touched, |_| Arc::clone(&keeper).keep());
    // What waits for a watch would wait for ever: nobody reads it any more.
    let keeping = stop.run_until_cancelled(keeping);
    tokio::join!(keeping, stop.run_until_cancelled(lease.keep(renewed)));
    Ok(())
}

/// Something for every change of pods, while the node waits for them to leave.
fn departures(
    pods: watch::Receiver<()>,
    keeper: Arc<Keeper>,
) -> impl futures::Stream<Item = ()> + Send {
    let changes = stream::unfold(pods, async |mut pods| {
        pods.changed().await.ok()?;
        Some(((), pods))
    });
    changes.filter(move |()| std::future::ready(keeper.is_leaving()))
}

/// What brings pods and their surroundings to the other cluster.
struct Reflection<'a> {
    args: &'a Args,
    tokens: ServiceAccounts,
    tasks: &'a Tasks,
    answers: watch::Receiver<bool>,
    volumes: Volumes,
}

impl Reflection<'_> {
    /// Starts it, with the pods of the node.
    fn start(
        self,
        process: &Process,
        store: Store<HomePod>,
        touched: impl futures::Stream<Item = Key> + Send + 'static,
    ) -> Result<(), Error> {
        let Self { args, tokens, tasks, answers, volumes } = self;
        let (Some(id), Some(name)) = (&args.home_cluster_id, &args.home_cluster_name) else {
            warn!("No pods run there: --home-cluster-id and --home-cluster-name say for whom");
            tasks.spawn("pods", touched.for_each(|_| std::future::ready(())));
            return Ok(());
        };
        let remote = Cluster {
            id: args.foreign_cluster_id.clone(),
            name: args.foreign_cluster_name.clone(),
        };
        let place = Place {
            home: Cluster { id: id.clone(), name: name.clone() },
            remote: remote.clone(),
            home_namespace: String::new(),
            remote_namespace: String::new(),
            node: args.nodename.clone(),
            service_accounts: tokens,
        };
        let Process { client, manners, metrics, .. } = process;
        let (namespace, peer) = (&args.tenant_namespace, remote.id.as_str());
        let (peer, follow) = client::remote(client.clone(), namespace, peer, manners.clone());
        tasks.spawn("identity", follow);
        let translator = translator(args)?;
        let is_asked = matches!(translator, Translator::Asked { .. });
        let addresses = Arc::new(Addresses::new(translator));
        if is_asked {
            let (id, addresses) = (remote.id.clone(), Arc::clone(&addresses));
            tasks.spawn("leftovers", leftovers::give_back(client.clone(), id, addresses));
        }
        let scope = Scope {
            home: client.clone(),
            link: Link { remote: peer, answers },
            addresses,
            volumes,
            counts: Counts::register(metrics, &remote, &args.nodename),
            place: Arc::new(place),
        };
        let (tell, namespaces) = Namespaces::channel();
        let remote_identity = scope.link.remote.clone();
        let kubelet = port::kubelet(process, args, id, remote_identity, namespaces.clone());
        tasks.spawn_fallible("port", kubelet.serve(process.stop.clone()));
        let workers = &args.reflection.workers;
        let pods = if workers.pod == 0 {
            tasks.spawn("pods", touched.for_each(|_| std::future::ready(())));
            None
        } else {
            let ground = Ground {
                home: client::concise(client),
                store,
                namespaces,
                addresses: Arc::clone(&scope.addresses),
                entrance: Entrance::new(&args.reflection, tokens),
                node: args.node_ip,
                peer: remote.name.to_string(),
                counts: scope.counts.clone(),
                warners: workers.event,
            };
            let (pods, from_elsewhere) = Pods::new(ground);
            tasks.spawn("pods", Arc::clone(&pods).run(touched, from_elsewhere, workers.pod));
            Some(pods)
        };
        let tells_endpoints = scope.addresses.translator.tells_endpoints();
        let activation = Activation {
            scope,
            tenant_namespace: args.tenant_namespace.clone(),
            kinds: kinds::all(workers, tells_endpoints),
            pods,
            tasks: tasks.child(),
            tell,
        };
        tasks.spawn("namespaces", activation.follow());
        Ok(())
    }
}

/// Who knows what addresses are called, as the command line says.
fn translator(args: &Args) -> Result<Translator, Error> {
    let hides = args.reflection.disable_ip_reflection;
    let server = args.reflection.ipam_server.as_deref().filter(|server| !server.is_empty());
    Ok(match server {
        Some(server) => {
            let ipam = Box::new(Ipam::at(server, args.foreign_cluster_id.clone())?);
            Translator::Asked { ipam, hides }
        }
        None if hides => Translator::Hidden,
        None => Translator::Same,
    })
}
