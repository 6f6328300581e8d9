//! When a peer is told of our network, and what.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::{Resource as _, ResourceExt as _};
use liqo_api::discovery::{
    ForeignCluster, PeeringCondition, PeeringConditionStatus, PeeringConditionType, PeeringType,
};
use liqo_api::keys::{finalizer, label, reason, secret};
use liqo_api::names::Cluster;
use liqo_api::net::{NetworkConfig, NetworkConfigSpec};
use liqo_ipam::Networks;

use crate::gateway::Gateway;

/// The technology of our tunnels.
pub const BACKEND: &str = "wireguard";

/// Whom to tell, and in which namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The peer.
    pub remote: Cluster,
    /// The namespace in which it is told.
    pub namespace: String,
}

/// The peer behind a ForeignCluster, if its identity and its namespace are known.
pub fn listener(cluster: &ForeignCluster) -> Option<Listener> {
    listener_in(cluster, namespace(cluster)?)
}

/// The same, where the namespace is known otherwise.
pub fn listener_in(cluster: &ForeignCluster, namespace: &str) -> Option<Listener> {
    let remote = cluster.spec.cluster_identity.as_ref()?.parse().ok()?;
    Some(Listener { remote, namespace: namespace.to_owned() })
}

/// The namespace of a peer, as far as its ForeignCluster says.
pub fn namespace(cluster: &ForeignCluster) -> Option<&str> {
    cluster.status.as_ref()?.tenant_namespace.local.as_deref()
}

/// Whether a peer has to be told of our network: resources are in use in one direction or the other,
/// or about to be, and it is not told by hand.
///
/// The network takes as long as the rest of a peering, so it does not wait for it: it begins with
/// what we ask for, and with what we offer.
pub fn is_due(cluster: &ForeignCluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &*status.peering_conditions);
    let is_begun = |condition: &PeeringCondition| {
        condition.status == PeeringConditionStatus::Pending
            && (condition.kind == PeeringConditionType::OutgoingPeering
                || condition.reason.as_deref() == Some(reason::KUBELET_PENDING))
    };
    let is_on = |condition: &PeeringCondition| {
        condition.status == PeeringConditionStatus::Established || is_begun(condition)
    };
    let is_direction = |condition: &&PeeringCondition| {
        matches!(
            condition.kind,
            PeeringConditionType::OutgoingPeering | PeeringConditionType::IncomingPeering
        )
    };
    cluster.metadata.deletion_timestamp.is_none()
        && cluster.spec.peering_type == PeeringType::OutOfBand
        && conditions.unwrap_or_default().iter().filter(is_direction).any(is_on)
}

