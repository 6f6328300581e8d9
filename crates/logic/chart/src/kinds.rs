//! The order in which kinds of objects are installed: what others need comes first.

use std::cmp::Ordering;

/// Helm's order; kinds that it does not name come last, by their names.
const ORDER: [&str; 36] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Which of two kinds is installed first.
pub fn compare(left: &str, right: &str) -> Ordering {
    let place = |kind: &str| ORDER.iter().position(|known| *known == kind);
    match (place(left), place(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let mut kinds = ["ServiceMonitor", "Deployment", "PodMonitor", "ServiceAccount", "Role"];
        kinds.sort_by(|left, right| compare(left, right));

        assert_eq!(kinds, ["ServiceAccount", "Role", "Deployment", "PodMonitor", "ServiceMonitor"]);
    }
}
