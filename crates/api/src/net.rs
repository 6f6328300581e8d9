//! `net.liqo.io`: how pods of different clusters reach each other.
//!
//! Networks stand in these resources as text. Where one cluster knows a network of another under
//! a second prefix, the field holds that prefix, and [`NOT_TRANSLATED`] where it does not.

mod ipam_storage;
mod nat_mapping;
mod network_config;
mod tunnel_endpoint;

pub use ipam_storage::{
    ClusterMapping, EndpointMapping, IpamStorage, IpamStorageSpec, NatMappingConfigured, Subnets,
};
use ipnet::Ipv4Net;
pub use nat_mapping::{NatMapping, NatMappingSpec, NatMappingStatus};
pub use network_config::{NetworkConfig, NetworkConfigSpec, NetworkConfigStatus};
pub use tunnel_endpoint::{
    Connection, ConnectionStatus, Latency, TunnelEndpoint, TunnelEndpointSpec, TunnelEndpointStatus,
};

/// Stands where a network keeps its own prefix.
pub const NOT_TRANSLATED: &str = "None";

/// A network that does not read as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an IPv4 network such as 10.200.0.0/16")]
pub struct InvalidNetwork(String);

/// Reads a network of a custom resource.
pub fn network(text: &str) -> Result<Ipv4Net, InvalidNetwork> {
    text.parse().map_err(|_| InvalidNetwork(text.to_owned()))
}

/// Reads the prefix a network has been given by the other side; nothing when it keeps its own.
pub fn translation(text: &str) -> Result<Option<Ipv4Net>, InvalidNetwork> {
    if text.is_empty() || text == NOT_TRANSLATED {
        return Ok(None);
    }
    network(text).map(Some)
}

/// Writes the prefix a network has been given, as [`translation`] reads it.
pub fn translation_text(prefix: Option<Ipv4Net>) -> String {
    prefix.map_or_else(|| NOT_TRANSLATED.to_owned(), |prefix| prefix.to_string())
}

fn not_translated() -> String {
    NOT_TRANSLATED.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_network_that_keeps_its_prefix_is_not_translated() {
        assert_eq!(translation("None"), Ok(None));
        assert_eq!(translation(""), Ok(None));
    }

    #[test]
    fn a_network_that_reads_as_none_is_refused_with_an_example() {
        let error = translation("10.0.0.0").unwrap_err();

        assert_eq!(error.to_string(), "'10.0.0.0' is not an IPv4 network such as 10.200.0.0/16");
    }

    proptest! {
        #[test]
        fn a_translation_reads_as_it_was_written(bits: u32, length in 0_u8..=32, given: bool) {
            let prefix = given.then(|| Ipv4Net::new(bits.into(), length).unwrap());

            prop_assert_eq!(translation(&translation_text(prefix)), Ok(prefix));
        }
    }
}
