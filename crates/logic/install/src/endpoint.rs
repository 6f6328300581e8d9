//! Where other clusters reach this one.

use k8s_openapi::api::core::v1::{Node, Service, ServicePort};
use liqo_api::keys::{annotation, label, port};

/// Kinds of addresses of a node, the best first.
const PREFERENCE: [&str; 5] =
    ["ExternalDNS", "ExternalIP", "InternalDNS", "InternalIP", "Hostname"];
/// Labels of the nodes that run the API server, the best first.
const CONTROL_PLANES: [&str; 3] = [label::CONTROL_PLANE, label::MASTER, label::CONTROLPLANE];
const HTTPS: &str = "443";

/// The address of a node that others should use.
pub fn node_address(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_deref()?;
    PREFERENCE.iter().find_map(|kind| {
        addresses.iter().find(|one| one.type_ == *kind).map(|one| one.address.as_str())
    })
}

/// The URL of the API server: as configured, or on a node of the control plane.
pub fn api_server_url(configured: &str, nodes: &[Node]) -> Result<String, String> {
    if !configured.is_empty() {
        let is_whole = configured.starts_with("https://");
        return Ok(if is_whole { configured.to_owned() } else { format!("https://{configured}") });
    }
    let address = CONTROL_PLANES
        .iter()
        .find_map(|role| nodes.iter().filter(|node| labelled(node, role)).find_map(node_address));
    address.map(|address| format!("https://{address}:{}", port::API_SERVER)).ok_or_else(|| {
        "no node of the control plane tells an address; set apiServer.address".to_owned()
    })
}

/// The URL of the authentication service.
pub fn auth_url(service: &Service, nodes: &[Node]) -> Result<String, String> {
    let (address, port) = place(service, nodes)?;
    Ok(if port == HTTPS {
        format!("https://{address}")
    } else {
        format!("https://{address}:{port}")
    })
}

/// The address and port of a service that other clusters use.
pub fn place(service: &Service, nodes: &[Node]) -> Result<(String, String), String> {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let spec = service.spec.as_ref().ok_or_else(|| format!("service {name} says nothing"))?;
    let noted = |key: &str| {
        let annotations = service.metadata.annotations.as_ref()?;
        annotations.get(key).filter(|text| !text.is_empty())
    };
    let first: Option<&ServicePort> = spec.ports.as_deref().unwrap_or_default().first();
    let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
    let known_address = noted(annotation::OVERRIDE_ADDRESS).map(|text| {
        text.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/')
    });
    let address = match (known_address, kind) {
        (Some(address), _) => Some(address),
        (None, "LoadBalancer") => ingress(service),
        (None, _) => physical(nodes).next().and_then(node_address),
    };
    let address = address.ok_or_else(|| format!("service {name} has no address yet"))?;
    let port = match (noted(annotation::OVERRIDE_PORT), kind, first) {
        (Some(port), _, _) => Some(port.clone()),
        (None, "LoadBalancer", Some(first)) => Some(first.port.to_string()),
        (None, "NodePort", Some(first)) => first.node_port.map(|port| port.to_string()),
        (None, _, _) => None,
    };
    let port = port.ok_or_else(|| {
        format!("service {name} of type {kind} cannot be reached from outside of the cluster")
    })?;
    Ok((address.to_owned(), port))
}

fn ingress(service: &Service) -> Option<&str> {
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    let first = balancer.ingress.as_deref()?.first()?;
    first.hostname.as_deref().filter(|name| !name.is_empty()).or(first.ip.as_deref())
}

fn physical(nodes: &[Node]) -> impl Iterator<Item = &Node> {
    nodes.iter().filter(|node| {
        let labels = node.metadata.labels.as_ref();
        let kind = labels.and_then(|labels| labels.get(label::TYPE));
        kind.is_none_or(|kind| kind != label::TYPE_VIRTUAL_NODE)
    })
}

fn labelled(node: &Node, key: &str) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_balanced_service_is_reached_at_its_own_address() {
        let balanced = |ingress: Value| {
            service(json!({
                "spec": {"type": "LoadBalancer", "ports": [{"port": 443, "nodePort": 30443}]},
                "status": {"loadBalancer": {"ingress": ingress}},
            }))
        };

        let url = |ingress| auth_url(&balanced(ingress), &[]);
        assert_eq!(url(json!([{"ip": "192.0.2.7"}])).unwrap(), "https://192.0.2.7");
        assert_eq!(url(json!([{"ip": "192.0.2.7", "hostname": "a.b"}])).unwrap(), "https://a.b");
        assert_eq!(url(json!([])).unwrap_err(), "service liqo-auth has no address yet");
    }

    #[test]
    fn a_port_of_the_nodes_is_reached_at_the_first_one_that_is_real() {
        let ported = service(json!({"spec": {"type": "NodePort",
            "ports": [{"port": 443, "nodePort": 30443}]}}));
        let nodes =
            [node("liqo.io/type", "virtual-node", "192.0.2.1"), node("a", "b", "192.0.2.2")];

        assert_eq!(auth_url(&ported, &nodes).unwrap(), "https://192.0.2.2:30443");
    }

    #[test]
    fn what_is_noted_on_the_service_counts_first() {
        let noted = service(json!({
            "metadata": {"name": "liqo-auth", "annotations": {
                "liqo.io/override-address": "https://auth.example/", "liqo.io/override-port": "8443",
            }},
            "spec": {"type": "ClusterIP", "ports": [{"port": 443}]},
        }));

        assert_eq!(auth_url(&noted, &[]).unwrap(), "https://auth.example:8443");
    }

    #[test]
    fn a_service_of_the_cluster_alone_is_not_reached() {
        let inner = service(json!({"spec": {"type": "ClusterIP", "ports": [{"port": 443}]}}));

        assert_eq!(
            auth_url(&inner, &[node("a", "b", "192.0.2.2")]).unwrap_err(),
            "service liqo-auth of type ClusterIP cannot be reached from outside of the cluster"
        );
    }

    #[test]
    fn the_api_server_is_on_the_control_plane() {
        let nodes = [
            node("a", "b", "192.0.2.1"),
            node("node-role.kubernetes.io/control-plane", "", "192.0.2.2"),
        ];

        assert_eq!(api_server_url("", &nodes).unwrap(), "https://192.0.2.2:6443");
        assert_eq!(api_server_url("a.b:1", &nodes).unwrap(), "https://a.b:1");
        assert_eq!(api_server_url("https://a.b", &nodes).unwrap(), "https://a.b");
        assert!(api_server_url("", &nodes[..1]).is_err());
    }

    fn service(value: Value) -> Service {
        let mut service: Service = serde_json::from_value(value).unwrap();
        service.metadata.name = Some("liqo-auth".to_owned());
        service
    }

    fn node(key: &str, value: &str, address: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": address, "labels": {key: value}},
            "status": {"addresses": [
                {"type": "Hostname", "address": "name"}, {"type": "InternalIP", "address": address},
            ]},
        }))
        .unwrap()
    }
}
