//! Clients of API servers: the one of the home cluster, and those of remote ones.

mod concise;
mod identity;
mod lines;
mod remote;

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::limit::RateLimitLayer;

pub use self::concise::concise;
pub use self::identity::{Identity, IdentityError};
pub use self::remote::{Remote, RemoteClient, remote};
use crate::args::ClientArgs;

/// A client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a kubeconfig nor a service account says where the cluster is.
    #[error("cannot find the cluster")]
    Infer(#[source] Box<InferConfigError>),
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// The name of the component cannot be sent.
    #[error("cannot send '{0}' as a user agent")]
    UserAgent(String),
    /// The keys or the URL are no good.
    #[error("cannot make a client")]
    Build(#[source] Box<kube::Error>),
}

/// How a component presents itself, and how fast it may talk.
#[derive(Clone, Debug)]
pub struct Manners {
    /// The component, for the logs of API servers.
    pub component: &'static str,
    /// Limits.
    pub limits: ClientArgs,
}

impl Manners {
    /// A client of the cluster that a kubeconfig names, or that this process runs in.
    pub async fn home(&self, kubeconfig: Option<&Path>) -> Result<Client, Error> {
        let config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(bad_kubeconfig)?;
                let options = KubeConfigOptions::default();
                Config::from_custom_kubeconfig(file, &options).await.map_err(bad_kubeconfig)?
            }
            None => Config::infer().await.map_err(|source| Error::Infer(Box::new(source)))?,
        };
        self.client(config)
    }

    /// A client of a given cluster.
    pub fn client(&self, mut config: Config) -> Result<Client, Error> {
        let agent = format!("{}/{}", self.component, env!("CARGO_PKG_VERSION"));
        let value = HeaderValue::from_str(&agent).map_err(|_| Error::UserAgent(agent))?;
        config.headers.push((USER_AGENT, value));
        let builder = lines::builder(config).map_err(|source| Error::Build(source.into()))?;
        let (count, time) = window(self.limits);
        Ok(builder.with_layer(&RateLimitLayer::new(count, time)).build())
    }
}

/// How many requests may start within which time: a whole burst, and then as many as time allows.
fn window(limits: ClientArgs) -> (u64, Duration) {
    let [qps, burst] = [limits.qps, limits.burst].map(NonZeroU32::get);
    (u64::from(burst), Duration::from_secs_f64(f64::from(burst) / f64::from(qps)))
}

fn bad_kubeconfig(source: KubeconfigError) -> Error {
    Error::Kubeconfig(Box::new(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lets_a_burst_through_and_keeps_the_rate() {
        let limits = |qps, burst| ClientArgs {
            qps: NonZeroU32::new(qps).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        };
        assert_eq!(window(limits(100, 100)), (100, Duration::from_secs(1)));
        assert_eq!(window(limits(10, 25)), (25, Duration::from_millis(2500)));
    }
}
