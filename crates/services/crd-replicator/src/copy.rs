//! Copies one kind to one peer.

use std::fmt;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PostParams, Preconditions};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{finalizer, manager};
use liqo_api::names::ClusterId;
use liqo_kit::client::{Remote, RemoteClient};
use liqo_kit::keyed::{Ending, Next, Queue};
use liqo_kit::metrics::Metrics;
use liqo_kit::retry::{Backoff, Failure, Retry, or_gone};
use liqo_kit::terse;
use liqo_kit::watch::{Key, Store, at_hand, watch_with};
use liqo_replication::carried::{self, Carried};
use liqo_replication::kind::Copied;
use liqo_replication::patch;
use liqo_replication::peer::Peer;
use liqo_replication::plan::{self, Action, Stance};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::local::{Local, Sources as _, written_by_us};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// How long a watch may last before it is asked for anew: what a dead connection costs at most.
const WATCH: u32 = 60;

/// Between attempts: rights are granted while a peering is set up, and a user waits for it.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(100), limit: Duration::from_secs(10) };

/// How runs ended: `liqo_replications_total`.
#[derive(Clone)]
pub struct Runs(Family<[(&'static str, &'static str); 2], Counter>);

impl Runs {
    /// Shows the counter.
    pub fn register(metrics: &Metrics) -> Self {
        Self(metrics.register("replications", "Looks at sources and replicas", Family::default()))
    }

    fn count(&self, kind: &'static str, ending: Ending) {
        let result = match ending {
            Ending::Done => "ok",
            Ending::Failed(reason) => reason,
        };
        self.0.get_or_create(&[("kind", kind), ("result", result)]).inc();
    }
}

/// Copies one kind to one peer.
pub struct Copier<K: Copied + 'static> {
    pub home: ClusterId,
    pub workers: u16,
    pub patience: SignedDuration,
    pub runs: Runs,
    pub local: Local<K>,
    pub peer: Receiver<Peer>,
    pub remote: Remote,
}

impl<K: Copied + Send + Sync + 'static> Copier<K> {
    /// Copies as long as there is something to copy and a way to the peer; never ends by itself.
    pub async fn run(mut self) {
        let kind = kind::<K>();
        loop {
            if self.wait_for_work().await.is_none() {
                return;
            }
            let Ok(client) = self.remote.ready().await else { return };
            let peer = self.peer.borrow_and_update().clone();
            let (mut remote, state) = (self.remote.clone(), self.peer.clone());
            info!(cluster = %peer.id, kind, "Copying");
            let why = tokio::select! {
                () = Box::pin(self.connected(&peer, client)) => "nothing is left to copy",
                _ = remote.changed() => "the identity changed",
                () = is_elsewhere(state, &peer) => "the peer is reached in another way",
            };
            info!(cluster = %peer.id, kind, why, "Not copying");
        }
    }

    /// Waits until something is or has been copied; none when the session is over.
    async fn wait_for_work(&mut self) -> Option<()> {
        let namespace = self.peer.borrow_and_update().local.clone();
        let mut touched = Box::pin(self.local.touched(&namespace));
        while !self.has_work() {
            tokio::select! {
                changed = self.peer.changed() => changed.ok()?,
                name = touched.next() => drop(name?),
            }
        }
        Some(())
    }

    /// Whether there is something to copy, or something copied waits for us.
    fn has_work(&self) -> bool {
        let peer = self.peer.borrow();
        let is_due = || !K::KIND.awaits_source() || self.local.is_any(&peer.local, &peer.id);
        !self.local.held_for(&peer.id).is_empty()
            || peer.stance(K::KIND) == Stance::Copy && is_due()
    }

    /// Copies with a given client until nothing is left to copy.
    async fn connected(&self, peer: &Peer, client: RemoteClient) {
        let replicas: Api<Carried<K>> = Api::namespaced(client.client, &peer.remote);
        let config = Config::default().labels(&carried::replicas(&self.home)).timeout(WATCH);
        // A replica that is not listed yet is in the way of another, and one that is gone cannot be
        // deleted again.
        let config = at_hand(config);
        let (store, touched) = watch_with(replicas.clone(), config, BACKOFF);
        let looked = Notify::new();
        let link = Link { copier: self, peer, replicas, store };

        let sources = self.local.touched(&peer.local);
        let first = stream::iter(self.local.names(&peer.local));
        let again = state_changes(self.peer.clone()).flat_map(|()| stream::iter(link.names()));
        let names = stream::select_all([
            touched.map(|key| key.name).boxed(),
            sources.boxed(),
            first.boxed(),
            again.boxed(),
        ]);
        let work = Queue::new("copy")
            .workers(self.workers)
            .backoff(BACKOFF)
            .observed_by(|ending| self.runs.count(kind::<K>(), ending))
            .run(names, async |name| {
                let result = link.look(&name).await;
                looked.notify_one();
                result.map(|()| Next::AwaitChange)
            });
        tokio::select! {
            () = work => {}
            () = self.until_idle(&link.store, &looked) => {}
        }
    }

    /// Waits until nothing is copied and nothing is left of what was.
    async fn until_idle(&self, store: &Store<Carried<K>>, looked: &Notify) {
        let mut state = self.peer.clone();
        while self.has_work() || !store.objects().is_empty() {
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = looked.notified() => {}
            }
        }
    }
}

