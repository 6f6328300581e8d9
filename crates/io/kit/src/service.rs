//! The life of a component: start, run, and an end in time.
//!
//! ```text
//!            signal                        main returns, tasks end
//!  running ──────────> draining (not ready) ─────────────────────> stopped
//!     │                   │
//!     │ a task fails      │ too long, or a second signal
//!     └─────> failed      └─────────────> stopped, the rest aborted
//! ```

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::NamedGroup;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::admin;
use crate::args::{Listen, LogArgs};
use crate::health::Health;
use crate::keyed::chain;
use crate::metrics::Metrics;
use crate::tasks::{TaskError, Tasks};
use crate::telemetry::{self, Logs};

/// How long a component may take to end; Kubernetes kills it after 30 seconds.
pub const DRAIN: Duration = Duration::from_secs(20);

/// Why a component ended other than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logging could not be started.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// Signals cannot be received.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// An address is not to be had.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: Listen,
        /// Why.
        source: io::Error,
    },
    /// A task failed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The component itself failed.
    #[error("{name} failed")]
    Component {
        /// The component.
        name: &'static str,
        /// Why.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// What a component has from its start to its end; a clone is the same.
#[derive(Clone)]
pub struct Service {
    /// Whether it is well, and ready.
    pub health: Health,
    /// What it measures.
    pub metrics: Metrics,
    /// What it logs.
    pub logs: Logs,
    /// Its tasks.
    pub tasks: Arc<Tasks>,
    /// Cancelled when it has to end.
    pub stop: CancellationToken,
}

impl Service {
    fn new(logs: Logs) -> Self {
        Self {
            health: Health::default(),
            metrics: Metrics::default(),
            logs,
            tasks: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Tells at an address whether the component is well and ready, and what it logs.
    pub async fn serve_health(&self, listen: &Listen) -> Result<SocketAddr, Error> {
        let routes = admin::health_routes(self.health.clone());
        self.serve("health", listen, routes.merge(admin::log_routes(self.logs.clone()))).await
    }

    /// Tells health, metrics and logs at one address, for components that have no more.
    pub async fn serve_admin(&self, listen: &Listen) -> Result<SocketAddr, Error> {
        let routes = admin::health_routes(self.health.clone())
            .merge(admin::metrics_routes(self.metrics.clone()))
            .merge(admin::log_routes(self.logs.clone()));
        self.serve("admin", listen, routes).await
    }

    /// Shows metrics at an address.
    pub async fn serve_metrics(&self, listen: &Listen) -> Result<SocketAddr, Error> {
        self.serve("metrics", listen, admin::metrics_routes(self.metrics.clone())).await
    }

    /// Serves routes over plain HTTP until the component ends; returns the address in use.
    pub async fn serve(
        &self,
        name: &'static str,
        listen: &Listen,
        routes: Router,
    ) -> Result<SocketAddr, Error> {
        let refuse = |source| Error::Listen { listen: listen.clone(), source };
        let listener = admin::bind(listen).await.map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        info!(name, %address, "Listening");
        self.tasks.spawn_fallible(name, admin::serve(listener, routes, self.stop.clone()));
        Ok(address)
    }
}

/// Makes aws-lc-rs what all TLS of this process uses; a second time does nothing.
///
/// Keys are agreed on over elliptic curves, as those of tunnels are; see `docs/adr/0016`.
pub fn install_crypto() {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups.retain(|group| group.name() != NamedGroup::X25519MLKEM768);
    let _ = provider.install_default();
}

/// Runs a component until it ends, SIGTERM or SIGINT comes, or a task fails.
///
/// After a signal, the component is not ready any more and `stop` is cancelled; it and its tasks
/// have [`DRAIN`] to end by themselves.
pub async fn run<F, E>(
    name: &'static str,
    logs: &LogArgs,
    main: impl FnOnce(Service) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), E>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    install_crypto();
    let service = Service::new(Logs::start(logs)?);
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let signals = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    info!(name, version = env!("CARGO_PKG_VERSION"), "Started");
    let result = live(name, service, main, signals).await;
    match &result {
        Ok(()) => info!(name, "Stopped"),
        Err(error) => error!(name, error = chain(error), "Stopped"),
    }
    result
}

/// The same on given signals.
async fn live<F, E>(
    name: &'static str,
    service: Service,
    main: impl FnOnce(Service) -> F,
    mut signals: impl AsyncFnMut() -> &'static str,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), E>>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    let Service { health, tasks, stop, .. } = service.clone();
    let fail = |error: E| Error::Component { name, source: error.into() };
    let mut failure = pin!(tasks.failure());
    let mut main = pin!(main(service));
    let ended = tokio::select! {
        result = &mut main => Some(result.map_err(fail)),
        error = &mut failure => return Err(error.into()),
        signal = signals() => {
            info!(name, signal, "Stopping");
            None
        }
    };
    health.ready.add("running").fail("stopping");
    stop.cancel();
    let drain = async {
        let result = match ended {
            Some(result) => result,
            None => main.await.map_err(fail),
        };
        // The limit is that of the whole drain.
        tasks.finish(Duration::MAX).await;
        result
    };
    tokio::select! {
        result = timeout(DRAIN, drain) => if let Ok(result) = result {
            return result;
        },
        error = failure => return Err(error.into()),
        _ = signals() => {}
    }
    warn!(name, "Not all work was finished in time");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_signal_stops_a_component_that_listens_to_it() {
        let service = Service::new(Logs::for_test());
        let ready = service.health.ready.clone();
        let result = live("test", service, stops, once()).await;
        result.unwrap();
        assert_eq!(ready.report(), (false, "[-]running failed: stopping\n".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_that_does_not_listen_is_stopped_in_time() {
        let start = Instant::now();
        let deaf = async |_| pending::<io::Result<()>>().await;
        live("test", Service::new(Logs::for_test()), deaf, once()).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), DRAIN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_stops_it_at_once() {
        let start = Instant::now();
        let deaf = async |_| pending::<io::Result<()>>().await;
        live("test", Service::new(Logs::for_test()), deaf, async || "SIGINT").await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_given_time_to_end() {
        let (send, receive) = oneshot::channel();
        let main = async |service: Service| {
            let stop = service.stop.clone();
            service.tasks.spawn("slow", async move {
                stop.cancelled().await;
                tokio::time::sleep(DRAIN / 2).await;
                let _ = send.send("all is tidy");
            });
            stops(service).await
        };
        live("test", Service::new(Logs::for_test()), main, once()).await.unwrap();
        assert_eq!(receive.await.unwrap(), "all is tidy");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_task_ends_the_component() {
        let main = async |service: Service| {
            service.tasks.spawn("clumsy", async { panic!("as the test wants") });
            pending::<io::Result<()>>().await
        };
        let error = live("test", Service::new(Logs::for_test()), main, pending_signal).await;
        assert_eq!(error.unwrap_err().to_string(), "task clumsy panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_that_fails_says_why() {
        let main = async |_| Err::<(), _>(io::Error::other("no luck"));
        let error = live("test", Service::new(Logs::for_test()), main, pending_signal).await;
        assert_eq!(chain(&error.unwrap_err()), "test failed: no luck");
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let service = Service::new(Logs::for_test());
        let first = service.serve_health(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = service.serve_metrics(&first.to_string().parse().unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {first}"));
    }

    async fn stops(service: Service) -> io::Result<()> {
        service.stop.cancelled().await;
        Ok(())
    }

    fn once() -> impl AsyncFnMut() -> &'static str {
        let mut first = true;
        async move || {
            if std::mem::replace(&mut first, false) { "SIGTERM" } else { pending().await }
        }
    }

    async fn pending_signal() -> &'static str {
        pending().await
    }
}
