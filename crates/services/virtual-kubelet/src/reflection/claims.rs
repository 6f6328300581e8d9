//! Provides volumes of the other cluster: a twin claim there, a volume here.
//!
//! What is done about a claim is done in this order: its twin, its volume, its binding. Whoever is
//! interrupted finds the claim unbound, and does it all again; what is there already stays as it is.
//! A claim that is gone is cleared up the other way round, and its twin remembers whose it was.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{annotation, event, manager, object};
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::{Next, chain};
use liqo_kit::reflector::{Names, Pair, Reflector, Side};
use liqo_kit::retry::{Failure, Retry, or_gone};
use liqo_reflection::claims::{self, Decision, Storage};
use serde_json::json;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::timeout;
use tracing::info;

use super::Scope;
use super::link::{BACKOFF, Refusal, WATCH, ask};
use crate::args::ReflectionArgs;

/// How long a look waits until it is known what the other cluster offers.
const PATIENCE: Duration = Duration::from_secs(5);

/// What volumes can be had in the other cluster; a clone is the same.
#[derive(Clone)]
pub(crate) struct Volumes {
    /// The class here of claims that are brought there.
    class: String,
    /// Whether there are any, once that is known.
    storage: Receiver<Option<Storage>>,
}

impl Volumes {
    /// What the command line says, and where the offer of the other cluster is told.
    ///
    /// A command line that says everything need not wait for the offer.
    pub(crate) fn channel(args: &ReflectionArgs) -> (Sender<Option<Storage>>, Self) {
        let class = args.remote_real_storage_class_name.as_deref();
        let says_all = args.enable_storage && class.is_some_and(|class| !class.is_empty());
        let known = says_all.then(|| Storage::of(true, class, None));
        let (send, storage) = watch::channel(known);
        (send, Self { class: args.virtual_storage_class_name.clone(), storage })
    }

    async fn storage(&self) -> Result<Storage, Error> {
        let mut storage = self.storage.clone();
        let known = timeout(PATIENCE, storage.wait_for(Option::is_some)).await;
        let known = known.ok().and_then(|known| known.ok()?.clone());
        known.ok_or(Error::Unknown)
    }
}

type Claim = PersistentVolumeClaim;
type Twin = PartialObjectMeta<PersistentVolumeClaim>;

/// Provides for the claims of a namespace until it is dropped.
pub(crate) async fn run(scope: Scope, workers: u16) {
    let link = scope.link.clone();
    let provider = Provider {
        events: Events::new(
            scope.home.clone(),
            event::from_reflection(&claims::NAME.to_lowercase()),
        ),
        scope,
        provided: Mutex::default(),
    };
    link.each(|client| provider.provide_all(client, workers)).await;
}

struct Provider {
    scope: Scope,
    events: Events,
    /// The claims that were given a volume, by name, with their UIDs: what is seen of them may be
    /// older than that.
    provided: Mutex<HashMap<String, Option<String>>>,
}

impl Provider {
    async fn provide_all(&self, client: Client, workers: u16) {
        let Scope { home, place, counts, .. } = &self.scope;
        info!(kind = claims::NAME, namespace = place.home_namespace, "Reflecting");
        let here = Side {
            client: home.clone(),
            namespace: place.home_namespace.clone(),
            config: Config::default(),
            trim: |claim: &mut Claim| claim.status = None,
        };
        let there = Side {
            client: client.clone(),
            namespace: place.remote_namespace.clone(),
            config: Config::default().timeout(WATCH),
            trim: |twin: &mut Twin| trim(&mut twin.metadata),
        };
        let twins = Api::namespaced(client, &place.remote_namespace);
        let observe = |ending| counts.count(claims::NAME, &place.home_namespace, ending);
        Reflector { name: claims::NAME, workers, backoff: BACKOFF, names: Names::default() }
            .run(here, there, stream::pending(), observe, |pair| self.look(&twins, pair))
            .await;
    }

    async fn look(&self, twins: &Api<Claim>, pair: Pair<Claim, Twin>) -> Result<Next, Error> {
        let claim = pair.here.as_deref();
        let there = pair.there.as_deref().map(|twin| &twin.metadata);
        let result = self.work(twins, &pair.name, claim, there).await;
        if let (Err(error), Some(claim)) = (&result, claim)
            && error.reason() != "Conflict"
        {
            let reason = match error {
                Error::Taken { .. } => event::FAILED_REFLECTION,
                Error::Refused(_) | Error::Unknown if self.awaits(claim) => {
                    event::PROVISIONING_FAILED
                }
                Error::Refused(_) | Error::Unknown => event::FAILED_DELETION,
            };
            self.tell(claim, true, reason, &chain(error)).await;
        }
        result.map(|()| Next::AwaitChange)
    }

