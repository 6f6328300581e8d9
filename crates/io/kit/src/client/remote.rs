//! The client of a remote cluster, which follows the identity that its Secret holds.

use std::future::Future;
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use liqo_identity::secret::{identities_at, latest};
use tokio::sync::watch::{Receiver, Sender, channel};
use tracing::{info, warn};

use super::identity::{Identity, IdentityError};
use super::{Error, Manners};
use crate::keyed::chain;
use crate::retry::Backoff;
use crate::watch::{Ended, at_hand, watch_with};

/// A remote cluster as it can be reached now.
#[derive(Clone)]
pub struct RemoteClient {
    /// The client.
    pub client: Client,
    /// The namespace that the remote cluster keeps for us.
    pub namespace: String,
}

/// A remote cluster, as long as there is an identity for it; a clone follows it by itself.
#[derive(Clone)]
pub struct Remote(Receiver<Option<RemoteClient>>);

impl Remote {
    /// The client to use now; none while there is no usable identity.
    pub fn current(&self) -> Option<RemoteClient> {
        self.0.borrow().clone()
    }

    /// Waits for an identity, and returns the client to use.
    pub async fn ready(&mut self) -> Result<RemoteClient, Ended> {
        let client = self.0.wait_for(Option::is_some).await.map_err(|_| Ended)?.clone();
        client.ok_or(Ended)
    }

    /// Waits for another client, or for none to be there, since the last look by these waits.
    pub async fn changed(&mut self) -> Result<Option<RemoteClient>, Ended> {
        self.0.changed().await.map_err(|_| Ended)?;
        Ok(self.0.borrow_and_update().clone())
    }
}

/// Follows the identity for a remote cluster in a namespace of the home cluster.
///
/// The future does the following; without it, nothing happens.
pub fn remote(
    home: Client,
    namespace: &str,
    cluster_id: &str,
    manners: Manners,
) -> (Remote, impl Future<Output = ()> + Send + use<>) {
    let (send, receive) = channel(None);
    let secrets: Api<Secret> = Api::namespaced(home, namespace);
    let selector = identities_at(cluster_id);
    let cluster_id = cluster_id.to_owned();
    (Remote(receive), follow(secrets, selector, cluster_id, manners, send))
}

async fn follow(
    secrets: Api<Secret>,
    selector: String,
    cluster_id: String,
    manners: Manners,
    send: Sender<Option<RemoteClient>>,
) {
    let config = at_hand(Config::default().labels(&selector));
    let (store, touched) = watch_with(secrets, config, Backoff::default());
    let mut touched = Box::pin(touched);
    let mut used = None;
    while touched.next().await.is_some() {
        let objects = store.objects();
        let secret = latest(objects.iter().map(Arc::as_ref), Timestamp::now());
        let version = secret.map(|secret| (secret.uid(), secret.resource_version()));
        if version == used {
            continue;
        }
        used = version;
        let client = match secret {
            Some(secret) => match make(secret, &manners).await {
                Ok(client) => {
                    info!(cluster = cluster_id, secret = secret.name_any(), "Identity in use");
                    Some(client)
                }
                Err(error) => {
                    let name = secret.name_any();
                    warn!(
                        cluster = cluster_id,
                        secret = name,
                        error = chain(&error),
                        "Bad identity"
                    );
                    None
                }
            },
            None => None,
        };
        send.send_replace(client);
    }
}

#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Client(#[from] Error),
}

async fn make(secret: &Secret, manners: &Manners) -> Result<RemoteClient, MakeError> {
    let identity = Identity::try_from(secret)?;
    let client = manners.client(identity.config().await?)?;
    Ok(RemoteClient { client, namespace: identity.namespace })
}
