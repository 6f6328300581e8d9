//! `ForeignCluster`: another cluster, what is wanted of it, and how far that has come.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterIdentity;
use crate::condition::peering_status;
use crate::schema;

/// Describes a remote cluster and the peerings wanted with it.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "discovery.liqo.io",
    version = "v1alpha1",
    kind = "ForeignCluster",
    plural = "foreignclusters",
    category = "liqo",
    status = "ForeignClusterStatus",
    derive = "PartialEq",
    doc = "Another cluster, the peerings wanted with it, and their state.",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.peeringType"}"#,
    printcolumn = r#"{"name": "ClusterID", "type": "string", "jsonPath": ".spec.clusterIdentity.clusterID", "priority": 1}"#,
    printcolumn = r#"{"name": "ClusterName", "type": "string", "jsonPath": ".spec.clusterIdentity.clusterName", "priority": 1}"#,
    printcolumn = r#"{"name": "Outgoing peering", "type": "string", "jsonPath": ".status.peeringConditions[?(@.type == 'OutgoingPeering')].status"}"#,
    printcolumn = r#"{"name": "Incoming peering", "type": "string", "jsonPath": ".status.peeringConditions[?(@.type == 'IncomingPeering')].status"}"#,
    printcolumn = r#"{"name": "Networking", "type": "string", "jsonPath": ".status.peeringConditions[?(@.type == 'NetworkStatus')].status"}"#,
    printcolumn = r#"{"name": "API Server", "type": "string", "jsonPath": ".status.peeringConditions[?(@.type == 'APIServerStatus')].status", "priority": 1}"#,
    printcolumn = r#"{"name": "Authentication", "type": "string", "jsonPath": ".status.peeringConditions[?(@.type == 'AuthenticationStatus')].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.peeringType == oldSelf.peeringType",
        "message": "peeringType cannot change; delete the ForeignCluster and peer again",
    },
    {
        "rule": "!has(oldSelf.clusterIdentity) || oldSelf.clusterIdentity.clusterID == '' || \
                 (has(self.clusterIdentity) && \
                 self.clusterIdentity.clusterID == oldSelf.clusterIdentity.clusterID)",
        "message": "clusterIdentity.clusterID cannot change once it is known",
    },
    {
        "rule": "!has(oldSelf.clusterIdentity) || oldSelf.clusterIdentity.clusterName == '' || \
                 (has(self.clusterIdentity) && \
                 self.clusterIdentity.clusterName == oldSelf.clusterIdentity.clusterName)",
        "message": "clusterIdentity.clusterName cannot change once it is known",
    },
]))]
pub struct ForeignClusterSpec {
    /// Says whether the clusters reach each other's control plane directly or through the tunnel.
    #[serde(default)]
    pub peering_type: PeeringType,
    /// Says which cluster this is; asked of the cluster itself when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_identity: Option<ClusterIdentity>,
    /// Says whether this cluster may offload to the remote one.
    #[serde(default)]
    pub outgoing_peering_enabled: PeeringEnabled,
    /// Says whether the remote cluster may offload to this one.
    #[serde(default)]
    pub incoming_peering_enabled: PeeringEnabled,
    /// Locates the authentication service of the remote cluster.
    #[schemars(regex(
        pattern = r"https:\/\/(www\.)?[-a-zA-Z0-9@:%._\+~#=]{1,256}\.[a-zA-Z0-9()]{1,6}\b([-a-zA-Z0-9()@:%_\+.~#?&//=]*)"
    ))]
    pub foreign_auth_url: String,
    /// Locates the proxy through which the remote API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_proxy_url: Option<String>,
    /// Accepts any certificate of the remote authentication service.
    #[serde(default = "yes", rename = "insecureSkipTLSVerify")]
    pub insecure_skip_tls_verify: bool,
    /// Seconds after which a cluster found on the local network is forgotten if it stays silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl: Option<i64>,
}

impl ForeignClusterSpec {
    /// A cluster of which only the authentication service is known; the rest is as the API server
    /// would fill it in.
    pub fn reached_at(foreign_auth_url: impl Into<String>) -> Self {
        Self {
            peering_type: PeeringType::default(),
            cluster_identity: None,
            outgoing_peering_enabled: PeeringEnabled::default(),
            incoming_peering_enabled: PeeringEnabled::default(),
            foreign_auth_url: foreign_auth_url.into(),
            foreign_proxy_url: None,
            insecure_skip_tls_verify: yes(),
            ttl: None,
        }
    }
}

fn yes() -> bool {
    true
}

impl ForeignCluster {
    /// How far the relation has come; it decides what is replicated, and what the peer may do.
    pub fn phase(&self) -> Phase {
        let conditions = self.status.as_ref().map_or(&[][..], |status| &status.peering_conditions);
        let status = |kind| peering_status(conditions, kind);
        let is_enabled = |kind| status(kind) != PeeringConditionStatus::None;
        let incoming = is_enabled(PeeringConditionType::IncomingPeering);
        let outgoing = is_enabled(PeeringConditionType::OutgoingPeering);
        let authentication = status(PeeringConditionType::AuthenticationStatus);
        match (incoming, outgoing) {
            (true, true) => Phase::Bidirectional,
            (true, false) => Phase::Incoming,
            (false, true) => Phase::Outgoing,
            (false, false) if authentication == PeeringConditionStatus::Established => {
                Phase::Authenticated
            }
            (false, false) => Phase::None,
        }
    }
}

