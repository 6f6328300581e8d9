//! The life of pods that are bound to the virtual node.
//!
//! ```text
//! pods here ────────────────┐
//! ShadowPods, pods, tokens ─┼─> one queue of pods ─> observe, decide, act
//!   of each namespace there ┘
//! ```
//!
//! How a pod there is now is urgent: whoever looks at it here waits for that. New pods wait for it. When
//! many start at once, they are told of together, by [`departures`].
//!
//! Pods here are watched once for all namespaces; what is there, namespace by namespace, as far as
//! a [`side`] is known. All that is decided is decided in `liqo-pod-offloading`; what is done is done
//! in [`hands`], [`additions`] and [`tokens`], and what is remembered between two looks is in [`memory`].
//! What the other cluster warns of comes home by a way of its own, [`warnings`]; pods there that have
//! no node yet are looked at when they are missed, [`waiting`].

mod additions;
mod departures;
pub(crate) mod entrance;
mod hands;
mod memory;
mod side;
mod tokens;
mod waiting;
mod warnings;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use liqo_api::keys::event;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::{Ending, Next, Queue, Touch, chain};
use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::{Ended, Key, Store};
use liqo_pod_offloading::decide::{Action, There, decide, is_missed};
use liqo_pod_offloading::lean::{HomePod, RemotePod};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::departures::Departures;
pub(crate) use self::entrance::Entrance;
use self::memory::Memory;
use self::side::Side;
use self::tokens::Clock;
use self::warnings::Told;
use crate::Namespaces;
use crate::addresses::{self, Addresses};
use crate::reflection::counts::Counts;
use crate::reflection::link::{BACKOFF, Refusal};

/// The kind as metrics name it.
const KIND: &str = "Pod";

/// How many touches may wait; the queue takes them faster than they come.
const TOUCHES: usize = 1024;

/// What pods stand on.
pub(crate) struct Ground {
    /// This cluster.
    pub(crate) home: Client,
    /// Its pods on the virtual node.
    pub(crate) store: Store<HomePod>,
    /// Which namespaces extend to the other cluster.
    pub(crate) namespaces: Namespaces,
    /// What addresses are called here.
    pub(crate) addresses: Arc<Addresses>,
    /// How pods there reach the API server here.
    pub(crate) entrance: Entrance,
    /// The address of the virtual node.
    pub(crate) node: IpAddr,
    /// What the other cluster is called.
    pub(crate) peer: String,
    /// What is counted.
    pub(crate) counts: Counts,
    /// How many warnings of the other cluster are told at once; none at all with 0.
    pub(crate) warners: u16,
}

/// The pods of the virtual node.
pub(crate) struct Pods {
    ground: Ground,
    events: Events,
    token_events: Events,
    /// What is known of the other side, by namespace here.
    sides: Mutex<HashMap<String, Arc<Side>>>,
    memory: Mutex<HashMap<Key, Box<Memory>>>,
    clock: Clock,
    told: Mutex<Told>,
    departures: Mutex<Departures>,
    touch: mpsc::Sender<Touch<Key>>,
}

/// What has to be looked at.
pub(crate) struct Touched(mpsc::Receiver<Touch<Key>>);

impl Pods {
    /// The pods, and what is touched of them from elsewhere.
    pub(crate) fn new(ground: Ground) -> (Arc<Self>, Touched) {
        let (touch, touched) = mpsc::channel(TOUCHES);
        let events = |kind| Events::new(ground.home.clone(), event::from_reflection(kind));
        let pods = Self {
            events: events("pod"),
            token_events: events("serviceaccount"),
            ground,
            sides: Mutex::default(),
            memory: Mutex::default(),
            clock: Clock::default(),
            told: Mutex::default(),
            departures: Mutex::default(),
            touch,
        };
        (Arc::new(pods), Touched(touched))
    }

