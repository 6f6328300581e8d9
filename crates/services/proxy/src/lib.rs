//! Carries connections of peers to the API server, for peerings whose control plane is inside the
//! tunnel.
//!
//! A peer sends `CONNECT <its name of the API server>` and then speaks TLS with the API server
//! itself. Whatever name it gives, it is connected to the API server of this cluster and to nothing
//! else, so an open port of this proxy opens nothing else either.

mod carry;

use clap::Args as ClapArgs;
use liqo_kit::args::{Listen, LogArgs};
use liqo_kit::service::{self, Error, Service};
use tracing::info;

pub use self::carry::{Carrier, serve};

/// Flags of the proxy.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Port that peers connect to
    #[arg(long, default_value_t = 8118, value_name = "PORT")]
    pub listening_port: u16,

    /// Where all connections go; by default the API server of the cluster this runs in
    #[arg(long, value_name = "HOST:PORT")]
    pub api_server: Option<String>,

    /// Address of health and metrics
    #[arg(long, default_value = ":9901", value_name = "ADDRESS")]
    pub admin_address: Listen,

    /// What is logged
    #[command(flatten)]
    pub logs: LogArgs,
}

/// Runs the proxy until it is told to stop.
pub async fn run(args: Args) -> Result<(), Error> {
    let Args { listening_port, api_server, admin_address, logs } = args;
    let api_server = api_server.unwrap_or_else(in_cluster);
    service::run("proxy", &logs, async |service: Service| {
        let carrier = Carrier::new(api_server, &service.metrics);
        let listen = Listen { host: None, port: listening_port };
        let listener = liqo_kit::admin::bind(&listen)
            .await
            .map_err(|source| Error::Listen { listen: listen.clone(), source })?;
        info!(port = listening_port, to = carrier.api_server(), "Carrying");
        service.serve_admin(&admin_address).await?;
        serve(listener, carrier, service.stop.clone()).await;
        Ok::<_, Error>(())
    })
    .await
}

/// The API server as every pod is told of it; by name where it is not.
fn in_cluster() -> String {
    let told = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
    match (told("KUBERNETES_SERVICE_HOST"), told("KUBERNETES_SERVICE_PORT")) {
        (Some(host), Some(port)) if host.contains(':') => format!("[{host}]:{port}"),
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => "kubernetes.default:443".to_owned(),
    }
}
