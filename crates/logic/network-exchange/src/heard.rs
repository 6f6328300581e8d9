//! What a peer told us, and what it answered; nothing of it is believed unchecked.
//!
//! All of it ends up in routes, rules and tunnels of this cluster.

use std::net::IpAddr;

use ipnet::Ipv4Net;
use liqo_api::keys::secret;
use liqo_api::net::{
    InvalidNetwork, NetworkConfigSpec, NetworkConfigStatus, translation, translation_text,
};
use liqo_ipam::ledger::Prefixes;
use liqo_ipam::sanity::{self, Insane};
use liqo_ipam::{Networks, Refusal as NotAdmitted};

use crate::gateway::is_key;
use crate::told::BACKEND;

/// The longest name in DNS.
const LONGEST_NAME: usize = 253;

/// Why what a peer told is not acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// One of its networks makes no sense.
    #[error("the peer's {what} is refused: {source}")]
    Network {
        /// Which network.
        what: &'static str,
        /// What is wrong with it.
        source: Insane,
    },
    /// What it calls one of our networks makes no sense.
    #[error("what the peer calls our networks is refused: {0}")]
    Answer(#[source] InvalidNetwork),
    /// It speaks something else.
    #[error("the peer's gateway speaks '{0}', and ours only '{BACKEND}'")]
    Backend(String),
    /// Its key is none.
    #[error("the peer's gateway has no public key of WireGuard")]
    Key,
    /// Its port is none.
    #[error("the peer's gateway has no port from 1 to 65535")]
    Port,
    /// Its address is none, or one of ours by nature.
    #[error("the peer's gateway cannot be at '{0}'; it has an address or a name in DNS")]
    Endpoint(String),
    /// The ledger does not admit it.
    #[error("the peer's networks have no place here: {0}")]
    Ledger(#[source] NotAdmitted),
}

impl Refusal {
    /// One word for events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Network { .. } | Self::Answer(_) => "InvalidNetwork",
            Self::Backend(_) | Self::Key | Self::Port | Self::Endpoint(_) => "InvalidGateway",
            Self::Ledger(refusal) => refusal.reason(),
        }
    }
}

/// The networks that a peer tells us, if all that it tells can be taken seriously.
pub fn networks(told: &NetworkConfigSpec) -> Result<Networks, Refusal> {
    let read = |what, text: &str| {
        sanity::network(text).map_err(|source| Refusal::Network { what, source })
    };
    if told.backend_type != BACKEND {
        return Err(Refusal::Backend(told.backend_type.clone()));
    }
    let config = |name: &str| told.backend_config.get(name).map(String::as_str).unwrap_or_default();
    if !is_key(config(secret::WIREGUARD_PUBLIC_KEY)) {
        return Err(Refusal::Key);
    }
    if !config(secret::TUNNEL_PORT).parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(Refusal::Port);
    }
    if !is_endpoint(&told.endpoint_ip) {
        return Err(Refusal::Endpoint(told.endpoint_ip.clone()));
    }
    Ok(Networks {
        pod: read("pod network", &told.pod_cidr)?,
        external: read("external network", &told.external_cidr)?,
    })
}

/// What we answer to a peer: under which prefixes we know its networks.
pub fn answer(asked: Networks, given: Networks) -> NetworkConfigStatus {
    let text = |asked: Ipv4Net, given| translation_text((given != asked).then_some(given));
    NetworkConfigStatus {
        processed: true,
        pod_cidr_nat: Some(text(asked.pod, given.pod)),
        external_cidr_nat: Some(text(asked.external, given.external)),
    }
}

/// What a peer answered: under which prefixes it knows our networks; nothing while it has not.
pub fn answered(status: Option<&NetworkConfigStatus>) -> Result<Option<Prefixes>, Refusal> {
    let Some(status) = status.filter(|status| status.processed) else { return Ok(None) };
    let read = |text: &Option<String>| {
        translation(text.as_deref().unwrap_or_default()).map_err(Refusal::Answer)
    };
    Ok(Some(Prefixes {
        pod: read(&status.pod_cidr_nat)?,
        external: read(&status.external_cidr_nat)?,
    }))
}

