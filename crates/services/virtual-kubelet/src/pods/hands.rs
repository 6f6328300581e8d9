//! What is done about pods: each action is one function, and safe to do twice.

use std::time::Duration;

use futures::future::{join, try_join};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{event, manager};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_kit::apply::digest;
use liqo_kit::events::shortened;
use liqo_kit::keyed::chain;
use liqo_kit::retry::or_gone;
use liqo_kit::terse;
use liqo_kit::watch::Key;
use liqo_pod_offloading::lean::{HomePod, Json, RemotePod};
use liqo_pod_offloading::shadow;
use liqo_pod_offloading::status::{self, Rejection, Restarts, Translation, Wait};
use liqo_replication::carried::Carried;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::side::Side;
use super::{Error, Pods, Scene};
use crate::addresses::ASK_AGAIN;
use crate::reflection::link::{Refusal, ask};

/// How long a change of a status that is soon out of date may wait for the next one.
const WAIT: Duration = Duration::from_secs(1);

impl Pods {
    /// Makes the ShadowPod of a pod.
    pub(super) async fn offload(
        &self,
        key: &Key,
        home: &HomePod,
        side: &Side,
    ) -> Result<(), Error> {
        let account = home.spec.service_account_name.as_deref().unwrap_or("default");
        let translator = &self.ground.addresses.translator;
        let access = self.ground.entrance.access(account, translator, side);
        let (pod, access) = try_join(self.whole(home), access).await?;
        let Some((metadata, spec)) = pod else { return Ok(()) };
        let shadow = shadow::shadow(&metadata, &spec, &side.place, &access);
        // A pod there waits for its tokens, so both may be made at once.
        let (made, tokens) =
            join(self.make_shadow(key, home, side, &shadow), self.make_tokens(key, home, side))
                .await;
        made?;
        let message = format!("Offloaded to cluster {}", self.ground.peer);
        self.tell(home, false, event::SUCCESSFUL_REFLECTION, &message).await;
        tokens
    }

    /// All of a pod that counts elsewhere; nothing when it is gone.
    async fn whole(&self, home: &HomePod) -> Result<Option<(ObjectMeta, Value)>, Error> {
        if let Some(spec) = &home.whole {
            return Ok(Some((home.metadata.clone(), spec.value())));
        }
        // It was sent before, and has lost its ShadowPod.
        let pods: Api<Carried<Pod>> = self.here(home);
        let name = home.name_any();
        let pod = ask(|| format!("read pod {name}"), pods.get_opt(&name)).await?;
        let pod = pod.filter(|pod| pod.metadata.uid == home.metadata.uid);
        Ok(pod.map(|pod| (pod.metadata, pod.spec)))
    }

    async fn make_shadow(
        &self,
        key: &Key,
        home: &HomePod,
        side: &Side,
        shadow: &Carried<ShadowPod>,
    ) -> Result<(), Error> {
        let shadows = side.api::<Carried<ShadowPod>>();
        let params = PostParams {
            field_manager: Some(manager::REFLECTION.to_owned()),
            ..PostParams::default()
        };
        let what = || format!("make ShadowPod {} in cluster {}", key.name, self.ground.peer);
        let made = match ask(what, terse::create(&shadows, &params, shadow)).await {
            Ok(made) => made,
            Err(refusal) if refusal.code() == Some(409) => {
                // It may be ours, made a moment ago and not yet seen.
                let found = ask(what, shadows.get_metadata_opt(&key.name)).await?;
                let Some(found) = found else { return Err(refusal.into()) };
                if !side.place.is_ours(&found.metadata) {
                    let peer = self.ground.peer.clone();
                    let taken = Error::Taken { kind: "ShadowPod", name: key.name.clone(), peer };
                    self.explain(key, home, &taken.to_string()).await?;
                    return Err(Error::Explained(Box::new(taken)));
                }
                found.metadata
            }
            Err(refusal) => {
                let Some(why) = said_no(&refusal) else { return Err(refusal.into()) };
                self.explain(key, home, why).await?;
                return Err(Error::Explained(Box::new(refusal.into())));
            }
        };
        info!(pod = %key, cluster = self.ground.peer, "Offloaded");
        let mut metadata = made;
        liqo_pod_offloading::lean::trim_shadow(&mut metadata);
        self.with(key, |memory| memory.shadow.write(metadata, Instant::now()));
        Ok(())
    }

