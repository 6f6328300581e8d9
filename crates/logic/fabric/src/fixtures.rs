//! Tunnels in words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use liqo_api::discovery::ClusterIdentity;
use liqo_api::net::{
    NOT_TRANSLATED, NatMapping, NatMappingSpec, TunnelEndpoint, TunnelEndpointSpec,
    TunnelEndpointStatus,
};

pub(crate) const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
pub(crate) const ROME: &str = "2cb4110a-6e17-4c7b-9bc9-70de7f7ae64f";

pub(crate) trait InWords: Sized {
    fn pods(self, own: &str, here: &str) -> Self;
    fn externals(self, own: &str, here: &str) -> Self;
    fn known_there_as(self, pods: &str) -> Self;
    fn created(self, time: &str) -> Self;
    fn through(self, gateway: &str) -> Self;
}

impl InWords for TunnelEndpoint {
    fn pods(mut self, own: &str, here: &str) -> Self {
        (self.spec.remote_pod_cidr, self.spec.remote_nat_pod_cidr) = (own.into(), here.into());
        self
    }

    fn externals(mut self, own: &str, here: &str) -> Self {
        let (own, here) = (own.to_owned(), here.to_owned());
        (self.spec.remote_external_cidr, self.spec.remote_nat_external_cidr) = (own, here);
        self
    }

    fn known_there_as(mut self, pods: &str) -> Self {
        self.spec.local_nat_pod_cidr = pods.to_owned();
        self
    }

    fn created(mut self, time: &str) -> Self {
        let time: Timestamp = time.parse().unwrap();
        self.metadata.creation_timestamp =
            serde_json::from_value(serde_json::json!(time.to_string())).unwrap();
        self
    }

    fn through(mut self, gateway: &str) -> Self {
        let status = self.status.get_or_insert_with(TunnelEndpointStatus::default);
        status.gateway_ip = Some(gateway.to_owned());
        status.veth_ip = Some("169.254.100.1".to_owned());
        self
    }
}

/// A tunnel to a cluster whose networks collide with nothing of its own, save the external one.
pub(crate) fn endpoint(id: &str, name: &str) -> TunnelEndpoint {
    let spec = TunnelEndpointSpec {
        cluster_identity: ClusterIdentity { cluster_id: id.into(), cluster_name: name.into() },
        local_pod_cidr: "10.200.0.0/16".to_owned(),
        local_nat_pod_cidr: NOT_TRANSLATED.to_owned(),
        local_external_cidr: "10.95.0.0/16".to_owned(),
        local_nat_external_cidr: "10.93.0.0/16".to_owned(),
        remote_pod_cidr: "10.201.0.0/16".to_owned(),
        remote_nat_pod_cidr: NOT_TRANSLATED.to_owned(),
        remote_external_cidr: "10.94.0.0/16".to_owned(),
        remote_nat_external_cidr: "10.92.0.0/16".to_owned(),
        endpoint_ip: "172.30.0.3".to_owned(),
        backend_type: "wireguard".to_owned(),
        backend_config: BTreeMap::from([
            ("port".to_owned(), "30160".to_owned()),
            ("publicKey".to_owned(), "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=".to_owned()),
        ]),
    };
    let mut endpoint = TunnelEndpoint::new(name, spec);
    endpoint.metadata.namespace = Some(format!("liqo-tenant-{name}"));
    endpoint
}

pub(crate) fn mapping(id: &str) -> NatMapping {
    let mappings = [("169.254.0.1", "10.93.0.1"), ("10.94.0.1", "10.93.0.2")];
    let spec = NatMappingSpec {
        cluster_id: id.to_owned(),
        pod_cidr: "10.201.0.0/16".to_owned(),
        external_cidr: "10.93.0.0/16".to_owned(),
        cluster_mappings: mappings.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
    };
    NatMapping::new("natmapping-x", spec)
}
