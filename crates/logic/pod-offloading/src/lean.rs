//! Pods as they are kept in memory: what is needed again and again, and nothing else.
//!
//! The specification of a pod is by far its largest part, and needed once: when the pod is sent away. It
//! is kept until the pod is marked, which is once it was. A status is kept as text, which takes a third of the space that fields take.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use liqo_api::Time;
use liqo_api::keys::{annotation, label};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
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
#[derive(Clone, Debug, Default)]
pub struct HomePod {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The little that is needed of its specification again and again.
    pub spec: Glimpse,
    /// All of its specification, as long as it is not marked as one that runs elsewhere.
    pub whole: Option<Json>,
    /// Its status.
    pub status: Json,
}

impl<'de> Deserialize<'de> for HomePod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HomePodVisitor)
    }
}

struct HomePodVisitor;

impl<'de> Visitor<'de> for HomePodVisitor {
    type Value = HomePod;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HomePod, A::Error> {
        let mut pod = HomePod::default();
        while let Some(field) = map.next_key::<Cow<'_, str>>()? {
            match &*field {
                "metadata" => pod.metadata = map.next_value::<Metadata>()?.into(),
                // API servers send metadata first.
                "spec" if pod.is_marked() => pod.spec = map.next_value()?,
                "spec" => {
                    let spec: Value = map.next_value()?;
                    pod.spec = Glimpse::deserialize(&spec).map_err(A::Error::custom)?;
                    pod.whole = Some(Json::of(&spec));
                }
                "status" => pod.status = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(pod)
    }
}

/// The little that is needed of a specification.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
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

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Container {
    name: Box<str>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Volume {
    name: String,
    #[serde(default)]
    projected: Option<Projected>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Projected {
    #[serde(default)]
    sources: Option<Vec<Source>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    #[serde(default)]
    service_account_token: Option<Projection>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Projection {
    path: String,
    #[serde(default)]
    audience: Option<String>,
    #[serde(default)]
    expiration_seconds: Option<i64>,
}

impl HomePod {
    /// As text that takes little room.
    pub fn pack(&self) -> Option<Vec<u8>> {
        let whole = self.whole.as_ref().map_or("", |whole| &whole.0);
        pack([&text(&self.metadata)?, &text(&self.spec)?, whole, &self.status.0])
    }

    /// From that text.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let [metadata, spec, whole, status] = unpack(packed)?;
        Some(Self {
            metadata: value(metadata)?,
            spec: value(spec)?,
            whole: (!whole.is_empty()).then(|| Json(whole.into())),
            status: Json(status.into()),
        })
    }

    /// Drops what came along and is not needed.
    pub fn trim(&mut self) {
        self.spec.volumes.retain(|volume| volume.tokens().next().is_some());
        self.spec.volumes.shrink_to_fit();
        self.spec.ephemeral_containers.shrink_to_fit();
        if self.is_marked() {
            self.whole = None;
        }
        let mut metadata = std::mem::take(&mut self.metadata);
        self.metadata = ObjectMeta {
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            annotations: metadata.annotations.take(),
            ..seen(metadata)
        };
    }

    /// Whether it is marked as one that runs elsewhere.
    pub fn is_marked(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key(label::SHADOW_POD))
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
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Extras,
    /// Its status.
    #[serde(default)]
    pub status: Json,
}

/// What is added to a specification while its pod runs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
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

    /// As text that takes little room.
    pub fn pack(&self) -> Option<Vec<u8>> {
        pack([&text(&self.metadata)?, &text(&self.spec)?, &self.status.0])
    }

    /// From that text.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let [metadata, spec, status] = unpack(packed)?;
        let status = Json(status.into());
        Some(Self { metadata: value(metadata)?, spec: value(spec)?, status })
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

/// Texts as one; none of them has a line break, because JSON needs none.
fn pack<const N: usize>(parts: [&str; N]) -> Option<Vec<u8>> {
    let is_one_line = parts.iter().all(|part| !part.contains('\n'));
    is_one_line.then(|| parts.join("\n").into_bytes())
}

fn unpack<const N: usize>(packed: &[u8]) -> Option<[&str; N]> {
    let parts: Vec<&str> = str::from_utf8(packed).ok()?.split('\n').collect();
    parts.try_into().ok()
}

fn text(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn value<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Drops from the metadata of a Secret with tokens what is not needed.
pub fn trim_secret(metadata: &mut ObjectMeta) {
    let mut taken = std::mem::take(metadata);
    taken.labels = None;
    let read = [annotation::SERVICE_ACCOUNT_POD_UID, annotation::SERVICE_ACCOUNT_RENEWAL];
    let mut annotations = taken.annotations.take().unwrap_or_default();
    annotations.retain(|name, _| read.contains(&name.as_str()));
    *metadata = ObjectMeta { annotations: Some(annotations), ..seen(taken) };
}

/// Drops from the metadata of a ShadowPod what is not needed.
pub fn trim_shadow(metadata: &mut ObjectMeta) {
    let mut taken = std::mem::take(metadata);
    let annotations = taken.annotations.take();
    *metadata = ObjectMeta { annotations, ..seen(taken) };
}

/// What is read of the metadata of a pod. A large part of it says who wrote which field, and is not
/// even taken apart.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        Self {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            labels: read.labels,
            annotations: read.annotations,
            owner_references: read.owner_references,
            deletion_timestamp: read.deletion_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            ..Self::default()
        }
    }
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Metadata::deserialize(deserializer).map(ObjectMeta::from)
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
    fn a_specification_is_kept_until_its_pod_is_marked() {
        let mut golden = crate::fixtures::golden_home();
        golden["spec"]["ofTomorrow"] = json!({"a": [1, 2]});
        assert_eq!(read(&golden).whole, None);
        golden["metadata"]["labels"].as_object_mut().unwrap().remove("liqo.io/shadowPod");
        let pod = read(&golden);
        assert_eq!(pod.whole.unwrap().value(), golden["spec"]);
        assert_eq!(pod.spec.service_account_name.as_deref(), Some("default"));
    }

    #[test]
    fn whatever_comes_first_a_pod_is_read() {
        let marked = r#"{"kind": "Pod", "status": {"phase": "Running"}, "spec": {"volumes": []},
                         "metadata": {"name": "a", "labels": {"liqo.io/shadowPod": "true"}}}"#;
        let mut pod: HomePod = serde_json::from_str(marked).unwrap();
        pod.trim();
        assert_eq!((pod.metadata.name.as_deref(), pod.whole), (Some("a"), None));
        assert_eq!(pod.status.value(), json!({"phase": "Running"}));
        assert!(serde_json::from_str::<HomePod>(r#"{"spec": {"volumes": 1}}"#).is_err());
    }

    fn read(pod: &Value) -> HomePod {
        let mut pod: HomePod = serde_json::from_str(&pod.to_string()).unwrap();
        pod.trim();
        pod
    }

    #[test]
    fn a_pod_that_was_packed_is_the_same() {
        let mut golden = crate::fixtures::golden_home();
        let added = json!([{"name": "debugger", "image": "a"}]);
        golden["spec"]["ephemeralContainers"] = added.clone();
        golden["status"]["message"] = json!("first\nsecond");
        let sent = read(&golden);
        golden["metadata"]["labels"].as_object_mut().unwrap().remove("liqo.io/shadowPod");
        for pod in [sent, read(&golden), HomePod::default()] {
            let again = HomePod::unpack(&pod.pack().unwrap()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{pod:?}"));
        }
        let mut remote: RemotePod = serde_json::from_value(golden).unwrap();
        remote.trim();
        let again = RemotePod::unpack(&remote.pack().unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{remote:?}"));
        assert!(again.has_added("debugger"));
        assert!(HomePod::unpack(b"{}").is_none() && RemotePod::unpack(b"{}").is_none());
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
