//! Writes objects by server-side apply, and writes nothing when it is already so.
//!
//! A write is skipped when two things hold: the live object already says all that is wanted
//! ([`applied`]), and what is wanted is what was written last. The second matters because a live
//! object with *more* than is wanted may be right (others write to it, too) or wrong (a field is
//! not wanted any more, and only an apply gives it up). A writer that has just started cannot
//! tell, so its first write of each object always happens; it costs the API server little, and
//! changes nothing when nothing changed.

mod subset;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::subset::is_subset;
use crate::retry::{Failure, Retry};
use crate::watch::Key;

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<K> {
    /// It was already so.
    Skipped,
    /// It was written; this is the object now.
    Applied(Box<K>),
}

/// A write that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object cannot be expressed in JSON.
    #[error("cannot encode {kind} {key}")]
    Encode {
        /// The kind of the object.
        kind: String,
        /// The object.
        key: Key,
        /// Why.
        source: serde_json::Error,
    },
    /// The API server did not take it.
    #[error("cannot {verb} {kind} {key}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: Key,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Encode { .. } => Retry::Never,
            Self::Request { source, .. } => source.retry(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Encode { .. } => "Invalid",
            Self::Request { source, .. } => source.reason(),
        }
    }
}

/// Whether a live object already says all that is wanted; see [`is_subset`] for what that means.
///
/// An object that cannot be expressed in JSON is never applied.
pub fn applied<K: Serialize>(want: &K, have: &K) -> bool {
    match (serde_json::to_value(want), serde_json::to_value(have)) {
        (Ok(want), Ok(have)) => is_subset(&want, &have),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// One place that writes objects in one cluster, under one field manager.
///
/// It remembers a digest of each object it wrote, until the object is deleted through it or
/// [forgotten](Writer::forget); whoever sees that an object is gone lets it forget.
pub struct Writer {
    manager: &'static str,
    force: bool,
    /// Digests of what was written last, by kind and name.
    written: Mutex<HashMap<(String, Key), u64>>,
}

impl Writer {
    /// A writer that fails when somebody else owns a field it wants to change.
    pub fn new(manager: &'static str) -> Self {
        Self { manager, force: false, written: Mutex::default() }
    }

    /// A writer that takes fields from others, for objects that are its alone.
    pub fn owning(manager: &'static str) -> Self {
        Self { force: true, ..Self::new(manager) }
    }

    /// Makes an object as it is wanted, unless `have`, the live one, already is.
    pub async fn apply<K>(
        &self,
        api: &Api<K>,
        want: &K,
        have: Option<&K>,
    ) -> Result<Outcome<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let key = Key::of(want);
        let encode = |source| Error::Encode { kind: kind::<K>(), key: key.clone(), source };
        let wanted = serde_json::to_value(want).map_err(encode)?;
        let digest = digest(&wanted);
        if let Some(have) = have
            && self.wrote_last::<K>(&key) == Some(digest)
            && is_subset(&wanted, &serde_json::to_value(have).map_err(encode)?)
        {
            return Ok(Outcome::Skipped);
        }
        // Forgotten first: a write that is cut off half-way must not count as done.
        self.forget::<K>(&key);
        let object = api
            .patch(&key.name, &self.params(), &Patch::Apply(&wanted))
            .await
            .map_err(|source| request::<K>("apply", &key, source))?;
        self.remember::<K>(key, digest);
        Ok(Outcome::Applied(Box::new(object)))
    }

    /// Makes the status of an object as it is wanted, unless `have`, the live one, already is.
    ///
    /// Statuses are small and change often: only [`applied`] counts, and a status field is given
    /// up by wanting another value, not by wanting none.
    pub async fn apply_status<K>(
        &self,
        api: &Api<K>,
        want: &K,
        have: Option<&K>,
    ) -> Result<Outcome<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        if have.is_some_and(|have| applied(want, have)) {
            return Ok(Outcome::Skipped);
        }
        let key = Key::of(want);
        let object = api
            .patch_status(&key.name, &self.params(), &Patch::Apply(want))
            .await
            .map_err(|source| request::<K>("apply the status of", &key, source))?;
        Ok(Outcome::Applied(Box::new(object)))
    }

    /// Deletes an object, but only the one that was seen: not another one of the same name.
    ///
    /// False when it was gone already.
    pub async fn delete<K>(&self, api: &Api<K>, have: &K) -> Result<bool, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let key = Key::of(have);
        self.forget::<K>(&key);
        let precondition = Preconditions { uid: have.uid(), resource_version: None };
        let params =
            DeleteParams { preconditions: Some(precondition), ..DeleteParams::background() };
        match api.delete(&key.name, &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(source) => Err(request::<K>("delete", &key, source)),
        }
    }

    /// Forgets what was written to an object, so that its next write happens.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, key: &Key) {
        self.written().remove(&(kind::<K>(), key.clone()));
    }

    fn remember<K: Resource<DynamicType = ()>>(&self, key: Key, digest: u64) {
        self.written().insert((kind::<K>(), key), digest);
    }

    fn wrote_last<K: Resource<DynamicType = ()>>(&self, key: &Key) -> Option<u64> {
        self.written().get(&(kind::<K>(), key.clone())).copied()
    }

    fn written(&self) -> MutexGuard<'_, HashMap<(String, Key), u64>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn params(&self) -> PatchParams {
        let params = PatchParams::apply(self.manager);
        if self.force { params.force() } else { params }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
}

fn request<K: Resource<DynamicType = ()>>(
    verb: &'static str,
    key: &Key,
    source: kube::Error,
) -> Error {
    Error::Request { verb, kind: kind::<K>(), key: key.clone(), source: Box::new(source) }
}

/// A digest of what is written: entries of one type always come in the same order, so equal values
/// have equal digests.
pub fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
