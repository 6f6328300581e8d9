//! Objects as peers and users write them: read and written again, nothing is lost or renamed.

use kube_core::Resource;
use liqo_api::discovery::{
    ForeignCluster, ForeignClusterSpec, PeeringEnabled, PeeringType, ResourceRequest,
};
use liqo_api::net::{IpamStorage, NatMapping, NetworkConfig, TunnelEndpoint};
use liqo_api::offloading::{NamespaceOffloading, PodOffloadingStrategy};
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::{NamespaceMap, ShadowEndpointSlice, ShadowPod};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const HOME: &str = "7f0c2f0e-4a51-4d8e-9c0b-0d9a51f7a001";
const AWAY: &str = "c2a9e6d4-13b7-4c5e-8f21-6e5b7d3c9002";
const THEN: &str = "2026-03-04T05:06:07Z";

#[test]
fn foreign_cluster() {
    keeps::<ForeignCluster>(
        "discovery.liqo.io/v1alpha1",
        &json!({
            "peeringType": "OutOfBand",
            "clusterIdentity": { "clusterID": AWAY, "clusterName": "turin" },
            "foreignAuthUrl": "https://192.0.2.7:30443",
            "foreignProxyUrl": "http://198.51.100.1:8118",
            "incomingPeeringEnabled": "Auto",
            "outgoingPeeringEnabled": "Yes",
            "insecureSkipTLSVerify": false,
            "ttl": 90,
        }),
        &json!({
            "tenantNamespace": {
                "local": "liqo-tenant-turin-012345",
                "remote": "liqo-tenant-bari-abcdef",
            },
            "peeringConditions": [
                {
                    "type": "APIServerStatus",
                    "status": "Established",
                    "lastTransitionTime": THEN,
                    "reason": "APIServerReady",
                    "message": "It answers",
                },
                { "type": "OutgoingPeering", "status": "Disconnecting" },
            ],
        }),
    );
}

#[test]
fn a_foreign_cluster_needs_no_more_than_a_url() {
    let cluster: ForeignCluster = read(
        "discovery.liqo.io/v1alpha1",
        &json!({ "foreignAuthUrl": "https://192.0.2.7" }),
        &Value::Null,
    );

    assert_eq!(cluster.spec, ForeignClusterSpec::reached_at("https://192.0.2.7"));
    assert_eq!(cluster.spec.peering_type, PeeringType::OutOfBand);
    assert_eq!(cluster.spec.outgoing_peering_enabled, PeeringEnabled::Auto);
    assert_eq!(cluster.spec.cluster_identity, None);
    assert!(cluster.spec.insecure_skip_tls_verify);
    assert!(cluster.status.is_none());
}

#[test]
fn an_unresolved_identity_is_read_and_refused_only_when_it_is_used() {
    let cluster: ForeignCluster = read(
        "discovery.liqo.io/v1alpha1",
        &json!({
            "clusterIdentity": { "clusterID": "", "clusterName": "" },
            "foreignAuthUrl": "https://192.0.2.7",
        }),
        &Value::Null,
    );

    assert!(cluster.spec.cluster_identity.unwrap().parse().is_err());
}

#[test]
fn resource_request() {
    keeps::<ResourceRequest>(
        "discovery.liqo.io/v1alpha1",
        &json!({
            "clusterIdentity": { "clusterID": HOME, "clusterName": "bari" },
            "authUrl": "https://192.0.2.8",
            "withdrawalTimestamp": THEN,
        }),
        &json!({ "offerState": "Created", "offerWithdrawalTimestamp": THEN }),
    );
}

#[test]
fn resource_offer() {
    keeps::<ResourceOffer>(
        "sharing.liqo.io/v1alpha1",
        &json!({
            "clusterId": AWAY,
            "images": [{ "names": ["localhost/web:1"], "sizeBytes": 1024 }],
            "labels": { "liqo.io/provider": "kubeadm" },
            "prices": { "cpu": "10m" },
            "resourceQuota": {
                "hard": { "cpu": "1800m", "memory": "2Gi", "nvidia.com/gpu": "1" },
                "scopes": ["BestEffort"],
            },
            "storageClasses": [
                { "storageClassName": "fast", "default": true },
                { "storageClassName": "slow" },
            ],
            "withdrawalTimestamp": THEN,
        }),
        &json!({ "phase": "Accepted", "virtualKubeletStatus": "Created" }),
    );
}

