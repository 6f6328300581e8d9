//! Joins this cluster to its peers by tunnels.
//!
//! ```text
//! TunnelEndpoints ┐                 ┌─> site: namespace, cable, filter, routes, tunnel
//! NatMappings     ┼─> one key ─> keeper ─> status, finalizers, Events
//! pods            │                 └─> who is active: labels, Service
//! kernel, answers ┘
//!                  heart ─> asks peers, answers them        presence ─> who stands by takes over
//! ```
//!
//! Replicas that stand by have their place in the kernel already, and do nothing with it.

mod args;
mod crowd;
mod error;
mod heart;
mod keeper;
mod keys;
mod metrics;
mod presence;
mod site;
mod whereabouts;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{annotation, component, event, label, manager, object, port};
use liqo_api::net::{NatMapping, TunnelEndpoint};
use liqo_fabric::gateway::Widths;
use liqo_kit::client::Manners;
use liqo_kit::events::Events;
use liqo_kit::keyed::Queue;
use liqo_kit::leader::{Candidate, Solitude, own_identity};
use liqo_kit::metrics::Metrics;
use liqo_kit::retry::{Backoff, or_gone};
use liqo_kit::service::{self, Service};
use liqo_kit::tasks::Tasks;
use liqo_kit::watch::{Key, watch, watch_trimmed};
use liqo_netstate::{Changes, Namespace};
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::args::{Args, Carrier};
use self::crowd::Crowd;
pub use self::error::Error;
use self::heart::Heart;
use self::keeper::{Keeper, Sources};
use self::metrics::Meters;
use self::presence::Watcher;
use self::site::Site;
use self::whereabouts::Whereabouts;

/// How long the only gateway goes on while the API server does not answer: shorter than the five minutes
/// after which Kubernetes makes another pod for one whose node is lost.
const ALONE: Duration = Duration::from_mins(4);

/// What a gateway is given.
pub struct Process {
    /// This cluster.
    pub client: Client,
    /// What it measures.
    pub metrics: Metrics,
    /// The owner of its tasks.
    pub tasks: Arc<Tasks>,
    /// Cancelled when it has to end.
    pub stop: CancellationToken,
    /// The network namespace of the node.
    pub node: Namespace,
}

/// Runs a gateway until told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::GATEWAY, &logs, async |service: Service| {
        let manners = Manners { component: object::GATEWAY, limits: args.client };
        let client = manners.home(None).await?;
        if args.dry_run {
            return print_preview(&client, &args).await;
        }
        service.serve_metrics(&args.metrics_bind_addr).await?;
        let Service { metrics, tasks, stop, .. } = service;
        serve(Process { client, metrics, tasks, stop, node: Namespace::own()? }, args).await
    })
    .await
}

#[expect(clippy::print_stdout, reason = "this is what was asked for")]
async fn print_preview(client: &Client, args: &Args) -> Result<(), Error> {
    print!("{}", preview(client, &Namespace::own()?, args).await?);
    Ok(())
}

/// What a gateway would change in the kernel, in words.
pub async fn preview(client: &Client, node: &Namespace, args: &Args) -> Result<String, Error> {
    let endpoints: Api<TunnelEndpoint> = Api::all(client.clone());
    let mappings: Api<NatMapping> = Api::all(client.clone());
    let all = ListParams::default();
    let used = ListParams::default().labels(&in_use());
    let refuse = || Error::request("list what peers ask for");
    let endpoints = endpoints.list(&all).await.map_err(refuse())?;
    let mappings = mappings.list(&used).await.map_err(refuse())?;
    let endpoints: Vec<_> = endpoints.into_iter().map(Arc::new).collect();
    let mappings: Vec<_> = mappings.into_iter().map(Arc::new).collect();
    site::preview(node, args, &endpoints, &mappings).await
}

/// The same on a given cluster and node.
pub async fn serve(process: Process, args: Args) -> Result<(), Error> {
    let key = keys::own(&process.client, &args.pod_namespace).await?;
    let site = Arc::new(Site::open(&process.node, &args, key).await?);
    let result = Box::pin(stand(&process, &args, &site)).await;
    site.close().await;
    result
}