    /// Works on pods, with those here as their watch names them; never ends by itself.
    pub(crate) async fn run(
        self: Arc<Self>,
        here: impl Stream<Item = Key> + Send,
        touched: Touched,
        workers: u16,
    ) {
        let there = stream::unfold(touched.0, async |mut touched| {
            let touch = touched.recv().await?;
            Some((touch, touched))
        });
        let keys = stream::select(here.map(Touch::from), there);
        let queue = Queue::new("pods").workers(workers).backoff(BACKOFF);
        let work = queue.run_ranked(keys, async |key| {
            let result = self.look(&key).await;
            let ending = match &result {
                Ok(_) => Ending::Done,
                Err(error) => Ending::Failed(error.reason()),
            };
            self.ground.counts.count(KIND, key.namespace.as_deref().unwrap_or_default(), ending);
            result
        });
        tokio::join!(work, self.follow_namespaces());
    }

    /// Looks at all pods again when other namespaces extend.
    async fn follow_namespaces(&self) {
        let mut namespaces = self.ground.namespaces.clone();
        while namespaces.changed().await {
            for key in self.ground.store.keys() {
                let _ = self.touch.send(key.into()).await;
            }
        }
    }

    async fn look(&self, key: &Key) -> Result<Next, Error> {
        self.ground.store.wait_until_ready().await?;
        let home = self.latest(key);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let mapped = self.ground.namespaces.known().map(|known| known.contains_key(namespace));
        let side = match mapped {
            None => return Ok(Next::AwaitChange),
            Some(false) => None,
            Some(true) => match self.side(namespace) {
                Some(side) => Some(side),
                // It touches all pods once it is known.
                None => return Ok(Next::AwaitChange),
            },
        };
        let scene = Scene::of(self, key, home, side);
        let result = self.act(&scene).await;
        if let (Err(error), Some(home)) = (&result, scene.home.as_deref())
            && error.reason() != "Conflict"
            && !matches!(error, Error::Explained(_))
        {
            self.tell(home, true, event::FAILED_REFLECTION, &chain(error)).await;
        }
        result
    }

    async fn act(&self, scene: &Scene<'_>) -> Result<Next, Error> {
        let mut offloads = false;
        let mut again = earlier(scene.again, self.miss(scene));
        for action in scene.decide() {
            match (action, scene.home.as_deref(), &scene.side) {
                (Action::Offload, Some(home), Some(side)) => {
                    self.offload(scene.key, home, side).await?;
                    offloads = true;
                }
                (Action::Relabel(change), _, Some(side)) => {
                    self.relabel(scene, side, &change).await?;
                }
                (Action::AddContainers, Some(home), Some(side)) => {
                    self.add_containers(scene, home, side).await?;
                }
                (Action::Warn(why), Some(home), _) => {
                    self.warn(home, &why).await;
                }
                (Action::DeleteShadow, _, Some(side)) => self.delete_shadow(scene, side).await?,
                (Action::Mirror, Some(home), _) => {
                    if let Some(remote) = &scene.remote {
                        let answers = scene.side.as_ref().is_some_and(|side| side.answers());
                        let wait = self.mirror(scene.key, home, remote, answers).await?;
                        again = earlier(again, wait);
                    }
                }
                (Action::Reject(rejection), Some(home), _) => {
                    self.reject(scene.key, home, rejection).await?;
                }
                (Action::Explain(why), Some(home), _) => {
                    self.explain(scene.key, home, &why).await?;
                }
                (Action::Finish, Some(home), _) => self.finish(scene.key, home).await?,
                // Actions are about what was seen.
                (
                    Action::Offload
                    | Action::AddContainers
                    | Action::Warn(_)
                    | Action::Mirror
                    | Action::Reject(_)
                    | Action::Explain(_)
                    | Action::Finish,
                    ..,
                )
                | (Action::Relabel(_) | Action::DeleteShadow, _, None) => {}
            }
        }
        if let Some(side) = &scene.side
            && !offloads
        {
            again = earlier(again, self.keep_tokens(scene, side).await?);
        }
        if scene.is_empty() {
            let mut memories = self.memories();
            memories.remove(scene.key);
            // What a thousand pods took is given back when they are gone.
            if memories.len() < memories.capacity() / 4 {
                memories.shrink_to_fit();
            }
        }
        Ok(again.map_or(Next::AwaitChange, Next::RequeueAfter))
    }

