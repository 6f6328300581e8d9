//! Objects whose content is carried and not read: what a peer of another version adds survives.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use liqo_api::keys::{finalizer, label};
use liqo_api::names::ClusterId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object of a kind, with its content as it came.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Carried<K> {
    /// The version of the API; only needed to send it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind; only needed to send it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
    /// What is observed; null when nothing is yet.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
    #[serde(skip)]
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for Carried<K> {
    fn clone(&self) -> Self {
        Self {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
            of: PhantomData,
        }
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Carried<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K: Resource<DynamicType = ()>> Carried<K> {
    /// An object to send.
    pub fn new(metadata: ObjectMeta, spec: Value) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            metadata,
            spec,
            status: Value::Null,
            of: PhantomData,
        }
    }

    /// The copy of this source in a namespace of the peer, as it is first written.
    #[must_use]
    pub fn replica(&self, home: &ClusterId, namespace: &str) -> Self {
        let mut labels = self.metadata.labels.clone().unwrap_or_default();
        labels.remove(label::OWNERSHIP);
        for (key, value) in [
            (label::REPLICATION, label::FALSE),
            (label::REPLICATED, label::TRUE),
            (label::ORIGIN_ID, home.as_str()),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        let metadata = ObjectMeta {
            name: self.metadata.name.clone(),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            annotations: self.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        Self::new(metadata, self.spec.clone())
    }
}

impl<K> Carried<K> {
    /// The peer that it is to be copied to.
    pub fn remote_id(&self) -> Option<&str> {
        self.label(label::REMOTE_ID)
    }

    /// Whether it is the copy of an object of a cluster.
    pub fn is_replica_of(&self, home: &ClusterId) -> bool {
        self.label(label::ORIGIN_ID) == Some(home.as_str())
            && self.label(label::REPLICATED) == Some(label::TRUE)
    }

    /// Whether somebody has asked for its end.
    pub fn is_ending(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it waits for us before it goes.
    pub fn is_held(&self) -> bool {
        let finalizers = self.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|name| name == finalizer::CRD_REPLICATOR)
    }

    fn label(&self, name: &str) -> Option<&str> {
        let labels: Option<&BTreeMap<String, String>> = self.metadata.labels.as_ref();
        labels?.get(name).map(String::as_str)
    }
}

/// Selects sources, for whichever peer.
pub fn sources() -> String {
    format!("{}={}", label::REPLICATION, label::TRUE)
}

/// Selects the replicas that a cluster has made at a peer.
pub fn replicas(home: &ClusterId) -> String {
    format!("{}={home},{}={}", label::ORIGIN_ID, label::REPLICATED, label::TRUE)
}

#[cfg(test)]
mod tests {
    use liqo_api::discovery::ResourceRequest;
    use serde_json::json;

    use super::*;

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn a_replica_carries_the_content_and_says_where_it_is_from() {
        let source: Carried<ResourceRequest> = serde_json::from_value(json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ResourceRequest",
            "metadata": {
                "name": "rome",
                "namespace": "liqo-tenant-milan-ee0b4a",
                "uid": "1",
                "resourceVersion": "2",
                "annotations": {"note": "yes"},
                "labels": {
                    "liqo.io/replication": "true",
                    "liqo.io/remoteID": MILAN,
                    "liqo.io/ownership": "us",
                },
                "finalizers": ["crdReplicator.liqo.io"],
                "ownerReferences": [],
            },
            "spec": {"authUrl": "https://a", "ofTomorrow": [1]},
            "status": {"offerState": "None"},
        }))
        .unwrap();
        assert!(source.is_held() && !source.is_ending());
        assert_eq!(source.remote_id(), Some(MILAN));

        let replica = source.replica(&ROME.parse().unwrap(), "liqo-tenant-rome-2f55ef");
        let want = json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ResourceRequest",
            "metadata": {
                "name": "rome",
                "namespace": "liqo-tenant-rome-2f55ef",
                "annotations": {"note": "yes"},
                "labels": {
                    "liqo.io/replication": "false",
                    "liqo.io/replicated": "true",
                    "liqo.io/originID": ROME,
                    "liqo.io/remoteID": MILAN,
                },
            },
            "spec": {"authUrl": "https://a", "ofTomorrow": [1]},
        });
        assert_eq!(serde_json::to_value(&replica).unwrap(), want);
        assert!(replica.is_replica_of(&ROME.parse().unwrap()));
        assert!(!source.is_replica_of(&ROME.parse().unwrap()));
    }
}
