//! Under which addresses a cluster tells its peers to reach it.

use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::{Node, Service};
use liqo_api::keys::{annotation, label, port};

/// Which address of a node is best to reach it from outside, best first.
const PREFERENCE: [&str; 5] =
    ["ExternalDNS", "ExternalIP", "InternalDNS", "InternalIP", "Hostname"];

/// The marks of nodes with an API server, newest first.
const CONTROL_PLANE: [&str; 3] = [label::CONTROL_PLANE, label::MASTER, label::CONTROLPLANE];

const SCHEME: &str = "https://";

/// No address can be told to peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// No node runs the API server, as far as labels say.
    #[error(
        "no node of the control plane has an address; say where peers reach the API server with \
         --advertise-api-server-address (apiServer.address in the chart)"
    )]
    ApiServer,
    /// The load balancer has no address yet.
    #[error(
        "the load balancer of the authentication service has no address yet; without one, set \
         auth.config.addressOverride in the chart or use a NodePort"
    )]
    LoadBalancer,
    /// No node has an address.
    #[error("no node has an address under which peers could reach the authentication service")]
    Node,
    /// The Service is of a kind that nobody reaches from outside.
    #[error(
        "the Service of the authentication service is not reached from outside; make it a NodePort \
         or a LoadBalancer, or set auth.config.addressOverride and portOverride in the chart"
    )]
    Inside,
}

/// Where peers reach the API server: what was configured, or a node of the control plane.
pub fn api_server(configured: Option<&str>, nodes: &[Node]) -> Result<String, Unknown> {
    if let Some(address) = configured.map(str::trim).filter(|address| !address.is_empty()) {
        let known = address.starts_with(SCHEME) || address.starts_with("http://");
        return Ok(if known { address.to_owned() } else { format!("{SCHEME}{address}") });
    }
    let marked = |mark: &str| nodes.iter().filter(|node| has_label(node, mark)).collect::<Vec<_>>();
    let candidates = CONTROL_PLANE.into_iter().map(marked).find(|nodes| !nodes.is_empty());
    let address = best_address(&candidates.unwrap_or_default()).ok_or(Unknown::ApiServer)?;
    Ok(format!("{SCHEME}{}:{}", bracketed(address), port::API_SERVER))
}

/// Where peers reach the authentication service.
pub fn authentication(service: &Service, nodes: &[Node]) -> Result<String, Unknown> {
    let (address, port) = place(service, nodes)?;
    let address = bracketed(&address);
    if port == port::AUTH.to_string() {
        Ok(format!("{SCHEME}{address}"))
    } else {
        Ok(format!("{SCHEME}{address}:{port}"))
    }
}

/// The address and the port at which peers reach a Service.
fn place(service: &Service, nodes: &[Node]) -> Result<(String, String), Unknown> {
    let address = address_of(service, nodes)?;
    Ok((address, port_of(service).ok_or(Unknown::Inside)?))
}

fn address_of(service: &Service, nodes: &[Node]) -> Result<String, Unknown> {
    if let Some(address) = annotation_of(service, annotation::OVERRIDE_ADDRESS) {
        let bare = address.split_once("://").map_or(address, |(_, rest)| rest);
        return Ok(bare.trim_end_matches('/').to_owned());
    }
    if kind(service) == "LoadBalancer" {
        let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = status.and_then(|status| status.ingress.as_ref()?.first());
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        return ingress
            .and_then(|ingress| some(&ingress.hostname).or_else(|| some(&ingress.ip)))
            .ok_or(Unknown::LoadBalancer);
    }
    // With the port given by hand, any kind may be reached through something in front of it.
    let mut real = nodes.iter().filter(|node| !is_virtual(node));
    let address = real.find_map(|node| best_address(&[node]));
    address.map(str::to_owned).ok_or(Unknown::Node)
}

fn port_of(service: &Service) -> Option<String> {
    if let Some(port) = annotation_of(service, annotation::OVERRIDE_PORT) {
        return Some(port.to_owned());
    }
    let first = service.spec.as_ref()?.ports.as_ref()?.first()?;
    match kind(service) {
        "LoadBalancer" => Some(first.port.to_string()),
        "NodePort" => first.node_port.map(|port| port.to_string()),
        _ => None,
    }
}

fn kind(service: &Service) -> &str {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP")
}

fn annotation_of<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    let value = service.metadata.annotations.as_ref()?.get(name)?.trim();
    (!value.is_empty()).then_some(value)
}

/// The first address of the best kind that any of the nodes has.
fn best_address<'a>(nodes: &[&'a Node]) -> Option<&'a str> {
    let all: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.status.as_ref()?.addresses.as_ref())
        .flatten()
        .filter(|address| !address.address.is_empty())
        .collect();
    PREFERENCE.into_iter().find_map(|kind| {
        all.iter().find(|address| address.type_ == kind).map(|address| address.address.as_str())
    })
}

fn has_label(node: &Node, name: &str) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(name))
}

fn is_virtual(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label::TYPE)).map(String::as_str)
        == Some(label::TYPE_VIRTUAL_NODE)
}

