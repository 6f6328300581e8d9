//! A resource plugin that gives every peer its own share, as a ConfigMap says.
//!
//! ```text
//! ConfigMap ─watch─> shares ─> Subscribe: whose share changed
//!                           └> ReadResources: the share of a cluster
//! ```

mod shares;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};
use liqo_wire::resource_reader::resource_reader_server::{ResourceReader, ResourceReaderServer};
use liqo_wire::resource_reader::{ClusterIdentity, Empty, Quantity, ResourceList};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use self::shares::Shares;

/// Gives every peer its own share of this cluster, as a ConfigMap says.
#[derive(Parser)]
struct Args {
    /// The port to answer on.
    #[arg(long, default_value_t = 6001)]
    port: u16,
    /// The namespace of the ConfigMap.
    #[arg(long, env = "POD_NAMESPACE", default_value = "liqo")]
    namespace: String,
    /// The ConfigMap: a share for each cluster ID, and one called `default` for the others.
    #[arg(long, default_value = "resource-shares")]
    configmap: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt().with_ansi(false).init();
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("there is a crypto provider already"))?;
    let client = Client::try_default().await.context("find the cluster")?;
    let known = watch::Sender::new(None);
    let plugin = Plugin { shares: known.subscribe() };
    let mut end = signal(SignalKind::terminate()).context("listen for signals")?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.port));
    info!(%address, "Answering");
    let serve = Server::builder().add_service(ResourceReaderServer::new(plugin)).serve(address);
    tokio::select! {
        served = serve => served.with_context(|| format!("answer on {address}")),
        () = follow(client, &args, &known) => Err(anyhow!("the watch is over")),
        _ = end.recv() => Ok(()),
    }
}

/// Keeps what the ConfigMap says; what makes no sense is told, and changes nothing.
async fn follow(client: Client, args: &Args, known: &watch::Sender<Option<Shares>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, &args.namespace);
    let only = Config::default().fields(&format!("metadata.name={}", args.configmap));
    let mut seen = watcher(api, only).default_backoff().applied_objects().boxed();
    loop {
        match seen.try_next().await {
            Ok(None) => return,
            Err(error) => warn!(%error, "The ConfigMap cannot be read; trying again"),
            Ok(Some(config)) => match Shares::parse(&config.data.unwrap_or_default()) {
                Ok(shares) => {
                    info!(?shares, "Shares");
                    known.send_replace(Some(shares));
                }
                Err(error) => warn!(%error, "The shares stay as they were"),
            },
        }
    }
}

struct Plugin {
    shares: watch::Receiver<Option<Shares>>,
}

#[tonic::async_trait]
impl ResourceReader for Plugin {
    type SubscribeStream = BoxStream<'static, Result<ClusterIdentity, Status>>;

    async fn read_resources(
        &self,
        request: Request<ClusterIdentity>,
    ) -> Result<Response<ResourceList>, Status> {
        let shares = self.shares.borrow();
        let Some(shares) = &*shares else {
            return Err(Status::unavailable("the ConfigMap with the shares is not there yet"));
        };
        let share = shares.of(&request.get_ref().cluster_id);
        let amount = |text: &String| Quantity { string: Some(text.clone()) };
        let resources: HashMap<_, _> =
            share.iter().map(|(name, text)| (name.clone(), amount(text))).collect();
        Ok(Response::new(ResourceList { resources }))
    }

    async fn remove_cluster(&self, _: Request<ClusterIdentity>) -> Result<Response<Empty>, Status> {
        // The shares are the ConfigMap's: nothing was kept for the cluster.
        Ok(Response::new(Empty {}))
    }

    async fn subscribe(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut before: Option<Shares> = None;
        let changes = WatchStream::new(self.shares.clone())
            .map(move |now| {
                let changed = match (&before, &now) {
                    (_, None) => vec![],
                    (None, Some(_)) => vec![String::new()],
                    (Some(before), Some(now)) => now.changed_since(before),
                };
                before = now;
                stream::iter(
                    changed.into_iter().map(|cluster_id| Ok(ClusterIdentity { cluster_id })),
                )
            })
            .flatten();
        Ok(Response::new(changes.boxed()))
    }
}
