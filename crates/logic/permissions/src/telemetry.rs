//! The telemetry.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET, GROUP_OFFLOADING, GROUP_SHARING};

use crate::grants::Permissions;
use crate::group::CORE;
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Anonymous figures.")
        .cluster("Size of the cluster.", [on(CORE, ["nodes", "pods"]).read()])
        .cluster(
            "Peerings, and what is offloaded.",
            [
                on(GROUP_DISCOVERY, ["foreignclusters"]).read(),
                on(GROUP_NET, ["tunnelendpoints"]).read(),
                on(GROUP_OFFLOADING, ["namespaceoffloadings"]).read(),
                on(GROUP_SHARING, ["resourceoffers"]).read(),
            ],
        )
        .namespace("Who this cluster is.", [on(CORE, ["configmaps"]).read()])
}
