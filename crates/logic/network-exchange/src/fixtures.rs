//! Rome, which peers with Milan, as the reference shows it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use liqo_api::discovery::ForeignCluster;
use liqo_api::net::{NetworkConfig, TunnelEndpoint};
use liqo_ipam::Networks;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The public key of Rome's gateway.
pub const KEY: &str = "D8tOMWNnxEFYMz5L0srUWqg3OvN5Rbnoq11g2mtoxHY=";

/// What stands in Rome.
pub mod at_rome {
    /// What Milan is told.
    pub const LOCAL: &str = "
metadata:
  labels:
    liqo.io/ownership: netcfgCreator
    liqo.io/remoteID: 2cb4110a-c5e6-4a52-851d-d0e0d86c9174
    liqo.io/replication: 'true'
  name: milan-ee0b4a
  namespace: liqo-tenant-milan-ee0b4a
  ownerReferences:
  - apiVersion: discovery.liqo.io/v1alpha1
    blockOwnerDeletion: true
    controller: true
    kind: ForeignCluster
    name: milan
    uid: f150a383-55ac-4768-82bc-c627fb3823c4
spec:
  backend_config:
    port: '32680'
    publicKey: D8tOMWNnxEFYMz5L0srUWqg3OvN5Rbnoq11g2mtoxHY=
  backendType: wireguard
  cluster:
    clusterID: 2cb4110a-c5e6-4a52-851d-d0e0d86c9174
    clusterName: milan
  endpointIP: 172.30.0.2
  externalCIDR: 10.95.0.0/16
  podCIDR: 10.200.0.0/16
status:
  externalCIDRNAT: 10.92.0.0/16
  podCIDRNAT: None
  processed: true
";

    /// What Milan tells.
    pub const REPLICA: &str = "
metadata:
  labels:
    liqo.io/originID: 2cb4110a-c5e6-4a52-851d-d0e0d86c9174
    liqo.io/remoteID: 41543714-6e17-4c7b-9bc9-70de7f7ae64f
    liqo.io/replicated: 'true'
    liqo.io/replication: 'false'
  name: rome-2f55ef
  namespace: liqo-tenant-milan-ee0b4a
spec:
  backend_config:
    port: '30160'
    publicKey: VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=
  backendType: wireguard
  cluster:
    clusterID: 41543714-6e17-4c7b-9bc9-70de7f7ae64f
    clusterName: rome
  endpointIP: 172.30.0.3
  externalCIDR: 10.94.0.0/16
  podCIDR: 10.201.0.0/16
status:
  externalCIDRNAT: 10.92.0.0/16
  podCIDRNAT: None
  processed: true
";

    /// The tunnel that follows.
    pub const TUNNEL: &str = "
metadata:
  labels:
    clusterID: 2cb4110a-c5e6-4a52-851d-d0e0d86c9174
  name: milan-ee0b4a
  namespace: liqo-tenant-milan-ee0b4a
  ownerReferences:
  - apiVersion: net.liqo.io/v1alpha1
    kind: NetworkConfig
    name: milan-ee0b4a
    uid: c8e72ccb-d13c-4bbd-9bb9-a913d6dc13b9
  - apiVersion: discovery.liqo.io/v1alpha1
    blockOwnerDeletion: true
    controller: true
    kind: ForeignCluster
    name: milan
    uid: f150a383-55ac-4768-82bc-c627fb3823c4
spec:
  backend_config:
    port: '30160'
    publicKey: VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=
  backendType: wireguard
  clusterIdentity:
    clusterID: 2cb4110a-c5e6-4a52-851d-d0e0d86c9174
    clusterName: milan
  endpointIP: 172.30.0.3
  localExternalCIDR: 10.95.0.0/16
  localNATExternalCIDR: 10.92.0.0/16
  localNATPodCIDR: None
  localPodCIDR: 10.200.0.0/16
  remoteExternalCIDR: 10.94.0.0/16
  remoteNATExternalCIDR: 10.92.0.0/16
  remoteNATPodCIDR: None
  remotePodCIDR: 10.201.0.0/16
";
}

/// What one side tells the other.
pub fn golden(text: &str) -> NetworkConfig {
    with_kind("NetworkConfig", text)
}

/// The tunnel.
pub fn tunnel() -> TunnelEndpoint {
    with_kind("TunnelEndpoint", at_rome::TUNNEL)
}

/// Milan, as Rome knows it.
pub fn foreign() -> ForeignCluster {
    read(json!({
        "apiVersion": "discovery.liqo.io/v1alpha1",
        "kind": "ForeignCluster",
        "metadata": {"name": "milan", "uid": "f150a383-55ac-4768-82bc-c627fb3823c4"},
        "spec": {
            "clusterIdentity": {
                "clusterID": "2cb4110a-c5e6-4a52-851d-d0e0d86c9174", "clusterName": "milan",
            },
            "foreignAuthUrl": "https://198.18.0.1",
        },
        "status": {"tenantNamespace": {"local": "liqo-tenant-milan-ee0b4a"}},
    }))
}

/// A Secret with the key of a gateway.
pub fn key(text: &str) -> Secret {
    let data = [("publicKey".to_owned(), ByteString(text.as_bytes().to_vec()))];
    Secret { data: Some(data.into()), ..Secret::default() }
}

/// Two networks.
pub fn networks(pod: &str, external: &str) -> Networks {
    Networks { pod: pod.parse().unwrap(), external: external.parse().unwrap() }
}

/// An object from its JSON.
pub fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn with_kind<K: DeserializeOwned>(kind: &str, text: &str) -> K {
    let mut value: Value = serde_saphyr::from_str(text).unwrap();
    value["apiVersion"] = "net.liqo.io/v1alpha1".into();
    value["kind"] = kind.into();
    read(value)
}
