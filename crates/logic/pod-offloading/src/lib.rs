//! What a pod becomes in another cluster, what comes back from there, and what to do next.
//!
//! ```text
//!        this cluster                                the other cluster
//!   Pod on a virtual node ──spec, metadata──> ShadowPod ──its controller──> Pod
//!            ^                                                               │
//!            └───────────────────────────── status ──────────────────────────┘
//! ```
//!
//! - [`lean`]: pods as they are kept in memory;
//! - [`decide`]: what to do about a pod, here and there;
//! - [`shadow`]: the ShadowPod of a pod, and what of it follows the pod later;
//! - [`spec`], [`affinity`], [`access`]: what becomes of a specification, one concern each;
//! - [`status`]: the status that a pod here has from the one there;
//! - [`warning`]: what the other cluster warns of about a pod;
//! - [`tokens`]: the tokens of service accounts.
//!
//! Specifications and statuses are handled as JSON, so that fields of a newer Kubernetes than the
//! one we know get through.

pub mod access;
pub mod affinity;
pub mod decide;
pub mod lean;
pub mod shadow;
pub mod spec;
pub mod status;
pub mod tokens;
pub mod warning;

#[cfg(test)]
mod fixtures;
