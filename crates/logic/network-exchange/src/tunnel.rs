//! What gateways and nodes have to know of a peer.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource as _;
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::label;
use liqo_api::net::{NetworkConfig, TunnelEndpoint, TunnelEndpointSpec, translation_text};
use liqo_ipam::Networks;
use liqo_ipam::ledger::Prefixes;

use crate::told::{Listener, owner};

/// All that a tunnel follows from.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The peer, as it is known here.
    pub cluster: &'a ForeignCluster,
    /// What it was told.
    pub told: &'a NetworkConfig,
    /// What it told us.
    pub heard: &'a NetworkConfig,
    /// Our networks.
    pub own: Networks,
    /// What it calls them.
    pub own_there: Prefixes,
    /// Its networks.
    pub remote: Networks,
    /// What they are called here.
    pub remote_here: Networks,
}

/// The tunnel to a peer.
pub fn tunnel(listener: &Listener, ends: Ends<'_>) -> TunnelEndpoint {
    let Ends { cluster, told, heard, own, own_there, remote, remote_here } = ends;
    let told_by = told.owner_ref(&()).map(|owner| OwnerReference {
        // Not the one that holds it: that is the ForeignCluster.
        controller: None,
        block_owner_deletion: None,
        ..owner
    });
    let owners = told_by.into_iter().chain(owner(cluster)).collect();
    let renamed = |given, asked| translation_text((given != asked).then_some(given));
    let peer = (label::PEER_ID.to_owned(), listener.remote.id.to_string());
    TunnelEndpoint {
        metadata: ObjectMeta {
            name: Some(listener.remote.unique_name().to_string()),
            namespace: Some(listener.namespace.clone()),
            labels: Some(BTreeMap::from([peer])),
            owner_references: Some(owners),
            ..ObjectMeta::default()
        },
        spec: TunnelEndpointSpec {
            cluster_identity: (&listener.remote).into(),
            local_pod_cidr: own.pod.to_string(),
            local_nat_pod_cidr: translation_text(own_there.pod),
            local_external_cidr: own.external.to_string(),
            local_nat_external_cidr: translation_text(own_there.external),
            remote_pod_cidr: remote.pod.to_string(),
            remote_nat_pod_cidr: renamed(remote_here.pod, remote.pod),
            remote_external_cidr: remote.external.to_string(),
            remote_nat_external_cidr: renamed(remote_here.external, remote.external),
            endpoint_ip: heard.spec.endpoint_ip.clone(),
            backend_type: heard.spec.backend_type.clone(),
            backend_config: heard.spec.backend_config.clone(),
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at_rome, foreign, golden, networks, tunnel as golden_tunnel};
    use crate::told::listener;

    #[test]
    fn a_tunnel_is_the_one_that_the_reference_makes() {
        let cluster = foreign();
        let (mut told, heard) = (golden(at_rome::LOCAL), golden(at_rome::REPLICA));
        told.metadata.uid = Some("c8e72ccb-d13c-4bbd-9bb9-a913d6dc13b9".to_owned());
        let ends = Ends {
            cluster: &cluster,
            told: &told,
            heard: &heard,
            own: networks("10.200.0.0/16", "10.95.0.0/16"),
            own_there: Prefixes { pod: None, external: Some("10.92.0.0/16".parse().unwrap()) },
            remote: networks("10.201.0.0/16", "10.94.0.0/16"),
            remote_here: networks("10.201.0.0/16", "10.92.0.0/16"),
        };
        assert_eq!(tunnel(&listener(&cluster).unwrap(), ends), golden_tunnel());
    }
}