    async fn work(
        &self,
        twins: &Api<Claim>,
        name: &str,
        claim: Option<&Claim>,
        there: Option<&ObjectMeta>,
    ) -> Result<(), Error> {
        let Scope { place, volumes, .. } = &self.scope;
        let decision = claims::decide(claim, there, place, &volumes.class);
        let Some(claim) = claim else {
            self.provided().remove(name);
            return self.clear(twins, decision, there).await;
        };
        let is_provided = self.provided().get(name) == Some(&claim.metadata.uid);
        if is_provided {
            return Ok(());
        }
        if !self.awaits(claim) {
            return self.clear(twins, decision, there).await;
        }
        let class = self.class().await?;
        let Some(class) = class.filter(claims::is_bound_late) else { return Ok(()) };
        let Storage::Offered(real) = volumes.storage().await? else {
            return self.send_back(claim).await;
        };
        match decision {
            Decision::Provide => self.provide(twins, claim, &class, there, real).await,
            Decision::Taken => {
                Err(Error::Taken { name: name.to_owned(), peer: self.peer().to_owned() })
            }
            Decision::Nothing | Decision::Remove { .. } => self.clear(twins, decision, there).await,
        }
    }

    fn awaits(&self, claim: &Claim) -> bool {
        claims::awaits(claim, &self.scope.place, &self.scope.volumes.class)
    }

    /// Gives a claim its twin and its volume.
    async fn provide(
        &self,
        twins: &Api<Claim>,
        claim: &Claim,
        class: &StorageClass,
        there: Option<&ObjectMeta>,
        real: Option<String>,
    ) -> Result<(), Error> {
        let name = claim.name_any();
        let message = format!("Claiming a volume in cluster {}", self.peer());
        self.tell(claim, false, event::PROVISIONING, &message).await;
        // The class of a claim never changes.
        let real = if there.is_some() {
            let found = ask(|| self.attempt("read", &name), twins.get_opt(&name)).await?;
            found.map_or(real, |twin| twin.spec.and_then(|spec| spec.storage_class_name))
        } else {
            real
        };
        let twin = claims::twin(claim, &self.scope.place, real.as_deref());
        let params = PatchParams::apply(manager::REFLECTION).force();
        let patch = Patch::Apply(&twin);
        let request = twins.patch_metadata(&name, &params, &patch);
        ask(|| self.attempt("apply", &name), request).await?;
        self.make_volume(claim, class).await?;
        if !self.bind(claim).await? {
            return Ok(());
        }
        info!(claim = name, cluster = self.peer(), "Provided");
        self.provided().insert(name, claim.uid());
        let message = format!("Reflected to cluster {}", self.peer());
        self.tell(claim, false, event::SUCCESSFUL_REFLECTION, &message).await;
        Ok(())
    }

