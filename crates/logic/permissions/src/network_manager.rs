//! The network manager.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET};

use crate::grants::Permissions;
use crate::group::CORE;
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    let exchanged = || on(GROUP_NET, ["networkconfigs", "tunnelendpoints"]);
    Permissions::new("Networks and addresses of peers.")
        .cluster(
            "Networks that peers are told, and the tunnels that follow.",
            [
                on(GROUP_DISCOVERY, ["foreignclusters"]).read(),
                on(GROUP_NET, ["natmappings", "networkconfigs", "tunnelendpoints"]).manage(),
                exchanged().status().get().change(),
                exchanged().finalizers().update(),
            ],
        )
        .cluster(
            "Which addresses are taken.",
            [on(GROUP_NET, ["ipamstorages"]).read().create().change()],
        )
        .cluster("What happened, for people.", [on(CORE, ["events"]).apply()])
        .namespace("Key and address of the gateway.", [on(CORE, ["secrets", "services"]).read()])
}
