//! Pods and ShadowPods with no more than what is read of them.
//!
//! There may be thousands, and a whole one takes many times the memory: every field that is not
//! set is a word or more. A ShadowPod's pod is only read when a Pod is made of it, so it is kept as
//! the text that it came as.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use liqo_api::virtualkubelet::{PodPhase, ShadowPod, ShadowPodStatus};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A ShadowPod.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SlimShadow {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: SlimShadowSpec,
    /// What is observed.
    #[serde(default)]
    pub status: Option<ShadowPodStatus>,
}

/// What is wanted.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SlimShadowSpec {
    /// The pod.
    pub pod: Packed,
}

impl SlimShadow {
    /// The phase of its pod, as far as it was reported.
    pub fn phase(&self) -> PodPhase {
        self.status.unwrap_or_default().phase
    }
}

/// The specification of a pod as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed(Box<str>);

impl Packed {
    /// The specification, as far as it is known here.
    pub fn unpack(&self) -> serde_json::Result<PodSpec> {
        serde_json::from_str(&self.0)
    }

    /// All of the specification, with what nobody here has heard of.
    pub fn whole(&self) -> serde_json::Result<Map<String, Value>> {
        serde_json::from_str(&self.0)
    }

    /// The containers that are to be added to the running pod, which few pods have.
    pub fn added(&self) -> Vec<Value> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Added {
            #[serde(default)]
            ephemeral_containers: Option<Vec<Value>>,
        }
        if !self.0.contains("\"ephemeralContainers\"") {
            return Vec::new();
        }
        let added = serde_json::from_str::<Added>(&self.0);
        added.ok().and_then(|added| added.ephemeral_containers).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        // A text is as it was written down here.
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(Self(text.into()))
    }
}

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct SlimPod {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimSpec,
    #[serde(default)]
    status: SlimStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SlimSpec {
    #[serde(default)]
    node_name: Option<Box<str>>,
    #[serde(default)]
    ephemeral_containers: Vec<SlimContainer>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct SlimContainer {
    name: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct SlimStatus {
    #[serde(default)]
    phase: Option<PodPhase>,
}

impl SlimPod {
    /// Its node, once it has one.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }

    /// The names of the containers that were added to it.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.spec.ephemeral_containers.iter().map(|container| &*container.name)
    }

    /// Its phase.
    pub fn phase(&self) -> PodPhase {
        self.status.phase.unwrap_or_default()
    }
}

/// Makes a slim type stand for objects of a kind.
macro_rules! stands_for {
    ($slim:ty, $kind:ty) => {
        impl Resource for $slim {
            type DynamicType = ();
            type Scope = <$kind as Resource>::Scope;

            fn kind((): &()) -> Cow<'_, str> {
                <$kind as Resource>::kind(&())
            }

            fn group((): &()) -> Cow<'_, str> {
                <$kind as Resource>::group(&())
            }

            fn version((): &()) -> Cow<'_, str> {
                <$kind as Resource>::version(&())
            }

            fn plural((): &()) -> Cow<'_, str> {
                <$kind as Resource>::plural(&())
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

stands_for!(SlimShadow, ShadowPod);
stands_for!(SlimPod, Pod);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shadow_keeps_its_pod_whole() {
        let pod = json!({
            "containers": [{ "name": "a", "image": "b", "someday": { "new": [1] } }],
            "restartPolicy": "Never",
        });
        let shadow: SlimShadow = serde_json::from_value(json!({
            "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
            "kind": "ShadowPod",
            "metadata": { "name": "a" },
            "spec": { "pod": pod },
        }))
        .unwrap();
        assert_eq!(shadow.phase(), PodPhase::Unknown);
        assert_eq!(shadow.spec.pod.unpack().unwrap(), serde_json::from_value(pod).unwrap());
        assert_eq!(SlimShadow::plural(&()), "shadowpods");
        let text = serde_json::to_vec(&shadow).unwrap();
        let again: SlimShadow = serde_json::from_slice(&text).unwrap();
        assert_eq!(again.spec.pod, shadow.spec.pod, "written down and read again");
    }

    #[test]
    fn a_pod_keeps_its_node_and_phase() {
        let pod: SlimPod = serde_json::from_value(json!({
            "metadata": { "name": "a", "labels": { "b": "c" } },
            "spec": { "nodeName": "worker", "containers": [{ "name": "a" }] },
            "status": { "phase": "Running", "podIP": "10.0.0.1" },
        }))
        .unwrap();
        assert_eq!((pod.node(), pod.phase()), (Some("worker"), PodPhase::Running));
        assert_eq!(SlimPod::url_path(&(), Some("x")), "/api/v1/namespaces/x/pods");
    }
}
