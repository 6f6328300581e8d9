//! The discovery of clusters on the local network.

use liqo_api::keys::object::GROUP_DISCOVERY;

use crate::grants::Permissions;
use crate::group::CORE;
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Clusters on the local network.")
        .cluster(
            "The clusters that are found, and those that are gone.",
            [on(GROUP_DISCOVERY, ["foreignclusters"]).manage()],
        )
        .cluster("An address to announce.", [on(CORE, ["nodes"]).read()])
        .namespace(
            "Who this cluster is, and the port to announce.",
            [on(CORE, ["configmaps", "services"]).read()],
        )
}
