//! Leads packets of a node to the gateway, wherever it is, and back.
//!
//! ```text
//! TunnelEndpoints ┐                 ┌─> kernel: overlay, routes, rules, filter
//! pods            ┼─> one key ─> keeper ─> finalizers, Events
//! kernel          ┘                 └─> own pod: the overlay's hardware address
//! ```

mod args;
mod error;
mod keeper;
mod lean;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{event, link, object};
use liqo_fabric::mtu;
use liqo_fabric::node::Settings;
use liqo_fabric::owned::Scope;
use liqo_fabric::peer::Ground;
use liqo_kit::client::{Manners, concise};
use liqo_kit::events::Events;
use liqo_kit::keyed::Queue;
use liqo_kit::retry::Backoff;
use liqo_kit::service::{self, Service};
use liqo_kit::tasks::Tasks;
use liqo_kit::watch::{Key, Store, watch, watch_trimmed};
use liqo_netstate::{Changes, Kernel, Namespace};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::args::Args;
pub use self::error::Error;
use self::keeper::Keeper;

/// What the routes of a node are given.
pub struct Process {
    /// This cluster.
    pub client: Client,
    /// The owner of its tasks.
    pub tasks: Arc<Tasks>,
    /// Cancelled when it has to end.
    pub stop: CancellationToken,
    /// The network namespace of the node.
    pub node: Namespace,
}

/// Keeps the routes of a node until told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::ROUTE, &logs, async |service: Service| {
        let manners = Manners { component: object::ROUTE, limits: args.client };
        let client = manners.home(None).await?;
        if args.dry_run {
            let Service { tasks, stop, .. } = service;
            return print_preview(Process { client, tasks, stop, node: Namespace::own()? }, &args)
                .await;
        }
        service.serve_metrics(&args.metrics_bind_addr).await?;
        let Service { tasks, stop, .. } = service;
        serve(Process { client, tasks, stop, node: Namespace::own()? }, args).await
    })
    .await
}

/// The same on a given cluster and node.
pub async fn serve(process: Process, args: Args) -> Result<(), Error> {
    let Process { client, tasks, stop, node } = process;
    // They end with this function: whatever is under way is safe to leave half-way.
    let tasks = tasks.child();
    let (touch, touched) = channel(());
    let kernel = Kernel::open(node, None).await?;
    let keeper = Arc::new(keeper(client, &tasks, kernel, &args, &touch).await?);
    let mtu = keeper.settings.mtu;
    info!(node = args.node_name, address = %args.pod_ip, mtu, "Leading packets");
    if stop.run_until_cancelled(ready(&keeper)).await.is_none() {
        return Ok(());
    }
    let changes = keeper.kernel.changes(&Scope::node(), &[link::HOST_VETH]).await?;
    tasks.spawn("kernel", follow(changes, Arc::clone(&keeper.touched), touch));
    let key = Key::cluster(object::ROUTE);
    let first = stream::once(std::future::ready(()));
    let touched = first.chain(notices(touched)).map(move |()| key.clone());
    let touched = touched.take_until(stop.cancelled_owned());
    let backoff = Backoff { limit: Duration::from_secs(5), ..Backoff::default() };
    Queue::new("route")
        .backoff(backoff)
        .run(touched, |_| {
            let keeper = Arc::clone(&keeper);
            async move { keeper.converge().await }
        })
        .await;
    keeper.leave().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what was asked for")]
async fn print_preview(process: Process, args: &Args) -> Result<(), Error> {
    print!("{}", preview(process, args).await?);
    Ok(())
}

/// What would change in the kernel, in words; nothing when told to stop before that is known.
pub async fn preview(process: Process, args: &Args) -> Result<String, Error> {
    let Process { client, tasks, stop, node } = process;
    let tasks = tasks.child();
    let kernel = Kernel::open(node, None).await?.trusting();
    let (touch, _touched) = channel(());
    let keeper = keeper(client, &tasks, kernel, args, &touch).await?;
    match stop.run_until_cancelled(ready(&keeper)).await {
        Some(()) => keeper.preview().await,
        None => Ok(String::new()),
    }
}

/// One that keeps routes, and what it watches.
async fn keeper(
    client: Client,
    tasks: &Tasks,
    kernel: Kernel,
    args: &Args,
    touch: &Sender<()>,
) -> Result<Keeper, Error> {
    let settings = settings(&kernel, args).await?;
    let (endpoints, keys) = watch(Api::all(client.clone()), Config::default());
    tasks.spawn("tunnels", drain(keys, touch.clone()));
    let everywhere = Api::all(concise(&client));
    let placed = Config::default().labels(&lean::labels()).fields(&lean::fields());
    let (pods, keys) = watch_trimmed(everywhere, placed, Backoff::default(), lean::trim);
    let own = Key::namespaced(&args.pod_namespace, &args.pod_name);
    tasks.spawn("pods", follow_pods(keys, pods.clone(), own, touch.clone()));
    Ok(Keeper {
        events: Events::new(client.clone(), event::from_route(args.pod_ip.into())),
        client,
        namespace: args.pod_namespace.clone(),
        pod: args.pod_name.clone(),
        kernel,
        settings,
        endpoints,
        pods,
        touched: Arc::default(),
        settled: tokio::sync::Mutex::default(),
        told: Mutex::default(),
    })
}

/// Waits until all that it watches has been seen.
async fn ready(keeper: &Keeper) {
    let _ = tokio::join!(keeper.endpoints.wait_until_ready(), keeper.pods.wait_until_ready());
}

async fn settings(kernel: &Kernel, args: &Args) -> Result<Settings, Error> {
    let uplink = kernel.uplink(args.pod_ip).await?;
    if uplink.is_none() {
        warn!(address = %args.pod_ip, "No interface has the address of this node");
    }
    let way = uplink.as_ref().map(|uplink| uplink.mtu);
    Ok(Settings {
        address: args.pod_ip,
        vni: args.vni,
        port: args.port,
        mtu: mtu::fitting(args.mtu.into(), way, mtu::OVERLAY_OVERHEAD),
        ground: Ground { networks: uplink.map(|uplink| uplink.networks).unwrap_or_default() },
    })
}

fn notices(touched: Receiver<()>) -> impl Stream<Item = ()> + Send {
    stream::unfold(touched, async |mut touched| {
        touched.changed().await.ok()?;
        Some(((), touched))
    })
    .boxed()
}

async fn drain(keys: impl Stream<Item = Key>, touch: Sender<()>) {
    let mut keys = pin!(keys);
    while keys.next().await.is_some() {
        touch.send_replace(());
    }
}

/// Touches when something of a pod changes that routes follow from: most changes of most pods do not
/// matter to them.
async fn follow_pods(keys: impl Stream<Item = Key>, pods: Store<Pod>, own: Key, touch: Sender<()>) {
    let namespace = own.namespace.clone().unwrap_or_default();
    let mut known = HashMap::new();
    let mut keys = pin!(keys);
    while let Some(key) = keys.next().await {
        let facts = pods.object(&key).and_then(|pod| lean::facts(&pod, &namespace));
        let is_own = key == own;
        let before = match &facts {
            Some(facts) => known.insert(key, *facts),
            None => known.remove(&key),
        };
        if is_own || before != facts {
            touch.send_replace(());
        }
    }
}

async fn follow(mut changes: Changes, touched: Arc<AtomicBool>, touch: Sender<()>) {
    loop {
        changes.next().await;
        touched.store(true, Ordering::Relaxed);
        touch.send_replace(());
    }
}