/// What a peer is told.
pub fn config(
    cluster: &ForeignCluster,
    listener: &Listener,
    own: Networks,
    gateway: &Gateway,
) -> NetworkConfig {
    let Listener { remote, namespace } = listener;
    let labels = [
        (label::REPLICATION, label::TRUE),
        (label::REMOTE_ID, remote.id.as_str()),
        (label::OWNERSHIP, label::OWNERSHIP_NETWORK_CONFIG),
    ];
    NetworkConfig {
        metadata: ObjectMeta {
            name: Some(remote.unique_name().to_string()),
            namespace: Some(namespace.clone()),
            labels: Some(texts(labels)),
            owner_references: owner(cluster).map(|owner| vec![owner]),
            // It waits for the networks to be free again before it goes.
            finalizers: Some(vec![finalizer::TUNNEL_ENDPOINT_CREATOR.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: spec(remote, own, gateway),
        status: None,
    }
}

/// What a cluster says of its network and its gateway to another.
pub(crate) fn spec(to: &Cluster, own: Networks, gateway: &Gateway) -> NetworkConfigSpec {
    NetworkConfigSpec {
        receiver: to.into(),
        pod_cidr: own.pod.to_string(),
        external_cidr: own.external.to_string(),
        endpoint_ip: gateway.address.clone(),
        backend_type: BACKEND.to_owned(),
        backend_config: texts([
            (secret::WIREGUARD_PUBLIC_KEY, gateway.public_key.as_str()),
            (secret::TUNNEL_PORT, &gateway.port.to_string()),
        ]),
    }
}

/// The ForeignCluster, as the owner of what is there because of it.
pub(crate) fn owner(cluster: &ForeignCluster) -> Option<OwnerReference> {
    let owner = cluster.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..owner })
}

/// The ForeignCluster, as that without which a copy of what its cluster told has no purpose.
///
/// Copies that somebody made by hand are that somebody's to take back.
pub fn purpose(cluster: &ForeignCluster, copy: &NetworkConfig) -> Option<OwnerReference> {
    let owner = cluster.owner_ref(&())?;
    let has = |have: &OwnerReference| have.uid == owner.uid;
    let is_new = !copy.owner_references().iter().any(has);
    (cluster.spec.peering_type == PeeringType::OutOfBand && is_new).then_some(owner)
}

/// Whether a NetworkConfig is one that we made for a peer, rather than somebody by hand.
pub fn is_ours(config: &NetworkConfig) -> bool {
    has(config, label::OWNERSHIP, label::OWNERSHIP_NETWORK_CONFIG)
        && has(config, label::REPLICATION, label::TRUE)
}

/// The cluster that a NetworkConfig is for or from, as its labels say.
pub fn peer(config: &NetworkConfig) -> Option<&str> {
    let named = if is_copy(config) { label::ORIGIN_ID } else { label::REMOTE_ID };
    config.labels().get(named).map(String::as_str)
}

/// Whether a NetworkConfig is the copy of one that a peer has.
pub fn is_copy(config: &NetworkConfig) -> bool {
    has(config, label::REPLICATED, label::TRUE)
}

fn has(config: &NetworkConfig, name: &str, value: &str) -> bool {
    config.labels().get(name).map(String::as_str) == Some(value)
}

pub(crate) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixtures::{KEY, at_rome, foreign, golden, networks};

    #[test]
    fn a_peer_is_told_what_the_reference_tells() {
        let cluster = foreign();
        let listener = listener(&cluster).unwrap();
        let gateway =
            Gateway { address: "172.30.0.2".to_owned(), port: 32680, public_key: KEY.to_owned() };
        let own = networks("10.200.0.0/16", "10.95.0.0/16");
        let mut config = config(&cluster, &listener, own, &gateway);
        let mut want = golden(at_rome::LOCAL);
        want.metadata.finalizers = Some(vec![finalizer::TUNNEL_ENDPOINT_CREATOR.to_owned()]);
        config.status.clone_from(&want.status);
        assert_eq!(config, want);
        assert!(is_ours(&config) && !is_copy(&config));
        assert_eq!(peer(&config), Some(listener.remote.id.as_str()));
    }

    #[test]
    fn a_copy_goes_with_its_foreign_cluster_unless_it_was_made_by_hand() {
        let (mut cluster, mut copy) = (foreign(), golden(at_rome::REPLICA));
        copy.metadata.owner_references = None;
        let owner = purpose(&cluster, &copy).unwrap();
        assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));
        copy.metadata.owner_references = Some(vec![owner]);
        assert_eq!(purpose(&cluster, &copy), None, "it is there");
        copy.metadata.owner_references = None;
        cluster.spec.peering_type = PeeringType::InBand;
        assert_eq!(purpose(&cluster, &copy), None);
    }

    #[test]
    fn a_peer_is_told_as_soon_as_resources_are_asked_for_or_offered() {
        use PeeringConditionStatus as Status;
        let [outgoing, incoming] =
            [PeeringConditionType::OutgoingPeering, PeeringConditionType::IncomingPeering];
        let [asked, offered] = [reason::RESOURCE_REQUEST_PENDING, reason::KUBELET_PENDING];
        assert!(!is_due(&foreign()));
        for (kind, status, reason, want) in [
            (outgoing, Status::Pending, asked, true),
            (incoming, Status::Pending, asked, false),
            (outgoing, Status::Pending, offered, true),
            (incoming, Status::Pending, offered, true),
            (outgoing, Status::Established, "", true),
            (incoming, Status::Established, "", true),
            (outgoing, Status::Disconnecting, "", false),
            (incoming, Status::Disconnecting, "", false),
        ] {
            assert_eq!(is_due(&with(kind, status, reason)), want, "{kind:?} {status:?} {reason}");
        }
        let network = PeeringConditionType::NetworkStatus;
        assert!(!is_due(&with(network, Status::Established, "")), "it is no direction");
        let mut cluster = with(outgoing, Status::Established, "");
        cluster.spec.peering_type = PeeringType::InBand;
        assert!(!is_due(&cluster), "somebody tells it by hand");
        cluster.spec.peering_type = PeeringType::OutOfBand;
        cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(!is_due(&cluster), "it is leaving");
    }

    fn with(
        kind: PeeringConditionType,
        status: PeeringConditionStatus,
        reason: &str,
    ) -> ForeignCluster {
        let mut cluster = foreign();
        let condition =
            PeeringCondition::new(kind, status, reason, "", Time(Timestamp::UNIX_EPOCH));
        cluster.status.as_mut().unwrap().peering_conditions = vec![condition];
        cluster
    }
}
