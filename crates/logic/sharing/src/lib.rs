//! What a cluster lends: sums of nodes and pods, shares of them, and the offers they make.
//!
//! - [`quantity`], [`amounts`]: exact arithmetic on what Kubernetes counts;
//! - [`requests`]: what a pod asks of its node;
//! - [`ledger`]: what is free, kept up to date as nodes and pods come and go;
//! - [`offer`]: the offer that answers a request.

pub mod amounts;
pub mod ledger;
pub mod offer;
pub mod quantity;
pub mod requests;
