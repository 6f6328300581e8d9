//! Reflects one kind between two namespaces.
//!
//! Of copies only metadata is watched: their content is known from what was written last. A copy
//! whose version is the one that our last write left is as we want it; whoever changes it gives it
//! another version, and it is written again. All objects of the namespace there are watched, not
//! only ours, so that what is somebody else's is seen before it is touched.

use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use liqo_api::keys::{event, manager};
use liqo_kit::apply::digest;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::{Next, chain};
use liqo_kit::reflector::{Names, Pair, Reflector, Side};
use liqo_kit::retry::{Failure, Retry, or_gone};
use liqo_kit::watch::{Key, is_newer};
use liqo_reflection::plan::skipped;
use liqo_reflection::{Plan, Reflect, Translated, plan};
use tracing::{debug, info};

use super::Scope;
use super::link::{BACKOFF, Refusal, WATCH, ask};
use super::owners::{Owners, Unknown};
use crate::addresses::{self, Holder};

/// Reflects a kind until it is dropped.
pub(crate) async fn run<R: Reflect>(scope: Scope, workers: u16) {
    let link = scope.link.clone();
    let driver = Driver::<R> {
        events: Events::new(scope.home.clone(), event::from_reflection(&R::NAME.to_lowercase())),
        scope,
        written: Mutex::default(),
        kind: PhantomData,
    };
    link.each(|client| driver.reflect(client, workers)).await;
}

type There<R> = PartialObjectMeta<<R as Reflect>::Target>;

struct Driver<R> {
    scope: Scope,
    events: Events,
    /// What was written last, by the name here; it outlives connections.
    written: Mutex<HashMap<String, Written>>,
    kind: PhantomData<fn() -> R>,
}

/// What a write left.
#[derive(Clone, Debug)]
struct Written {
    digest: u64,
    left: ObjectMeta,
}

impl<R: Reflect> Driver<R> {
    async fn reflect(&self, client: Client, workers: u16) {
        let Scope { home, place, counts, .. } = &self.scope;
        info!(kind = R::NAME, namespace = place.home_namespace, "Reflecting");
        let here = Side {
            client: home.clone(),
            namespace: place.home_namespace.clone(),
            config: Config::default(),
            trim: R::trim,
        };
        let there = Side {
            client: client.clone(),
            namespace: place.remote_namespace.clone(),
            config: watched::<R>(),
            trim: |copy: &mut There<R>| {
                copy.types = None;
                trim(&mut copy.metadata);
            },
        };
        let (one, other) = (place.clone(), place.clone());
        let names = Names {
            there: Box::new(move |name| R::remote_name(name, &one)),
            here: Box::new(move |name| R::home_name(name, &other)),
        };
        let copies = Api::namespaced(client, &place.remote_namespace);
        let observe = |ending| counts.count(R::NAME, &place.home_namespace, ending);
        let (owners, also) = if R::HAS_SERVICE {
            let (owners, touched) = Owners::watch(home.clone(), &place.home_namespace);
            (Some(owners), touched)
        } else {
            (None, stream::pending().boxed())
        };
        let look = |pair| self.look(&copies, owners.as_ref(), pair);
        Reflector { name: R::NAME, workers, backoff: BACKOFF, names }
            .run(here, there, also, observe, look)
            .await;
    }

    async fn look(
        &self,
        copies: &Api<R::Target>,
        owners: Option<&Owners>,
        pair: Pair<R::Source, There<R>>,
    ) -> Result<Next, Error> {
        let result = self.work(copies, owners, &pair).await;
        if let (Err(error), Some(source)) = (&result, &pair.here)
            && error.reason() != "Conflict"
        {
            let message = chain(error);
            self.tell(&**source, true, event::FAILED_REFLECTION, &message).await;
        }
        result.map(|()| Next::AwaitChange)
    }

