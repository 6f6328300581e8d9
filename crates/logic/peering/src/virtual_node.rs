//! The NamespaceMap of a virtual node: which namespaces extend to the cluster behind it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use liqo_api::keys::label;
use liqo_api::names::Cluster;
use liqo_api::virtualkubelet::{NamespaceMap, NamespaceMapSpec};

/// The NamespaceMap of a virtual node, without the namespaces, which others write.
pub fn namespace_map(provider: &Cluster, tenant: &str, node: OwnerReference) -> NamespaceMap {
    let id = provider.id.as_str();
    let labels =
        [(label::REMOTE_CLUSTER_ID, id), (label::REPLICATION, label::TRUE), (label::REMOTE_ID, id)];
    let metadata = ObjectMeta {
        name: Some(provider.unique_name().to_string()),
        namespace: Some(tenant.to_owned()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![node]),
        ..ObjectMeta::default()
    };
    NamespaceMap { metadata, spec: NamespaceMapSpec::default(), status: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{MILAN, cluster};

    #[test]
    fn a_map_is_named_after_the_cluster_behind_the_node() {
        let node = OwnerReference { name: "liqo-milan".to_owned(), ..OwnerReference::default() };
        let map = namespace_map(&cluster(MILAN, "milan"), "tenant", node);
        assert_eq!(map.metadata.name.as_deref(), Some("milan-ee0b4a"));
        let labels = map.metadata.labels.unwrap();
        assert_eq!(labels["liqo.io/remote-cluster-id"], MILAN);
        assert_eq!(labels["liqo.io/remoteID"], MILAN);
        assert_eq!(labels["liqo.io/replication"], "true");
        assert!(map.spec.desired_mapping.is_empty());
    }
}
