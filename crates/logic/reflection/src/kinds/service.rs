//! Services: what their users rely on is copied; what a cluster hands out is handed out by the other
//! one: addresses, and ports of nodes unless the user wants the same there.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use liqo_api::keys::object::{DEFAULT_NAMESPACE, KUBERNETES_SERVICE};
use liqo_api::keys::{annotation, label};

use crate::{Outcome, Place, Reflect, Translated};

/// The address of a Service that has none, and wants none.
const HEADLESS: &str = "None";

/// Services.
pub struct Services;

impl Reflect for Services {
    type Source = Service;
    type Target = Service;
    const NAME: &'static str = "Service";

    fn remote_name(name: &str, place: &Place) -> Option<String> {
        (!is_api_server(name, place)).then(|| name.to_owned())
    }

    fn home_name(name: &str, place: &Place) -> Option<String> {
        Self::remote_name(name, place)
    }

    fn desired(source: &Service, place: &Place, _: &Translated) -> Outcome<Service> {
        let name = source.metadata.name.as_deref().unwrap_or_default();
        let Some(name) = Self::remote_name(name, place) else { return Outcome::Nothing };
        let annotations = source.metadata.annotations.as_ref();
        let same_ports = annotations
            .and_then(|annotations| annotations.get(annotation::FORCE_REMOTE_NODE_PORT))
            .is_some_and(|value| value == label::TRUE);
        Outcome::Copy(Service {
            metadata: place.metadata(&source.metadata, name),
            spec: source.spec.as_ref().map(|spec| copy(spec, same_ports)),
            status: None,
        })
    }

    fn trim(source: &mut Service) {
        source.status = None;
    }
}

/// Whether a Service is the one of the API server, of which every cluster has its own.
pub(super) fn is_api_server(name: &str, place: &Place) -> bool {
    name == KUBERNETES_SERVICE && place.home_namespace == DEFAULT_NAMESPACE
}

fn copy(spec: &ServiceSpec, same_ports: bool) -> ServiceSpec {
    let ports = spec.ports.as_ref();
    ServiceSpec {
        type_: spec.type_.clone(),
        selector: spec.selector.clone(),
        cluster_ip: spec.cluster_ip.clone().filter(|address| address == HEADLESS),
        external_name: spec.external_name.clone(),
        allocate_load_balancer_node_ports: spec.allocate_load_balancer_node_ports,
        external_traffic_policy: spec.external_traffic_policy.clone(),
        internal_traffic_policy: spec.internal_traffic_policy.clone(),
        ip_family_policy: spec.ip_family_policy.clone(),
        load_balancer_class: spec.load_balancer_class.clone(),
        load_balancer_source_ranges: spec.load_balancer_source_ranges.clone(),
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        session_affinity: spec.session_affinity.clone(),
        ports: ports.map(|ports| ports.iter().map(|port| copy_port(port, same_ports)).collect()),
        ..ServiceSpec::default()
    }
}

fn copy_port(port: &ServicePort, same_ports: bool) -> ServicePort {
    ServicePort {
        name: port.name.clone(),
        port: port.port,
        target_port: port.target_port.clone(),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
        // None here means none there; one here means one there, but which is not ours to say.
        node_port: match port.node_port {
            None | Some(0) => Some(0),
            Some(number) => same_ports.then_some(number),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::place::tests::place;

    #[test]
    fn what_users_rely_on_is_copied_and_what_a_cluster_hands_out_is_not() {
        let copy = copied(&json!({
            "type": "LoadBalancer", "selector": {"app": "web"}, "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
            "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "example.org/lb",
            "loadBalancerSourceRanges": ["192.0.2.0/24"], "publishNotReadyAddresses": true,
            "sessionAffinity": "ClientIP",
            "clusterIP": "10.94.0.7", "clusterIPs": ["10.94.0.7"], "ipFamilies": ["IPv4"],
            "externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.2",
            "healthCheckNodePort": 31000, "trafficDistribution": "PreferClose",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
            "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP",
                       "appProtocol": "http", "nodePort": 30080}],
        }));
        assert_eq!(
            copy["spec"],
            json!({
                "type": "LoadBalancer", "selector": {"app": "web"},
                "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster",
                "ipFamilyPolicy": "SingleStack", "allocateLoadBalancerNodePorts": true,
                "loadBalancerClass": "example.org/lb", "publishNotReadyAddresses": true,
                "loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP",
                "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP",
                           "appProtocol": "http"}],
            })
        );
        assert_eq!(copy.get("status"), None);
    }

    #[test]
    fn a_headless_service_stays_headless() {
        assert_eq!(copied(&json!({"clusterIP": "None"}))["spec"]["clusterIP"], "None");
    }

    #[test]
    fn the_port_of_nodes_is_chosen_there_unless_the_user_insists() {
        let spec = json!({"type": "NodePort", "ports": [
            {"port": 80, "nodePort": 30080}, {"port": 81},
        ]});
        let ports = |annotations: Value| {
            let copy = copied_with(&annotations, &spec);
            [0, 1].map(|index| copy["spec"]["ports"][index]["nodePort"].clone())
        };
        assert_eq!(ports(json!({})), [Value::Null, json!(0)]);
        let force = "liqo.io/force-remote-node-port";
        assert_eq!(ports(json!({force: "true"})), [json!(30080), json!(0)]);
        assert_eq!(ports(json!({force: "no"})), [Value::Null, json!(0)]);
    }

    #[test]
    fn the_service_of_the_api_server_is_never_copied() {
        let mut place = place();
        assert_eq!(Services::remote_name("kubernetes", &place).as_deref(), Some("kubernetes"));
        place.home_namespace = "default".to_owned();
        assert_eq!(Services::remote_name("kubernetes", &place), None);
        assert_eq!(Services::home_name("kubernetes", &place), None);
        assert_eq!(Services::remote_name("web", &place).as_deref(), Some("web"));
    }

    fn copied(spec: &Value) -> Value {
        copied_with(&json!({}), spec)
    }

    fn copied_with(annotations: &Value, spec: &Value) -> Value {
        let metadata = json!({"name": "web", "namespace": "shop", "annotations": annotations});
        let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}});
        let source = json!({"metadata": metadata, "spec": spec, "status": status});
        let source: Service = serde_json::from_value(source).unwrap();
        let Outcome::Copy(copy) = Services::desired(&source, &place(), &Translated::new()) else {
            panic!("no copy")
        };
        assert_eq!(copy.metadata, place().metadata(&source.metadata, "web"));
        serde_json::to_value(copy).unwrap()
    }
}