/// An address as it stands in a URL.
fn bracketed(address: &str) -> String {
    if address.parse::<Ipv6Addr>().is_ok() { format!("[{address}]") } else { address.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{
        LoadBalancerIngress, LoadBalancerStatus, NodeAddress, NodeStatus, ServicePort, ServiceSpec,
        ServiceStatus,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn a_configured_api_server_is_told_as_it_is() {
        let of = |text| api_server(Some(text), &[]).unwrap();
        assert_eq!(of("https://api.rome:6444"), "https://api.rome:6444");
        assert_eq!(of("198.18.0.1"), "https://198.18.0.1");
        assert_eq!(api_server(Some(" "), &[]), Err(Unknown::ApiServer));
    }

    #[test]
    fn the_api_server_is_on_a_node_of_the_control_plane() {
        let worker = node(&[], &[("ExternalIP", "198.18.0.9")]);
        let old = node(&[(label::MASTER, "")], &[("InternalIP", "198.18.0.3")]);
        let new = node(&[(label::CONTROL_PLANE, "")], &[("InternalIP", "198.18.0.4")]);
        let of = |nodes: &[Node]| api_server(None, nodes);
        assert_eq!(of(&[worker.clone(), old.clone()]).unwrap(), "https://198.18.0.3:6443");
        assert_eq!(of(&[worker.clone(), old, new]).unwrap(), "https://198.18.0.4:6443");
        assert_eq!(of(&[worker]), Err(Unknown::ApiServer));
    }

    #[test]
    fn the_address_that_reaches_farthest_is_taken() {
        let addresses =
            [("Hostname", "one"), ("InternalIP", "10.0.0.1"), ("ExternalIP", "198.18.0.1")];
        let nodes = [
            node(&[(label::CONTROL_PLANE, "")], &addresses[..2]),
            node(&[(label::CONTROL_PLANE, "")], &addresses),
        ];
        assert_eq!(api_server(None, &nodes).unwrap(), "https://198.18.0.1:6443");
        let six = [node(&[(label::CONTROL_PLANE, "")], &[("InternalIP", "fd00::1")])];
        assert_eq!(api_server(None, &six).unwrap(), "https://[fd00::1]:6443");
    }

    #[test]
    fn a_node_port_is_reached_at_the_first_real_node() {
        let nodes = [
            node(&[(label::TYPE, label::TYPE_VIRTUAL_NODE)], &[("InternalIP", "10.9.9.9")]),
            node(&[], &[("InternalIP", "198.18.0.4")]),
        ];
        let service = service("NodePort", &[]);
        assert_eq!(authentication(&service, &nodes).unwrap(), "https://198.18.0.4:30443");
        assert_eq!(authentication(&service, &nodes[..1]), Err(Unknown::Node));
    }

    #[test]
    fn a_load_balancer_is_reached_at_its_own_address() {
        let mut service = service("LoadBalancer", &[]);
        assert_eq!(authentication(&service, &[]), Err(Unknown::LoadBalancer));
        let ingress = |hostname: Option<&str>| LoadBalancerIngress {
            ip: Some("198.18.7.7".to_owned()),
            hostname: hostname.map(str::to_owned),
            ..LoadBalancerIngress::default()
        };
        let mut balance = |ingress| {
            let load_balancer = Some(LoadBalancerStatus { ingress: Some(vec![ingress]) });
            service.status = Some(ServiceStatus { load_balancer, ..ServiceStatus::default() });
            authentication(&service, &[]).unwrap()
        };
        assert_eq!(balance(ingress(None)), "https://198.18.7.7");
        assert_eq!(balance(ingress(Some("auth.rome"))), "https://auth.rome");
    }

    #[test]
    fn overrides_win() {
        let both = [
            (annotation::OVERRIDE_ADDRESS, "https://auth.rome.it/"),
            (annotation::OVERRIDE_PORT, "8443"),
        ];
        let of =
            |annotations: &[(&str, &str)]| authentication(&service("ClusterIP", annotations), &[]);
        assert_eq!(of(&both).unwrap(), "https://auth.rome.it:8443");
        assert_eq!(of(&both[..1]), Err(Unknown::Inside));
    }

    fn node(labels: &[(&str, &str)], addresses: &[(&str, &str)]) -> Node {
        let address = |(kind, address): &(&str, &str)| NodeAddress {
            type_: (*kind).to_owned(),
            address: (*address).to_owned(),
        };
        let addresses = Some(addresses.iter().map(address).collect());
        Node {
            metadata: ObjectMeta { labels: Some(texts(labels)), ..ObjectMeta::default() },
            status: Some(NodeStatus { addresses, ..NodeStatus::default() }),
            ..Node::default()
        }
    }

    fn service(kind: &str, annotations: &[(&str, &str)]) -> Service {
        let port = ServicePort { port: 443, node_port: Some(30443), ..ServicePort::default() };
        Service {
            metadata: ObjectMeta { annotations: Some(texts(annotations)), ..ObjectMeta::default() },
            spec: Some(ServiceSpec {
                type_: Some(kind.to_owned()),
                ports: Some(vec![port]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }
}
