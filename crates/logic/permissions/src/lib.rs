//! What each component may do at the API server, and why.
//!
//! A component declares it in words, in the file that has its name; `cargo xtask gen` writes
//! `charts/liqo/files/rbac/` from that. Nothing is granted with a wildcard, and no verb can be
//! misspelled.

mod auth;
mod controller_manager;
mod crd_replicator;
mod discovery;
mod gateway;
mod grants;
mod group;
mod metric_agent;
mod network_manager;
mod pre_delete;
mod remote_peering;
mod route;
mod rule;
mod telemetry;
mod virtual_kubelet;

use liqo_api::keys::{component, object};

pub use grants::Permissions;

/// The permissions of every component, and of every role that others are bound to, by its name.
pub fn all() -> Vec<(&'static str, Permissions)> {
    vec![
        (component::AUTH, auth::permissions()),
        (component::CONTROLLER_MANAGER, controller_manager::permissions()),
        (component::CRD_REPLICATOR, crd_replicator::permissions()),
        (component::DISCOVERY, discovery::permissions()),
        (component::GATEWAY, gateway::permissions()),
        (component::METRIC_AGENT, metric_agent::permissions()),
        (component::NETWORK_MANAGER, network_manager::permissions()),
        (component::PRE_DELETE, pre_delete::permissions()),
        (role(object::ROLE_BASIC), remote_peering::basic()),
        (role(object::ROLE_INCOMING), remote_peering::incoming()),
        (role(object::ROLE_OUTGOING), remote_peering::outgoing()),
        (component::ROUTE, route::permissions()),
        (component::TELEMETRY, telemetry::permissions()),
        (component::VIRTUAL_KUBELET_LOCAL, virtual_kubelet::local()),
        (component::VIRTUAL_KUBELET_REMOTE, virtual_kubelet::remote()),
    ]
}

/// The name of a ClusterRole, without what all names of the chart begin with.
fn role(cluster_role: &'static str) -> &'static str {
    cluster_role.strip_prefix(component::PREFIX).unwrap_or(cluster_role)
}

#[cfg(test)]
mod tests;
