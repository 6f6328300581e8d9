//! Networks and addresses of peers: who is told what, and what is called how.
//!
//! ```text
//! ForeignClusters ────────┐
//! Service, Secret ────────┼─> peers ──> NetworkConfigs, their status, TunnelEndpoints
//! NetworkConfigs ─────────┤     │
//! TunnelEndpoints ────────┘     v
//!                             book ──> IpamStorage
//!                             ^  │
//! virtual kubelets ──> desk ──┘  └─> mappings ──> NatMappings
//! ```

mod args;
mod book;
mod desk;
mod error;
mod mappings;
mod peers;
mod world;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kube::Client;
use liqo_api::keys::object;
use liqo_api::names::ClusterId;
use liqo_kit::admin;
use liqo_kit::client::{self, Manners};
use liqo_kit::controller::Runs;
use liqo_kit::events::Events;
use liqo_kit::health::Health;
use liqo_kit::keyed::Queue;
use liqo_kit::metrics::Metrics;
use liqo_kit::service::{self, Service};
use liqo_kit::tasks::Tasks;
use liqo_wire::ipam::ipam_server::IpamServer;
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::info;

pub use self::args::Args;
use self::book::Book;
use self::desk::Desk;
use self::mappings::Mappings;
use self::peers::Peers;
use self::world::{World, merged};

/// How long a question about addresses may take.
const ANSWERING: Duration = Duration::from_secs(10);

/// How many peers may be waiting to be looked at again.
const WAITING: usize = 64;

/// Why the network manager cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An address is not to be had.
    #[error(transparent)]
    Listen(#[from] service::Error),
    /// The ledger of networks cannot be used.
    #[error("cannot keep the ledger of networks")]
    Book(#[from] book::Error),
}

/// What the network manager has from its start to its end.
pub struct Process {
    /// This cluster.
    pub client: Client,
    /// Whether it is well, and ready.
    pub health: Health,
    /// What it measures.
    pub metrics: Metrics,
    /// The owner of its tasks.
    pub tasks: Arc<Tasks>,
    /// Cancelled when it has to end.
    pub stop: CancellationToken,
}

/// Runs the network manager until it is told to end.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::NETWORK_MANAGER, &logs, async |service: Service| {
        let manners = Manners { component: object::NETWORK_MANAGER, limits: args.client };
        let client = manners.home(None).await?;
        service.serve_health(&args.health_probe_address).await?;
        service.serve_metrics(&args.metrics_address).await?;
        let Service { health, metrics, tasks, stop, .. } = service;
        manage(Process { client, health, metrics, tasks, stop }, &args).await
    })
    .await
}

/// Manages the network of a cluster until it is told to end.
pub async fn manage(process: Process, args: &Args) -> Result<(), Error> {
    let client = process.client.clone();
    let watches = process.health.ready.add("watches");
    let (book, changes) = Book::open(&client, &args.settings()).await?;
    let book = Arc::new(book);
    if let Ok(own) = book.ledger().own() {
        info!(pod = %own.pod, external = %own.external, "The ledger is open");
    }
    serve(&process, args, Arc::clone(&book)).await?;

    let (world, touched) = World::new(&client, &args.namespace, Arc::clone(&book));
    let (again, waiting) = channel(WAITING);
    let events = Events::new(client.clone(), object::NETWORK_MANAGER);
    let runs = Runs::register(&process.metrics);
    let peers = Peers::new(client.clone(), world.clone(), Arc::clone(&book), events, again);
    let mappings = Mappings::new(client, world.clone(), Arc::clone(&book));
    // Of what was under way at the last end, nothing may be left.
    let known: Vec<ClusterId> = book.ledger().peers().cloned().collect();
    let known = || stream::iter(known.clone()).boxed();
    let stop = || process.stop.clone().cancelled_owned();
    let to_peers = merged(vec![known(), touched.peers, received(waiting)]).take_until(stop());
    let to_mappings = merged(vec![known(), touched.mappings, received(changes)]).take_until(stop());
    let peering = Queue::new("peers")
        .observed_by(|ending| runs.note("peers", ending))
        .run(to_peers, |peer| peers.reconcile(peer));
    let mapping = Queue::new("mappings")
        .observed_by(|ending| runs.note("mappings", ending))
        .run(to_mappings, |peer| mappings.reconcile(peer));
    let synced = async {
        if world.ready().await.is_ok() && world.mappings.wait_until_ready().await.is_ok() {
            watches.pass();
            info!("Following peers");
        }
    };
    tokio::join!(peering, mapping, process.stop.run_until_cancelled(synced));
    Ok(())
}

/// Answers questions about addresses until the service ends.
async fn serve(process: &Process, args: &Args, book: Arc<Book>) -> Result<(), Error> {
    let refuse = |source| service::Error::Listen { listen: args.ipam_address.clone(), source };
    let listener = admin::bind(&args.ipam_address).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    info!(%address, "Answering about addresses");
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().timeout(ANSWERING).add_service(IpamServer::new(Desk::new(book)));
    let stop = process.stop.clone().cancelled_owned();
    process.tasks.spawn_fallible("ipam", server.serve_with_incoming_shutdown(incoming, stop));
    Ok(())
}

fn received(receiver: Receiver<ClusterId>) -> stream::BoxStream<'static, ClusterId> {
    stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver))).boxed()
}
