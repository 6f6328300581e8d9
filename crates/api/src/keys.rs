//! Every string and number that components, users or peers agree on, each in one place.
//!
//! What depends on a name is a function; everything else is a constant.

pub mod annotation;
pub mod component;
pub mod event;
pub mod finalizer;
pub mod label;
pub mod link;
pub mod manager;
pub mod node;
pub mod object;
pub mod port;
pub mod reason;
pub mod secret;
pub mod taint;
pub mod webhook;
