//! Slices of endpoints: those of this cluster, for Services that exist in both.
//!
//! Endpoints behind the virtual node run in the other cluster, which knows them itself. The others are
//! told by the addresses that they have there, and the other cluster makes a slice of them that is
//! ready only as long as this cluster can be reached.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use liqo_api::keys::{annotation, label};
use liqo_api::virtualkubelet::{
    EndpointSliceTemplate, ShadowEndpointSlice, ShadowEndpointSliceSpec,
};

use super::service::is_api_server;
use crate::{Outcome, Place, Reflect, Translated};

/// Slices of endpoints.
pub struct EndpointSlices;

impl Reflect for EndpointSlices {
    type Source = EndpointSlice;
    type Target = ShadowEndpointSlice;
    const NAME: &'static str = "EndpointSlice";
    const HAS_SERVICE: bool = true;

    fn remote_name(name: &str, place: &Place) -> Option<String> {
        (!is_api_server(name, place)).then(|| name.to_owned())
    }

    fn home_name(name: &str, place: &Place) -> Option<String> {
        Self::remote_name(name, place)
    }

    fn service(source: &EndpointSlice) -> Option<&str> {
        let labels = source.metadata.labels.as_ref()?;
        labels.get(label::SERVICE_NAME).map(String::as_str)
    }

    fn addresses(source: &EndpointSlice, place: &Place) -> Vec<IpAddr> {
        let endpoints = here(source, place).flat_map(|endpoint| &endpoint.addresses);
        endpoints.filter_map(|address| address.parse().ok()).collect()
    }

    fn desired(
        source: &EndpointSlice,
        place: &Place,
        addresses: &Translated,
    ) -> Outcome<ShadowEndpointSlice> {
        let is_api_server = Self::service(source).is_some_and(|name| is_api_server(name, place));
        let name = source.metadata.name.as_deref().unwrap_or_default();
        let name = Self::remote_name(name, place).filter(|_| !is_api_server);
        let Some(name) = name else { return Outcome::Nothing };
        let endpoints: Vec<_> =
            here(source, place).map(|endpoint| copy(endpoint, place, addresses)).collect();
        let template = EndpointSliceTemplate {
            endpoints: (!endpoints.is_empty()).then_some(endpoints),
            ports: source.ports.clone(),
            address_type: Some(source.address_type.clone()),
        };
        let mut slice = ShadowEndpointSlice::new(&name, ShadowEndpointSliceSpec { template });
        slice.metadata = place.metadata(&source.metadata, name);
        let labels = slice.metadata.labels.get_or_insert_default();
        let (key, value) = (label::ENDPOINT_SLICE_MANAGED_BY, label::ENDPOINT_SLICE_REFLECTION);
        labels.insert(key.to_owned(), value.to_owned());
        if let Some(annotations) = &mut slice.metadata.annotations {
            // It changes with every pod behind the virtual node, and would be all that changes there.
            annotations.remove(annotation::ENDPOINTS_CHANGED);
        }
        Outcome::Copy(slice)
    }
}

/// The endpoints that run in this cluster.
fn here<'a>(source: &'a EndpointSlice, place: &Place) -> impl Iterator<Item = &'a Endpoint> {
    let node = place.node.clone();
    source.endpoints.iter().flatten().filter(move |it| it.node_name.as_ref() != Some(&node))
}