    async fn make_volume(&self, claim: &Claim, class: &StorageClass) -> Result<(), Error> {
        let volume = claims::volume(claim, class, &self.scope.place);
        let name = volume.name_any();
        let params = PostParams {
            field_manager: Some(manager::VIRTUAL_KUBELET.to_owned()),
            ..PostParams::default()
        };
        let volumes = self.volumes();
        match ask(|| format!("make volume {name}"), volumes.create(&params, &volume)).await {
            // Its name is that of this very claim.
            Err(refusal) if refusal.code() == Some(409) => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }

    /// Has a claim take its volume; not if it is another one by now.
    async fn bind(&self, claim: &Claim) -> Result<bool, Error> {
        let uid = claim.uid();
        let volume = object::volume(uid.as_deref().unwrap_or_default());
        let change = json!({ "metadata": { "uid": uid }, "spec": { "volumeName": volume } });
        self.change(claim, &change, "bind").await
    }

    /// Lets the scheduler find another node for a claim that cannot have a volume here.
    async fn send_back(&self, claim: &Claim) -> Result<(), Error> {
        let message = format!("Cluster {} offers no storage; its pod goes elsewhere", self.peer());
        self.tell(claim, true, event::RESCHEDULING_REQUIRED, &message).await;
        // The version guards a choice that was made since.
        let change = json!({ "metadata": {
            "uid": claim.uid(),
            "resourceVersion": claim.resource_version(),
            "annotations": { annotation::SELECTED_NODE: null },
        } });
        self.change(claim, &change, "send back").await.map(drop)
    }

    /// Changes a claim; not if it is another one by now, or has changed, which is seen soon.
    async fn change(
        &self,
        claim: &Claim,
        change: &serde_json::Value,
        verb: &str,
    ) -> Result<bool, Error> {
        let home = &self.scope.home;
        let claims: Api<Twin> = Api::namespaced(home.clone(), &self.scope.place.home_namespace);
        let name = claim.name_any();
        let params = PatchParams {
            field_manager: Some(manager::VIRTUAL_KUBELET.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(change);
        let request = async { or_gone(claims.patch(&name, &params, &patch).await) };
        match ask(|| format!("{verb} claim {name}"), request).await {
            Err(refusal) if refusal.code() == Some(409) => Ok(false),
            changed => Ok(changed?.is_some()),
        }
    }

    /// Removes what a claim leaves behind.
    async fn clear(
        &self,
        twins: &Api<Claim>,
        decision: Decision,
        there: Option<&ObjectMeta>,
    ) -> Result<(), Error> {
        let (Decision::Remove { gone }, Some(there)) = (decision, there) else { return Ok(()) };
        if let Some(uid) = gone {
            self.remove_volume(&uid).await?;
        }
        let name = there.name.clone().unwrap_or_default();
        let request = async { or_gone(twins.delete(&name, &only(there)).await) };
        settle(ask(|| self.attempt("delete", &name), request).await)
    }

    /// Deletes the volume of a claim that is gone.
    async fn remove_volume(&self, claim: &str) -> Result<(), Error> {
        let name = object::volume(claim);
        let volumes = self.volumes();
        let volume = ask(|| format!("read volume {name}"), volumes.get_opt(&name)).await?;
        let goes = |volume: &PersistentVolume| claims::goes_with(volume, claim, &self.scope.place);
        let Some(volume) = volume.filter(goes) else { return Ok(()) };
        let request = async { or_gone(volumes.delete(&name, &only(&volume.metadata)).await) };
        settle(ask(|| format!("delete volume {name}"), request).await)
    }

    /// The class here of claims that are brought there.
    async fn class(&self) -> Result<Option<StorageClass>, Error> {
        let name = &self.scope.volumes.class;
        let classes: Api<StorageClass> = Api::all(self.scope.home.clone());
        Ok(ask(|| format!("read storage class {name}"), classes.get_opt(name)).await?)
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.scope.home.clone())
    }

    async fn tell(&self, claim: &Claim, warning: bool, reason: &str, message: &str) {
        self.events.tell(claim, Note { warning, reason, action: "Reflect", message }).await;
    }

    fn attempt(&self, verb: &str, name: &str) -> String {
        format!("{verb} claim {name} in cluster {}", self.peer())
    }

    fn peer(&self) -> &str {
        self.scope.place.remote.name.as_str()
    }

    fn provided(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.provided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes only the object that was seen.
fn only(seen: &ObjectMeta) -> DeleteParams {
    let seen = Preconditions { uid: seen.uid.clone(), resource_version: None };
    DeleteParams { preconditions: Some(seen), ..DeleteParams::background() }
}

fn settle<T>(deleted: Result<T, Refusal>) -> Result<(), Error> {
    match deleted {
        // It is another one by now, and that one is seen soon.
        Err(refusal) if refusal.code() == Some(409) => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

/// Keeps of a twin what decisions follow from.
fn trim(metadata: &mut ObjectMeta) {
    let mut annotations = metadata.annotations.take();
    if let Some(annotations) = &mut annotations {
        annotations.retain(|key, _| key == annotation::HOME_CLAIM_UID);
    }
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        resource_version: metadata.resource_version.take(),
        labels: metadata.labels.take(),
        deletion_timestamp: metadata.deletion_timestamp.take(),
        annotations,
        ..ObjectMeta::default()
    };
}

/// A claim has no volume.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("it is not known yet what storage the other cluster offers")]
    Unknown,
    #[error(
        "cluster {peer} has a claim {name} that is not from here; it is left alone, rename or \
         remove one of them"
    )]
    Taken { name: String, peer: String },
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Refused(refusal) => refusal.retry(),
            Self::Unknown => Retry::Soon,
            // Seen when it goes.
            Self::Taken { .. } => Retry::Never,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.reason(),
            Self::Unknown => "NotReady",
            Self::Taken { .. } => "NameTaken",
        }
    }
}