    /// Gives a ShadowPod the labels and annotations of its pod.
    pub(super) async fn relabel(
        &self,
        scene: &Scene<'_>,
        side: &Side,
        change: &Value,
    ) -> Result<(), Error> {
        let name = &scene.key.name;
        let shadows = side.api::<PartialObjectMeta<ShadowPod>>();
        let params = PatchParams {
            field_manager: Some(manager::REFLECTION.to_owned()),
            ..Default::default()
        };
        let what = || format!("change ShadowPod {name} in cluster {}", self.ground.peer);
        let patch = Patch::Merge(change);
        let request = async { or_gone(shadows.patch(name, &params, &patch).await) };
        match ask(what, request).await {
            Ok(Some(shadow)) => {
                let mut metadata = shadow.metadata;
                liqo_pod_offloading::lean::trim_shadow(&mut metadata);
                self.with(scene.key, |memory| memory.shadow.write(metadata, Instant::now()));
                Ok(())
            }
            // It is gone, or another one by now: seen soon.
            Ok(None) => Ok(()),
            Err(refusal) if refusal.code() == Some(409) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Deletes a ShadowPod, but only the one that was seen.
    pub(super) async fn delete_shadow(&self, scene: &Scene<'_>, side: &Side) -> Result<(), Error> {
        let Some(shadow) = &scene.shadow else { return Ok(()) };
        let name = &scene.key.name;
        let seen = Preconditions { uid: shadow.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::background() };
        let shadows = side.api::<PartialObjectMeta<ShadowPod>>();
        let what = || format!("delete ShadowPod {name} in cluster {}", self.ground.peer);
        let request = async { or_gone(shadows.delete(name, &params).await) };
        match ask(what, request).await {
            Ok(_) => {}
            Err(refusal) if refusal.code() == Some(409) => return Ok(()),
            Err(refusal) => return Err(refusal.into()),
        }
        info!(pod = %scene.key, cluster = self.ground.peer, "Withdrawn");
        self.with(scene.key, |memory| memory.shadow.delete(shadow));
        Ok(())
    }

    /// Brings the status of a pod there home, now or after the time that is returned.
    pub(super) async fn mirror(
        &self,
        key: &Key,
        home: &HomePod,
        remote: &RemotePod,
        answers: bool,
    ) -> Result<Option<Duration>, Error> {
        let ObjectMeta { uid, resource_version, .. } = &remote.metadata;
        let state = Some((uid.clone(), resource_version.clone()));
        // While nobody knows how the pod is, what others say of it here stands: it is not ready.
        if !answers && self.with(key, |memory| memory.mirrored == state) {
            return Ok(None);
        }
        let (there, have) = (remote.status.value(), home.status.value());
        let (addresses, again) = match self.addresses(key, status::addresses(&there)).await {
            Ok(addresses) => (addresses, None),
            // How a pod is must not wait for what it is called; it keeps the name it has.
            Err(error) => {
                warn!(pod = %key, error = chain(&error), "Addresses not known yet");
                (status::addresses(&have), Some(ASK_AGAIN))
            }
        };
        let uid = remote.metadata.uid.as_deref().unwrap_or_default();
        let restarts = self.with(key, |memory| {
            let next = Restarts::next(memory.restarts.as_ref(), uid, &there, &have);
            memory.restarts = next.or(memory.restarts.take());
            memory.restarts.as_ref().map_or(0, |restarts| restarts.more)
        });
        let translation = Translation { node: self.ground.node, addresses, restarts };
        let want = status::home(&there, &have, &translation);
        if let Some(left) = self.hold(key, status::wait(home, &have, &want)) {
            return Ok(Some(left));
        }
        let change = status::marked_change(home, &have, &want);
        self.write_status(key, home, change, [&have, &want]).await?;
        if again.is_none() {
            self.with(key, |memory| memory.mirrored = state);
        }
        Ok(again)
    }

    /// How long a change of a pod's status is still held back.
    fn hold(&self, key: &Key, wait: Wait) -> Option<Duration> {
        let now = Instant::now();
        let known = self.with(key, |memory| memory.waits).filter(|(what, _)| *what == wait);
        let until = match (known, wait) {
            (Some((_, until)), _) => Some(until),
            (None, Wait::Not) => None,
            (None, Wait::ForNext) => Some(now + WAIT),
            (None, Wait::ForStart) => Some(self.departures().beginning(now)),
            (None, Wait::ForOthers) => self.departures().next(now),
        };
        let until = until.filter(|until| now < *until);
        self.with(key, |memory| memory.waits = until.map(|until| (wait, until)));
        until.map(|until| until.duration_since(now))
    }

    /// What the addresses of a pod there are called here.
    async fn addresses(
        &self,
        key: &Key,
        there: Vec<std::net::IpAddr>,
    ) -> Result<Vec<std::net::IpAddr>, Error> {
        let known = self.with(key, |memory| memory.addresses.clone());
        if let Some((_, here)) = known.filter(|(known, _)| *known == there) {
            return Ok(here);
        }
        let mut here = Vec::new();
        for address in &there {
            here.extend(self.ground.addresses.translator.home_pod(*address).await?);
        }
        self.with(key, |memory| memory.addresses = Some((there, here.clone())));
        Ok(here)
    }

    /// Says that a pod does not run in the other cluster, because its namespace does not extend.
    pub(super) async fn reject(
        &self,
        key: &Key,
        home: &HomePod,
        rejection: Rejection,
    ) -> Result<(), Error> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let message =
            format!("Namespace {namespace} does not extend to cluster {}", self.ground.peer);
        let have = home.status.value();
        let want = status::rejected(&have, rejection, &message, jiff::Timestamp::now());
        let change = status::change(&home.metadata, &have, &want);
        if self.write_status(key, home, change, [&have, &want]).await? {
            self.tell(home, true, event::REFLECTION_DISABLED, &message).await;
        }
        Ok(())
    }

    /// Says why the other cluster does not run a pod.
    pub(super) async fn explain(&self, key: &Key, home: &HomePod, why: &str) -> Result<(), Error> {
        // However much another cluster has to say, it fits here.
        let message = format!("Cluster {} does not run it: {}", self.ground.peer, shortened(why));
        let have = home.status.value();
        let want = status::rejected(&have, Rejection::BackOff, &message, jiff::Timestamp::now());
        let change = status::marked_change(home, &have, &want);
        if self.write_status(key, home, change, [&have, &want]).await? {
            self.tell(home, true, event::FAILED_REFLECTION, &message).await;
        }
        Ok(())
    }

    /// Lets a pod go, at once.
    pub(super) async fn finish(&self, key: &Key, home: &HomePod) -> Result<(), Error> {
        if home.metadata.uid.is_some()
            && self.with(key, |memory| memory.finished == home.metadata.uid)
        {
            return Ok(());
        }
        let name = home.name_any();
        let seen = Preconditions { uid: home.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams {
            preconditions: Some(seen),
            grace_period_seconds: Some(0),
            ..DeleteParams::background()
        };
        let pods: Api<Pod> = self.here(home);
        let request = async { or_gone(pods.delete(&name, &params).await) };
        match ask(|| format!("let pod {name} go"), request).await {
            Ok(_) => {
                self.with(key, |memory| memory.finished.clone_from(&home.metadata.uid));
                Ok(())
            }
            Err(refusal) if refusal.code() == Some(409) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Writes a change from one status of a pod to another, if there is one; whether something was
    /// written.
    async fn write_status(
        &self,
        key: &Key,
        home: &HomePod,
        change: Option<Value>,
        [have, want]: [&Value; 2],
    ) -> Result<bool, Error> {
        let Some(change) = change else { return Ok(false) };
        // An API server that does not know a field drops it, and need not be told again and again.
        let (wanted, before) = (digest(want), digest(have));
        if self.with(key, |memory| memory.status) == Some((wanted, before)) {
            return Ok(false);
        }
        let pods: Api<Pod> = self.here(home);
        let params = PatchParams {
            field_manager: Some(manager::VIRTUAL_KUBELET.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(change);
        let request =
            async { or_gone(terse::patch_status(&pods, &key.name, &params, &patch).await) };
        match ask(|| format!("write the status of pod {key}"), request).await {
            Ok(Some(metadata)) => {
                let (spec, status) = (home.spec.clone(), Json::of(want));
                let mut pod = HomePod { metadata, spec, whole: None, status };
                pod.trim();
                self.with(key, |memory| {
                    memory.status = Some((wanted, before));
                    memory.leave(pod);
                });
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(refusal) if refusal.code() == Some(409) => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Pods in the namespace of one of them.
    pub(super) fn here<K>(&self, pod: &HomePod) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.ground.home.clone(), &pod.namespace().unwrap_or_default())
    }
}

/// What the other cluster said when it refused something for good reason.
pub(super) fn said_no(refusal: &Refusal) -> Option<&str> {
    matches!(refusal.code(), Some(400 | 403 | 422)).then(|| refusal.words()).flatten()
}