    /// A pod here as it is known now: as it was seen, or as our last write left it.
    fn latest(&self, key: &Key) -> Option<Arc<HomePod>> {
        let seen = self.ground.store.object(key)?;
        Some(self.with(key, |memory| memory.latest(seen)))
    }

    fn side(&self, namespace: &str) -> Option<Arc<Side>> {
        let sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        sides.get(namespace).filter(|side| side.is_ready()).cloned()
    }

    /// Reads or changes what is remembered of a pod.
    fn with<T>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self.memories().entry(key.clone()).or_default())
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Box<Memory>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn departures(&self) -> MutexGuard<'_, Departures> {
        self.departures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, pod: &HomePod, warning: bool, reason: &str, message: &str) {
        self.events.tell(pod, Note { warning, reason, action: "Offload", message }).await;
    }
}

/// What is seen of one pod.
struct Scene<'a> {
    key: &'a Key,
    home: Option<Arc<HomePod>>,
    side: Option<Arc<Side>>,
    shadow: Option<ObjectMeta>,
    remote: Option<Arc<RemotePod>>,
    secret: Option<ObjectMeta>,
    /// When to look again, because something was written and not seen yet.
    again: Option<Duration>,
}

impl<'a> Scene<'a> {
    fn of(pods: &Pods, key: &'a Key, home: Option<Arc<HomePod>>, side: Option<Arc<Side>>) -> Self {
        let mut scene =
            Self { key, home, side, shadow: None, remote: None, secret: None, again: None };
        let Some(side) = &scene.side else { return scene };
        let now = Instant::now();
        let (shadow, secret) = (side.shadow(&key.name), side.secret(&key.name));
        scene.remote = side.pod(&key.name);
        let (shadow, secret, again) = pods.with(key, |memory| {
            let (shadow, soon) = memory.shadow.look(shadow, now);
            let (secret, later) = memory.secret.look(secret, now);
            (shadow, secret, earlier(soon, later))
        });
        (scene.shadow, scene.secret, scene.again) = (shadow, secret, again);
        scene
    }

    fn decide(&self) -> Vec<Action> {
        decide(self.home.as_deref(), self.there())
    }

    fn is_missed(&self) -> bool {
        is_missed(self.home.as_deref(), self.there())
    }

    fn there(&self) -> There<'_> {
        match &self.side {
            None => There::Nowhere,
            Some(side) => There::Known {
                shadow: self.shadow.as_ref(),
                pod: self.remote.as_deref(),
                place: &side.place,
            },
        }
    }

    fn is_empty(&self) -> bool {
        let has_home = self.home.is_some();
        !has_home && self.shadow.is_none() && self.remote.is_none() && self.secret.is_none()
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Names the pods of a stream of keys, and lets somebody know of each.
pub(crate) fn noticed(
    keys: impl Stream<Item = Key> + Send,
    notice: tokio::sync::watch::Sender<()>,
) -> impl Stream<Item = Key> + Send {
    keys.inspect(move |_| {
        notice.send_replace(());
    })
}

/// Why a pod is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Address(#[from] addresses::Error),
    #[error("cluster {peer} has a {kind} {name} that is not from here; it is left alone")]
    Taken { kind: &'static str, name: String, peer: String },
    #[error("the API server gave no token for {0}")]
    NoToken(String),
    /// The pod itself says it already.
    #[error(transparent)]
    Explained(Box<Error>),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Ended(_) => Retry::Never,
            Self::Refused(refusal) => refusal.retry(),
            Self::Address(error) => error.retry(),
            // What is not ours is not watched, so nobody tells when it goes.
            Self::Taken { .. } | Self::NoToken(_) => Retry::Soon,
            Self::Explained(error) => error.retry(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Ended(_) => "Ended",
            Self::Refused(refusal) => refusal.reason(),
            Self::Address(error) => error.reason(),
            Self::Taken { .. } => "NameTaken",
            Self::NoToken(_) => "NoToken",
            Self::Explained(error) => error.reason(),
        }
    }
}