fn copy(endpoint: &Endpoint, place: &Place, addresses: &Translated) -> Endpoint {
    let translate = |address: &String| {
        // A name means the same everywhere.
        let there = address.parse().ok().and_then(|address: IpAddr| addresses.get(&address));
        there.map_or_else(|| address.clone(), ToString::to_string)
    };
    let target_ref = endpoint.target_ref.as_ref().map(|target| ObjectReference {
        kind: target.kind.as_ref().map(|kind| format!("Remote{kind}")),
        ..target.clone()
    });
    let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
    Endpoint {
        addresses: endpoint.addresses.iter().map(translate).collect(),
        conditions: Some(EndpointConditions { ready, ..EndpointConditions::default() }),
        hints: endpoint.hints.clone(),
        hostname: endpoint.hostname.clone(),
        node_name: Some(place.home.name.to_string()),
        target_ref,
        zone: endpoint.zone.clone(),
        deprecated_topology: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::place::tests::place;

    #[test]
    fn endpoints_here_are_told_by_their_addresses_there() {
        let pod = json!({"kind": "Pod", "name": "web", "namespace": "shop", "uid": "u"});
        let slice = slice(
            "IPv4",
            &json!([
                {"addresses": ["10.200.0.7"], "nodeName": "rome-1", "targetRef": pod, "zone": "a",
                 "hostname": "web", "hints": {"forZones": [{"name": "a"}]},
                 "deprecatedTopology": {"x": "y"},
                 "conditions": {"ready": true, "serving": true, "terminating": false}},
                {"addresses": ["10.71.0.8"], "nodeName": "liqo-milan", "conditions": {"ready": true}},
            ]),
        );
        assert_eq!(
            EndpointSlices::addresses(&slice, &place()),
            ["10.200.0.7".parse::<IpAddr>().unwrap()]
        );
        let copy = desired(&slice, &[("10.200.0.7", "10.45.0.7")]);

        let pod = json!({"kind": "RemotePod", "name": "web", "namespace": "shop", "uid": "u"});
        assert_eq!(
            copy["spec"]["template"],
            json!({
                "addressType": "IPv4", "ports": [{"port": 80, "protocol": "TCP"}],
                "endpoints": [{
                    "addresses": ["10.45.0.7"], "nodeName": "rome", "targetRef": pod, "zone": "a",
                    "hostname": "web", "hints": {"forZones": [{"name": "a"}]},
                    "conditions": {"ready": true},
                }],
            })
        );
        assert_eq!(
            copy["metadata"]["labels"],
            json!({
                "endpointslice.kubernetes.io/managed-by": "endpointslice.reflection.liqo.io",
                "kubernetes.io/service-name": "web",
                "virtualkubelet.liqo.io/origin": "41543714-6e17-4c7b-9bc9-70de7f7ae64f",
                "virtualkubelet.liqo.io/destination": "2cb4110a-c5e6-4a52-851d-d0e0d86c9174",
            })
        );
        assert_eq!(copy["metadata"]["annotations"], json!({"note": "yes"}));
    }

    #[test]
    fn a_slice_without_endpoints_here_still_tells_the_ports() {
        let there = json!([{"addresses": ["10.71.0.8"], "nodeName": "liqo-milan"}]);
        let copy = desired(&slice("IPv4", &there), &[]);
        let template = json!({"addressType": "IPv4", "ports": [{"port": 80, "protocol": "TCP"}]});
        assert_eq!(copy["spec"]["template"], template);
    }

    #[test]
    fn names_mean_the_same_everywhere() {
        let slice = slice("FQDN", &json!([{"addresses": ["db.example"]}]));
        assert!(EndpointSlices::addresses(&slice, &place()).is_empty());
        let copy = desired(&slice, &[]);
        assert_eq!(copy["spec"]["template"]["endpoints"][0]["addresses"], json!(["db.example"]));
    }

    #[test]
    fn the_endpoints_of_the_api_server_stay_here() {
        let mut place = place();
        place.home_namespace = "default".to_owned();
        let mut slice = slice("IPv4", &json!([]));
        let labels = slice.metadata.labels.as_mut().unwrap();
        labels.insert("kubernetes.io/service-name".to_owned(), "kubernetes".to_owned());
        let outcome = EndpointSlices::desired(&slice, &place, &Translated::new());
        assert_eq!(outcome, Outcome::Nothing);
        assert_eq!(EndpointSlices::remote_name("kubernetes", &place), None);
    }

    fn desired(slice: &EndpointSlice, addresses: &[(&str, &str)]) -> Value {
        let addresses = addresses
            .iter()
            .map(|(here, there)| (here.parse().unwrap(), there.parse().unwrap()))
            .collect();
        let Outcome::Copy(copy) = EndpointSlices::desired(slice, &place(), &addresses) else {
            panic!("no copy")
        };
        serde_json::to_value(copy).unwrap()
    }

    fn slice(address_type: &str, endpoints: &Value) -> EndpointSlice {
        let labels = json!({
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        });
        let changed = "endpoints.kubernetes.io/last-change-trigger-time";
        let annotations = json!({"note": "yes", changed: "2026-11-15T20:10:48Z"});
        serde_json::from_value(json!({
            "metadata": {"name": "web-x1", "labels": labels, "annotations": annotations},
            "addressType": address_type, "endpoints": endpoints,
            "ports": [{"port": 80, "protocol": "TCP"}],
        }))
        .unwrap()
    }
}
