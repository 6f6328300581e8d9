//! Tells users what happens to their objects, as Events, and does not repeat itself.
//!
//! That all is well is told as long as there is little of it: of a thousand objects that come at once
//! nobody reads it, and an API server that has to do with them has no time for it. What somebody may have
//! to act on is always told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::courtesy::Courtesy;
use crate::keyed::chain;

/// How many Events may say at once that all is well.
const BURST: u32 = 20;
/// How long it takes until one more may.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the same words about the same object are not repeated.
const SILENCE: Duration = Duration::from_mins(5);
/// How often it is looked for what may be repeated.
const SWEEP: Duration = Duration::from_secs(10);
/// The longest sentence that API servers take, in bytes.
const LONGEST_NOTE: usize = 1024;
/// The longest name that API servers take, in bytes.
const LONGEST_NAME: usize = 253;
/// Where Events about objects without a namespace are.
const NOWHERE: &str = "default";

/// Something to tell about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Whether somebody may have to act.
    pub warning: bool,
    /// One word on why.
    pub reason: &'a str,
    /// One word on what was done.
    pub action: &'a str,
    /// A sentence.
    pub message: &'a str,
}

/// A component that tells.
pub struct Events {
    client: Client,
    component: String,
    told: Mutex<Told>,
}

impl Events {
    /// Events in the name of a component.
    pub fn new(client: Client, component: impl Into<String>) -> Self {
        Self { client, component: component.into(), told: Mutex::default() }
    }

    /// Tells something about an object, unless just that was told a moment ago.
    ///
    /// An Event is a courtesy: one that cannot be written is only logged.
    pub async fn tell<K>(&self, object: &K, note: Note<'_>)
    where
        K: Resource<DynamicType = ()>,
    {
        let subject = object.uid().unwrap_or_else(|| object.name_any());
        if !self.is_news(&subject, note) {
            return;
        }
        let Note { warning, reason, message, .. } = note;
        if !warning && !self.told().courtesy.has_room(Instant::now()) {
            info!(object = object.name_any(), reason, message, "Too much to tell");
            return;
        }
        let object = object.object_ref(&());
        let event = event(&self.component, object, note, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or(NOWHERE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let name = event.regarding.as_ref().and_then(|object| object.name.as_deref());
        match events.create(&PostParams::default(), &event).await {
            Ok(_) => info!(object = name, reason, message, "Event"),
            Err(error) => {
                warn!(object = name, reason, message, error = chain(&error), "Event not told");
            }
        }
    }

    fn is_news(&self, subject: &str, note: Note<'_>) -> bool {
        self.told().is_news(subject, note, Instant::now())
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Event that tells something about an object; no more of it than API servers take.
fn event(component: &str, object: ObjectReference, note: Note<'_>, now: Timestamp) -> Event {
    let Note { warning, reason, action, message } = note;
    let unique = format!(".{:x}", now.as_nanosecond());
    let subject = object.name.as_deref().unwrap_or(component);
    let start = start(subject, LONGEST_NAME - unique.len());
    // What is before a dot ends as a name does.
    let start = start.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
    let kind = if warning { "Warning" } else { "Normal" };
    Event {
        metadata: ObjectMeta {
            namespace: object.namespace.clone(),
            name: Some(format!("{start}{unique}")),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        reason: Some(reason.to_owned()),
        action: Some(action.to_owned()),
        note: Some(shortened(message)),
        event_time: Some(MicroTime(now)),
        regarding: Some(object),
        reporting_controller: Some(component.to_owned()),
        reporting_instance: Some(component.to_owned()),
        ..Event::default()
    }
}

/// A sentence, or as much of it as API servers take in an Event, and a sign that there was more.
pub fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    format!("{}…", start(message, LONGEST_NOTE - '…'.len_utf8()))
}

/// The start of a text that is no longer than so many bytes.
fn start(text: &str, longest: usize) -> &str {
    text.get(..text.floor_char_boundary(longest)).unwrap_or(text)
}

/// What was told, and when.
struct Told {
    /// By object, severity and reason.
    notes: HashMap<(String, bool, String), (String, Instant)>,
    /// When it was last looked through for what is old.
    swept: Option<Instant>,
    /// How many may say that all is well.
    courtesy: Courtesy,
}

impl Default for Told {
    fn default() -> Self {
        let courtesy = Courtesy::new(BURST, PAUSE);
        Self { notes: HashMap::new(), swept: None, courtesy }
    }
}

impl Told {
    fn is_news(&mut self, subject: &str, note: Note<'_>, now: Instant) -> bool {
        let is_recent = |told: &Instant| now.duration_since(*told) < SILENCE;
        // To look through all of it for each would take long where there is much.
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP) {
            self.notes.retain(|_, (_, told)| is_recent(told));
            self.notes.shrink_to_fit();
            self.swept = Some(now);
        }
        let key = (subject.to_owned(), note.warning, note.reason.to_owned());
        let told = self.notes.get(&key);
        if told.is_some_and(|(message, told)| message == note.message && is_recent(told)) {
            return false;
        }
        self.notes.insert(key, (note.message.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_told_once_in_a_while() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert!(told.is_news("pod", note("no room"), start));
        assert!(!told.is_news("pod", note("no room"), start + SILENCE / 2));
        assert!(told.is_news("pod", note("no room"), start + SILENCE));
    }

    #[test]
    fn other_words_and_other_objects_are_news() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert!(told.is_news("pod", note("no room"), start));
        assert!(told.is_news("pod", note("no rights"), start));
        assert!(told.is_news("other", note("no room"), start));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert!(told.is_news("pod", note("no room"), start));
        assert!(told.is_news("other", note("no room"), start + SILENCE));
        assert_eq!(told.notes.len(), 1);
    }

    #[test]
    fn a_sentence_is_told_as_far_as_there_is_room() {
        assert_eq!(shortened("no room"), "no room");
        let long = shortened(&"ä".repeat(LONGEST_NOTE));
        assert!((LONGEST_NOTE - 3..=LONGEST_NOTE).contains(&long.len()), "{}", long.len());
        assert!(long.ends_with("ä…"));
    }

    #[test]
    fn an_event_has_a_name_of_its_own_however_long_that_of_its_object_is() {
        let named = |name: &str| {
            let object = ObjectReference {
                name: Some(name.to_owned()),
                namespace: Some("shop".to_owned()),
                ..ObjectReference::default()
            };
            let event = event("liqo-test", object, note("no room"), Timestamp::UNIX_EPOCH);
            assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
            event.metadata.name.unwrap()
        };
        assert_eq!(named("web"), "web.0");
        let long = format!("{}-.{}", "a".repeat(250), "b");
        assert_eq!(named(&long), format!("{}.0", "a".repeat(250)));
    }

    fn note(message: &str) -> Note<'_> {
        Note { warning: true, reason: "Failed", action: "Reflect", message }
    }
}
