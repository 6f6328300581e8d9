//! The clean-up before an uninstallation.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET, GROUP_OFFLOADING};

use crate::grants::Permissions;
use crate::group::{APPS, CORE};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Leave from all peers before Liqo goes.")
        .cluster(
            "Peerings, which end.",
            [on(GROUP_DISCOVERY, ["foreignclusters"]).read().change().delete()],
        )
        .cluster(
            "What is still there.",
            [
                on(CORE, ["nodes"]).read(),
                on(GROUP_NET, ["networkconfigs", "tunnelendpoints"]).read(),
                on(GROUP_OFFLOADING, ["namespaceoffloadings"]).read(),
            ],
        )
        .namespace(
            "Components that have to stop first.",
            [
                on(APPS, ["deployments"]).read().change(),
                on(APPS, ["deployments"]).part("scale").get().change(),
            ],
        )
}
