//! The roles of peers in their tenant namespaces.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET, GROUP_SHARING, GROUP_VIRTUAL_KUBELET};

use crate::grants::Permissions;
use crate::rule::{Rule, on};

pub(crate) fn basic() -> Permissions {
    Permissions::new("What every peer may do in its tenant namespace.").cluster(
        "To ask for resources.",
        [replicated(GROUP_DISCOVERY, ["resourcerequests", "resourcerequests/status"])],
    )
}

pub(crate) fn incoming() -> Permissions {
    Permissions::new("What a peer that offloads here may do in its tenant namespace.")
        .cluster("To connect networks.", [networks()])
        .cluster(
            "To have namespaces here.",
            [replicated(GROUP_VIRTUAL_KUBELET, ["namespacemaps", "namespacemaps/status"])],
        )
}

pub(crate) fn outgoing() -> Permissions {
    Permissions::new("What a peer that we offload to may do in its tenant namespace.")
        .cluster("To connect networks.", [networks()])
        .cluster(
            "To offer resources.",
            [replicated(GROUP_SHARING, ["resourceoffers", "resourceoffers/status"])],
        )
}

fn networks() -> Rule {
    replicated(GROUP_NET, ["networkconfigs", "networkconfigs/status"])
}

/// What a peer's replicator does with its copies here.
fn replicated(group: &'static str, resources: [&str; 2]) -> Rule {
    on(group, resources).manage().delete_many()
}
