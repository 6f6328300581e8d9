//! Real Kubernetes clusters in network namespaces of this machine.
//!
//! A [`topology::Topology`] is what a user writes; a [`plan::Plan`] is everything that follows from
//! it, as a value: names, addresses, files, processes. The rest of the crate makes a plan true,
//! takes it down again, and disturbs it on request.

pub mod bench;
pub mod cluster;
pub mod engine;
pub mod faults;
pub mod host;
pub mod images;
pub mod init;
pub mod node_files;
pub mod pki;
pub mod plan;
pub mod playground;
pub mod progress;
pub mod report;
pub mod static_pods;
pub mod store;
pub mod topology;
