//! Real Kubernetes clusters in network namespaces of this machine.
//!
//! A [`topology::Topology`] is what a user writes; a [`plan::Plan`] is everything that follows from
//! it, as a value: names, addresses, files, processes. The rest of the crate makes a plan true,
//! takes it down again, and disturbs it on request.

pub mod engine;
pub mod host;
pub mod init;
pub mod node_files;
pub mod pki;
pub mod plan;
pub mod progress;
pub mod static_pods;
pub mod store;
pub mod topology;
