//! What is installed where, whether it works, and what is in the way of removing it.
//!
//! ```text
//! wishes ─┐
//! facts ──┴─> values ──> (liqo-chart) ──> objects ──> next step ──> ready?
//! ```
//!
//! - [`wishes`], [`provider`] and [`merge`]: what the user asked for and what the cluster is become
//!   values of the chart;
//! - [`sanity`] and [`name`]: values that cannot work are refused, a missing name is made up;
//! - [`object`] and [`history`]: whose an object is, and what the next revision of a release does;
//! - [`ready`]: what is still waited for, and why;
//! - [`blockers`]: why Liqo cannot be removed yet;
//! - [`status`], [`peers`] and [`screen`]: what `liqoctl status` tells.

pub mod blockers;
pub mod history;
pub mod merge;
pub mod name;
pub mod object;
pub mod ownership;
pub mod peers;
pub mod provider;
pub mod ready;
pub mod sanity;
pub mod screen;
pub mod status;
pub mod wishes;
