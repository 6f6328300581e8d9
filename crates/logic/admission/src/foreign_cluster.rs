//! ForeignClusters: who a cluster is does not change.

use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::label;

use crate::Verdict;

/// Labels a ForeignCluster with the identifier it is for, so that it can be looked up by it.
pub fn labelled(cluster: &ForeignCluster) -> ForeignCluster {
    let mut cluster = cluster.clone();
    let identity = cluster.spec.cluster_identity.as_ref();
    let id = identity.map(|identity| identity.cluster_id.clone()).filter(|id| !id.is_empty());
    if let Some(id) = id {
        let labels = cluster.metadata.labels.get_or_insert_default();
        labels.insert(label::CLUSTER_ID.to_owned(), id);
    }
    cluster
}

/// Whether a ForeignCluster may become another one.
pub fn validate(old: &ForeignCluster, new: &ForeignCluster) -> Verdict {
    if old.spec.peering_type != new.spec.peering_type {
        return Verdict::denied(
            "spec.peeringType cannot change: unpeer and delete the ForeignCluster, then peer anew",
        );
    }
    let known = old.spec.cluster_identity.clone().unwrap_or_default();
    let asked = new.spec.cluster_identity.clone().unwrap_or_default();
    for (field, known, asked) in [
        ("clusterID", known.cluster_id, asked.cluster_id),
        ("clusterName", known.cluster_name, asked.cluster_name),
    ] {
        if !known.is_empty() && known != asked {
            return Verdict::Denied(format!(
                "spec.clusterIdentity.{field} is '{known}' and cannot become '{asked}': another \
                 cluster needs a ForeignCluster of its own"
            ));
        }
    }
    Verdict::Allowed
}

#[cfg(test)]
mod tests {
    use liqo_api::discovery::{ClusterIdentity, ForeignClusterSpec, PeeringType};

    use super::*;

    #[test]
    fn a_known_identifier_becomes_a_label() {
        assert_eq!(labelled(&cluster("", "")).metadata.labels, None);
        let labels = labelled(&cluster("some-id", "milan")).metadata.labels.unwrap();
        assert_eq!(labels["discovery.liqo.io/cluster-id"], "some-id");
    }

    #[test]
    fn an_identity_is_given_once() {
        assert_eq!(validate(&cluster("", ""), &cluster("a", "milan")), Verdict::Allowed);
        assert_eq!(validate(&cluster("a", "milan"), &cluster("a", "milan")), Verdict::Allowed);
        for other in [cluster("b", "milan"), cluster("a", "rome"), cluster("", "")] {
            let Verdict::Denied(reason) = validate(&cluster("a", "milan"), &other) else {
                panic!("{other:?} was let through");
            };
            assert!(reason.contains("cannot become"), "{reason}");
        }
    }

    #[test]
    fn the_way_of_peering_stays() {
        let mut other = cluster("a", "milan");
        other.spec.peering_type = PeeringType::InBand;
        assert!(matches!(validate(&cluster("a", "milan"), &other), Verdict::Denied(_)));
    }

    fn cluster(id: &str, name: &str) -> ForeignCluster {
        let mut spec = ForeignClusterSpec::reached_at("https://198.18.0.1");
        let identity = ClusterIdentity { cluster_id: id.to_owned(), cluster_name: name.to_owned() };
        spec.cluster_identity = Some(identity).filter(|identity| !identity.cluster_id.is_empty());
        ForeignCluster::new("milan", spec)
    }
}
