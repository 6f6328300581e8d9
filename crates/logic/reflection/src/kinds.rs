//! What each kind becomes in the other cluster.

mod config_map;
mod endpoint_slice;
mod ingress;
mod secret;
mod service;

pub use self::config_map::{ConfigMaps, remote_config_map};
pub use self::endpoint_slice::EndpointSlices;
pub use self::ingress::Ingresses;
pub use self::secret::Secrets;
pub use self::service::Services;