    async fn work(
        &self,
        copies: &Api<R::Target>,
        owners: Option<&Owners>,
        pair: &Pair<R::Source, There<R>>,
    ) -> Result<(), Error> {
        let place = &self.scope.place;
        let seen = pair.there.as_deref().map(|copy| self.with_labels(&pair.name, &copy.metadata));
        let there = seen.as_deref();
        let source = pair.here.as_deref();
        let service = match owners {
            Some(owners) => owners.owner(&pair.name, source.and_then(R::service)).await?,
            None => None,
        };
        let service = service.as_deref().map(|service| &service.metadata);
        let holder: Holder = (R::NAME, Key::namespaced(&place.home_namespace, &pair.name));
        let addresses = self.addresses(&holder, source, service).await?;
        match plan::<R>(source, service, there, place, &addresses) {
            Plan::Apply(target) => {
                if there.is_none() {
                    self.ask_for_others(copies, &pair.name, &target.name_any()).await?;
                }
                self.apply(copies, &pair.name, &target, source, there).await?;
            }
            Plan::Remove => self.remove(copies, there).await?,
            Plan::Withhold { reason, remove } => {
                if remove {
                    self.remove(copies, there).await?;
                }
                if let Some(source) = source {
                    let message = format!("Not reflected to cluster {}: {reason}", self.peer());
                    self.tell(source, false, event::REFLECTION_DISABLED, &message).await;
                }
            }
            Plan::Taken => {
                let peer = self.peer().to_owned();
                return Err(Error::Taken { kind: R::NAME, name: pair.name.clone(), peer });
            }
            Plan::Nothing => {}
        }
        if source.is_none() {
            self.written().remove(&pair.name);
            self.scope.addresses.release(&holder).await?;
        }
        Ok(())
    }

    /// Makes sure that nothing has the name of a new copy that is ours and not watched.
    async fn ask_for_others(
        &self,
        copies: &Api<R::Target>,
        name: &str,
        copy: &str,
    ) -> Result<(), Error> {
        if R::NO_COPIES.is_none() || self.written().contains_key(name) {
            return Ok(());
        }
        let found = ask(|| self.attempt("look for", copy), copies.get_metadata_opt(copy)).await?;
        match found.filter(|found| !R::is_copy(&found.metadata)) {
            Some(_) => {
                let peer = self.peer().to_owned();
                Err(Error::InUse { kind: R::NAME, name: copy.to_owned(), peer })
            }
            None => Ok(()),
        }
    }

    /// What the addresses of an object are called there; those of one that is gone are kept until
    /// its copy is, too.
    async fn addresses(
        &self,
        holder: &Holder,
        source: Option<&R::Source>,
        service: Option<&ObjectMeta>,
    ) -> Result<Translated, Error> {
        let Some(source) = source else { return Ok(Translated::new()) };
        let wanted = if skipped(source.meta(), service).is_some() {
            Vec::new()
        } else {
            R::addresses(source, &self.scope.place)
        };
        Ok(self.scope.addresses.hold(holder, &wanted).await?)
    }

    async fn apply(
        &self,
        copies: &Api<R::Target>,
        name: &str,
        target: &R::Target,
        source: Option<&R::Source>,
        there: Option<&ObjectMeta>,
    ) -> Result<(), Error> {
        let wanted = serde_json::to_value(target).map_err(Error::Encode)?;
        let digest = digest(&wanted);
        let last = self.written().get(name).cloned();
        if last.as_ref().is_some_and(|last| last.digest == digest && last.is_as_left(there)) {
            return Ok(());
        }
        // Forgotten first: a write that is cut off half-way must not count as done.
        self.written().remove(name);
        let copy = target.name_any();
        let params = PatchParams::apply(manager::REFLECTION).force();
        let patch = Patch::Apply(&wanted);
        let request = copies.patch_metadata(&copy, &params, &patch);
        let left = match ask(|| self.attempt("apply", &copy), request).await {
            Ok(applied) => {
                let ObjectMeta { uid, resource_version, .. } = applied.metadata;
                ObjectMeta { uid, resource_version, ..ObjectMeta::default() }
            }
            Err(refusal) if is_frozen(&refusal) && there.is_some() => {
                // Some content can never be changed: only a new object can have another one.
                debug!(kind = R::NAME, name, "Replacing");
                return self.remove(copies, there).await;
            }
            Err(refusal) => return Err(refusal.into()),
        };
        self.written().insert(name.to_owned(), Written { digest, left });
        if let (Some(source), None, None) = (source, there, last) {
            let message = format!("Reflected to cluster {}", self.peer());
            self.tell(source, false, event::SUCCESSFUL_REFLECTION, &message).await;
        }
        Ok(())
    }

