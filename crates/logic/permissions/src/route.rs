//! The routes of each node.

use liqo_api::keys::object::GROUP_NET;

use crate::grants::Permissions;
use crate::group::{CORE, EVENTS};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    let tunnels = || on(GROUP_NET, ["tunnelendpoints"]);
    Permissions::new("Routes of a node towards the gateway.")
        .cluster(
            "Networks of peers, kept until their routes are gone.",
            [tunnels().read().change(), tunnels().finalizers().update()],
        )
        .cluster(
            "Where the gateway, the other nodes and the pods are.",
            [on(CORE, ["nodes"]).get(), on(CORE, ["pods"]).read()],
        )
        .cluster("What happened, for people.", [on(EVENTS, ["events"]).apply()])
        .namespace("What others need to know of this node.", [on(CORE, ["pods"]).change()])
}