/// Says how far the relation with a remote cluster has come, all conditions taken together.
///
/// A peering that is wanted, or not yet wholly taken back, counts as one that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The clusters have nothing to do with each other yet.
    None,
    /// The remote cluster knows this one; nobody offloads.
    Authenticated,
    /// The remote cluster offloads to this one.
    Incoming,
    /// This cluster offloads to the remote one.
    Outgoing,
    /// Each offloads to the other.
    Bidirectional,
}

impl Phase {
    /// Whether the remote cluster offloads to this one.
    pub fn is_incoming(self) -> bool {
        matches!(self, Self::Incoming | Self::Bidirectional)
    }

    /// Whether this cluster offloads to the remote one.
    pub fn is_outgoing(self) -> bool {
        matches!(self, Self::Outgoing | Self::Bidirectional)
    }
}

/// Says how the control planes of two clusters reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PeeringType {
    /// Each API server and authentication service is reachable from the other cluster.
    #[default]
    OutOfBand,
    /// Everything goes through the tunnel between the clusters.
    InBand,
}

/// Says whether a peering is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PeeringEnabled {
    /// The configuration of the cluster decides.
    #[default]
    Auto,
    /// The peering is not wanted.
    No,
    /// The peering is wanted.
    Yes,
}

/// Reports what has been observed of the remote cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignClusterStatus {
    /// Names the namespaces in which the two clusters exchange objects.
    #[serde(default, skip_serializing_if = "TenantNamespaces::is_empty")]
    pub tenant_namespace: TenantNamespaces,
    /// Reports each aspect of the relation on its own.
    // Keyed, so that each writer may own its conditions and leave the others alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"],
    ))]
    pub peering_conditions: Vec<PeeringCondition>,
}

/// Names the two ends of the exchange between a pair of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantNamespaces {
    /// Names the namespace of this cluster that is kept for the remote one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Names the namespace of the remote cluster that is kept for this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

impl TenantNamespaces {
    /// Whether neither end is known.
    pub fn is_empty(&self) -> bool {
        self.local.is_none() && self.remote.is_none()
    }
}

/// Reports one aspect of the relation with a remote cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["status", "type"]))]
pub struct PeeringCondition {
    /// Names the aspect.
    #[serde(rename = "type")]
    pub kind: PeeringConditionType,
    /// Says how far it has come.
    #[serde(default)]
    pub status: PeeringConditionStatus,
    /// Says since when it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Time>,
    /// Says why in one word, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Says why in a sentence, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Names an aspect of the relation with a remote cluster.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum PeeringConditionType {
    /// Whether this cluster offloads to the remote one.
    OutgoingPeering,
    /// Whether the remote cluster offloads to this one.
    IncomingPeering,
    /// Whether pods of the two clusters reach each other.
    NetworkStatus,
    /// Whether the remote API server answers.
    #[serde(rename = "APIServerStatus")]
    ApiServerStatus,
    /// Whether the remote cluster has accepted the identity of this one.
    AuthenticationStatus,
    /// Whether the ForeignCluster itself makes sense.
    ProcessForeignClusterStatus,
}

/// Says how far an aspect of the relation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PeeringConditionStatus {
    /// Nothing has been asked for.
    #[default]
    None,
    /// It has been asked for, and is not there yet.
    Pending,
    /// It works.
    Established,
    /// It is being taken back.
    Disconnecting,
    /// The remote cluster has refused the token.
    Denied,
    /// The remote cluster has refused a request without a token.
    EmptyDenied,
    /// It has failed.
    Error,
    /// It is in order.
    Success,
    /// Somebody else takes care of it.
    External,
}

#[cfg(test)]
mod tests {
    use super::*;
    use PeeringConditionStatus::{Disconnecting, Error, Established, None as Nothing, Pending};
    use PeeringConditionType::{AuthenticationStatus, IncomingPeering, OutgoingPeering};

    #[test]
    fn a_cluster_of_which_nothing_is_known_has_no_phase() {
        let cluster = ForeignCluster::new("rome", ForeignClusterSpec::reached_at("https://a.it"));

        assert_eq!(cluster.phase(), Phase::None);
    }

    #[test]
    fn a_direction_counts_from_its_first_wish_to_its_very_end() {
        for status in [Pending, Established, Disconnecting, Error] {
            assert_eq!(phase(&[(OutgoingPeering, status)]), Phase::Outgoing, "{status:?}");
            assert_eq!(phase(&[(IncomingPeering, status)]), Phase::Incoming, "{status:?}");
        }
        let both = [(IncomingPeering, Disconnecting), (OutgoingPeering, Pending)];
        assert_eq!(phase(&both), Phase::Bidirectional);
    }

    #[test]
    fn authentication_counts_where_nobody_offloads() {
        let idle = [(AuthenticationStatus, Established), (OutgoingPeering, Nothing)];
        assert_eq!(phase(&idle), Phase::Authenticated);
        assert_eq!(phase(&[(AuthenticationStatus, Error)]), Phase::None);
        let busy = [(AuthenticationStatus, Error), (IncomingPeering, Established)];
        assert_eq!(phase(&busy), Phase::Incoming, "a peering outlives a failing identity");
    }

    fn phase(conditions: &[(PeeringConditionType, PeeringConditionStatus)]) -> Phase {
        let condition = |&(kind, status)| PeeringCondition {
            kind,
            status,
            last_transition_time: None,
            reason: None,
            message: None,
        };
        let status = ForeignClusterStatus {
            peering_conditions: conditions.iter().map(condition).collect(),
            ..ForeignClusterStatus::default()
        };
        let spec = ForeignClusterSpec::reached_at("https://a.it");
        ForeignCluster { status: Some(status), ..ForeignCluster::new("rome", spec) }.phase()
    }
}
