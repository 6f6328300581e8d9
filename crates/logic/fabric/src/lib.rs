//! What the kernel must hold for packets to reach other clusters, and how to get there.
//!
//! ```text
//! TunnelEndpoints, NatMappings ──> peer ──> gateway ──┐
//!                                     └───> node ─────┴─> State ──plan(want, have)──> Steps
//!                                            ^
//!                          route pods, pods ─┘
//! ```
//!
//! - [`state`]: links, routes, rules and all else of one network namespace, as a value;
//! - [`peer`]: what is known of a peer, checked before any of it reaches the kernel;
//! - [`gateway`] and [`node`]: what has to be there, [`nat`] as a script of the packet filter;
//! - [`owned`]: what is ours in the kernel; nothing else is ever touched;
//! - [`plan`]: the steps from what is there to what has to be;
//! - [`mtu`] and [`width`]: how large packets may be; [`pulse`]: whether a peer answers;
//! - [`report`]: what is told of a tunnel.

pub mod gateway;
pub mod mtu;
pub mod nat;
pub mod node;
pub mod owned;
pub mod peer;
pub mod plan;
pub mod pulse;
pub mod report;
pub mod state;
pub mod width;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod model;
