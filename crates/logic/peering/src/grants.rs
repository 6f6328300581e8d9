//! What a peer may do here: roles in its tenant namespace, by how far the peering has come.
//!
//! | ClusterRole | bound while |
//! | --- | --- |
//! | `liqo-remote-peering-basic` | there is a tenant namespace |
//! | `liqo-remote-peering-incoming` | the incoming peering is anything but `None` |
//! | `liqo-remote-peering-outgoing` | the outgoing peering is anything but `None` |
//! | `liqo-tenant-remote-…` | the peer's request is allowed |

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{PeeringCondition, PeeringConditionStatus, PeeringConditionType};
use liqo_api::keys::{label, object};
use liqo_api::names::{Cluster, ClusterId};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A role that peers are given in their tenant namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// For every peer: to ask for resources.
    Basic,
    /// For a peer that offloads here.
    Incoming,
    /// For a peer that is offloaded to.
    Outgoing,
}

impl Grant {
    /// Every grant.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Incoming, Self::Outgoing];

    /// The mark of the ClusterRoles that are granted.
    pub fn permission(self) -> &'static str {
        match self {
            Self::Basic => label::PERMISSIONS_BASIC,
            Self::Incoming => label::PERMISSIONS_INCOMING,
            Self::Outgoing => label::PERMISSIONS_OUTGOING,
        }
    }

    /// Whether a peer of which this is known has it.
    pub fn is_due(self, conditions: &[PeeringCondition]) -> bool {
        let is_on = |kind| peering_status(conditions, kind) != PeeringConditionStatus::None;
        match self {
            Self::Basic => true,
            Self::Incoming => is_on(PeeringConditionType::IncomingPeering),
            Self::Outgoing => is_on(PeeringConditionType::OutgoingPeering),
        }
    }
}

/// The role that lets a consumer read the metrics of its pods, and its binding.
///
/// Where another cluster has the same name, they are named after what no other cluster has.
pub fn metrics(consumer: &Cluster, has_namesake: bool) -> (ClusterRole, ClusterRoleBinding) {
    let name = if has_namesake {
        object::tenant_remote_namesake_role(&consumer.unique_name())
    } else {
        object::tenant_remote_role(&consumer.name)
    };
    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    let reading = PolicyRule {
        api_groups: Some(vec![object::GROUP_METRICS.to_owned()]),
        resources: Some(["scrape", "scrape/metrics"].map(str::to_owned).into()),
        resource_names: Some(vec![consumer.id.to_string()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    let role = ClusterRole {
        metadata: metadata.clone(),
        rules: Some(vec![reading]),
        ..ClusterRole::default()
    };
    let binding = ClusterRoleBinding {
        metadata,
        role_ref: cluster_role(&name),
        subjects: Some(vec![user(&consumer.id)]),
    };
    (role, binding)
}

/// A reference to a ClusterRole.
pub fn cluster_role(name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: "ClusterRole".to_owned(),
        name: name.to_owned(),
    }
}

/// A peer as the one who is granted something.
pub fn user(peer: &ClusterId) -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "User".to_owned(),
        name: peer.to_string(),
        namespace: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{MILAN, cluster, condition};

    #[test]
    fn a_direction_that_has_begun_is_granted_until_it_has_ended() {
        use PeeringConditionStatus as Status;
        for (status, due) in [
            (Status::None, false),
            (Status::Pending, true),
            (Status::Established, true),
            (Status::Disconnecting, true),
        ] {
            let conditions = [condition(PeeringConditionType::IncomingPeering, status)];
            assert_eq!(Grant::Incoming.is_due(&conditions), due, "{status:?}");
            assert!(!Grant::Outgoing.is_due(&conditions));
            assert!(Grant::Basic.is_due(&conditions));
        }
    }

    #[test]
    fn a_consumer_reads_only_its_own_metrics() {
        let (role, binding) = metrics(&cluster(MILAN, "milan"), false);
        assert_eq!(role.metadata.name.as_deref(), Some("liqo-tenant-remote-milan"));
        assert_eq!(role.rules.unwrap()[0].resource_names, Some(vec![MILAN.to_owned()]));
        assert_eq!(binding.subjects.unwrap()[0].name, MILAN);
        let (role, _) = metrics(&cluster(MILAN, "milan"), true);
        assert_eq!(role.metadata.name.as_deref(), Some("liqo-tenant-remote-milan-ee0b4a"));
    }
}
