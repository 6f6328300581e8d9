//! Whose an object is.

use std::fmt;

use liqo_api::keys::{label, object};
use serde_json::{Map, Value};

/// Annotation: the release that an object belongs to.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// Annotation: the namespace of that release.
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Kinds without a namespace, as far as charts of ours have ever used them.
const CLUSTER_WIDE: [&str; 11] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "PodSecurityPolicy",
    "PriorityClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// Objects that components make themselves as well, so that finding them is no surprise.
const SHARED: [&str; 4] = [
    object::CLUSTER_ID_CONFIG_MAP,
    object::WEBHOOK_SECRET,
    object::AUTH_TOKEN_SECRET,
    object::WIREGUARD_SECRET,
];

/// Says which object is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Group of its kind; empty is Kubernetes' own.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Id {
    /// The object that a document describes; `namespace` is where it goes if it does not say.
    pub fn of(document: &Value, namespace: &str) -> Option<Self> {
        let text = |path: &str| document.pointer(path).and_then(Value::as_str);
        let (version, kind) = (text("/apiVersion")?, text("/kind")?);
        let own = (!CLUSTER_WIDE.contains(&kind))
            .then(|| text("/metadata/namespace").unwrap_or(namespace).to_owned());
        Some(Self {
            group: version.rsplit_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: kind.to_owned(),
            namespace: own,
            name: text("/metadata/name")?.to_owned(),
        })
    }

    /// Whether it may already be there without belonging to a release.
    pub fn is_shared(&self) -> bool {
        ["ConfigMap", "Secret"].contains(&self.kind.as_str())
            && SHARED.contains(&self.name.as_str())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A release, as objects name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Name of the release.
    pub release: &'a str,
    /// Namespace of the release.
    pub namespace: &'a str,
}

impl Owner<'_> {
    /// Marks an object as belonging to the release.
    pub fn mark(self, object: &mut Value) {
        let cluster_wide = object
            .get("kind")
            .and_then(Value::as_str)
            .is_some_and(|kind| CLUSTER_WIDE.contains(&kind));
        let Some(metadata) = entry(object, "metadata") else { return };
        if !cluster_wide && !metadata.contains_key("namespace") {
            metadata.insert("namespace".to_owned(), self.namespace.into());
        }
        let marks = [
            ("labels", label::APP_MANAGED_BY, label::MANAGED_BY_HELM),
            ("annotations", RELEASE_NAME, self.release),
            ("annotations", RELEASE_NAMESPACE, self.namespace),
        ];
        for (map, key, value) in marks {
            let map = metadata.entry(map).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key.to_owned(), value.into());
            }
        }
    }

    /// Whether a live object belongs to the release.
    pub fn owns(self, live: &Value) -> bool {
        let says = |map: &str, key: &str, value: &str| {
            let found = live.pointer(&format!("/metadata/{map}")).and_then(|map| map.get(key));
            found.and_then(Value::as_str) == Some(value)
        };
        says("labels", label::APP_MANAGED_BY, label::MANAGED_BY_HELM)
            && says("annotations", RELEASE_NAME, self.release)
            && says("annotations", RELEASE_NAMESPACE, self.namespace)
    }
}

fn entry<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.as_object_mut()?.entry(key).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWNER: Owner<'_> = Owner { release: "liqo", namespace: "system" };

    #[test]
    fn what_is_marked_is_owned() {
        let mut role = json!({"kind": "ClusterRole", "metadata": {"name": "a"}});
        let mut service =
            json!({"kind": "Service", "metadata": {"name": "a", "labels": {"b": "c"}}});
        assert!(!OWNER.owns(&service));

        OWNER.mark(&mut role);
        OWNER.mark(&mut service);

        assert!(OWNER.owns(&role) && OWNER.owns(&service));
        assert_eq!(service["metadata"]["namespace"], "system");
        assert_eq!(service["metadata"]["labels"]["b"], "c");
        assert_eq!(role["metadata"].get("namespace"), None);
        assert!(!Owner { release: "other", ..OWNER }.owns(&role));
        assert!(!Owner { namespace: "other", ..OWNER }.owns(&role));
    }

    #[test]
    fn an_object_is_named_by_kind_namespace_and_name() {
        let id = |value: Value| Id::of(&value, "liqo").unwrap();

        let deployment = id(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "liqo-auth"}}));
        assert_eq!(deployment.to_string(), "Deployment liqo/liqo-auth");
        assert_eq!(deployment.group, "apps");
        let role =
            id(json!({"apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "x"}}));
        assert_eq!(role.to_string(), "ClusterRole x");
        assert_eq!(Id::of(&json!({"kind": "Service"}), "liqo"), None);
    }

    #[test]
    fn what_components_make_themselves_is_shared() {
        let id = |kind: &str, name: &str| Id {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: Some("liqo".to_owned()),
            name: name.to_owned(),
        };
        assert!(id("ConfigMap", "liqo-clusterid-configmap").is_shared());
        assert!(!id("ConfigMap", "liqo-proxy").is_shared());
        assert!(!id("Service", "auth-token").is_shared());
    }
}
