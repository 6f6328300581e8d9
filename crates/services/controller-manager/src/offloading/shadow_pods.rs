//! The controller of ShadowPods: keeps a Pod alive for each, and reports its phase.
//!
//! One request makes the Pod and one reports each phase; nothing is asked and nothing is written
//! when nothing changed.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_admission::shadow_pod::presumption;
use liqo_api::keys::{label, manager};
use liqo_api::virtualkubelet::{PodPhase, ShadowPod};
use liqo_kit::client::concise;
use liqo_kit::courtesy::Courtesy;
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_kit::terse;
use liqo_kit::watch::Key;
use liqo_offloading::shadow_pod::{self, Names, Owner};
use liqo_offloading::slim::{SlimPod, SlimShadow};
use liqo_replication::carried::Carried;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::error::Error;
use crate::webhooks::{COUNTING, Quota};
use crate::world::World;

/// How long a pod runs before that is reported: some have ended by then.
const RUNNING: Duration = Duration::from_secs(5);
/// How long a pod may be pending before that is reported: most run by then.
const PENDING: Duration = Duration::from_secs(30);
/// How many phases that may still change are reported at once, and how long it takes until one more is:
/// when a thousand pods start, the API server has other things to do.
const REPORTS: (u32, Duration) = (50, Duration::from_millis(200));
/// How many pods are made at once, and how long it takes until one more is, when few are.
const FEW: (u32, Duration) = (20, Duration::from_millis(500));
/// How long it has to be quiet after many were made, before phases that may still change are reported,
/// and how long that waits at the most.
const QUIET: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));
/// How often it is asked whether there is room for a pod by now.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// How long a reason is not written again that somebody has wiped out.
const SILENCE: Duration = Duration::from_mins(5);

/// The controller of ShadowPods.
pub struct ShadowPods {
    world: World,
    /// For writes of which little is sent back.
    writer: Client,
    /// What consumers may use, if that is enforced.
    quota: Option<Arc<Quota>>,
    memory: Mutex<HashMap<Key, Memory>>,
    reports: Mutex<Reports>,
}

/// What is remembered of a ShadowPod.
#[derive(Default)]
struct Memory {
    uid: Option<String>,
    /// A digest of the names of labels and annotations that its Pod got.
    names: Option<u64>,
    /// The phase that its Pod was last seen in, and since when.
    phase: Option<(PodPhase, Instant)>,
    /// The containers that were added last, and to which Pod.
    added: Option<(Option<String>, Value)>,
    /// The reason that was written last, and when.
    told: Option<(String, Instant)>,
}

impl ShadowPods {
    /// The controller, with what it needs.
    pub fn new(world: World, quota: Option<Arc<Quota>>) -> Self {
        let (memory, reports) = (Mutex::default(), Mutex::new(Reports::new(REPORTS)));
        Self { writer: concise(&world.client), world, quota, memory, reports }
    }