/// One kind at one peer, while there is a way to it.
struct Link<'a, K: Copied + 'static> {
    copier: &'a Copier<K>,
    peer: &'a Peer,
    replicas: Api<Carried<K>>,
    store: Store<Carried<K>>,
}

impl<K: Copied + Send + Sync + 'static> Link<'_, K> {
    /// The names of all sources and replicas.
    fn names(&self) -> Vec<String> {
        let replicas = self.store.objects();
        let replicas = replicas.iter().map(|replica| replica.name_any());
        self.copier.local.names(&self.peer.local).into_iter().chain(replicas).collect()
    }

    /// Looks at a source and its replica, and does what is to be done.
    async fn look(&self, name: &str) -> Result<(), Error> {
        let source = self.copier.local.source(&self.peer.local, name, &self.peer.id);
        if let Some(source) =
            source.as_deref().filter(|source| source.is_ending() && source.is_held())
            && self.is_left_behind(name).await
        {
            let what = Attempt { verb: "let go", kind: kind::<K>(), name: name.to_owned() };
            warn!(cluster = %self.peer.id, %what, "The peer cannot be asked; its copy stays there");
            let released = self.act(Action::Release, Some(source), None).await;
            return released.map_err(|source| Error::Request { what, source: Box::new(source) });
        }
        match timeout(REQUEST, self.store.wait_until_ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(()),
            Err(_) => {
                let what =
                    Attempt { verb: "list at the peer", kind: kind::<K>(), name: name.to_owned() };
                return Err(Error::Slow { what });
            }
        }
        let replica = self.store.object(&Key::namespaced(&self.peer.remote, name));
        let stance = self.copier.peer.borrow().stance(K::KIND);
        let (source, replica) = (source.as_deref(), replica.as_deref());
        for action in plan::decide(source, replica, stance) {
            let what = Attempt { verb: verb(&action), kind: kind::<K>(), name: name.to_owned() };
            debug!(cluster = %self.peer.id, %what, "Copy");
            let done = timeout(REQUEST, self.act(action, source, replica)).await;
            match done {
                Ok(Ok(())) => {}
                Ok(Err(source)) => return Err(Error::Request { what, source: Box::new(source) }),
                Err(_) => return Err(Error::Slow { what }),
            }
        }
        Ok(())
    }

    /// Whether the peer cannot be asked about a replica: it is silent for too long, or it does not
    /// let us in any more, because it has left us.
    async fn is_left_behind(&self, name: &str) -> bool {
        let given_up =
            self.copier.peer.borrow().is_given_up(self.copier.patience, Timestamp::now());
        if given_up || self.store.is_ready() {
            return given_up;
        }
        let refused = timeout(REQUEST, self.replicas.get_opt(name)).await;
        matches!(refused, Ok(Err(kube::Error::Api(status))) if status.code == 403)
    }

