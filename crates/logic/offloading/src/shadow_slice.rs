//! A ShadowEndpointSlice: the EndpointSlice that is made of it, ready while its cluster is.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus as Status, PeeringConditionType as Kind,
};
use liqo_api::keys::label;
use liqo_api::virtualkubelet::ShadowEndpointSlice;
use liqo_peering::controller;

/// The kind of addresses when none is said.
const DEFAULT_ADDRESSES: &str = "IPv4";

/// The cluster that a slice comes from.
pub fn origin(shadow: &ShadowEndpointSlice) -> Option<&str> {
    shadow.labels().get(label::ORIGIN).map(String::as_str)
}

/// Whether endpoints in a cluster can be reached: its network and its API server.
pub fn is_reachable(cluster: &ForeignCluster) -> bool {
    let status = cluster.status.as_ref();
    let conditions = status.map(|status| &*status.peering_conditions).unwrap_or_default();
    let network = peering_status(conditions, Kind::NetworkStatus);
    let server = peering_status(conditions, Kind::ApiServerStatus);
    matches!(network, Status::Established | Status::External) && server == Status::Established
}

/// The slice that is made of another.
pub fn slice(shadow: &ShadowEndpointSlice, is_reachable: bool) -> EndpointSlice {
    let template = &shadow.spec.template;
    let mut labels = shadow.labels().clone();
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_SHADOW_ENDPOINT_SLICE.to_owned());
    let annotations = shadow.annotations().clone();
    let ready = |endpoint: &Endpoint| {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let is_ready = conditions.ready.unwrap_or(true) && is_reachable;
        let conditions = EndpointConditions { ready: Some(is_ready), ..conditions };
        Endpoint { conditions: Some(conditions), ..endpoint.clone() }
    };
    EndpointSlice {
        metadata: ObjectMeta {
            name: shadow.metadata.name.clone(),
            namespace: shadow.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![controller(shadow)]),
            ..ObjectMeta::default()
        },
        address_type: template.address_type.clone().unwrap_or_else(|| DEFAULT_ADDRESSES.to_owned()),
        endpoints: template.endpoints.as_ref().map(|all| all.iter().map(ready).collect()),
        ports: template.ports.clone(),
    }
}

/// Whether a slice is the one that was made of another.
pub fn is_made_of(slice: &EndpointSlice, shadow: &ShadowEndpointSlice) -> bool {
    slice.owner_references().iter().any(|owner| Some(&owner.uid) == shadow.metadata.uid.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn endpoints_are_ready_while_their_cluster_is() {
        for (template, is_reachable, want) in [
            (json!(true), true, true),
            (json!(null), true, true),
            (json!(false), true, false),
            (json!(true), false, false),
        ] {
            let slice = slice(&shadow(&template), is_reachable);
            let endpoints = slice.endpoints.unwrap();
            assert_eq!(endpoints[0].conditions.as_ref().unwrap().ready, Some(want), "{template}");
            assert_eq!(endpoints[0].node_name.as_deref(), Some("rome"));
        }
    }

    #[test]
    fn a_slice_says_what_it_was_made_of() {
        let shadow = shadow(&json!(true));
        let slice = slice(&shadow, true);
        assert_eq!(slice.labels()["liqo.io/managed-by"], "shadowendpointslice");
        assert_eq!(slice.labels()["kubernetes.io/service-name"], "web");
        assert!(is_made_of(&slice, &shadow));
        assert!(!is_made_of(&EndpointSlice::default(), &shadow));
    }

    #[test]
    fn a_cluster_is_reached_through_its_network_and_its_api_server() {
        let cluster = |network: &str, server: &str| -> ForeignCluster {
            let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status });
            serde_json::from_value(json!({
                "apiVersion": "discovery.liqo.io/v1alpha1",
                "kind": "ForeignCluster",
                "metadata": { "name": "rome" },
                "spec": { "foreignAuthUrl": "https://rome.example" },
                "status": { "peeringConditions": [
                    condition("NetworkStatus", network), condition("APIServerStatus", server),
                ]},
            }))
            .unwrap()
        };
        assert!(is_reachable(&cluster("Established", "Established")));
        assert!(is_reachable(&cluster("External", "Established")));
        assert!(!is_reachable(&cluster("Pending", "Established")));
        assert!(!is_reachable(&cluster("External", "Error")));
    }

    fn shadow(ready: &Value) -> ShadowEndpointSlice {
        let endpoint = json!({
            "addresses": ["10.0.0.1"], "conditions": { "ready": ready }, "nodeName": "rome",
        });
        serde_json::from_value(json!({
            "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
            "kind": "ShadowEndpointSlice",
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "1",
                "labels": { "kubernetes.io/service-name": "web" },
            },
            "spec": { "template": { "addressType": "IPv4", "endpoints": [endpoint] } },
        }))
        .unwrap()
    }
}
