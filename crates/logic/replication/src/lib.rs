//! Which objects are copied to a peer, and what to write where so that both ends agree.
//!
//! ```text
//!        this cluster                              the peer
//!   source ──────────────── spec ────────────────> replica
//!   (replication=true,   <─ status ───────────────  (replicated=true,
//!    remoteID=peer)                                  originID=this cluster)
//! ```
//!
//! A source carries a finalizer from before its replica exists until after it is gone.
//!
//! - [`kind`]: the kinds that are copied, and when;
//! - [`carried`]: objects whose content is carried and not read;
//! - [`plan`]: what to do about a source and its replica;
//! - [`peer`]: what to do about a ForeignCluster;
//! - [`patch`]: the smallest change from one content to another.

pub mod carried;
pub mod kind;
pub mod patch;
pub mod peer;
pub mod plan;
