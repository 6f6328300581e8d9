//! The metric agent.

use crate::grants::Permissions;
use crate::group::CORE;
use crate::rule::on;

/// Authority of those who may speak for others; Kubernetes makes it.
const AUTHORITY_CONFIG_MAP: &str = "extension-apiserver-authentication";

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Metrics of the pods that peers run here.")
        .cluster(
            "Which pods are whose, and what kubelets measure.",
            [
                on(CORE, ["namespaces", "nodes", "pods"]).read(),
                on(CORE, ["nodes"]).part("proxy").get(),
            ],
        )
        .cluster(
            "Whom to believe who is asking.",
            [on(CORE, ["configmaps"]).named([AUTHORITY_CONFIG_MAP]).read()],
        )
}