/// Has everything in place but the peers, and works.
async fn stand(process: &Process, args: &Args, site: &Arc<Site>) -> Result<(), Error> {
    site.settle(&[], &[], &Widths::new()).await?;
    work(process, args, site).await
}

async fn work(process: &Process, args: &Args, site: &Arc<Site>) -> Result<(), Error> {
    let Process { client, metrics, stop, .. } = process;
    // They end with this function: whatever is under way is safe to leave half-way.
    let tasks = process.tasks.child();
    let meters = Arc::new(Meters::register(metrics));
    if let Some(driver) = site.driver().await {
        meters.show_driver(driver);
    }
    let heart = Arc::new(Heart::new(args.patience(), site.mtu()));
    let socket = site.socket(port::CONNECTION_CHECK).await?;
    let beating = Arc::clone(&heart);
    tasks.spawn("heart", async move { beating.beat(socket).await });
    let (listener, presence) = presence::open(args.pod_ip).await?;
    tasks.spawn("presence", presence::be_there(listener));
    let chance = own_identity();
    let chance = chance.rsplit_once('_').map_or(chance.as_str(), |(_, chance)| chance);
    show_presence(client, args, format!("{presence}_{chance}")).await?;

    let (touch, touched) = tokio::sync::watch::channel(());
    let sources = watch_all(client, args, &tasks, &touch);
    for changes in site.changes().await? {
        tasks.spawn("kernel", follow(changes, touch.clone()));
    }
    tasks.spawn("health", follow_health(heart.changes(), touch.clone()));
    let keeper = Arc::new(Keeper {
        client: client.clone(),
        namespace: args.pod_namespace.clone(),
        pod: args.pod_name.clone(),
        address: args.pod_ip,
        latency_interval: SignedDuration::try_from(args.latency_interval).unwrap_or_default(),
        sources,
        site: Arc::clone(site),
        heart,
        meters,
        events: Events::new(client.clone(), event::from_gateway(args.pod_ip.into())),
        whereabouts: tokio::sync::Mutex::new(Whereabouts::default()),
        peers: Mutex::new(BTreeMap::new()),
        crowd: Crowd::default(),
    });
    let keep = || keep(Arc::clone(&keeper), touched.clone(), args, stop);
    if !args.leader_elect {
        keep().await;
        return Ok(());
    }
    let identity = format!("{}_{chance}", args.pod_name);
    let (namespace, timing) = (&args.pod_namespace, args.timing());
    let lease = object::GATEWAY_LEASE;
    let candidate = Candidate::new(client.clone(), namespace, lease, &identity, timing)?;
    let own = Arc::clone(&keeper);
    let is_alone = Arc::new(move || own.is_alone());
    let candidate = candidate.while_alone(Solitude { is_alone, limit: ALONE });
    let leads = AtomicBool::new(false);
    loop {
        let lead = candidate.lead(stop, async {
            leads.store(true, Ordering::Relaxed);
            keep().await;
        });
        let (identity, pause) = (&identity, timing.pause);
        let watcher = Watcher { client, namespace, identity, pause, leads: &leads };
        tokio::select! {
            result = lead => return result.map(drop).map_err(Error::from),
            () = watcher.until_it_is_gone() => {}
        }
    }
}

