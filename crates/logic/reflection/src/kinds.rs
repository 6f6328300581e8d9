//! What each kind becomes in the other cluster.

mod config_map;

pub use self::config_map::{ConfigMaps, remote_config_map};
