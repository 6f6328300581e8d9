//! Refuses what cannot work, before anything is written.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use http::Uri;
use ipnet::Ipv4Net;
use liqo_api::names::{Cluster, ClusterId, ClusterName};

/// The oldest Kubernetes that has all that is needed: its second number.
const OLDEST_MINOR: u32 = 22;
/// How many examples are worth reading.
const EXAMPLES: usize = 3;
const LONGEST_LABEL: usize = 63;

/// Whether a version of Kubernetes, such as `v1.34.4`, is new enough.
pub fn kubernetes(version: &str) -> Result<(), String> {
    let mut numbers = version.trim_start_matches('v').split(['.', '+', '-']);
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) < (1, OLDEST_MINOR) => Err(format!(
            "the cluster runs Kubernetes {version}; upgrade it to v1.{OLDEST_MINOR} or later"
        )),
        (Some(_), Some(_)) => Ok(()),
        _ => Err(format!("cannot make sense of the cluster's version, '{version}'")),
    }
}

/// Whether a cluster may have this name, and everything that peers name after it.
pub fn cluster(name: &str, id: &str) -> Result<(), String> {
    let name: ClusterName = name.parse().map_err(|error| format!("{error}"))?;
    let id: ClusterId = id.parse().map_err(|error| format!("{error}"))?;
    let cluster = Cluster { id, name };
    let derived = cluster.tenant_namespace().map(drop).and(cluster.virtual_node().map(drop));
    derived.map_err(|error| format!("the cluster name is too long: {error}"))
}

/// Reads labels written `key=value`.
pub fn labels(words: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| {
            format!("'{word}' is no label; write key=value, and commas between labels")
        })?;
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("a", key));
        let is_prefix = prefix.len() <= 253 && prefix.split('.').all(is_dns_part);
        if !is_prefix || !is_label_text(name) {
            return Err(format!("'{key}' is no key of a label"));
        }
        if !value.is_empty() && !is_label_text(value) {
            return Err(format!("'{value}' is no value of the label {key}"));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

fn is_dns_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=LONGEST_LABEL).contains(&text.len())
        && text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether networks that have to differ do.
pub fn networks(pods: Ipv4Net, services: Ipv4Net) -> Result<(), String> {
    if pods.contains(&services) || services.contains(&pods) {
        return Err(format!("the networks of pods, {pods}, and of services, {services}, overlap"));
    }
    Ok(())
}

/// Where peers reach the API server: as given, or where the kubeconfig says, if that is of use.
pub fn api_server(
    given: Option<&str>,
    kubeconfig: &Uri,
    trust: bool,
    compare: bool,
) -> Result<Option<String>, String> {
    let (host, port) = place(kubeconfig);
    let Some(given) = given.filter(|text| !text.is_empty()) else {
        let usable = trust && !is_local(&host);
        return Ok(usable.then(|| format!("https://{}:{port}", bracketed(&host))));
    };
    let url = if given.contains("://") { given.to_owned() } else { format!("https://{given}") };
    let uri: Uri = url.parse().map_err(|_| format!("'{given}' is no URL of an API server"))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(format!("'{given}' is no URL of an API server"));
    }
    let other = place(&uri);
    if is_local(&other.0) {
        return Err(format!(
            "the API server URL '{given}' is one that only this machine can use; give the one \
             that other clusters can reach"
        ));
    }
    if compare && other != (host.clone(), port) {
        return Err(format!(
            "the API server URL '{given}' is not that of the kubeconfig, '{host}:{port}'; are \
             you on the right cluster? If so, add --disable-api-server-sanity-check"
        ));
    }
    Ok(Some(url))
}

fn place(uri: &Uri) -> (String, u16) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    (uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(), port)
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn is_local(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Whether all addresses of pods are in the network of pods.
pub fn pods<'a>(
    network: Ipv4Net,
    pods: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    outside(network, pods)
        .map_or(Ok(()), |examples| Err(format!("the network of pods is not {network}: {examples}")))
}

/// Whether all addresses of services are in the network of services.
pub fn services<'a>(
    network: Ipv4Net,
    services: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    outside(network, services).map_or(Ok(()), |examples| {
        Err(format!("the network of services is not {network}: {examples}"))
    })
}

