//! Copies that a peer left here: it went away without a word, and has no source of them any more.
//!
//! A source outlives its replica, whoever is asked first. So a replica whose source is gone is one
//! that the peer could not take back; it is looked for whenever the peer is reached again.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ResourceRequest;
use liqo_api::keys::manager;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::apply::Writer;
use liqo_kit::client::Remote;
use liqo_kit::keyed::chain;
use liqo_kit::retry::Backoff;
use liqo_kit::watch::Object;
use liqo_replication::carried;
use liqo_replication::peer::Peer;
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Looks for copies without a source whenever the peer is reached anew; ends with the session.
///
/// Requests for resources are what everything else follows from, and what a peer may always read.
pub async fn follow(home: Client, mut state: Receiver<Peer>, mut remote: Remote) {
    let backoff = Backoff::default();
    let mut failures = 0;
    loop {
        let Ok(client) = remote.ready().await else { return };
        let peer = state.borrow_and_update().clone();
        if !peer.is_silent {
            match remove(&home, &client.client, &peer).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    warn!(cluster = %peer.id, error = chain(&error), "Copies not looked through");
                    sleep(backoff.jittered(failures)).await;
                    continue;
                }
            }
        }
        // The next look is after a silence.
        loop {
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                _ = remote.changed() => break,
            }
            let now = state.borrow().clone();
            if now.is_silent != peer.is_silent || now.remote != peer.remote {
                break;
            }
        }
    }
}

async fn remove(home: &Client, away: &Client, peer: &Peer) -> Result<(), Error> {
    let here: Api<ResourceRequest> = Api::namespaced(home.clone(), &peer.local);
    let there: Api<ResourceRequest> = Api::namespaced(away.clone(), &peer.remote);
    let copies = ListParams::default().labels(&carried::replicas(&peer.id));
    let copies = here.list(&copies).await.map_err(Error::Here)?;
    let mut wanted = false;
    for copy in copies {
        let name = copy.name_any();
        let source = timeout(REQUEST, there.get_metadata_opt(&name)).await;
        let source = source.map_err(|_| Error::Slow)?.map_err(Error::There)?;
        wanted |= source.is_some();
        if source.is_none() {
            delete(&here, &copy, peer).await?;
        }
    }
    if !wanted {
        // Who asks for nothing has no namespaces here.
        let maps: Api<NamespaceMap> = Api::namespaced(home.clone(), &peer.local);
        let copies = ListParams::default().labels(&carried::replicas(&peer.id));
        for map in maps.list(&copies).await.map_err(Error::Here)? {
            delete(&maps, &map, peer).await?;
        }
    }
    Ok(())
}

async fn delete<K: Object>(api: &Api<K>, copy: &K, peer: &Peer) -> Result<(), Error> {
    if copy.meta().deletion_timestamp.is_some() {
        return Ok(());
    }
    info!(cluster = %peer.id, kind = %K::kind(&()), name = copy.name_any(), "Left behind: deleted");
    Writer::new(manager::CRD_REPLICATOR).delete(api, copy).await?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot list copies")]
    Here(#[source] kube::Error),
    #[error("cannot ask the peer for a source")]
    There(#[source] kube::Error),
    #[error("the peer does not answer")]
    Slow,
    #[error(transparent)]
    Delete(#[from] liqo_kit::apply::Error),
}
