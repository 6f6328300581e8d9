//! Brings what pods need to the other cluster: who, what, where.
//!
//! ```text
//! NamespaceMap ──> namespaces ──one per mapping──> session ──one per kind──> driver
//!                                                              ^
//! identity of the other cluster ──> link ──────────────────────┘
//! ```
//!
//! - [`namespaces`]: begins and ends reflection with the namespaces that the other cluster accepts;
//! - [`kinds`]: the kinds that are reflected, one line each;
//! - [`driver`]: reflects one kind between two namespaces;
//! - [`claims`]: the same for claims of volumes, which have a volume here, too;
//! - [`link`]: the way to the other cluster;
//! - [`owners`]: Services that have a say in what belongs to them;
//! - [`counts`]: what is counted.

pub(crate) mod claims;
pub(crate) mod counts;
pub(crate) mod driver;
pub(crate) mod kinds;
pub(crate) mod link;
pub(crate) mod namespaces;
mod owners;

use std::sync::Arc;

use kube::Client;
use liqo_reflection::Place;

use self::claims::Volumes;
use self::counts::Counts;
use self::link::Link;
use crate::addresses::Addresses;

/// What reflection between two namespaces stands on; a clone is the same.
#[derive(Clone)]
pub(crate) struct Scope {
    /// This cluster.
    pub(crate) home: Client,
    /// The way to the other one.
    pub(crate) link: Link,
    /// From where to where.
    pub(crate) place: Arc<Place>,
    /// What addresses are called there.
    pub(crate) addresses: Arc<Addresses>,
    /// What volumes can be had there.
    pub(crate) volumes: Volumes,
    /// What is counted.
    pub(crate) counts: Counts,
}
