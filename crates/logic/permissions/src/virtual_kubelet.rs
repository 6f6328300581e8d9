//! The roles of virtual kubelets, in their own cluster and in the other one.

use liqo_api::keys::object::{GROUP_DISCOVERY, GROUP_NET, GROUP_SHARING, GROUP_VIRTUAL_KUBELET};

use crate::grants::Permissions;
use crate::group::{
    AUTHENTICATION, AUTHORIZATION, CERTIFICATES, COORDINATION, CORE, ENDPOINTS, EVENTS, NETWORKING,
    STORAGE, USAGE,
};
use crate::rule::on;

pub(crate) fn local() -> Permissions {
    let all = Permissions::new("What a virtual kubelet may do in its own cluster.")
        .cluster(
            "Its node.",
            [
                on(CORE, ["nodes", "nodes/status"]).manage(),
                on(COORDINATION, ["leases"]).get().create().change().delete(),
                on(GROUP_SHARING, ["resourceoffers"]).read().change().delete(),
                on(GROUP_SHARING, ["resourceoffers"]).finalizers().update(),
            ],
        )
        .cluster(
            "Its port: a certificate, and who may use it.",
            [
                on(CERTIFICATES, ["certificatesigningrequests"]).read().create(),
                on(AUTHENTICATION, ["tokenreviews"]).create(),
                on(AUTHORIZATION, ["subjectaccessreviews"]).create(),
            ],
        )
        .cluster(
            "Where to: the peer, its network and the names of namespaces there.",
            [
                on(GROUP_DISCOVERY, ["foreignclusters", "foreignclusters/status"]).read(),
                on(GROUP_NET, ["natmappings", "tunnelendpoints"]).read(),
                on(GROUP_VIRTUAL_KUBELET, ["namespacemaps"]).read(),
            ],
        );
    reflection(all).cluster(
        "What happened, for people; in the older form what others have told of their pods.",
        [on(EVENTS, ["events"]).apply(), on(CORE, ["events"]).apply()],
    )
}

fn reflection(permissions: Permissions) -> Permissions {
    permissions
        .cluster(
            "Pods of its node: their status, their end, and the tokens they run with.",
            [
                on(CORE, ["pods"]).read().delete(),
                on(CORE, ["pods"]).status().manage(),
                on(CORE, ["pods/eviction", "serviceaccounts/token"]).create(),
            ],
        )
        .cluster(
            "What pods need on the other side.",
            [
                on(CORE, ["configmaps", "namespaces", "secrets", "services", "services/status"])
                    .read(),
                on(CORE, ["secrets"]).create().change(),
                on(ENDPOINTS, ["endpointslices"]).read(),
                on(NETWORKING, ["ingresses"]).read(),
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

pub(crate) fn remote() -> Permissions {
    Permissions::new("What a virtual kubelet may do in the namespaces that are offloaded to us.")
        .cluster(
            "Pods, and how they are.",
            [
                on(GROUP_VIRTUAL_KUBELET, ["shadowpods"]).manage(),
                on(CORE, ["events", "pods"]).read(),
                on(USAGE, ["pods"]).read(),
            ],
        )
        .cluster(
            "Logs and streams of pods.",
            [
                on(CORE, ["pods"]).part("log").get().list(),
                // WebSockets begin with a GET.
                on(CORE, ["pods/exec", "pods/attach", "pods/portforward"]).get().create(),
            ],
        )
        .cluster(
            "What pods need.",
            [
                on(CORE, ["configmaps", "secrets", "services", "persistentvolumeclaims"]).manage(),
                on(NETWORKING, ["ingresses"]).manage(),
                on(GROUP_VIRTUAL_KUBELET, ["shadowendpointslices"]).manage(),
            ],
        )
}
