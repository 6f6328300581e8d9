//! The API of a kubelet, for pods that run in another cluster.
//!
//! ```text
//! kubectl logs ─> API server here ─> this port ─> API server there ─> kubelet there
//!                                    who may?
//! ```
//!
//! The API server of this cluster asks the kubelet of a pod's node for its logs, and for streams into
//! it. For a virtual node that is this server, which asks the API server of the other cluster for the
//! same of the pod there: logs are passed on line by line, streams byte by byte.
//!
//! | path | behind it |
//! | --- | --- |
//! | `/containerLogs/{ns}/{pod}/{container}` | `pods/log` |
//! | `/exec/…`, `/attach/…`, `/portForward/{ns}/{pod}` | `pods/exec`, `pods/attach`, `pods/portforward` |
//! | `/stats/summary` | `metrics.k8s.io` |
//! | `/metrics`, `/metrics/cadvisor`, `/metrics/resource`, `/metrics/probes` | the provider's metric agent |
//! | `/pods`, `/runningpods/` | the pods of this cluster on the node |
//! | `/healthz` | `ok` |

mod answer;
mod caller;
mod certificate;
mod routes;
mod splice;
mod summary;
mod translate;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use liqo_api::names::ClusterId;
use liqo_kit::admin;
use liqo_kit::args::Listen;
use liqo_kit::authority::{Authority, Signs, any_certificate};
use liqo_kit::tls::{self, Certificate, TlsListener};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::caller::{Callers, Peer};
pub use self::certificate::CertificateType;
use self::certificate::Wanted;
use self::routes::{Server, routes};

/// How long requests that are under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(1);

/// What the server has to know of the other cluster.
pub trait Provider: Send + Sync + 'static {
    /// The client of the other cluster; none while there is no identity for it.
    fn client(&self) -> Option<Client>;

    /// The namespaces of this cluster that are reflected, and what each is called there.
    fn namespaces(&self) -> BTreeMap<String, String>;
}

/// The server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// Its port is not to be had.
    #[error("cannot serve the kubelet API on {listen}")]
    Listen {
        /// The address.
        listen: Listen,
        /// Why.
        source: io::Error,
    },
}

/// Whose kubelet it is, and how it is reached.
pub struct Kubelet {
    /// The node.
    pub node: String,
    /// The address of the node, which the certificate names.
    pub address: IpAddr,
    /// Where it listens.
    pub listen: Listen,
    /// Where its certificate comes from.
    pub certificate: CertificateType,
    /// This cluster, as the other one knows it.
    pub consumer: ClusterId,
    /// The API server of this cluster.
    pub home: Client,
    /// The other cluster.
    pub provider: Arc<dyn Provider>,
}

impl Kubelet {
    /// Serves until told to stop. As long as there is no certificate, nobody listens.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), Error> {
        let authority = Authority::new(Signs::Users);
        let following = Box::pin(authority.clone().follow(self.home.clone(), || {}));
        let serving = Box::pin(self.answer(authority, stop));
        tokio::select! {
            served = serving => served,
            () = following => Ok(()),
        }
    }

    async fn answer(self, authority: Authority, stop: CancellationToken) -> Result<(), Error> {
        let Self { node, address, listen, certificate, consumer, home, provider } = self;
        let wanted = Wanted { node: node.clone(), address, source: certificate };
        let Some(pair) = stop.run_until_cancelled(wanted.obtain(&home)).await else {
            return Ok(());
        };
        let (certificate, replace) = Certificate::given(&pair)?;
        let refuse = |source| Error::Listen { listen: listen.clone(), source };
        let listener = admin::bind(&listen).await.map_err(refuse)?;
        info!(node, %listen, "Serving the kubelet API");
        let listener = TlsListener::new(listener, certificate.server_for(any_certificate()))
            .map_err(refuse)?;
        let renewing = wanted.renew(&home, pair, replace);
        let callers = Callers::new(&home, authority, &node);
        let since = Timestamp::now();
        let (home, ending) = (home.clone(), stop.clone());
        let routes =
            routes(Arc::new(Server { node, home, consumer, provider, callers, since, stop }));
        let service = routes.into_make_service_with_connect_info::<Peer>();
        let serving =
            axum::serve(listener, service).with_graceful_shutdown(ending.clone().cancelled_owned());
        let late = async {
            ending.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            served = serving => served.map_err(refuse),
            () = renewing => Ok(()),
            () = late => Ok(()),
        }
    }
}
