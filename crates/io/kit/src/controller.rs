//! kube's Controller for our own resources, with back-off, counters and Events.
//!
//! For objects that are not ours, which have no finalizer of ours and vanish without a word, there
//! is [`keyed`](crate::keyed).

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use kube::Resource;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Error};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::events::{Events, Note};
use crate::keyed::{Ending, chain};
use crate::metrics::Metrics;
use crate::retry::{Backoff, Failure, Retry};
use crate::watch::{Key, Object};

/// What one run of a controller is counted under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    controller: &'static str,
    result: &'static str,
}

/// How often controllers ran, and how that ended: `liqo_controller_runs_total`.
#[derive(Clone, Debug)]
pub struct Runs(Family<Run, Counter>);

impl Runs {
    /// Shows the counter; once for all controllers of a component.
    pub fn register(metrics: &Metrics) -> Self {
        Self(metrics.register("controller_runs", "Runs of controllers", Family::default()))
    }

    /// Counts a run of a [queue](crate::keyed::Queue) under its name.
    pub fn note(&self, queue: &'static str, ending: Ending) {
        match ending {
            Ending::Done => self.count(queue, "ok"),
            Ending::Failed(reason) => self.count(queue, reason),
        }
    }

    fn count(&self, controller: &'static str, result: &'static str) {
        self.0.get_or_create(&Run { controller, result }).inc();
    }
}

/// What all controllers of a component share.
#[derive(Clone)]
pub struct Tools {
    /// Counts.
    pub runs: Runs,
    /// Tells users of failures.
    pub events: Arc<Events>,
    /// How long to wait after failures.
    pub backoff: Backoff,
    /// Ends the controllers, which finish what is running first.
    pub stop: CancellationToken,
}

/// Runs a controller until it is stopped.
///
/// A failure is told as an Event on the object, counted by its reason, and tried again as the error
/// says.
pub async fn run<K, F, E>(
    name: &'static str,
    controller: Controller<K>,
    tools: Tools,
    reconcile: impl Fn(Arc<K>) -> F + Send + Sync + 'static,
) where
    K: Object + Resource<DynamicType = ()>,
    F: Future<Output = Result<Action, E>> + Send + 'static,
    E: Failure + Send + Sync + 'static,
{
    let stop = tools.stop.clone();
    let context = Arc::new(Context { name, tools, failures: Mutex::default() });
    let reconcile = Arc::new(reconcile);
    let results = controller.graceful_shutdown_on(stop.cancelled_owned()).run(
        move |object: Arc<K>, context: Arc<Context>| {
            let run = reconcile(Arc::clone(&object));
            async move {
                let result = run.await;
                match &result {
                    Ok(_) => context.succeed(&Key::of(&*object)),
                    Err(error) => context.tell(&*object, error).await,
                }
                result
            }
        },
        |object, error, context| context.retry(&Key::of(&*object), error),
        Arc::clone(&context),
    );
    results
        .for_each(async |result| match result {
            Ok((object, _)) => debug!(controller = name, %object, "Done"),
            Err(Error::ObjectNotFound(object)) => {
                debug!(controller = name, %object, "Gone before its turn");
                context.forget(&Key { namespace: object.namespace, name: object.name });
            }
            // Told where it happened.
            Err(Error::ReconcilerFailed(_, object)) => debug!(controller = name, %object, "Failed"),
            Err(error) => warn!(controller = name, error = chain(&error), "Controller interrupted"),
        })
        .await;
}

struct Context {
    name: &'static str,
    tools: Tools,
    /// Failures in a row.
    failures: Mutex<HashMap<Key, u32>>,
}

impl Context {
    fn forget(&self, key: &Key) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn succeed(&self, key: &Key) {
        self.forget(key);
        self.tools.runs.count(self.name, "ok");
    }

    async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, error: &impl Failure) {
        let (reason, message) = (error.reason(), chain(error));
        self.tools.runs.count(self.name, reason);
        let note = Note { warning: true, reason, action: "Reconcile", message: &message };
        self.tools.events.tell(object, note).await;
    }

    fn retry(&self, key: &Key, error: &impl Failure) -> Action {
        let failures = {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            let count = failures.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        let reason = error.reason();
        warn!(controller = self.name, %key, reason, failures, error = chain(error), "Failed");
        match error.retry() {
            Retry::Never => Action::await_change(),
            Retry::Soon => Action::requeue(self.tools.backoff.jittered(failures)),
            Retry::After(delay) => Action::requeue(delay),
        }
    }
}
