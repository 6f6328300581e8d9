//! The gateway.

use liqo_api::keys::object::GROUP_NET;

use crate::grants::Permissions;
use crate::group::{COORDINATION, CORE, EVENTS};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    let tunnels = || on(GROUP_NET, ["tunnelendpoints"]);
    Permissions::new("Tunnels to peers.")
        .cluster(
            "Tunnels, and how they are.",
            [
                tunnels().read().change(),
                tunnels().status().get().change(),
                tunnels().finalizers().update(),
            ],
        )
        .cluster("Addresses to translate.", [on(GROUP_NET, ["natmappings"]).read()])
        .cluster("What happened, for people.", [on(EVENTS, ["events"]).apply()])
        .namespace(
            "One active instance, which says on itself and its Service that it is.",
            [
                on(COORDINATION, ["leases"]).get().create().change(),
                on(CORE, ["pods", "services"]).read().change(),
            ],
        )
        .namespace("Its keys.", [on(CORE, ["secrets"]).read().create().change()])
}
