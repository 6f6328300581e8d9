//! What may be created and changed, and what is added on the way in.
//!
//! One file per kind, each with functions from what was and what is asked for to a [`Verdict`], or
//! to the object as it enters the cluster.

pub mod foreign_cluster;
pub mod namespace_offloading;
pub mod pod;
pub mod quota;
pub mod shadow_pod;
pub mod shortcut;

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Allowed,
    /// It may pass, and the user is told something.
    Warned(String),
    /// It may not pass, for this reason.
    Denied(String),
}

impl Verdict {
    fn denied(reason: impl Into<String>) -> Self {
        Self::Denied(reason.into())
    }
}