/// Whether a text is where a gateway can be: an address of a host, or a name in DNS.
fn is_endpoint(text: &str) -> bool {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => sanity::is_reachable(address),
        Ok(IpAddr::V6(address)) => {
            !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
        }
        Err(_) => is_name(text),
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    // What is all digits and dots is an address that did not read as one.
    name.len() <= LONGEST_NAME
        && name.split('.').all(is_part)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{at_rome, golden, networks as nets};

    #[test]
    fn what_the_reference_tells_is_believed() {
        let told = golden(at_rome::REPLICA).spec;
        assert_eq!(networks(&told), Ok(nets("10.201.0.0/16", "10.94.0.0/16")));
    }

    #[test]
    fn answers_are_those_of_the_reference() {
        let asked = nets("10.201.0.0/16", "10.94.0.0/16");
        let status = answer(asked, nets("10.201.0.0/16", "10.92.0.0/16"));
        assert_eq!(Some(&status), golden(at_rome::REPLICA).status.as_ref());
        let external = Some("10.92.0.0/16".parse().unwrap());
        assert_eq!(answered(Some(&status)), Ok(Some(Prefixes { pod: None, external })));
    }

    #[test]
    fn before_a_peer_has_answered_there_is_no_answer() {
        assert_eq!(answered(None), Ok(None));
        assert_eq!(answered(Some(&NetworkConfigStatus::default())), Ok(None));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_wrong() {
        let change = |change: fn(&mut NetworkConfigSpec)| {
            let mut told = golden(at_rome::REPLICA).spec;
            change(&mut told);
            networks(&told).unwrap_err().to_string()
        };
        assert_eq!(
            change(|told| told.pod_cidr = "0.0.0.0/0".to_owned()),
            "the peer's pod network is refused: 0.0.0.0/0 has the wrong size; prefixes of 8 to 30 \
             bits are accepted"
        );
        assert_eq!(
            change(|told| told.external_cidr = "127.0.0.0/8".to_owned()),
            "the peer's external network is refused: 127.0.0.0/8 overlaps 127.0.0.0/8, which \
             stands for loopback"
        );
        assert_eq!(
            change(|told| told.backend_type = "ipsec".to_owned()),
            "the peer's gateway speaks 'ipsec', and ours only 'wireguard'"
        );
        assert_eq!(
            change(|told| told.backend_config.clear()),
            "the peer's gateway has no public key of WireGuard"
        );
        let port = |told: &mut NetworkConfigSpec| {
            told.backend_config.insert(secret::TUNNEL_PORT.to_owned(), "70000".to_owned());
        };
        assert_eq!(change(port), "the peer's gateway has no port from 1 to 65535");
    }

    #[test]
    fn a_gateway_is_at_an_address_or_a_name() {
        for text in ["172.30.0.3", "gw.example.org", "gw.example.org.", "2001:db8::1", "a_b.c"] {
            assert!(is_endpoint(text), "{text}");
        }
        for text in
            ["", "127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "1.2.3", "a b", "a..b", "a;b", "-1.2"]
        {
            assert!(!is_endpoint(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_stumble_and_what_it_believes_is_sane(
            [pods, externals] in [any_text(), any_text()],
            endpoint in any_text(),
            [port, key, backend] in [any_text(), any_text(), "wireguard|.{0,9}".boxed()],
        ) {
            let mut told = golden(at_rome::REPLICA).spec;
            (told.pod_cidr, told.external_cidr, told.endpoint_ip) = (pods, externals, endpoint);
            let check = |told: &NetworkConfigSpec| {
                if let Ok(networks) = networks(told) {
                    for network in [networks.pod, networks.external] {
                        prop_assert!(sanity::check(network).is_ok(), "{}", network);
                    }
                    prop_assert!(is_endpoint(&told.endpoint_ip));
                }
                Ok(())
            };
            check(&told)?;
            told.backend_config.insert(secret::TUNNEL_PORT.to_owned(), port.clone());
            told.backend_config.insert(secret::WIREGUARD_PUBLIC_KEY.to_owned(), key);
            told.backend_type = backend;
            check(&told)?;
            let status = NetworkConfigStatus {
                processed: true,
                pod_cidr_nat: Some(told.pod_cidr),
                external_cidr_nat: Some(port),
            };
            let _ = answered(Some(&status));
        }
    }

    fn any_text() -> BoxedStrategy<String> {
        let network = "([0-9]{1,3}\\.){3}[0-9]{1,3}(/[0-9]{1,2})?";
        prop_oneof![Just("10.60.0.0/16".to_owned()), network, "None|[0-9]{1,6}", ".{0,20}"].boxed()
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_refused() {
        let status = NetworkConfigStatus {
            processed: true,
            pod_cidr_nat: Some("everything".to_owned()),
            external_cidr_nat: None,
        };
        assert_eq!(answered(Some(&status)).unwrap_err().reason(), "InvalidNetwork");
    }
}
