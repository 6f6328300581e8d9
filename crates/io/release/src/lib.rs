//! Installs, changes and removes a release in a cluster, as Helm would.
//!
//! ```text
//! prepare: records, live objects ──> what comes next, whose the objects are   (writes nothing)
//! run:     record pending ─> definitions ─> hooks ─> objects ─> ready ─> hooks ─> record deployed
//!              └── failure, time-out or interruption at any place ──> back to what was before
//! ```
//!
//! Everything is level-triggered: a run that was cut off is repeated by the next one. Records are
//! Helm's, so `helm` works on a release of ours, and we on one of Helm's.

mod definitions;
mod error;
mod hooks;
mod install;
mod objects;
mod purge;
mod records;
mod remove;
mod wait;

use std::sync::{Mutex, PoisonError};

use kube::Client;
use liqo_install::object::Owner;
use liqo_install::ready::Progress;

pub use self::error::Error;
pub use self::install::{Failed, Outcome, Prepared, Undone, Wanted};
pub use self::remove::Leftover;

/// Name of the release, wherever it is installed.
pub const RELEASE: &str = "liqo";

/// Hears what is being done.
pub trait Report: Send + Sync {
    /// What is waited for now, in a few words; replaces what was said before.
    fn step(&self, text: &str);

    /// Something that only the curious want to know.
    fn detail(&self, text: &str);
}

/// One release in one namespace of one cluster.
pub struct Engine<'a> {
    client: Client,
    namespace: String,
    report: &'a dyn Report,
    /// What was waited for last, to say so when time is up.
    waiting: Mutex<Progress>,
}

impl<'a> Engine<'a> {
    /// The release in a namespace.
    pub fn new(client: Client, namespace: &str, report: &'a dyn Report) -> Self {
        Self { client, namespace: namespace.to_owned(), report, waiting: Mutex::default() }
    }

    fn owner(&self) -> Owner<'_> {
        Owner { release: RELEASE, namespace: &self.namespace }
    }

    /// What was waited for last.
    pub fn waiting(&self) -> Progress {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_for(&self, progress: Progress) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}
