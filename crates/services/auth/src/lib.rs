//! The authentication service: tells peers who this cluster is, and issues them identities.
//!
//! ```text
//! peer ──/ids, /identity/certificate──> server ──> issuer ──> namespace, certificate, bindings
//!                                         │
//!                                         └──< token keeper <── Secret auth-token
//! ```

mod args;
mod issuer;
mod keeper;
mod server;

use std::io;
use std::sync::Arc;

use kube::{Client, Config};
use liqo_api::keys::object;
use liqo_api::names::Cluster;
use liqo_identity::address;
use liqo_kit::client::Manners;
use liqo_kit::events::Events;
use liqo_kit::service::{self, Service};
use liqo_kit::tls::{self, Certificate};
use tracing::info;

pub use self::args::{Args, AwsArgs};
use self::issuer::{Authority, Issuer};
use self::keeper::Keeper;
use self::server::Server;

/// Why the authentication service cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Client(#[from] liqo_kit::client::Error),
    /// Nobody can tell peers where the API server is.
    #[error(transparent)]
    Address(#[from] address::Unknown),
    /// A request to the API server failed.
    #[error("cannot ask the API server")]
    Ask(#[from] kube::Error),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// An address is not to be had.
    #[error(transparent)]
    Listen(#[from] service::Error),
    /// The server cannot be started.
    #[error("cannot serve at {address}")]
    Serve {
        /// The address.
        address: liqo_kit::args::Listen,
        /// Why.
        source: io::Error,
    },
    /// Identities on AWS are asked for.
    #[error("identities on AWS are not supported yet; leave out the flags --aws-*")]
    Aws,
}

/// Runs the authentication service until it is told to end.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run(object::AUTH, &logs, async |service| {
        let manners = Manners { component: object::AUTH, limits: args.client };
        let client = manners.home(None).await?;
        let authority = Config::infer().await.ok().and_then(|config| Authority::of(&config));
        serve(service, args, client, authority).await
    })
    .await
}

/// Serves with a given client of the cluster.
pub async fn serve(
    service: Service,
    args: Args,
    client: Client,
    authority: Option<Authority>,
) -> Result<(), Error> {
    let Args {
        cluster_id,
        cluster_name,
        namespace,
        address,
        enable_tls,
        cert_path,
        key_path,
        enable_authentication,
        advertise_api_server_address,
        advertise_api_server_trusted_ca,
        aws,
        health_probe_address,
        metrics_address,
        resync_period: _,
        client: _,
        logs: _,
    } = args;
    if aws.is_complete() {
        return Err(Error::Aws);
    }
    service.serve_health(&health_probe_address).await?;
    service.serve_metrics(&metrics_address).await?;

    let cluster = Cluster { id: cluster_id, name: cluster_name };
    let issuer = Issuer {
        client: client.clone(),
        events: Events::new(client.clone(), object::AUTH),
        home: cluster.clone(),
        namespace: namespace.to_string(),
        api_server: advertise_api_server_address,
        authority: authority.filter(|_| !advertise_api_server_trusted_ca),
        authenticates: enable_authentication,
        writers: issuer::Writers::default(),
    };
    // Told at the start rather than to the first peer.
    info!(url = issuer.api_server().await?, "Peers reach the API server");

    let (keeper, keep) = Keeper::new(client, namespace.as_str());
    let ready = service.health.ready.add("token");
    let stop = service.stop.clone();
    service.tasks.spawn("token", async move {
        Box::pin(stop.run_until_cancelled_owned(keep)).await;
    });
    let known = keeper.clone();
    service.tasks.spawn("token-ready", async move {
        if known.token().await.is_some() {
            ready.pass();
        }
    });

    let certificate = if enable_tls {
        let (certificate, follow) = Certificate::follow(&cert_path, &key_path)?;
        let stop = service.stop.clone();
        service.tasks.spawn_fallible("certificate", async move {
            stop.run_until_cancelled_owned(follow).await.unwrap_or(Ok(()))
        });
        Some(certificate)
    } else {
        None
    };
    let token = enable_authentication.then_some(keeper);
    let server = Server::new(Arc::new(issuer), token, &cluster, &service.metrics);
    server
        .serve(&address, certificate.as_ref().map(Certificate::server), service.stop)
        .await
        .map_err(|source| Error::Serve { address, source })
}