    async fn act(
        &self,
        action: Action,
        source: Option<&Carried<K>>,
        replica: Option<&Carried<K>>,
    ) -> kube::Result<()> {
        let sources = self.copier.local.api(&self.peer.local);
        let params = written_by_us();
        match (action, source, replica) {
            (Action::Hold, Some(source), _) => {
                let change = patch::of_finalizer(&source.metadata, finalizer::CRD_REPLICATOR, true);
                sources.patch(&source.name_any(), &params, &Patch::Merge(change)).await?;
            }
            (Action::Release, Some(source), _) => {
                let change =
                    patch::of_finalizer(&source.metadata, finalizer::CRD_REPLICATOR, false);
                let name = source.name_any();
                or_gone(sources.patch(&name, &params, &Patch::Merge(change)).await)?;
            }
            (Action::Make, Some(source), _) => self.make(source).await?,
            (Action::Respecify(change), _, Some(replica)) => {
                let change = patch::of_field(&replica.metadata, "spec", change);
                self.replicas.patch(&replica.name_any(), &params, &Patch::Merge(change)).await?;
            }
            (Action::Report(change), Some(source), _) => {
                let change = patch::of_field(&source.metadata, "status", change);
                let name = source.name_any();
                or_gone(sources.patch_status(&name, &params, &Patch::Merge(change)).await)?;
            }
            (Action::Delete, _, Some(replica)) => {
                let uid = Preconditions { uid: replica.uid(), resource_version: None };
                let params =
                    DeleteParams { preconditions: Some(uid), ..DeleteParams::background() };
                or_gone(self.replicas.delete(&replica.name_any(), &params).await)?;
            }
            // Actions are about what was seen.
            (Action::Hold | Action::Release | Action::Make | Action::Report(_), None, _)
            | (Action::Respecify(_) | Action::Delete, _, None) => {}
        }
        Ok(())
    }

    async fn make(&self, source: &Carried<K>) -> kube::Result<()> {
        let replica = source.replica(&self.copier.home, &self.peer.remote);
        let params = PostParams {
            field_manager: Some(manager::CRD_REPLICATOR.to_owned()),
            ..PostParams::default()
        };
        match terse::create(&self.replicas, &params, &replica).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                // It may be ours, made a moment ago and not yet seen; if so, the watch tells.
                match self.replicas.get_opt(&replica.name_any()).await? {
                    Some(found) if !found.is_replica_of(&self.copier.home) => {
                        Err(kube::Error::Api(status))
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Waits until the peer is reached in another way than it was: in another namespace, or again after
/// it was silent, when its connections are dead without anybody noticing.
async fn is_elsewhere(mut state: Receiver<Peer>, was: &Peer) {
    let mut is_silent = was.is_silent;
    while state.changed().await.is_ok() {
        let now = state.borrow_and_update();
        if now.remote != was.remote || is_silent && !now.is_silent {
            return;
        }
        is_silent = now.is_silent;
    }
}

/// Something for every change of what is known of the peer.
fn state_changes(state: Receiver<Peer>) -> impl futures::Stream<Item = ()> + Send {
    stream::unfold(state, async |mut state| {
        state.changed().await.ok()?;
        state.borrow_and_update();
        Some(((), state))
    })
}

fn kind<K: Copied>() -> &'static str {
    match K::KIND {
        liqo_replication::kind::Kind::ResourceRequest => "ResourceRequest",
        liqo_replication::kind::Kind::ResourceOffer => "ResourceOffer",
        liqo_replication::kind::Kind::NamespaceMap => "NamespaceMap",
        liqo_replication::kind::Kind::NetworkConfig => "NetworkConfig",
    }
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::Hold => "hold",
        Action::Make => "make at the peer",
        Action::Respecify(_) => "change at the peer",
        Action::Report(_) => "report the status of",
        Action::Delete => "delete at the peer",
        Action::Release => "let go",
    }
}

/// What was tried.
#[derive(Debug)]
struct Attempt {
    verb: &'static str,
    kind: &'static str,
    name: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb, self.kind, self.name)
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot {what}")]
    Request { what: Attempt, source: Box<kube::Error> },
    #[error("cannot {what}: no answer within {} s", REQUEST.as_secs())]
    Slow { what: Attempt },
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        // Even what is refused as malformed may be taken once the peer has been upgraded.
        Retry::Soon
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Request { source, .. } => source.reason(),
            Self::Slow { .. } => "Unreachable",
        }
    }
}
