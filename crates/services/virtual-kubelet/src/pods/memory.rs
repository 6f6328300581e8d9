//! What is remembered of a pod between two looks.
//!
//! Watches show what we write only after a while. What was written is taken for seen meanwhile, so
//! that nothing is written twice; not for ever, because somebody may have undone it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::Time;
use liqo_kit::watch::is_newer;
use liqo_pod_offloading::lean::HomePod;
use liqo_pod_offloading::status::{Restarts, Wait};
use tokio::time::Instant;

/// How long something that was written counts as seen.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is remembered of a pod.
#[derive(Default)]
pub(super) struct Memory {
    /// The ShadowPod that was written.
    pub(super) shadow: Echo,
    /// The Secret with its tokens that was written.
    pub(super) secret: Echo,
    /// The pod here, as the last write left it.
    left: Option<Arc<HomePod>>,
    /// The containers that its ShadowPod was last given, or refused, and which ShadowPod that is.
    pub(super) added: Option<(Option<String>, Vec<String>)>,
    /// Digests of the status that was written last, and of the one that it took the place of.
    pub(super) status: Option<(u64, u64)>,
    /// The pod there whose status came home last, by its UID and version.
    pub(super) mirrored: Option<(Option<String>, Option<String>)>,
    /// Since when the pod there is missed.
    pub(super) missed: Option<Instant>,
    /// The pod here that was let go, by its UID.
    pub(super) finished: Option<String>,
    /// What a change of its status waits for, and until when.
    pub(super) waits: Option<(Wait, Instant)>,
    /// What is added to its restarts.
    pub(super) restarts: Option<Restarts>,
    /// The addresses of the pod there, and what they are called here.
    pub(super) addresses: Option<(Vec<IpAddr>, Vec<IpAddr>)>,
}

impl Memory {
    /// The pod here as it is known now.
    pub(super) fn latest(&mut self, seen: Arc<HomePod>) -> Arc<HomePod> {
        match &self.left {
            Some(left)
                if left.metadata.uid == seen.metadata.uid
                    && is_newer(&left.metadata, &seen.metadata) =>
            {
                Arc::clone(left)
            }
            Some(_) | None => {
                self.left = None;
                seen
            }
        }
    }

    /// Remembers the pod here as a write left it.
    pub(super) fn leave(&mut self, pod: HomePod) {
        self.left = Some(Arc::new(pod));
    }
}

/// Something that we wrote or deleted, until it is seen.
#[derive(Default)]
pub(super) struct Echo {
    /// Few have one at a time.
    written: Option<Box<(ObjectMeta, Instant)>>,
    deleted: Option<String>,
}

impl Echo {
    /// Remembers what was written.
    pub(super) fn write(&mut self, metadata: ObjectMeta, now: Instant) {
        *self = Self { written: Some(Box::new((metadata, now + PATIENCE))), deleted: None };
    }

    /// Remembers that what was seen has been deleted.
    pub(super) fn delete(&mut self, metadata: &ObjectMeta) {
        *self = Self { written: None, deleted: metadata.uid.clone() };
    }

    /// What there is, given what a watch shows; and when to look again, if that may be wrong.
    pub(super) fn look(
        &mut self,
        seen: Option<ObjectMeta>,
        now: Instant,
    ) -> (Option<ObjectMeta>, Option<Duration>) {
        let Some(mut seen) = seen else {
            self.deleted = None;
            self.written.take_if(|written| now >= written.1);
            let Some(written) = &self.written else { return (None, None) };
            let (metadata, until) = &**written;
            return (Some(metadata.clone()), Some(until.duration_since(now)));
        };
        self.written.take_if(|written| {
            let (written, until) = &**written;
            written.uid != seen.uid || !is_newer(written, &seen) || now >= *until
        });
        if let Some(written) = &self.written {
            let (metadata, until) = &**written;
            return (Some(metadata.clone()), Some(until.duration_since(now)));
        }
        if self.deleted.is_some() && self.deleted == seen.uid {
            // When exactly does not matter.
            seen.deletion_timestamp.get_or_insert(Time(jiff::Timestamp::UNIX_EPOCH));
        }
        (Some(seen), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_before_it_is_seen_but_not_for_ever() {
        let (mut echo, now) = (Echo::default(), Instant::now());
        assert_eq!(echo.look(None, now).0, None);
        echo.write(object("a", "7"), now);
        let (there, again) = echo.look(None, now);
        assert_eq!((there, again), (Some(object("a", "7")), Some(PATIENCE)));
        assert_eq!(echo.look(None, now + PATIENCE), (None, None));
    }

    #[test]
    fn what_is_seen_counts_once_it_is_as_new() {
        let (mut echo, now) = (Echo::default(), Instant::now());
        echo.write(object("a", "7"), now);
        assert_eq!(echo.look(Some(object("a", "6")), now).0, Some(object("a", "7")));
        assert_eq!(echo.look(Some(object("a", "8")), now), (Some(object("a", "8")), None));
        assert_eq!(echo.look(None, now), (None, None), "it was seen, and is gone");
    }

    #[test]
    fn what_was_deleted_is_leaving() {
        let (mut echo, now) = (Echo::default(), Instant::now());
        echo.delete(&object("a", "7"));
        let (there, _) = echo.look(Some(object("a", "7")), now);
        assert!(there.unwrap().deletion_timestamp.is_some());
        let (there, _) = echo.look(Some(object("b", "8")), now);
        assert!(there.unwrap().deletion_timestamp.is_none(), "another one of the same name");
    }

    fn object(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }
}
