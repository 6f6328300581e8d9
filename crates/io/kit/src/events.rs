//! Tells users what happens to their objects, as Events, and does not repeat itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource, ResourceExt};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::keyed::chain;

/// How long the same words about the same object are not repeated.
const SILENCE: Duration = Duration::from_mins(5);

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
    reporter: Reporter,
    told: Mutex<Told>,
}

impl Events {
    /// Events in the name of a component.
    pub fn new(client: Client, component: impl Into<String>) -> Self {
        let reporter = Reporter { controller: component.into(), instance: None };
        Self { client, reporter, told: Mutex::default() }
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
        let Note { warning, reason, action, message } = note;
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(message.to_owned()),
            action: action.to_owned(),
            secondary: None,
        };
        // A recorder that lives longer would count a changed message as the old one.
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        let name = object.name_any();
        match recorder.publish(&event, &object.object_ref(&())).await {
            Ok(()) => info!(object = name, reason, message, "Event"),
            Err(error) => {
                warn!(object = name, reason, message, error = chain(&error), "Event not told");
            }
        }
    }

    fn is_news(&self, subject: &str, note: Note<'_>) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.is_news(subject, note, Instant::now())
    }
}

/// What was told, and when: by object, severity and reason.
#[derive(Default)]
struct Told(HashMap<(String, bool, String), (String, Instant)>);

impl Told {
    fn is_news(&mut self, subject: &str, note: Note<'_>, now: Instant) -> bool {
        self.0.retain(|_, (_, told)| now.duration_since(*told) < SILENCE);
        let key = (subject.to_owned(), note.warning, note.reason.to_owned());
        if self.0.get(&key).is_some_and(|(message, _)| message == note.message) {
            return false;
        }
        self.0.insert(key, (note.message.to_owned(), now));
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

    fn note(message: &str) -> Note<'_> {
        Note { warning: true, reason: "Failed", action: "Reflect", message }
    }
}
