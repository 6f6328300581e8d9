//! Drives reflection: objects here, their counterparts there, and one queue over the names of both.
//!
//! ```text
//! watch here ──> store ─┐
//!                       ├─ names ─> queue ─> work(name, what is here, what is there)
//! watch there ─> store ─┘
//! ```
//!
//! Two rules hold for all kinds, and are kept here so that no kind can forget them:
//!
//! - nothing is worked on before both sides are known, so that a side that could not be listed yet
//!   never looks like one where everything was deleted;
//! - both lists are worked through at the start, so that what went away while nobody looked is found.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use tokio::time::timeout;

use crate::keyed::{Ending, Next, Queue};
use crate::retry::{Backoff, Failure, Retry};
use crate::watch::{Ended, Key, Object, Store, watch_trimmed};

/// How long a look waits for both sides before it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// One side: where its objects are, and which of them count.
pub struct Side<K> {
    /// The cluster.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// Which objects of it.
    pub config: Config,
    /// Drops what nobody reads of an object.
    pub trim: fn(&mut K),
}

/// What the counterpart of a name is called; nothing when a name has no counterpart.
pub type Rename = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How names here and there belong together, where they differ.
pub struct Names {
    /// From here to there; what has no name there is not worked on.
    pub there: Rename,
    /// From there to here; what has no name here is nobody's.
    pub here: Rename,
}

impl Default for Names {
    /// The same on both sides.
    fn default() -> Self {
        let same = || -> Rename { Box::new(|name| Some(name.to_owned())) };
        Self { there: same(), here: same() }
    }
}

/// What is known of a name.
#[derive(Clone, Debug)]
pub struct Pair<L, R> {
    /// The name here.
    pub name: String,
    /// What is here.
    pub here: Option<Arc<L>>,
    /// What is there.
    pub there: Option<Arc<R>>,
}

/// A look at a name failed.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// A side is not known yet.
    #[error("one of the two sides cannot be listed yet")]
    NotReady,
    /// A watch is over.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The work itself failed.
    #[error(transparent)]
    Work(E),
}

impl<E: Failure> Failure for Error<E> {
    fn retry(&self) -> Retry {
        match self {
            Self::NotReady => Retry::Soon,
            Self::Ended(_) => Retry::Never,
            Self::Work(error) => error.retry(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NotReady => "NotReady",
            Self::Ended(_) => "Ended",
            Self::Work(error) => error.reason(),
        }
    }
}

/// How one kind is reflected.
pub struct Reflector {
    /// For logs.
    pub name: &'static str,
    /// How many names are worked on at once.
    pub workers: u16,
    /// How long to wait after failures.
    pub backoff: Backoff,
    /// How names here and there belong together.
    pub names: Names,
}

impl Reflector {
    /// Reflects until the touches end; `also` names what has to be looked at for other reasons.
    ///
    /// `observe` is told how each look ended.
    pub async fn run<L, R, F, E>(
        self,
        here: Side<L>,
        there: Side<R>,
        also: impl Stream<Item = String> + Send,
        observe: impl Fn(Ending),
        work: impl Fn(Pair<L, R>) -> F,
    ) where
        L: Object + Resource<Scope = NamespaceResourceScope>,
        R: Object + Resource<Scope = NamespaceResourceScope>,
        F: Future<Output = Result<Next, E>>,
        E: Failure + 'static,
    {
        let spaces = (here.namespace.clone(), there.namespace.clone());
        let (here, from_here) = follow::<L>(here, self.backoff);
        let (there, over_there) = follow::<R>(there, self.backoff);
        let names = &self.names;
        let with_counterpart = |name: String| {
            let name = (names.there)(&name).map(|_| name);
            std::future::ready(name)
        };
        let back = |key: Key| std::future::ready((names.here)(&key.name));
        let touched = stream::select_all([
            from_here.map(|key| key.name).filter_map(with_counterpart).boxed(),
            over_there.filter_map(back).boxed(),
            also.filter_map(with_counterpart).boxed(),
        ]);
        Queue::new(self.name)
            .workers(self.workers)
            .backoff(self.backoff)
            .observed_by(observe)
            .run(touched, async |name| {
                both_known(&here, &there).await?;
                let here = here.object(&Key::namespaced(&spaces.0, &name));
                let there = (names.there)(&name)
                    .and_then(|name| there.object(&Key::namespaced(&spaces.1, name)));
                work(Pair { name, here, there }).await.map_err(Error::Work)
            })
            .await;
    }
}

async fn both_known<L: Object, R: Object, E>(
    here: &Store<L>,
    there: &Store<R>,
) -> Result<(), Error<E>> {
    let both = async {
        here.wait_until_ready().await?;
        there.wait_until_ready().await
    };
    Ok(timeout(PATIENCE, both).await.map_err(|_| Error::NotReady)??)
}

fn follow<K: Object + Resource<Scope = NamespaceResourceScope>>(
    side: Side<K>,
    backoff: Backoff,
) -> (Store<K>, impl Stream<Item = Key> + Send + use<K>) {
    let Side { client, namespace, config, trim } = side;
    watch_trimmed(Api::namespaced(client, &namespace), config, backoff, trim)
}
