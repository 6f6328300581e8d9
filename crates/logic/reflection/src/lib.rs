//! What the objects of a namespace become in another cluster.
//!
//! ```text
//!   object here ──desired──> copy there     (labels and annotations of the object, and two of ours)
//!        │                     │
//!        └──────── plan ───────┘  apply, remove, withhold, or leave what is somebody else's
//! ```
//!
//! - [`mapping`]: which namespaces extend to the other cluster;
//! - [`place`]: from where to where, and what all copies have in common;
//! - [`mod@plan`]: what to do about an object and its copy;
//! - [`claims`]: claims of volumes, which have a twin there and a volume here;
//! - [`kinds`]: what each other kind becomes. A new kind is one file there, and one line in the list of
//!   the virtual kubelet.

pub mod claims;
pub mod kinds;
pub mod mapping;
pub mod place;
pub mod plan;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::place::{Place, ServiceAccounts};
pub use self::plan::{Plan, plan};

/// What objects have to be to be reflected.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// Addresses of this cluster, and what each is called in the other one.
pub type Translated = BTreeMap<IpAddr, IpAddr>;

/// How one kind is reflected.
pub trait Reflect: 'static {
    /// The kind here.
    type Source: Object;
    /// The kind of the copy.
    type Target: Object;
    /// The name of the kind in metrics; in lower case also in Events.
    const NAME: &'static str;
    /// Whether Services have a say in whether their objects of this kind are reflected.
    const HAS_SERVICE: bool = false;
    /// The label of objects of ours there that are no copies: there may be very many, and whoever
    /// reflects does not watch them.
    const NO_COPIES: Option<&'static str> = None;

    /// What the copy of an object is called; nothing when an object of this name has no copy.
    ///
    /// Together with [`Reflect::home_name`] it leads from a name back to the same name.
    fn remote_name(name: &str, _: &Place) -> Option<String> {
        Some(name.to_owned())
    }

    /// Of which object a copy is; nothing when a copy of this name is never made.
    fn home_name(name: &str, _: &Place) -> Option<String> {
        Some(name.to_owned())
    }

    /// Whether an object there with our labels is a copy at all, and not something else of ours.
    fn is_copy(_: &ObjectMeta) -> bool {
        true
    }

    /// The Service that an object belongs to: its annotation counts for the object, too.
    fn service(_: &Self::Source) -> Option<&str> {
        None
    }

    /// The addresses that have to be translated for the copy.
    fn addresses(_: &Self::Source, _: &Place) -> Vec<IpAddr> {
        Vec::new()
    }

    /// What the copy has to be. Name, namespace, labels and annotations come from
    /// [`Place::metadata`].
    fn desired(
        source: &Self::Source,
        place: &Place,
        addresses: &Translated,
    ) -> Outcome<Self::Target>;

    /// Drops from a source what is not read, so that it is not kept in memory.
    fn trim(_: &mut Self::Source) {}
}

/// What an object becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// There has to be this copy.
    Copy(T),
    /// There must be no copy, and the user is told why.
    Withheld(&'static str),
    /// There must be no copy, and that is no news to anybody.
    Nothing,
}