#[test]
fn network_config() {
    keeps::<NetworkConfig>(
        "net.liqo.io/v1alpha1",
        &json!({
            "cluster": { "clusterID": AWAY, "clusterName": "turin" },
            "podCIDR": "10.1.0.0/16",
            "externalCIDR": "10.2.0.0/16",
            "endpointIP": "gateway.example.org",
            "backendType": "wireguard",
            "backend_config": { "port": "5871", "publicKey": "a2V5" },
        }),
        &json!({ "processed": true, "podCIDRNAT": "None", "externalCIDRNAT": "10.3.0.0/16" }),
    );
}

#[test]
fn tunnel_endpoint() {
    keeps::<TunnelEndpoint>(
        "net.liqo.io/v1alpha1",
        &json!({
            "clusterIdentity": { "clusterID": AWAY, "clusterName": "turin" },
            "localPodCIDR": "10.1.0.0/16",
            "localNATPodCIDR": "None",
            "localExternalCIDR": "10.2.0.0/16",
            "localNATExternalCIDR": "10.3.0.0/16",
            "remotePodCIDR": "10.1.0.0/16",
            "remoteNATPodCIDR": "10.4.0.0/16",
            "remoteExternalCIDR": "10.5.0.0/16",
            "remoteNATExternalCIDR": "None",
            "endpointIP": "192.0.2.9",
            "backendType": "wireguard",
            "backend_config": { "port": "5871", "publicKey": "a2V5" },
        }),
        &json!({
            "gatewayIP": "192.0.2.1",
            "tunnelIFaceIndex": 7,
            "tunnelIFaceName": "liqo.tunnel",
            "vethIFaceIndex": 13,
            "vethIFaceName": "liqo.host",
            "vethIP": "169.254.100.1",
            "connection": {
                "status": "Connected",
                "statusMessage": "It answers",
                "peerConfiguration": { "allowedIPs": "10.4.0.0/16, 10.5.0.0/16" },
                "latency": { "value": "860μs", "timestamp": THEN },
            },
        }),
    );
}

#[test]
fn nat_mapping() {
    keeps::<NatMapping>(
        "net.liqo.io/v1alpha1",
        &json!({
            "clusterID": AWAY,
            "podCIDR": "10.4.0.0/16",
            "externalCIDR": "10.3.0.0/16",
            "clusterMappings": { "169.254.0.1": "10.3.0.1" },
        }),
        &Value::Null,
    );
}

#[test]
fn ipam_storage() {
    keeps::<IpamStorage>(
        "net.liqo.io/v1alpha1",
        &json!({
            "prefixes": { "10.0.0.0/8": "bGVkZ2Vy" },
            "pools": ["10.0.0.0/8"],
            "reservedSubnets": [],
            "clusterSubnets": {
                AWAY: {
                    "localNATPodCIDR": "None",
                    "remotePodCIDR": "10.4.0.0/16",
                    "localNATExternalCIDR": "10.3.0.0/16",
                    "remoteExternalCIDR": "10.5.0.0/16",
                },
            },
            "externalCIDR": "10.2.0.0/16",
            "podCIDR": "10.1.0.0/16",
            "serviceCIDR": "10.96.0.0/12",
            "endpointMappings": {
                "10.96.0.1": {
                    "ExternalCIDROriginalIP": "10.2.0.2",
                    "clusterMappings": { AWAY: { "ExternalCIDRNattedIP": "10.3.0.2" } },
                },
            },
            "natMappingsConfigured": { AWAY: {} },
        }),
        &Value::Null,
    );
}

#[test]
fn namespace_offloading() {
    keeps::<NamespaceOffloading>(
        "offloading.liqo.io/v1alpha1",
        &json!({
            "namespaceMappingStrategy": "EnforceSameName",
            "podOffloadingStrategy": "Remote",
            "clusterSelector": {
                "nodeSelectorTerms": [{
                    "matchExpressions": [
                        { "key": "liqo.io/provider", "operator": "In", "values": ["k3s"] },
                    ],
                }],
            },
        }),
        &json!({
            "observedGeneration": 2,
            "offloadingPhase": "SomeFailed",
            "remoteNamespaceName": "shop",
            "remoteNamespacesConditions": {
                "turin-012345": [{
                    "type": "Ready",
                    "status": "False",
                    "lastTransitionTime": THEN,
                    "reason": "CreationLoopBackOff",
                    "message": "The name is taken",
                }],
            },
        }),
    );
}

