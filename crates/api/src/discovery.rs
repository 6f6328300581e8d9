//! `discovery.liqo.io`: which clusters are known, and what is asked of them.

mod foreign_cluster;
mod resource_request;

pub use foreign_cluster::{
    ForeignCluster, ForeignClusterSpec, ForeignClusterStatus, PeeringCondition,
    PeeringConditionStatus, PeeringConditionType, PeeringEnabled, PeeringType, Phase,
    TenantNamespaces,
};
pub use resource_request::{
    OfferState, ResourceRequest, ResourceRequestSpec, ResourceRequestStatus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{Cluster, InvalidName};

/// Says which cluster is meant, as it stands in a custom resource.
///
/// Both members may be empty in a ForeignCluster that nobody has resolved yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentity {
    /// Identifies the cluster among all others.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Names the cluster for people.
    pub cluster_name: String,
}

impl ClusterIdentity {
    /// The identity with both members checked.
    pub fn parse(&self) -> Result<Cluster, InvalidName> {
        Ok(Cluster { id: self.cluster_id.parse()?, name: self.cluster_name.parse()? })
    }
}

impl From<&Cluster> for ClusterIdentity {
    fn from(cluster: &Cluster) -> Self {
        Self { cluster_id: cluster.id.to_string(), cluster_name: cluster.name.to_string() }
    }
}
