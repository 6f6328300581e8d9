//! Pods as they are kept in memory: what is needed again and again, and nothing else.
//!
//! The specification of a pod is by far its largest part, and needed once: it is read when the pod
//! is sent away. A status is kept as text, which takes a third of the space that fields take.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::tokens::Token;

/// JSON as text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Keeps a value.
    pub fn of(value: &Value) -> Self {
        Self(if value.is_null() { Box::default() } else { value.to_string().into() })
    }

    /// The value; null when there is none.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::of(&value))
    }
}

/// A pod of this cluster that is bound to the virtual node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct HomePod {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The little that is needed of its specification.
    #[serde(default)]
    pub spec: Glimpse,
    /// Its status.
    #[serde(default)]
    pub status: Json,
}

/// The little that is needed of a specification.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Glimpse {
    /// The service account that it runs with.
    #[serde(default)]
    pub service_account_name: Option<String>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    ephemeral_containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    name: Box<str>,
}

#[derive(Clone, Debug, Deserialize)]
struct Volume {
    name: String,
    #[serde(default)]
    projected: Option<Projected>,
}

#[derive(Clone, Debug, Deserialize)]
struct Projected {
    #[serde(default)]
    sources: Option<Vec<Source>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    #[serde(default)]
    service_account_token: Option<Projection>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Projection {
    path: String,
    #[serde(default)]
    audience: Option<String>,
    #[serde(default)]
    expiration_seconds: Option<i64>,
}

impl HomePod {
    /// Drops what came along and is not needed.
    pub fn trim(&mut self) {
        self.spec.volumes.retain(|volume| volume.tokens().next().is_some());
        self.spec.volumes.shrink_to_fit();
        self.spec.ephemeral_containers.shrink_to_fit();
        let metadata = std::mem::take(&mut self.metadata);
        self.metadata = ObjectMeta {
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            annotations: metadata.annotations.clone(),
            ..seen(metadata)
        };
    }

    /// The tokens that its volumes ask for.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.spec.volumes.iter().flat_map(Volume::tokens)
    }

    /// The names of the containers that were added to it while it ran.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.spec.ephemeral_containers.iter().map(|container| &*container.name)
    }

    /// Whether somebody has asked for its end.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether a container of it may be running somewhere.
    pub fn has_started(&self) -> bool {
        let status = self.status.value();
        let lists = ["containerStatuses", "initContainerStatuses"].into_iter();
        let mut lists = lists.filter_map(|list| status.get(list)?.as_array());
        lists.any(|list| !list.is_empty())
    }
}

impl Volume {
    fn tokens(&self) -> impl Iterator<Item = Token> {
        let sources =
            self.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        sources.filter_map(|source| {
            let token = source.service_account_token.as_ref()?;
            Some(Token {
                volume: self.name.clone(),
                path: token.path.clone(),
                audience: token.audience.clone(),
                seconds: token.expiration_seconds,
            })
        })
    }
}

/// A pod of the other cluster that was made for one of ours.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RemotePod {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Extras,
    /// Its status.
    #[serde(default)]
    pub status: Json,
}

/// What is added to a specification while its pod runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Extras {
    #[serde(default)]
    ephemeral_containers: Vec<Container>,
}

impl RemotePod {
    /// Whether a container was added to it while it ran.
    pub fn has_added(&self, name: &str) -> bool {
        self.spec.ephemeral_containers.iter().any(|container| &*container.name == name)
    }

    /// Drops what came along and is not needed.
    pub fn trim(&mut self) {
        let mut metadata = std::mem::take(&mut self.metadata);
        let owners = metadata.owner_references.take().map(|owners| {
            let controller = |owner: &OwnerReference| owner.controller == Some(true);
            owners.into_iter().filter(controller).collect()
        });
        self.metadata = ObjectMeta { owner_references: owners, labels: None, ..seen(metadata) };
    }

    /// The UID of the ShadowPod that it belongs to; nothing when it belongs to none.
    pub fn owner(&self) -> Option<&str> {
        let owner = self.metadata.owner_references.as_deref()?.first()?;
        Some(&owner.uid)
    }

    /// Whether somebody has asked for its end.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Drops from the metadata of a ShadowPod or of a Secret what is not needed.
pub fn trim_shadow(metadata: &mut ObjectMeta) {
    let taken = std::mem::take(metadata);
    *metadata = ObjectMeta { annotations: taken.annotations.clone(), ..seen(taken) };
}

/// What is needed of the metadata of anything.
fn seen(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        labels: metadata.labels,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

/// Makes a type stand for the kind `Pod`.
macro_rules! pod {
    ($name:ty) => {
        impl Resource for $name {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                Pod::kind(&())
            }

            fn group((): &()) -> Cow<'_, str> {
                Pod::group(&())
            }

            fn version((): &()) -> Cow<'_, str> {
                Pod::version(&())
            }

            fn plural((): &()) -> Cow<'_, str> {
                Pod::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pod!(HomePod);
pod!(RemotePod);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::home_pod;

    #[test]
    fn of_a_specification_only_tokens_and_their_account_are_kept() {
        let pod = home_pod();
        assert_eq!(pod.spec.volumes.len(), 1);
        assert_eq!(pod.spec.service_account_name.as_deref(), Some("default"));
        let tokens: Vec<Token> = pod.tokens().collect();
        assert_eq!(tokens.len(), 1);
        assert_eq!((&*tokens[0].volume, &*tokens[0].path), ("kube-api-access-wrcb8", "token"));
        assert_eq!(tokens[0].seconds, Some(3607));
    }

    #[test]
    fn a_status_of_tomorrow_is_kept() {
        let status = json!({"phase": "Running", "ofTomorrow": {"a": [1, 2]}});
        let pod: HomePod = serde_json::from_value(json!({"status": status})).unwrap();
        assert_eq!(pod.status.value(), status);
        assert_eq!(HomePod::default().status.value(), Value::Null);
    }

    #[test]
    fn of_owners_only_the_one_that_counts_is_kept() {
        let owner = |uid: &str, controller: bool| {
            json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": uid,
                   "controller": controller})
        };
        let owners = [owner("other", false), owner("shadow", true)];
        let mut pod: RemotePod =
            serde_json::from_value(json!({"metadata": {"ownerReferences": owners}})).unwrap();
        pod.trim();
        assert_eq!(pod.owner(), Some("shadow"));
    }
}
