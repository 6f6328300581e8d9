//! Why Liqo cannot be removed yet.

use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, PeeringCondition, PeeringConditionStatus, PeeringConditionType, PeeringEnabled,
};
use liqo_api::offloading::NamespaceOffloading;

/// Something that has to go first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// A peering is wanted, or there still.
    Peering {
        /// The other cluster's object.
        cluster: String,
        /// What is there.
        aspects: Vec<&'static str>,
    },
    /// A namespace extends to other clusters.
    Offloading {
        /// The namespace.
        namespace: String,
    },
}

impl Blocker {
    /// What is in the way, and how to remove it.
    pub fn line(&self) -> String {
        match self {
            Self::Peering { cluster, aspects } => format!(
                "cluster {cluster} is still peered with ({}); run `liqoctl unpeer {cluster}`",
                aspects.join(", ")
            ),
            Self::Offloading { namespace } => format!(
                "namespace {namespace} still extends to other clusters; run `liqoctl unoffload \
                 namespace {namespace}`"
            ),
        }
    }
}

/// All that is in the way.
pub fn find(clusters: &[ForeignCluster], offloadings: &[NamespaceOffloading]) -> Vec<Blocker> {
    let peerings = clusters.iter().filter_map(peering);
    let offloadings = offloadings.iter().map(|one| Blocker::Offloading {
        namespace: one.metadata.namespace.clone().unwrap_or_default(),
    });
    let mut blockers: Vec<Blocker> = peerings.chain(offloadings).collect();
    blockers.sort();
    blockers
}

fn peering(cluster: &ForeignCluster) -> Option<Blocker> {
    let conditions: &[PeeringCondition] =
        cluster.status.as_ref().map_or(&[], |status| &status.peering_conditions);
    let is = |kind| peering_status(conditions, kind);
    let spec = &cluster.spec;
    let mut aspects = vec![];
    if spec.outgoing_peering_enabled == PeeringEnabled::Yes
        || is(PeeringConditionType::OutgoingPeering) != PeeringConditionStatus::None
    {
        aspects.push("outgoing peering");
    }
    if spec.incoming_peering_enabled == PeeringEnabled::Yes
        || is(PeeringConditionType::IncomingPeering) != PeeringConditionStatus::None
    {
        aspects.push("incoming peering");
    }
    if is(PeeringConditionType::NetworkStatus) == PeeringConditionStatus::Established {
        aspects.push("networking");
    }
    let cluster = cluster.metadata.name.clone().unwrap_or_default();
    (!aspects.is_empty()).then_some(Blocker::Peering { cluster, aspects })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_cluster_that_is_only_known_is_not_in_the_way() {
        assert_eq!(find(&[cluster("Auto", &[])], &[]), []);
        assert_eq!(find(&[cluster("No", &[("NetworkStatus", "None")])], &[]), []);
    }

    #[test]
    fn every_blocker_says_how_to_remove_it() {
        let peered = cluster(
            "Yes",
            &[("IncomingPeering", "Disconnecting"), ("NetworkStatus", "Established")],
        );
        let offloading: NamespaceOffloading = read(json!({
            "apiVersion": "offloading.liqo.io/v1alpha1", "kind": "NamespaceOffloading",
            "metadata": {"name": "offloading", "namespace": "shop"}, "spec": {},
        }));

        let lines: Vec<String> = find(&[peered], &[offloading]).iter().map(Blocker::line).collect();

        insta::assert_snapshot!(lines.join("\n"), @r"
        cluster milan is still peered with (outgoing peering, incoming peering, networking); run `liqoctl unpeer milan`
        namespace shop still extends to other clusters; run `liqoctl unoffload namespace shop`
        ");
    }

    fn cluster(outgoing: &str, conditions: &[(&str, &str)]) -> ForeignCluster {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}))
            .collect();
        read(json!({
            "apiVersion": "discovery.liqo.io/v1alpha1", "kind": "ForeignCluster",
            "metadata": {"name": "milan"},
            "spec": {"foreignAuthUrl": "https://a.b", "outgoingPeeringEnabled": outgoing},
            "status": {"peeringConditions": conditions},
        }))
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
}
