//! What every component stands on: the one place that talks to Kubernetes for them.
//!
//! - [`keyed`]: work on keys, one at a time per key, with back-off; deletions included;
//! - [`watch`]: stores fed by watches, and the keys that were touched;
//! - [`reflector`]: objects here and their counterparts there, worked on by name;
//! - [`apply`]: server-side apply that writes nothing when it is already so;
//! - [`terse`]: writes of which little is sent back;
//! - [`mod@report`]: what is told a peer about a copy of its own;
//! - [`client`]: clients of the home cluster and of remote ones;
//! - [`leader`]: one of several replicas leads;
//! - [`controller`]: kube's Controller for our own resources, with back-off, counters and Events;
//! - [`events`]: Events that do not repeat themselves;
//! - [`eviction`]: pods that are asked to leave;
//! - [`tls`]: servers whose certificate may change, and [`authority`]: whom a cluster vouches for;
//! - [`service`]: the life of a component, with its [`args`], [`health`], [`metrics`], [`tasks`],
//!   [`telemetry`] and [`admin`] server;
//! - [`retry`]: what an error says about trying again.

pub mod admin;
pub mod apply;
pub mod args;
pub mod authority;
pub mod client;
pub mod controller;
pub mod courtesy;
pub mod events;
pub mod eviction;
pub mod health;
pub mod keyed;
pub mod leader;
pub mod metrics;
pub mod reflector;
pub mod report;
pub mod retry;
pub mod service;
pub mod tasks;
pub mod telemetry;
pub mod terse;
pub mod tls;
pub mod watch;
