//! Shows consumers the metrics of the pods they run here, as an API of this cluster.
//!
//! ```text
//! consumer ─> API server (may this user scrape that cluster?) ─> agent ─> kubelets of all nodes
//! ```
//!
//! The API server decides who may ask; the agent answers nobody but the API server.

mod routes;
mod source;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use liqo_api::keys::object;
use liqo_kit::args::{ClientArgs, Listen, LogArgs};
use liqo_kit::authority::{Authority, Signs};
use liqo_kit::client::{self, Manners};
use liqo_kit::service::{self, Service};
use liqo_kit::tls::{self, Certificate, TlsListener};

use self::source::Source;

/// Flags of the metric agent.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Private key of the server, in PEM
    #[arg(long, default_value = "server.key", value_name = "FILE")]
    pub key_path: PathBuf,

    /// Certificate of the server, in PEM
    #[arg(long, default_value = "server.crt", value_name = "FILE")]
    pub cert_path: PathBuf,

    /// Port of the server
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    pub port: u16,

    /// Address of health and metrics of the agent itself
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    pub health_probe_address: Listen,

    /// How fast it may talk to the API server
    #[command(flatten)]
    pub client: ClientArgs,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Why the metric agent ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// Its certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A port is not to be had.
    #[error(transparent)]
    Service(#[from] service::Error),
}

/// Runs the metric agent until it is told to stop.
pub async fn run(args: Args) -> Result<(), service::Error> {
    let logs = args.logs.clone();
    service::run("metric-agent", &logs, |service| start(args, service)).await
}

async fn start(args: Args, service: Service) -> Result<(), Error> {
    let manners = Manners { component: object::METRIC_AGENT, limits: args.client };
    let client = manners.home(None).await?;
    service.serve_admin(&args.health_probe_address).await?;
    let callers = Authority::new(Signs::ApiServer);
    let known = service.health.ready.add("callers");
    let following = callers.clone().follow(client.clone(), move || known.pass());
    let stop = service.stop.clone();
    service.tasks.spawn("callers", async move {
        stop.run_until_cancelled(following).await;
    });
    let (certificate, follow) = Certificate::follow(&args.cert_path, &args.key_path)?;
    let stop = service.stop.clone();
    service.tasks.spawn_fallible("certificate", async move {
        stop.run_until_cancelled(follow).await.unwrap_or(Ok(()))
    });
    let listen = Listen { host: None, port: args.port };
    let refuse = |source| service::Error::Listen { listen: listen.clone(), source };
    let listener = liqo_kit::admin::bind(&listen).await.map_err(refuse)?;
    let server = certificate.server_for(callers.verifier());
    let listener = TlsListener::new(listener, server).map_err(refuse)?;
    let routes = routes::routes(Source::new(client));
    axum::serve(listener, routes)
        .with_graceful_shutdown(service.stop.clone().cancelled_owned())
        .await
        .map_err(|source| service::Error::Listen { listen, source })?;
    Ok(())
}
