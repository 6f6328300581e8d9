//! From where to where, and what all copies have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::{annotation, label};
use liqo_api::names::Cluster;

/// Two namespaces that belong together, and what is known of their clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// This cluster.
    pub home: Cluster,
    /// The other cluster.
    pub remote: Cluster,
    /// The namespace here.
    pub home_namespace: String,
    /// The namespace there.
    pub remote_namespace: String,
    /// The node that stands for the other cluster.
    pub node: String,
    /// How pods there reach the API server here.
    pub service_accounts: ServiceAccounts,
}

/// How pods in the other cluster are given the tokens of their service accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceAccounts {
    /// They get none.
    #[default]
    Disabled,
    /// Tokens are asked for, pod by pod.
    TokenApi,
    /// Tokens that lie in Secrets are used, as API servers of long ago have them.
    Legacy,
}

impl Place {
    /// The metadata of a copy: labels and annotations of the object, and who it belongs to.
    pub fn metadata(&self, source: &ObjectMeta, name: impl Into<String>) -> ObjectMeta {
        let mut labels = source.labels.clone().unwrap_or_default();
        labels.insert(label::ORIGIN.to_owned(), self.home.id.to_string());
        labels.insert(label::DESTINATION.to_owned(), self.remote.id.to_string());
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.remote_namespace.clone()),
            labels: Some(labels),
            annotations: source.annotations.clone(),
            ..ObjectMeta::default()
        }
    }

    /// Whether an object there was put there by us.
    pub fn is_ours(&self, there: &ObjectMeta) -> bool {
        let has = |key: &str, value: &str| {
            there.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|it| it == value)
        };
        has(label::ORIGIN, self.home.id.as_str())
            && has(label::DESTINATION, self.remote.id.as_str())
    }

    /// Selects what we have put there.
    pub fn selector(&self) -> String {
        let (origin, destination) = (&self.home.id, &self.remote.id);
        format!("{}={origin},{}={destination}", label::ORIGIN, label::DESTINATION)
    }
}

/// Whether a user wants an object to stay where it is.
pub fn is_skipped(source: &ObjectMeta) -> bool {
    let annotations = source.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(annotation::SKIP_REFLECTION))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_copy_has_the_labels_and_annotations_of_its_object_and_says_whose_it_is() {
        let source = ObjectMeta {
            name: Some("settings".to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
            labels: Some(map(&[("app", "web")])),
            annotations: Some(map(&[("note", "yes")])),
            finalizers: Some(vec!["mine".to_owned()]),
            ..ObjectMeta::default()
        };
        let want = ObjectMeta {
            name: Some("settings".to_owned()),
            namespace: Some("shop-rome".to_owned()),
            labels: Some(map(&[
                ("app", "web"),
                ("virtualkubelet.liqo.io/origin", ROME),
                ("virtualkubelet.liqo.io/destination", MILAN),
            ])),
            annotations: Some(map(&[("note", "yes")])),
            ..ObjectMeta::default()
        };
        assert_eq!(place().metadata(&source, "settings"), want);
    }

    #[test]
    fn only_what_carries_both_of_our_labels_is_ours() {
        let copy = place().metadata(&ObjectMeta::default(), "a");
        assert!(place().is_ours(&copy));
        assert!(!place().is_ours(&ObjectMeta::default()));
        let mut other = copy;
        other.labels.as_mut().unwrap().insert(label::ORIGIN.to_owned(), MILAN.to_owned());
        assert!(!place().is_ours(&other));
    }

    pub(crate) const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    pub(crate) const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    pub(crate) fn place() -> Place {
        let cluster =
            |id: &str, name: &str| Cluster { id: id.parse().unwrap(), name: name.parse().unwrap() };
        Place {
            home: cluster(ROME, "rome"),
            remote: cluster(MILAN, "milan"),
            home_namespace: "shop".to_owned(),
            remote_namespace: "shop-rome".to_owned(),
            node: "liqo-milan".to_owned(),
            service_accounts: ServiceAccounts::TokenApi,
        }
    }

    pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }
}