/// Names what is not in a network; addresses of the other family are of no concern.
fn outside<'a>(network: Ipv4Net, all: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let address = |text: &str| text.parse::<Ipv4Addr>().ok();
    let strays: Vec<String> = all
        .filter(|(_, text)| address(text).is_some_and(|ip| !network.contains(&ip)))
        .map(|(name, address)| format!("{name} has {address}"))
        .collect();
    let examples: Vec<&str> = strays.iter().take(EXAMPLES).map(String::as_str).collect();
    let more = strays.len().saturating_sub(EXAMPLES);
    match (examples.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(examples.join(", ")),
        (false, more) => Some(format!("{}, and {more} more", examples.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

    #[test]
    fn old_clusters_are_refused() {
        assert!(kubernetes("v1.22.0").is_ok());
        assert!(kubernetes("v1.34.4+k3s1").is_ok());
        assert!(kubernetes("v2.0.0").is_ok());
        assert_eq!(
            kubernetes("v1.21.14").unwrap_err(),
            "the cluster runs Kubernetes v1.21.14; upgrade it to v1.22 or later"
        );
        assert!(kubernetes("main").is_err());
    }

    #[test]
    fn a_name_has_to_leave_room_for_what_is_named_after_it() {
        assert!(cluster("rome", ID).is_ok());
        assert!(cluster("Rome", ID).unwrap_err().contains("'Rome' is not a cluster name"));
        assert!(cluster(&"a".repeat(45), ID).unwrap_err().starts_with("the cluster name is too"));
    }

    #[test]
    fn labels_are_those_of_kubernetes() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();

        let read = labels(&words("region=eu-west,liqo.io/provider=kind,empty=")).unwrap();
        assert_eq!(read["liqo.io/provider"], "kind");
        assert_eq!(read["empty"], "");
        for wrong in ["region", "=x", "a/b/c=d", "-a=b", "a=b c", "a=-b", "A_/b=c"] {
            assert!(labels(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_kubeconfig_tells_the_address_unless_it_is_local() {
        let known = |url: &str, trust| api_server(None, &uri(url), trust, true).unwrap();

        let remote = known("https://192.0.2.1:6443/", true);
        assert_eq!(remote.as_deref(), Some("https://192.0.2.1:6443"));
        assert_eq!(known("https://api.example", true).as_deref(), Some("https://api.example:443"));
        assert_eq!(
            known("https://[2001:db8::1]:6443", true).as_deref(),
            Some("https://[2001:db8::1]:6443")
        );
        for local in ["127.0.0.1", "0.0.0.0", "localhost", "[::1]"] {
            assert_eq!(known(&format!("https://{local}:6443"), true), None, "{local}");
        }
        assert_eq!(known("https://192.0.2.1:6443/", false), None);
    }

    #[test]
    fn a_given_address_has_to_be_that_of_the_kubeconfig() {
        let check =
            |given, compare| api_server(Some(given), &uri("https://a.example"), true, compare);

        assert_eq!(
            check("https://a.example:443", true).unwrap().as_deref(),
            Some("https://a.example:443")
        );
        assert_eq!(check("a.example", true).unwrap().as_deref(), Some("https://a.example"));
        assert!(
            check("https://b.example", true).unwrap_err().contains("not that of the kubeconfig")
        );
        assert!(check("https://b.example", false).is_ok());
        assert!(check("https://localhost:6443", false).unwrap_err().contains("only this machine"));
        assert!(check("https://", false).is_err());
    }

    #[test]
    fn addresses_outside_of_their_network_are_named() {
        let network = "10.0.0.0/16".parse().unwrap();
        let all = [("a", "10.0.3.4"), ("b", "10.1.0.1"), ("c", "None"), ("d", "fd00::1")];

        assert_eq!(pods(network, all.into_iter().skip(2)), Ok(()));
        assert_eq!(
            pods(network, all.into_iter()).unwrap_err(),
            "the network of pods is not 10.0.0.0/16: b has 10.1.0.1"
        );
        let many = ["a", "b", "c", "d", "e"].map(|name| (name, "192.0.2.1"));
        let error = services(network, many.into_iter()).unwrap_err();
        assert!(error.ends_with("c has 192.0.2.1, and 2 more"), "{error}");
    }

    #[test]
    fn networks_of_pods_and_services_differ() {
        let net = |text: &str| text.parse().unwrap();
        assert!(networks(net("10.0.0.0/16"), net("10.1.0.0/16")).is_ok());
        assert!(networks(net("10.0.0.0/8"), net("10.1.0.0/16")).is_err());
    }

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }
}