#[test]
fn an_empty_namespace_offloading_selects_every_cluster() {
    let offloading: NamespaceOffloading =
        read("offloading.liqo.io/v1alpha1", &json!({}), &Value::Null);

    assert_eq!(offloading.spec.pod_offloading_strategy, PodOffloadingStrategy::LocalAndRemote);
    assert_eq!(offloading.spec.cluster_selector, None);
}

#[test]
fn a_selector_without_terms_stays_one() {
    keeps::<NamespaceOffloading>(
        "offloading.liqo.io/v1alpha1",
        &json!({
            "namespaceMappingStrategy": "DefaultName",
            "podOffloadingStrategy": "Local",
            "clusterSelector": { "nodeSelectorTerms": [] },
        }),
        &Value::Null,
    );
}

#[test]
fn namespace_map() {
    keeps::<NamespaceMap>(
        "virtualkubelet.liqo.io/v1alpha1",
        &json!({ "desiredMapping": { "shop": "shop-bari-abcdef" } }),
        &json!({
            "currentMapping": {
                "shop": { "remoteNamespace": "shop-bari-abcdef", "phase": "Accepted" },
                "till": { "phase": "CreationLoopBackOff" },
            },
        }),
    );
    keeps::<NamespaceMap>("virtualkubelet.liqo.io/v1alpha1", &json!({}), &json!({}));
}

#[test]
fn shadow_pod() {
    keeps::<ShadowPod>(
        "virtualkubelet.liqo.io/v1alpha1",
        &json!({
            "pod": {
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "web",
                    "image": "localhost/web:1",
                    "resources": { "limits": { "cpu": "500m" } },
                    "volumeMounts": [{ "name": "token", "mountPath": "/token", "readOnly": true }],
                }],
                "hostAliases": [{ "ip": "10.3.0.2", "hostnames": ["kubernetes.default"] }],
                "restartPolicy": "Always",
                "tolerations": [{
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }],
                "volumes": [{
                    "name": "token",
                    "projected": {
                        "defaultMode": 420,
                        "sources": [{ "configMap": { "name": "kube-root-ca.crt.7f0c2" } }],
                    },
                }],
            },
        }),
        &json!({ "phase": "Running" }),
    );
}

#[test]
fn shadow_endpoint_slice() {
    keeps::<ShadowEndpointSlice>(
        "virtualkubelet.liqo.io/v1alpha1",
        &json!({
            "template": {
                "addressType": "IPv4",
                "endpoints": [{
                    "addresses": ["10.3.0.9"],
                    "conditions": { "ready": true },
                    "hints": { "forZones": [{ "name": "a" }] },
                    "nodeName": "bari",
                    "targetRef": { "kind": "RemotePod", "name": "web", "namespace": "shop" },
                }],
                "ports": [{ "name": "", "port": 80, "protocol": "TCP" }],
            },
        }),
        &Value::Null,
    );
    keeps::<ShadowEndpointSlice>(
        "virtualkubelet.liqo.io/v1alpha1",
        &json!({ "template": { "addressType": "IPv4", "ports": [{ "port": 80 }] } }),
        &Value::Null,
    );
}

/// Reads an object, writes it, and expects the same text.
fn keeps<K>(api_version: &str, spec: &Value, status: &Value)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
{
    let object: K = read(api_version, spec, status);

    assert_eq!(
        serde_json::to_value(object).expect("it can be written"),
        whole::<K>(api_version, spec, status)
    );
}

fn read<K>(api_version: &str, spec: &Value, status: &Value) -> K
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    assert_eq!(K::api_version(&()), api_version);
    serde_json::from_value(whole::<K>(api_version, spec, status)).expect("it can be read")
}

fn whole<K: Resource<DynamicType = ()>>(api_version: &str, spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": K::kind(&()),
        "metadata": { "name": "offloading", "labels": { "liqo.io/replication": "true" } },
        "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}
