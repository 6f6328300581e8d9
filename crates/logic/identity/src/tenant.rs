//! What is kept for a peer: its namespace, and what it may do there.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use liqo_api::discovery::Phase;
use liqo_api::keys::{label, object};
use liqo_api::names::{Cluster, ClusterId, InvalidName};

use crate::issue::labels;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The namespace that is kept for a peer.
pub fn namespace(peer: &Cluster) -> Result<Namespace, InvalidName> {
    let mut labels = labels(&peer.id);
    labels.insert(label::TENANT_NAMESPACE.to_owned(), label::TRUE.to_owned());
    let metadata = ObjectMeta {
        name: Some(peer.tenant_namespace()?.into()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    Ok(Namespace { metadata, ..Namespace::default() })
}

/// Selects the namespace of a peer, whatever its name.
pub fn namespaces_of(peer: &ClusterId) -> String {
    format!("{}={},{}={peer}", label::TENANT_NAMESPACE, label::TRUE, label::CLUSTER_ID)
}

/// More than one namespace claims to be that of a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("namespaces {0} all claim to be that of one peer; delete or relabel all but one")]
pub struct Ambiguous(String);

/// The one namespace of a peer among those that carry its labels; the older name counts as much as
/// one that we would choose.
pub fn existing<'a>(
    namespaces: impl IntoIterator<Item = &'a Namespace>,
) -> Result<Option<&'a str>, Ambiguous> {
    let names: Vec<&str> =
        namespaces.into_iter().filter_map(|namespace| namespace.metadata.name.as_deref()).collect();
    match names.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        more => Err(Ambiguous(more.join(", "))),
    }
}

/// Whether a namespace is on its way out: what was there goes, and nothing new can be made in it.
pub fn is_ending(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

/// What a peer is granted in a phase: values of the label on ClusterRoles.
pub fn permissions(phase: Phase) -> Vec<&'static str> {
    let mut permissions = vec![label::PERMISSIONS_BASIC];
    if phase.is_incoming() {
        permissions.push(label::PERMISSIONS_INCOMING);
    }
    if phase.is_outgoing() {
        permissions.push(label::PERMISSIONS_OUTGOING);
    }
    permissions
}

/// Selects the ClusterRoles of a permission.
pub fn roles_of(permission: &str) -> String {
    format!("{}={permission}", label::REMOTE_PEERING_PERMISSIONS)
}

/// Lets a peer do in its tenant namespace what a ClusterRole says.
pub fn binding(tenant: &str, peer: &ClusterId, role: &ClusterRole) -> RoleBinding {
    let name = role.metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: format!("{RBAC}/v1"),
        kind: "ClusterRole".to_owned(),
        name: name.clone(),
        uid: role.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    RoleBinding {
        metadata: ObjectMeta {
            name: Some(object::role_binding(&name)),
            namespace: Some(tenant.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.to_owned()),
            kind: "User".to_owned(),
            name: peer.to_string(),
            namespace: None,
        }]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn a_tenant_namespace_is_found_by_its_labels() {
        let cluster = Cluster { id: MILAN.parse().unwrap(), name: "milan".parse().unwrap() };
        let want = json!({
            "name": "liqo-tenant-milan-ee0b4a",
            "labels": {
                "discovery.liqo.io/cluster-id": MILAN,
                "discovery.liqo.io/tenant-namespace": "true",
            },
        });
        let namespace = namespace(&cluster).unwrap();
        assert_eq!(serde_json::to_value(&namespace.metadata).unwrap(), want);
        assert_eq!(existing([&namespace]).unwrap(), Some("liqo-tenant-milan-ee0b4a"));
        assert_eq!(existing([]).unwrap(), None);
        let error = existing([&namespace, &namespace]).unwrap_err().to_string();
        assert!(error.contains("delete or relabel"), "{error}");
    }

    #[test]
    fn a_binding_looks_as_peers_know_it() {
        let role = ClusterRole {
            metadata: ObjectMeta {
                name: Some(object::ROLE_BASIC.to_owned()),
                uid: Some("d1e224d1".to_owned()),
                ..ObjectMeta::default()
            },
            ..ClusterRole::default()
        };
        let want = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {
                "name": "liqo-binding-liqo-remote-peering-basic",
                "namespace": "liqo-tenant-milan-ee0b4a",
                "ownerReferences": [{
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "name": "liqo-remote-peering-basic",
                    "uid": "d1e224d1",
                }],
            },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "liqo-remote-peering-basic",
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MILAN},
            ],
        });
        let made = binding("liqo-tenant-milan-ee0b4a", &MILAN.parse().unwrap(), &role);
        assert_eq!(serde_json::to_value(made).unwrap(), want);
    }

    #[test]
    fn permissions_follow_the_phase() {
        for (phase, want) in [
            (Phase::None, vec!["basic"]),
            (Phase::Authenticated, vec!["basic"]),
            (Phase::Incoming, vec!["basic", "incoming"]),
            (Phase::Outgoing, vec!["basic", "outgoing"]),
            (Phase::Bidirectional, vec!["basic", "incoming", "outgoing"]),
        ] {
            assert_eq!(permissions(phase), want);
        }
    }
}
