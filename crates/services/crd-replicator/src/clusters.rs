//! Which peers objects are copied to, and when a ForeignCluster may go.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::Patch;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::finalizer;
use liqo_kit::health::Check;
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::{Key, Store, watch};
use liqo_replication::patch;
use liqo_replication::peer::{self, Decision, Peer};
use tracing::{info, warn};

use crate::local::{Sources, written_by_us};
use crate::session::{Home, Kinds, Session};

/// How often a ForeignCluster that is to go is looked at, besides whenever something changes.
const AGAIN: Duration = Duration::from_secs(5);

/// The peers that objects are copied to.
pub struct Clusters {
    api: Api<ForeignCluster>,
    home: Home,
    kinds: Kinds,
    sessions: Mutex<HashMap<String, Session>>,
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    /// A ForeignCluster.
    Cluster(String),
    /// Sources whose peer nobody knows any more.
    Strays,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => f.write_str(name),
            Self::Strays => f.write_str("sources without a peer"),
        }
    }
}

impl Clusters {
    pub fn new(client: Client, home: Home, kinds: Kinds) -> Self {
        Self { api: Api::all(client), home, kinds, sessions: Mutex::default() }
    }

    /// Starts and ends sessions as ForeignClusters come and go.
    pub async fn run(self, ready: Check) {
        let (store, touched) = watch(self.api.clone(), Config::default());
        let clusters = touched.flat_map(|key| {
            // The end of a ForeignCluster may leave sources behind.
            stream::iter([Subject::Cluster(key.name), Subject::Strays])
        });
        let sources = self.kinds.each().map(Sources::touched);
        let sources = stream::select_all(sources).map(|key| subject_of(&key, &store));
        let first = stream::iter([Subject::Strays]);
        let subjects = stream::select_all([clusters.boxed(), sources.boxed(), first.boxed()]);
        let is_ready = async {
            if self.is_ready(&store).await {
                ready.pass();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = Queue::new("clusters").run(subjects, |subject| self.look(&store, subject)) => {}
            () = is_ready => {}
        }
    }

    /// Waits until everything has been seen once; nothing is decided before.
    async fn is_ready(&self, store: &Store<ForeignCluster>) -> bool {
        for sources in self.kinds.each() {
            if !sources.ready().await {
                return false;
            }
        }
        store.wait_until_ready().await.is_ok()
    }

    async fn look(&self, store: &Store<ForeignCluster>, subject: Subject) -> Result<Next, Error> {
        if !self.is_ready(store).await {
            return Ok(Next::AwaitChange);
        }
        match subject {
            Subject::Cluster(name) => {
                if let Some(cluster) = store.object(&Key::cluster(&name)) {
                    self.look_at(&cluster).await
                } else {
                    self.end(&name);
                    Ok(Next::AwaitChange)
                }
            }
            Subject::Strays => self.release_strays(store).await,
        }
    }

    async fn look_at(&self, cluster: &ForeignCluster) -> Result<Next, Error> {
        let name = cluster.name_any();
        let held = self.held_for(cluster);
        let patience = self.home.patience;
        match peer::decide(cluster, held.len(), patience, Timestamp::now()) {
            Decision::Ignore => self.end(&name),
            Decision::Copy { hold } => {
                if hold {
                    self.set_finalizer(cluster, true).await?;
                }
                self.begin(cluster);
            }
            Decision::Leave => {
                self.begin(cluster);
                return Ok(Next::RequeueAfter(AGAIN));
            }
            Decision::LeaveUnlessSilent => {
                self.begin(cluster);
                if self.is_within_reach(&name).await {
                    return Ok(Next::RequeueAfter(AGAIN));
                }
                warn!(
                    cluster = name,
                    sources = held.len(),
                    "Peer out of reach: its copies stay there until it is back and known again"
                );
                for (sources, key) in &held {
                    release(*sources, key).await?;
                }
                self.set_finalizer(cluster, false).await?;
            }
            Decision::Release => {
                self.end(&name);
                self.set_finalizer(cluster, false).await?;
                info!(cluster = name, "Nothing is copied any more");
            }
        }
        Ok(Next::AwaitChange)
    }

    /// Begins to copy, or goes on with what is known now.
    fn begin(&self, cluster: &ForeignCluster) {
        let Some(peer) = Peer::of(cluster) else { return };
        let mut sessions = self.sessions();
        match sessions.get(&cluster.name_any()) {
            Some(session) if session.is_for(&peer) => session.update(peer),
            Some(_) | None => {
                let session = Session::start(&self.home, &self.kinds, peer);
                sessions.insert(cluster.name_any(), session);
            }
        }
    }

    fn end(&self, name: &str) {
        self.sessions().remove(name);
    }

    /// The sources for a peer that wait for us, each with the sources of its kind.
    fn held_for(&self, cluster: &ForeignCluster) -> Vec<(&dyn Sources, Key)> {
        let identity = cluster.spec.cluster_identity.as_ref();
        let Some(Ok(id)) = identity.map(|identity| identity.cluster_id.parse()) else {
            return vec![];
        };
        let held = |sources: &'_ dyn Sources| sources.held_for(&id);
        let kinds = self.kinds.each().into_iter();
        kinds.flat_map(|kind| held(kind).into_iter().map(move |key| (kind, key))).collect()
    }

    async fn release_strays(&self, store: &Store<ForeignCluster>) -> Result<Next, Error> {
        let clusters = store.objects();
        let is_known = |id: &str| {
            clusters.iter().any(|cluster| {
                let identity = cluster.spec.cluster_identity.as_ref();
                identity.is_some_and(|identity| identity.cluster_id == id)
            })
        };
        for sources in self.kinds.each() {
            for key in sources.strays(&is_known) {
                warn!(source = %key, "Let go without its copy: its peer is not known any more");
                release(sources, &key).await?;
            }
        }
        Ok(Next::AwaitChange)
    }

    async fn is_within_reach(&self, name: &str) -> bool {
        // A session may be slow to ask, and others must not wait for the lock.
        let Some(session) = self.sessions().get(name).map(Session::probe) else { return false };
        session.await
    }

    async fn set_finalizer(&self, cluster: &ForeignCluster, present: bool) -> Result<(), Error> {
        let change = patch::of_finalizer(&cluster.metadata, finalizer::CRD_REPLICATOR, present);
        let name = cluster.name_any();
        match self.api.patch(&name, &written_by_us(), &Patch::Merge(change)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error { what: format!("ForeignCluster {name}"), source }),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn release(sources: &dyn Sources, key: &Key) -> Result<(), Error> {
    sources.release(key).await.map_err(|source| Error { what: key.to_string(), source })
}

/// What a change of a source may be news for.
fn subject_of(source: &Key, store: &Store<ForeignCluster>) -> Subject {
    let clusters = store.objects();
    let owner = clusters.iter().find(|cluster| {
        let local =
            cluster.status.as_ref().and_then(|status| status.tenant_namespace.local.as_ref());
        local == source.namespace.as_ref()
    });
    owner.map_or(Subject::Strays, |cluster| Subject::Cluster(cluster.name_any()))
}

/// An object does not take its finalizer, or does not give it up.
#[derive(Debug, thiserror::Error)]
#[error("cannot change the finalizers of {what}")]
struct Error {
    what: String,
    source: kube::Error,
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::Soon
    }

    fn reason(&self) -> &'static str {
        self.source.reason()
    }
}
