//! What every component stands on: the one place that talks to Kubernetes for them.
//!
//! - [`keyed`]: work on keys, one at a time per key, with back-off; deletions included;
//! - [`watch`]: stores fed by watches, and the keys that were touched;
//! - [`apply`]: server-side apply that writes nothing when it is already so;
//! - [`retry`]: what an error says about trying again.

pub mod apply;
pub mod keyed;
pub mod retry;
pub mod watch;
