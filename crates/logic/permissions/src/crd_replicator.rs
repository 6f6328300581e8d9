//! The replicator of custom resources.

use liqo_api::keys::object::GROUP_DISCOVERY;

use crate::grants::Permissions;
use crate::group::CORE;
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Copies of custom resources at peers; what is copied comes with peers' roles.")
        .cluster("Identities at peers, in tenant namespaces.", [on(CORE, ["secrets"]).follow()])
        .cluster(
            "Peers, kept until nothing of ours is left with them.",
            [on(GROUP_DISCOVERY, ["foreignclusters"]).follow().patch()],
        )
}
