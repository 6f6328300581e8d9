//! Plays the controllers that a bare control plane lacks.

use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// What they do, for as long as they live.
pub struct Hands(JoinSet<()>);

impl Hands {
    /// Finish Jobs, and let namespaces go.
    pub fn light(client: &Client) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(answer::<Job>(client.clone(), |_| {
            let time = "2026-01-01T00:00:00Z";
            let condition =
                |kind| json!({"type": kind, "status": "True", "lastTransitionTime": time});
            json!({"startTime": time, "completionTime": time, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
        }));
        tasks.spawn(let_go(client.clone()));
        Self(tasks)
    }

    /// Also run everything.
    pub fn full(client: &Client) -> Self {
        let mut hands = Self::light(client);
        hands.0.spawn(answer::<Deployment>(client.clone(), |one| {
            let count = one.spec.replicas.unwrap_or(1);
            json!({"observedGeneration": one.metadata.generation, "replicas": count,
                "updatedReplicas": count, "readyReplicas": count, "availableReplicas": count})
        }));
        hands.0.spawn(answer::<DaemonSet>(client.clone(), |one| {
            json!({"observedGeneration": one.metadata.generation, "desiredNumberScheduled": 1,
                "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberMisscheduled": 0,
                "numberReady": 1, "numberAvailable": 1})
        }));
        hands
    }
}

/// Answers every change of an object with a status.
async fn answer<K>(client: Client, status: fn(&K) -> Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut seen = watcher(Api::<K>::all(client.clone()), Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(object) = seen.next().await {
        let Ok(object) = object else { continue };
        let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"status": status(&object)}));
        // It may be gone by now.
        let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
    }
}

/// Lets namespaces go that are to be deleted.
async fn let_go(client: Client) {
    let api: Api<Namespace> = Api::all(client);
    let mut seen =
        watcher(api.clone(), Config::default()).default_backoff().applied_objects().boxed();
    while let Some(space) = seen.next().await {
        let Ok(mut space) = space else { continue };
        if space.metadata.deletion_timestamp.is_some() {
            space.spec = Some(k8s_openapi::api::core::v1::NamespaceSpec { finalizers: None });
            let (name, params) = (space.name_any(), PostParams::default());
            let _ = api.replace_subresource::<Namespace>("finalize", &name, &params, &space).await;
        }
    }
}
