//! What tests stand on.
//!
//! - [`ControlPlane`]: etcd and an API server, for tests that need nothing else;
//! - [`Line`]: a network path to one that a test can cut;
//! - [`Lab`]: a whole playground, for tests that need real nodes and real packets;
//! - [`Traffic`]: packets that go on while a test breaks something;
//! - [`fixtures`]: objects in words;
//! - [`eventually`] and [`until`]: waits that end, and say what was missing.

mod control_plane;
pub mod fixtures;
mod lab;
mod line;
mod machine;
mod rights;
mod scenario;
mod traffic;
mod wait;

pub use control_plane::ControlPlane;
pub use lab::{Lab, command, own_prefix};
pub use line::Line;
pub use machine::{Traces, cache, home, places};
pub use rights::Certified;
pub use scenario::Scenario;
pub use traffic::{Count, Traffic};
pub use wait::{eventually, until};
