//! The authentication service.

use liqo_api::keys::object::{AWS_AUTH_CONFIG_MAP, REMOTE_CERTIFICATE_SECRET, SIGNER_CLIENT};

use crate::grants::Permissions;
use crate::group::{CERTIFICATES, CORE, EVENTS, RBAC};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    let requests = || on(CERTIFICATES, ["certificatesigningrequests"]);
    Permissions::new("Identities for peers.")
        .cluster(
            "The tenant namespaces of peers, and the roles they have there.",
            [
                on(CORE, ["namespaces"]).list().apply(),
                on(RBAC, ["clusterroles"]).list(),
                on(RBAC, ["rolebindings"]).apply(),
            ],
        )
        .cluster(
            "The certificates that peers are given, kept in their tenant namespaces.",
            [
                requests().follow().create(),
                requests().part("approval").patch(),
                on(CERTIFICATES, ["signers"]).named([SIGNER_CLIENT]).approve(),
                on(CORE, ["secrets"]).named([REMOTE_CERTIFICATE_SECRET]).get().apply(),
            ],
        )
        .cluster(
            "The users that EKS knows instead of certificates.",
            [on(CORE, ["configmaps"]).named([AWS_AUTH_CONFIG_MAP]).get().change()],
        )
        .cluster("An address that peers can be told.", [on(CORE, ["nodes"]).list()])
        .cluster("What happened, for people.", [on(EVENTS, ["events"]).apply()])
        .namespace(
            "The token of this cluster, and those of peers.",
            [on(CORE, ["secrets"]).read().apply()],
        )
}
