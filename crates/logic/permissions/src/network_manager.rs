//! The network manager.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET};

use crate::grants::Permissions;
use crate::group::{CORE, EVENTS};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    Permissions::new("Networks and addresses of peers.")
        .cluster(
            "Networks that peers are told, and the tunnels that follow.",
            [
                on(GROUP_DISCOVERY, ["foreignclusters"]).read(),
                // What is told to a peer and the tunnel to it hold up the end of its ForeignCluster.
                on(GROUP_DISCOVERY, ["foreignclusters"]).finalizers().update(),
                on(GROUP_NET, ["networkconfigs", "tunnelendpoints"]).follow().apply().delete(),
                on(GROUP_NET, ["networkconfigs"]).status().patch(),
            ],
        )
        .cluster(
            "Which addresses are taken, and what gateways translate.",
            [
                on(GROUP_NET, ["ipamstorages"]).get().list().apply(),
                on(GROUP_NET, ["natmappings"]).read().apply().delete(),
            ],
        )
        .cluster("Which namespace is whose.", [on(CORE, ["namespaces"]).read()])
        .cluster("What happened, for people.", [on(EVENTS, ["events"]).apply()])
        .namespace("Key and address of the gateway.", [on(CORE, ["secrets", "services"]).read()])
}
