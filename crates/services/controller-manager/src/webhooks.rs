//! Serves the admission webhooks, with a certificate of their own making.
//!
//! Every replica serves them, leading or not. The rules themselves are in `liqo-admission`.

mod certificate;
mod quota;
mod review;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use liqo_kit::admin;
use liqo_kit::args::Listen;
use liqo_kit::health::Check;
use liqo_kit::service::{self, Service};
use liqo_kit::tls::{self, TlsListener};
use tracing::info;

pub use self::certificate::Authority;
pub use self::quota::{COUNTING, Quota};
pub use self::routes::{Lookups, routes};

/// Webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Their certificate is not to be had.
    #[error(transparent)]
    Certificate(#[from] certificate::Error),
    /// It cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// Their port is not to be had.
    #[error(transparent)]
    Service(#[from] service::Error),
}

/// Counts what consumers use of their offers, until the service ends.
pub fn count(client: &Client, service: &Service) -> Arc<Quota> {
    let (quota, counting) = Quota::new(client);
    let stop = service.stop.clone();
    service.tasks.spawn("count what consumers use", async move {
        Box::pin(stop.run_until_cancelled(counting)).await;
    });
    quota
}

/// Serves webhooks until the service ends; ready once the API server knows their certificate.
pub async fn serve(
    client: &Client,
    namespace: &str,
    port: u16,
    quota: Option<Arc<Quota>>,
    service: &Service,
    ready: Check,
) -> Result<SocketAddr, Error> {
    let authority = Authority::new(client.clone(), namespace);
    let pair = authority.ensure().await?;
    let (certificate, replace) = tls::Certificate::given(&pair)?;
    let listen = Listen { host: None, port };
    let refuse = |source| service::Error::Listen { listen: listen.clone(), source };
    let listener = admin::bind(&listen).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    let listener = TlsListener::new(listener, certificate.busy_server()).map_err(refuse)?;
    let (lookups, following) = Lookups::new(client, quota);
    let routes = routes(lookups);
    let stop = service.stop.clone();
    service.tasks.spawn_fallible("webhooks", async move {
        axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
    });
    let stop = service.stop.clone();
    service.tasks.spawn("webhook look-ups", async move {
        Box::pin(stop.run_until_cancelled(following)).await;
    });
    let stop = service.stop.clone();
    service.tasks.spawn("webhook certificate", async move {
        stop.run_until_cancelled(authority.keep(replace, ready)).await;
    });
    info!(%address, "Serving webhooks");
    Ok(address)
}
