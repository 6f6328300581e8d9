//! The controller manager.

use liqo_api::keys::object::{
    GROUP_DISCOVERY, GROUP_METRICS, GROUP_NET, GROUP_OFFLOADING, GROUP_SHARING,
    GROUP_VIRTUAL_KUBELET, SIGNER_EKS, SIGNER_KUBELET, WEBHOOK,
};

use crate::grants::Permissions;
use crate::group::{
    ADMISSION, APPS, CERTIFICATES, COORDINATION, CORE, ENDPOINTS, EVENTS, RBAC, STORAGE,
};
use crate::rule::on;

pub(crate) fn permissions() -> Permissions {
    let all = Permissions::new(
        "Peerings, offers, virtual nodes, namespaces, shadow objects and volumes.",
    );
    let all = offloading(virtual_nodes(peerings(all)));
    all.cluster(
        "The certificate of the webhooks.",
        [on(ADMISSION, ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"])
            .named([WEBHOOK])
            .read()
            .patch()],
    )
    .cluster("What happened, for people.", [on(EVENTS, ["events"]).apply()])
    .namespace(
        "Who this cluster is, and where its services are.",
        [on(CORE, ["configmaps", "services"]).read()],
    )
    .namespace("One active instance.", [on(COORDINATION, ["leases"]).get().create().change()])
}

fn peerings(permissions: Permissions) -> Permissions {
    let peerings = || on(GROUP_DISCOVERY, ["foreignclusters", "resourcerequests"]);
    let offers = || on(GROUP_SHARING, ["resourceoffers"]);
    permissions
        .cluster(
            "Peerings.",
            [
                peerings().read().apply().delete(),
                peerings().status().patch(),
                peerings().finalizers().update(),
                on(GROUP_NET, ["networkconfigs", "tunnelendpoints"]).follow(),
            ],
        )
        .cluster(
            "Offers.",
            [
                offers().read().apply().delete(),
                offers().status().patch(),
                offers().finalizers().update(),
            ],
        )
        .cluster(
            "What peers may do here; and metrics, as nobody may grant what it may not do.",
            [
                on(RBAC, ["clusterroles", "clusterrolebindings", "rolebindings"])
                    .read()
                    .apply()
                    .delete(),
                on(GROUP_METRICS, ["scrape", "scrape/metrics"]).get(),
            ],
        )
}

fn virtual_nodes(permissions: Permissions) -> Permissions {
    let requests = || on(CERTIFICATES, ["certificatesigningrequests"]);
    permissions
        .cluster(
            "Virtual kubelets: their account, their Deployment, their node when nobody drains it.",
            [
                on(CORE, ["serviceaccounts"]).get().apply(),
                on(APPS, ["deployments"]).follow().apply().delete(),
                on(CORE, ["nodes"]).read().patch().delete(),
                on(CORE, ["nodes"]).finalizers().update(),
            ],
        )
        .cluster(
            "The certificates that virtual kubelets serve with.",
            [
                requests().follow(),
                requests().part("approval").change(),
                on(CERTIFICATES, ["signers"]).named([SIGNER_KUBELET, SIGNER_EKS]).approve(),
            ],
        )
}

fn offloading(permissions: Permissions) -> Permissions {
    let offloadings = || on(GROUP_OFFLOADING, ["namespaceoffloadings"]);
    let maps_and_slices = on(GROUP_VIRTUAL_KUBELET, ["namespacemaps", "shadowendpointslices"]);
    let shadows =
        || on(GROUP_VIRTUAL_KUBELET, ["namespacemaps", "shadowendpointslices", "shadowpods"]);
    permissions
        .cluster(
            "Namespaces that reach over clusters.",
            [
                offloadings().read().change(),
                offloadings().status().get().change(),
                offloadings().finalizers().update(),
            ],
        )
        .cluster(
            "Namespaces and pods of tenants, and identities of peers in tenant namespaces.",
            [
                on(CORE, ["namespaces", "pods", "secrets"]).manage(),
                on(CORE, ["pods"]).part("eviction").create(),
                on(CORE, ["pods"]).part("ephemeralcontainers").patch(),
            ],
        )
        .cluster(
            "What peers want here, and what is made of it.",
            [
                maps_and_slices.manage(),
                on(GROUP_VIRTUAL_KUBELET, ["shadowpods"]).read().change().delete(),
                shadows().status().get().change(),
                shadows().finalizers().update(),
                on(ENDPOINTS, ["endpointslices"]).manage(),
            ],
        )
        .cluster(
            "Volumes that follow their pods.",
            [
                on(CORE, ["persistentvolumes", "persistentvolumeclaims"]).manage(),
                on(STORAGE, ["storageclasses"]).read(),
            ],
        )
}
