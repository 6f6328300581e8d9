//! Where peers reach our gateway, and by which key they know it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::{Secret, Service, ServicePort};
use kube_core::ResourceExt as _;
use liqo_api::keys::{annotation, port, secret};

/// The length of a WireGuard key.
const KEY_LENGTH: usize = 32;

/// What a peer has to know of our gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its address, or its name in DNS.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Its public key, in base64.
    pub public_key: String,
}

/// Why peers cannot be told of our gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGateway {
    /// There is no Service.
    #[error("there is no Service of the gateway; is it installed?")]
    NoService,
    /// Nobody told the address of the node yet.
    #[error("no gateway is active yet, so its address is not known")]
    NotActive,
    /// The load balancer has no address yet.
    #[error(
        "the load balancer of the gateway has no address yet; without one, set \
         gateway.config.addressOverride in the chart or use a NodePort"
    )]
    LoadBalancer,
    /// The Service is of a kind that nobody reaches from outside.
    #[error(
        "the Service of the gateway is of type {0}, which nobody reaches from outside; make it a \
         NodePort or a LoadBalancer, or set gateway.config.addressOverride and portOverride"
    )]
    Inside(String),
    /// The Service has no port for the tunnel.
    #[error("the Service of the gateway has no port '{}'", port::NAME_WIREGUARD)]
    NoPort,
    /// The port that was given by hand is none.
    #[error("'{0}' is no port; set gateway.config.portOverride to a number from 1 to 65535")]
    BadPort(String),
    /// There is no key yet.
    #[error("the gateway has not made its key yet")]
    NoKey,
    /// The key is none.
    #[error("the Secret with the key of the gateway holds no public key; delete it to get another")]
    BadKey,
}

/// What peers are told of our gateway.
pub fn gateway(service: Option<&Service>, key: Option<&Secret>) -> Result<Gateway, NoGateway> {
    let (address, port) = endpoint(service)?;
    let key = key.ok_or(NoGateway::NoKey)?;
    let data = key.data.as_ref().and_then(|data| data.get(secret::WIREGUARD_PUBLIC_KEY));
    let text = data.and_then(|data| std::str::from_utf8(&data.0).ok()).map(str::trim);
    let public_key = text.filter(|text| is_key(text)).ok_or(NoGateway::BadKey)?.to_owned();
    Ok(Gateway { address, port, public_key })
}

/// The address and the port at which peers reach our gateway.
pub fn endpoint(service: Option<&Service>) -> Result<(String, u16), NoGateway> {
    let service = service.ok_or(NoGateway::NoService)?;
    Ok((address(service)?, port(service)?))
}

/// Whether a text is a WireGuard key.
pub fn is_key(text: &str) -> bool {
    BASE64_STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == KEY_LENGTH)
}

/// Where peers reach our gateway, as its Service says.
pub fn address(service: &Service) -> Result<String, NoGateway> {
    if let Some(address) = annotated(service, annotation::OVERRIDE_ADDRESS) {
        return Ok(address.to_owned());
    }
    match kind(service) {
        "NodePort" => {
            let node = annotated(service, annotation::GATEWAY_NODE_IP);
            node.map(str::to_owned).ok_or(NoGateway::NotActive)
        }
        "LoadBalancer" => {
            let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            let ingress = status.and_then(|status| status.ingress.as_ref()?.first());
            let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            ingress
                .and_then(|ingress| some(&ingress.ip).or_else(|| some(&ingress.hostname)))
                .ok_or(NoGateway::LoadBalancer)
        }
        other => Err(NoGateway::Inside(other.to_owned())),
    }
}

fn port(service: &Service) -> Result<u16, NoGateway> {
    if let Some(text) = annotated(service, annotation::OVERRIDE_PORT) {
        let port = text.parse().ok().filter(|port| *port > 0);
        return port.ok_or_else(|| NoGateway::BadPort(text.to_owned()));
    }
    let number = match kind(service) {
        "NodePort" => tunnel_port(service).and_then(|port| port.node_port),
        "LoadBalancer" => tunnel_port(service).map(|port| port.port),
        other => return Err(NoGateway::Inside(other.to_owned())),
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or(NoGateway::NoPort)
}

fn tunnel_port(service: &Service) -> Option<&ServicePort> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    ports.iter().find(|port| port.name.as_deref() == Some(port::NAME_WIREGUARD))
}

fn kind(service: &Service) -> &str {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP")
}

fn annotated<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    let value = service.annotations().get(name)?.trim();
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{KEY, key, read};

    #[test]
    fn a_node_port_is_reached_on_the_node_of_the_active_gateway() {
        let mut service = service("NodePort");
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Err(NoGateway::NotActive));
        annotate(&mut service, annotation::GATEWAY_NODE_IP, "172.30.0.2");
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Ok(told("172.30.0.2", 32680)));
    }

    #[test]
    fn a_load_balancer_is_reached_by_address_before_name() {
        let mut service = service("LoadBalancer");
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Err(NoGateway::LoadBalancer));
        let ingress = |value| read(json!({"loadBalancer": {"ingress": [value]}}));
        service.status = ingress(json!({"hostname": "gw.example.org"}));
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Ok(told("gw.example.org", 5871)));
        service.status = ingress(json!({"hostname": "gw.example.org", "ip": "203.0.113.7"}));
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Ok(told("203.0.113.7", 5871)));
    }

    #[test]
    fn what_was_given_by_hand_comes_first() {
        let mut service = service("ClusterIP");
        let inside = Err(NoGateway::Inside("ClusterIP".to_owned()));
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), inside);
        annotate(&mut service, annotation::OVERRIDE_ADDRESS, "gw.example.org");
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), inside);
        annotate(&mut service, annotation::OVERRIDE_PORT, "4000");
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), Ok(told("gw.example.org", 4000)));
        annotate(&mut service, annotation::OVERRIDE_PORT, "0");
        let bad = Err(NoGateway::BadPort("0".to_owned()));
        assert_eq!(gateway(Some(&service), Some(&key(KEY))), bad);
    }

    #[test]
    fn without_a_key_there_is_no_tunnel() {
        let mut service = service("NodePort");
        annotate(&mut service, annotation::GATEWAY_NODE_IP, "172.30.0.2");
        assert_eq!(gateway(Some(&service), None), Err(NoGateway::NoKey));
        assert_eq!(gateway(Some(&service), Some(&key("short"))), Err(NoGateway::BadKey));
        assert_eq!(gateway(None, Some(&key(KEY))), Err(NoGateway::NoService));
    }

    fn told(address: &str, port: u16) -> Gateway {
        Gateway { address: address.to_owned(), port, public_key: KEY.to_owned() }
    }

    fn annotate(service: &mut Service, name: &str, value: &str) {
        service.annotations_mut().insert(name.to_owned(), value.to_owned());
    }

    fn service(kind: &str) -> Service {
        let tunnel = json!({"name": "wireguard", "port": 5871, "nodePort": 32680});
        let metrics = json!({"name": "metrics", "port": 5872, "nodePort": 32681});
        read(json!({"spec": {"type": kind, "ports": [metrics, tunnel]}}))
    }
}