    /// Brings a ShadowPod one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let shadow = self.world.offloading.shadows.object(&key);
        let Some(shadow) = shadow.filter(|one| one.metadata.deletion_timestamp.is_none()) else {
            self.memory().remove(&key);
            return Ok(Next::AwaitChange);
        };
        if let Some(memory) = self.memory().get_mut(&key)
            && memory.uid != shadow.uid()
        {
            *memory = Memory::default();
        }
        match self.world.offloading.pods.object(&key) {
            None => self.make(&key, &shadow).await,
            Some(pod) => match shadow_pod::owner(&shadow.metadata, &pod.metadata) {
                Owner::This => self.follow(&key, &shadow, &pod).await,
                // It goes with its own ShadowPod, which touches this one.
                Owner::Earlier => Ok(Next::AwaitChange),
                Owner::Stranger => self.refuse(&key, &shadow, taken(&key)).await,
            },
        }
    }

    /// Makes the Pod of a ShadowPod.
    async fn make(&self, key: &Key, shadow: &SlimShadow) -> Result<Next, Error> {
        // What is decided needs what is known; what is made is all of it.
        let read = shadow.spec.pod.unpack().and_then(|spec| Ok((spec, shadow_pod::pod(shadow)?)));
        let (spec, pod) = match read {
            Ok(read) => read,
            Err(error) => {
                let why = format!("the pod cannot be read: {error}");
                return self.refuse(key, shadow, Error::Refused { why }).await;
            }
        };
        if shadow_pod::is_over(spec.restart_policy.as_deref(), shadow.phase()) {
            return Ok(Next::AwaitChange);
        }
        if self.quota.as_ref().is_some_and(|quota| !quota.is_ready()) {
            // That is nobody's fault, and over in a moment.
            return Err(Error::Refused { why: COUNTING.to_owned() });
        }
        if let Some(why) = presumption(&spec) {
            return self.refuse(key, shadow, Error::Refused { why }).await;
        }
        if let Err(why) = self.has_room(key, shadow, &spec) {
            // Room is counted here, so asking costs nothing.
            self.tell(key, shadow, Some(&why)).await?;
            return Ok(Next::RequeueAfter(ASK_AGAIN));
        }
        let pods: Api<Carried<Pod>> = Api::namespaced(self.writer.clone(), namespace(key));
        let params = PostParams {
            field_manager: Some(manager::SHADOW_POD.to_owned()),
            ..PostParams::default()
        };
        let error = match terse::create(&pods, &params, &pod).await {
            Ok(_) => {
                debug!(pod = %key, "Pod made");
                self.reports().note_made(Instant::now());
                self.remember(key, shadow, |memory| memory.names = Some(digest(shadow)));
                self.tell(key, shadow, None).await?;
                return Ok(Next::AwaitChange);
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match self.namesake(&pods, shadow).await? {
                    // What was made a moment ago is seen in a moment.
                    Owner::This | Owner::Earlier => return Ok(Next::AwaitChange),
                    Owner::Stranger => taken(key),
                }
            }
            Err(error) => Error::request("make a pod")(error),
        };
        if let Some(quota) = &self.quota {
            quota.stay(key);
        }
        self.refuse(key, shadow, error).await
    }

    /// Whether there is room for a pod in what its cluster was offered.
    fn has_room(&self, key: &Key, shadow: &SlimShadow, spec: &PodSpec) -> Result<(), String> {
        let origin = shadow.labels().get(label::ORIGIN).map_or("", String::as_str);
        let has_started = shadow.phase() != PodPhase::Unknown;
        match &self.quota {
            Some(quota) => quota.start(key, origin, spec, has_started),
            None => Ok(()),
        }
    }

    /// Whose the Pod is that has the name of a ShadowPod, and that no watch shows.
    async fn namesake(
        &self,
        pods: &Api<Carried<Pod>>,
        shadow: &SlimShadow,
    ) -> Result<Owner, Error> {
        let found = pods.get_metadata_opt(&shadow.name_any()).await;
        let found = found.map_err(Error::request("read the pod of that name"))?;
        let Some(found) = found else { return Ok(Owner::Earlier) };
        Ok(match found.labels().get(label::MANAGED_BY).map(String::as_str) {
            Some(label::MANAGED_BY_SHADOW_POD) => {
                shadow_pod::owner(&shadow.metadata, &found.metadata)
            }
            // The watch does not show it, so its end would not be noticed either.
            Some(_) | None => Owner::Stranger,
        })
    }

    /// Makes a Pod follow its ShadowPod, and reports its phase.
    async fn follow(&self, key: &Key, shadow: &SlimShadow, pod: &SlimPod) -> Result<Next, Error> {
        if pod.metadata.deletion_timestamp.is_none() {
            self.relabel(key, shadow, pod).await?;
        }
        let added = self.add_containers(key, shadow, pod).await;
        let why = added.as_ref().err().map(Error::told);
        self.tell(key, shadow, why.as_deref()).await?;
        // What cannot be added does not keep its phase from being told.
        let next = self.report(key, shadow, pod).await?;
        added.map(|()| next)
    }

    /// Adds containers to a running Pod that its ShadowPod has got since.
    async fn add_containers(
        &self,
        key: &Key,
        shadow: &SlimShadow,
        pod: &SlimPod,
    ) -> Result<(), Error> {
        let Some(change) = shadow_pod::added(shadow, pod) else { return Ok(()) };
        // What was added a moment ago is seen in a moment.
        let this = Some((pod.uid(), change["spec"].clone()));
        if self.remember(key, shadow, |memory| memory.added == this) {
            return Ok(());
        }
        let pods: Api<Pod> = Api::namespaced(self.world.client.clone(), namespace(key));
        let patch = Patch::Strategic(change);
        let patched = pods.patch_ephemeral_containers(&key.name, &params(), &patch).await;
        or_gone(patched).map_err(Error::request("add a container to a pod"))?;
        info!(pod = %key, "Container added");
        self.remember(key, shadow, |memory| memory.added = this);
        Ok(())
    }

    /// Reports the phase of a Pod.
    async fn report(&self, key: &Key, shadow: &SlimShadow, pod: &SlimPod) -> Result<Next, Error> {
        let phase = pod.phase();
        if phase == shadow.phase() || phase == PodPhase::Unknown {
            return Ok(Next::AwaitChange);
        }
        let now = Instant::now();
        let since = self.remember(key, shadow, |memory| {
            memory.phase.take_if(|(seen, _)| *seen != phase);
            memory.phase.get_or_insert((phase, now)).1
        });
        if let Some(wait) = self.reports().wait(phase, since, now) {
            return Ok(Next::RequeueAfter(wait));
        }
        let change = json!({ "metadata": { "uid": shadow.uid() }, "status": { "phase": phase } });
        let api: Api<ShadowPod> = Api::namespaced(self.writer.clone(), namespace(key));
        let change = Patch::Merge(change);
        let patched = terse::patch_status(&api, &key.name, &params(), &change).await;
        or_gone(patched).map_err(Error::request("report the phase of a pod"))?;
        Ok(Next::AwaitChange)
    }

    async fn relabel(&self, key: &Key, shadow: &SlimShadow, pod: &SlimPod) -> Result<(), Error> {
        let names = digest(shadow);
        let before = self.remember(key, shadow, |memory| *memory.names.get_or_insert(names));
        let api: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.world.client.clone(), namespace(key));
        // Of those that went, the API server knows which were ours.
        let written = if before == names {
            Names::default()
        } else {
            let live = or_gone(api.get_metadata(&key.name).await);
            let live = live.map_err(Error::request("read the labels of a pod"))?;
            let records = live.and_then(|live| live.metadata.managed_fields).unwrap_or_default();
            Names::written_by(manager::SHADOW_POD, &records)
        };
        if let Some(change) = shadow_pod::change(&shadow.metadata, &pod.metadata, &written) {
            let patched = api.patch_metadata(&key.name, &params(), &Patch::Merge(change)).await;
            or_gone(patched).map_err(Error::request("label a pod"))?;
        }
        self.remember(key, shadow, |memory| memory.names = Some(names));
        Ok(())
    }

    /// Writes down why there is no Pod, and tries again later.
    async fn refuse(&self, key: &Key, shadow: &SlimShadow, error: Error) -> Result<Next, Error> {
        self.tell(key, shadow, Some(&error.told())).await?;
        Err(error)
    }

    /// Writes on a ShadowPod why it has no Pod, or wipes that out.
    async fn tell(&self, key: &Key, shadow: &SlimShadow, error: Option<&str>) -> Result<(), Error> {
        let Some(change) = shadow_pod::told(&shadow.metadata, error) else { return Ok(()) };
        let now = Instant::now();
        let is_old = |memory: &mut Memory| match (&memory.told, error) {
            // Whoever wiped it out would do so again: two who disagree must not race.
            (Some((told, when)), Some(error)) => {
                told == error && now.duration_since(*when) < SILENCE
            }
            (None, _) | (_, None) => false,
        };
        if self.remember(key, shadow, is_old) {
            return Ok(());
        }
        let api: Api<ShadowPod> = Api::namespaced(self.world.client.clone(), namespace(key));
        let change: Patch<Value> = Patch::Merge(change);
        let patched = api.patch_metadata(&key.name, &params(), &change).await;
        or_gone(patched).map_err(Error::request("write down why there is no pod"))?;
        if let Some(error) = error {
            info!(pod = %key, error, "No pod can be made");
        }
        self.remember(key, shadow, |memory| {
            memory.told = error.map(|error| (error.to_owned(), now));
        });
        Ok(())
    }

    fn remember<T>(
        &self,
        key: &Key,
        shadow: &SlimShadow,
        change: impl FnOnce(&mut Memory) -> T,
    ) -> T {
        let mut all = self.memory();
        let memory = all.entry(key.clone()).or_default();
        memory.uid = shadow.uid();
        change(memory)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When phases are reported that nobody waits for.
struct Reports {
    pace: Courtesy,
    made: Courtesy,
    /// Until when the API server has other things to do.
    busy: Option<Instant>,
}

impl Reports {
    const fn new((burst, pause): (u32, Duration)) -> Self {
        Self { pace: Courtesy::new(burst, pause), made: Courtesy::new(FEW.0, FEW.1), busy: None }
    }

    /// Notes that a pod was made.
    fn note_made(&mut self, now: Instant) {
        if !self.made.has_room(now) {
            self.busy = Some(now + QUIET.0);
        }
    }

    /// How long a phase is not reported yet that a Pod has been in for a while; nothing when it is
    /// its turn.
    fn wait(&mut self, phase: PodPhase, since: Instant, now: Instant) -> Option<Duration> {
        // How a pod has ended must not be forgotten; how it is now, its Pod tells as well.
        let lasts = match phase {
            PodPhase::Pending => PENDING,
            PodPhase::Running => RUNNING,
            PodPhase::Succeeded | PodPhase::Failed | PodPhase::Unknown => return None,
        };
        let passed = now.duration_since(since);
        let left = lasts.saturating_sub(passed);
        if !left.is_zero() {
            return Some(left);
        }
        let is_busy = self.busy.is_some_and(|until| now < until) && passed < QUIET.1;
        (is_busy || !self.pace.has_room(now)).then_some(RUNNING)
    }
}

fn taken(key: &Key) -> Error {
    let why = format!(
        "there is a pod {key} that is not Liqo's; it has to go before another can have its name"
    );
    Error::Refused { why }
}

fn namespace(key: &Key) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

fn digest(shadow: &SlimShadow) -> u64 {
    let mut hasher = DefaultHasher::new();
    shadow_pod::names(&shadow.metadata).hash(&mut hasher);
    hasher.finish()
}

fn params() -> PatchParams {
    let field_manager = Some(manager::SHADOW_POD.to_owned());
    PatchParams { field_manager, ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_reported_when_it_lasts() {
        let (mut reports, start) = (Reports::new((1, Duration::from_secs(1))), Instant::now());
        let mut wait = |phase, passed| reports.wait(phase, start, start + passed);
        assert_eq!(wait(PodPhase::Running, RUNNING / 5), Some(RUNNING * 4 / 5));
        assert_eq!(wait(PodPhase::Pending, RUNNING), Some(PENDING.saturating_sub(RUNNING)));
        assert_eq!(wait(PodPhase::Running, RUNNING), None);
    }

    #[test]
    fn of_many_that_run_some_wait_and_none_that_has_ended() {
        let (mut reports, start) = (Reports::new((2, Duration::from_secs(1))), Instant::now());
        let now = start + PENDING;
        let mut wait = |phase, now| reports.wait(phase, start, now);
        assert_eq!(wait(PodPhase::Running, now), None);
        assert_eq!(wait(PodPhase::Pending, now), None);
        assert_eq!(wait(PodPhase::Running, now), Some(RUNNING));
        assert_eq!(wait(PodPhase::Failed, now), None);
        assert_eq!(wait(PodPhase::Succeeded, now), None);
        assert_eq!(wait(PodPhase::Running, now + RUNNING), None, "its turn has come");
    }

    #[test]
    fn while_many_are_made_those_that_run_wait_but_not_for_ever() {
        let (mut reports, start) = (Reports::new(REPORTS), Instant::now());
        let later = start + RUNNING;
        (0..FEW.0).for_each(|_| reports.note_made(later));
        assert_eq!(reports.wait(PodPhase::Running, start, later), None, "few do not matter");
        reports.note_made(later);
        assert_eq!(reports.wait(PodPhase::Running, start, later), Some(RUNNING));
        assert_eq!(reports.wait(PodPhase::Failed, start, later), None);
        assert_eq!(reports.wait(PodPhase::Running, start, later + QUIET.0), None, "it is quiet");
        let late = start + QUIET.1;
        (0..=FEW.0).for_each(|_| reports.note_made(late));
        assert_eq!(reports.wait(PodPhase::Running, start, late), None);
    }
}