    /// Deletes a copy, but only the one that was seen.
    async fn remove(
        &self,
        copies: &Api<R::Target>,
        there: Option<&ObjectMeta>,
    ) -> Result<(), Error> {
        let Some(there) = there else { return Ok(()) };
        let name = there.name.clone().unwrap_or_default();
        let seen = Preconditions { uid: there.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::background() };
        let request = async { or_gone(copies.delete(&name, &params).await) };
        match ask(|| self.attempt("delete", &name), request).await {
            Ok(_) => Ok(()),
            // It is another one by now, and that one is seen soon.
            Err(refusal) if refusal.code() == Some(409) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn tell(&self, source: &R::Source, warning: bool, reason: &str, message: &str) {
        let note = Note { warning, reason, action: "Reflect", message };
        self.events.tell(source, note).await;
    }

    /// A copy with our labels, if it is the one that we wrote: whoever takes them off does not make
    /// it theirs.
    fn with_labels<'a>(&self, name: &str, there: &'a ObjectMeta) -> Cow<'a, ObjectMeta> {
        let place = &self.scope.place;
        let is_written = || {
            let written = self.written();
            written.get(name).is_some_and(|written| written.left.uid == there.uid)
        };
        if place.is_ours(there) || !is_written() {
            return Cow::Borrowed(there);
        }
        let labels = place.metadata(there, name).labels;
        Cow::Owned(ObjectMeta { labels, ..there.clone() })
    }

    fn attempt(&self, verb: &str, name: &str) -> String {
        format!("{verb} {} {name} in cluster {}", R::NAME, self.peer())
    }

    fn peer(&self) -> &str {
        self.scope.place.remote.name.as_str()
    }

    fn written(&self) -> MutexGuard<'_, HashMap<String, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Whether a copy is as the write left it, or was seen before the write.
    fn is_as_left(&self, there: Option<&ObjectMeta>) -> bool {
        there.is_some_and(|there| there.uid == self.left.uid && !is_newer(there, &self.left))
    }
}

/// The objects there that are watched.
fn watched<R: Reflect>() -> Config {
    let config = Config::default().timeout(WATCH);
    match R::NO_COPIES {
        Some(label) => config.labels(&format!("!{label}")),
        None => config,
    }
}

/// Keeps of a copy what its plan follows from.
fn trim(metadata: &mut ObjectMeta) {
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        resource_version: metadata.resource_version.take(),
        labels: metadata.labels.take(),
        deletion_timestamp: metadata.deletion_timestamp.take(),
        ..ObjectMeta::default()
    };
}

/// Whether a write was refused because it changes what can never be changed.
fn is_frozen(refusal: &Refusal) -> bool {
    refusal.code() == Some(422) && refusal.words().is_some_and(|words| words.contains("immutable"))
}

/// An object is not reflected.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot encode the copy")]
    Encode(#[source] serde_json::Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Address(#[from] addresses::Error),
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error(
        "cluster {peer} has a {kind} {name} that is not from here; it is left alone, rename or \
         remove one of them"
    )]
    Taken { kind: &'static str, name: String, peer: String },
    #[error("a pod in cluster {peer} needs the name of {kind} {name}; rename one of them")]
    InUse { kind: &'static str, name: String, peer: String },
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            // Seen when it goes.
            Self::Encode(_) | Self::Taken { .. } => Retry::Never,
            Self::Refused(refusal) => refusal.retry(),
            Self::Address(error) => error.retry(),
            Self::Unknown(_) | Self::InUse { .. } => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Encode(_) => "Invalid",
            Self::Refused(refusal) => refusal.reason(),
            Self::Address(error) => error.reason(),
            Self::Unknown(_) => "NotReady",
            Self::Taken { .. } | Self::InUse { .. } => "NameTaken",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_as_left_until_somebody_changes_or_replaces_it() {
        let there = |uid: &str, version: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        let left = Written { digest: 1, left: there("u", "7") };
        assert!(left.is_as_left(Some(&there("u", "7"))));
        assert!(left.is_as_left(Some(&there("u", "6"))), "seen before the write");
        assert!(!left.is_as_left(Some(&there("u", "10"))));
        assert!(!left.is_as_left(Some(&there("v", "6"))));
        assert!(!left.is_as_left(None));
    }
}