/// Keeps tunnels until told to stop.
async fn keep(keeper: Arc<Keeper>, touched: Receiver<()>, args: &Args, stop: &CancellationToken) {
    let Sources { endpoints, mappings, pods, services } = &keeper.sources;
    let ready = async {
        let _ = tokio::join!(
            endpoints.wait_until_ready(),
            mappings.wait_until_ready(),
            pods.wait_until_ready(),
            services.wait_until_ready()
        );
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    info!(address = %args.pod_ip, "Active");
    keeper.meters.show_active();
    let key = Key::cluster(object::GATEWAY);
    let first = stream::once(std::future::ready(()));
    let latency = stream::unfold(interval(args.latency_interval), async |mut ticks| {
        ticks.tick().await;
        Some(((), ticks))
    });
    let touched = stream::select(first.chain(notices(touched)), pin_box(latency));
    let touched = touched.map(move |()| key.clone()).take_until(stop.clone().cancelled_owned());
    let backoff = Backoff { limit: Duration::from_secs(5), ..Backoff::default() };
    let work = Queue::new("gateway").backoff(backoff).run(touched, |_| {
        let keeper = Arc::clone(&keeper);
        async move { keeper.converge().await }
    });
    let measure = async {
        let mut ticks = interval(args.ping_interval);
        loop {
            ticks.tick().await;
            if let Err(error) = keeper.measure().await {
                warn!(error = liqo_kit::keyed::chain(&error), "Nothing measured");
            }
        }
    };
    let mut work = pin!(work);
    tokio::select! {
        () = &mut work => {}
        () = measure => {}
    }
}

fn pin_box<T>(
    stream: impl Stream<Item = T> + Send + 'static,
) -> std::pin::Pin<Box<dyn Stream<Item = T> + Send>> {
    Box::pin(stream)
}

fn notices(touched: Receiver<()>) -> impl Stream<Item = ()> + Send {
    stream::unfold(touched, async |mut touched| {
        touched.changed().await.ok()?;
        Some(((), touched))
    })
    .boxed()
}

fn watch_all(
    client: &Client,
    args: &Args,
    tasks: &Tasks,
    touch: &tokio::sync::watch::Sender<()>,
) -> Sources {
    let (endpoints, touched) = watch(Api::all(client.clone()), Config::default());
    tasks.spawn("tunnels", drain(touched, touch.clone()));
    let used = Config::default().labels(&in_use());
    let (mappings, touched) = watch(Api::all(client.clone()), used);
    tasks.spawn("mappings", drain(touched, touch.clone()));
    let pods: Api<Pod> = Api::namespaced(client.clone(), &args.pod_namespace);
    let names = [component::GATEWAY, component::ROUTE].join(",");
    let ours = format!("{} in ({names})", label::APP_NAME);
    let config = Config::default().labels(&ours);
    let (pods, touched) = watch_trimmed(pods, config, Backoff::default(), |pod: &mut Pod| {
        pod.spec = None;
    });
    tasks.spawn("pods", drain(touched, touch.clone()));
    let of_gateway = format!("{}={}", label::GATEWAY, label::TRUE);
    let places = Api::namespaced(client.clone(), &args.pod_namespace);
    let (services, touched) = watch(places, Config::default().labels(&of_gateway));
    tasks.spawn("services", drain(touched, touch.clone()));
    Sources { endpoints, mappings, pods, services }
}

async fn drain(keys: impl Stream<Item = Key>, touch: tokio::sync::watch::Sender<()>) {
    let mut keys = pin!(keys);
    while keys.next().await.is_some() {
        touch.send_replace(());
    }
}

async fn follow(mut changes: Changes, touch: tokio::sync::watch::Sender<()>) {
    loop {
        changes.next().await;
        touch.send_replace(());
    }
}

async fn follow_health(mut changes: Receiver<()>, touch: tokio::sync::watch::Sender<()>) {
    while changes.changed().await.is_ok() {
        touch.send_replace(());
    }
}

async fn show_presence(client: &Client, args: &Args, presence: String) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &args.pod_namespace);
    let key = annotation::GATEWAY_PRESENCE;
    let change = json!({ "metadata": { "annotations": { key: presence } } });
    let params =
        PatchParams { field_manager: Some(manager::GATEWAY.to_owned()), ..PatchParams::default() };
    let shown = pods.patch(&args.pod_name, &params, &Patch::Merge(change)).await;
    or_gone(shown).map(drop).map_err(Error::request("show that this gateway is there"))
}

fn in_use() -> String {
    format!("{}={}", label::NAT_MAPPING, label::TRUE)
}
