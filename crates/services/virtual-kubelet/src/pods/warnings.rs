//! Tells of a pod here what the other cluster warns of about its pod there.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::manager;
use liqo_kit::apply::digest;
use liqo_kit::events::shortened;
use liqo_kit::keyed::{Ending, Next, Queue};
use liqo_kit::retry::Failure as _;
use liqo_kit::watch::{Key, Store, watch_trimmed};
use liqo_pod_offloading::lean::HomePod;
use liqo_pod_offloading::warning;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::hands::said_no;
use super::side::Side;
use super::{Error, Pods};
use crate::reflection::link::{BACKOFF, WATCH, ask};

/// The kind as metrics name it.
const KIND: &str = "Event";
/// How long a pod may stay unseen that is warned of: one watch is faster than another.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before such a pod is looked for again.
const GLANCE: Duration = Duration::from_millis(500);
/// What is said again and again is told here no more often than this.
const PAUSE: Duration = Duration::from_secs(30);
/// How long a warning is remembered: as long as API servers keep Events.
const MEMORY: Duration = Duration::from_hours(1);
/// How long to wait before asking again somebody who does not show Events.
const ASK_AGAIN: Duration = Duration::from_mins(1);

/// What is remembered of the warnings of the other cluster, by their keys there.
pub(super) type Told = HashMap<Key, Warned>;

/// What is remembered of a warning.
pub(super) struct Warned {
    /// When it was written last, or first seen.
    since: Instant,
    /// A digest of what was written.
    written: Option<u64>,
}

impl Pods {
    /// Tells here what is warned of there; never ends by itself.
    pub(super) async fn pass_on(&self, side: &Side) {
        let events = side.api::<Event>();
        if self.ground.warners == 0 {
            return;
        }
        may_read(&events, &self.ground.peer).await;
        let config = Config::default().fields(warning::FIELDS).timeout(WATCH);
        let (store, keys) = watch_trimmed(events, config, BACKOFF, warning::trim);
        let namespace = &side.place.home_namespace;
        Queue::new("warnings")
            .workers(self.ground.warners)
            .backoff(BACKOFF)
            .run(keys, async |key| {
                let result = self.look_at_warning(side, &store, &key).await;
                match &result {
                    Ok((_, false)) => {}
                    Ok((_, true)) => self.ground.counts.count(KIND, namespace, Ending::Done),
                    Err(error) => {
                        let ending = Ending::Failed(error.reason());
                        self.ground.counts.count(KIND, namespace, ending);
                    }
                }
                result.map(|(next, _)| next)
            })
            .await;
    }

    /// Tells of one warning; whether something was written.
    async fn look_at_warning(
        &self,
        side: &Side,
        store: &Store<Event>,
        key: &Key,
    ) -> Result<(Next, bool), Error> {
        let Some(event) = store.object(key) else {
            // Here it goes by itself, as all Events do.
            self.told().remove(key);
            return Ok((Next::AwaitChange, false));
        };
        let pod = event.involved_object.name.as_deref().unwrap_or_default();
        let home = self.ground.store.object(&Key::namespaced(&side.place.home_namespace, pod));
        let there = side.pod(pod);
        if home.is_some() && there.is_none() {
            // It may be one that no node has room for.
            side.waiting.ask();
        }
        let is_of_ours = there.is_some_and(|it| it.uid() == event.involved_object.uid);
        let (Some(home), true) = (home, is_of_ours) else {
            return Ok((self.wait_for_pod(key, side), false));
        };
        let mut want = warning::home(&event, &home.metadata, &side.place);
        want.message = want.message.as_deref().map(shortened);
        let wanted = serde_json::to_value(&want).map(|value| digest(&value)).unwrap_or_default();
        if let Some(wait) = self.is_told(key, wanted) {
            return Ok((wait, false));
        }
        self.write_warning(&home, &want).await?;
        let mut told = self.told();
        // What is forgotten is at worst written once more.
        told.retain(|_, warned| warned.since.elapsed() < MEMORY);
        told.insert(key.clone(), Warned { since: Instant::now(), written: Some(wanted) });
        Ok((Next::AwaitChange, true))
    }

    /// A pod that is not seen may be seen soon, or be gone.
    fn wait_for_pod(&self, key: &Key, side: &Side) -> Next {
        let now = Instant::now();
        let mut told = self.told();
        let warned = told.entry(key.clone()).or_insert(Warned { since: now, written: None });
        let waits = warned.written.is_none() && now.duration_since(warned.since) < PATIENCE;
        if waits || !side.is_ready() { Next::RequeueAfter(GLANCE) } else { Next::AwaitChange }
    }

    /// Whether just this was written, or something like it a moment ago; when to look again then.
    fn is_told(&self, key: &Key, wanted: u64) -> Option<Next> {
        let told = self.told();
        let warned = told.get(key)?;
        let written = warned.written?;
        if written == wanted {
            return Some(Next::AwaitChange);
        }
        let left = PAUSE.saturating_sub(warned.since.elapsed());
        (!left.is_zero()).then_some(Next::RequeueAfter(left))
    }

    async fn write_warning(&self, home: &HomePod, want: &Event) -> Result<(), Error> {
        let name = want.name_any();
        let events: Api<Event> = self.here(home);
        let params = PatchParams::apply(manager::VIRTUAL_KUBELET).force();
        let patch = Patch::Apply(want);
        let request = events.patch_metadata(&name, &params, &patch);
        match ask(|| format!("write Event {name}"), request).await {
            Ok(_) => Ok(()),
            // An Event is a courtesy; whoever refuses it would do so again.
            Err(refusal) if said_no(&refusal).is_some() => {
                debug!(event = name, why = said_no(&refusal), "Event not told");
                Ok(())
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until Events may be read: the Go version does not grant that, and a watch would try for ever.
async fn may_read(events: &Api<Event>, peer: &str) {
    let mut is_told = false;
    loop {
        let one = ListParams::default().fields(warning::FIELDS).limit(1);
        let asked = ask(|| format!("list Events in cluster {peer}"), events.list_metadata(&one));
        // Whatever else goes wrong goes wrong for the watch, too, which knows what to do about it.
        match asked.await {
            Err(refusal) if refusal.code() == Some(403) => {}
            Ok(_) | Err(_) => return,
        }
        if !is_told {
            info!(cluster = peer, "It does not show Events: what it warns of is not told here");
            is_told = true;
        }
        sleep(ASK_AGAIN).await;
    }
}
