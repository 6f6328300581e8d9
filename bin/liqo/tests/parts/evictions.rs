//! Pods leave where a stricter strategy would not place them, as far as their budgets allow.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use liqo_api::offloading::NamespaceOffloading;
use serde_json::json;

use crate::component::LIMIT;
use crate::town::{Town, wait};
use crate::{at_once, bind, container, create, merge};

pub async fn pods_that_are_in_the_wrong_place_go_if_that_is_asked_for(rome: &Town) {
    let pods: Api<Pod> = Api::namespaced(rome.client(), "stall");
    // The first of them is kept by a budget, which holds up nobody else.
    for name in ["apart", "away"] {
        let labels = json!({"app": name});
        let metadata = json!({"name": name, "labels": labels});
        let pod = json!({"metadata": metadata, "spec": {"containers": [container()]}});
        create(&pods, pod).await;
        bind(&rome.client(), "stall", name, "liqo-milan").await;
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"status": {"phase": "Running", "conditions": ready}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    keep(rome, "apart").await;
    let offloadings: Api<NamespaceOffloading> = Api::namespaced(rome.client(), "stall");
    let stricter = json!({
        "metadata": {"annotations": {"liqo.io/evict-violating-pods": "true"}},
        "spec": {"podOffloadingStrategy": "Local"},
    });
    merge(&offloadings, "offloading", stricter).await;
    let is_leaving =
        |pod: Option<&Pod>| pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    let waited = kube::runtime::wait::await_condition(pods.clone(), "away", is_leaving);
    tokio::time::timeout(LIMIT, waited).await.unwrap().unwrap();
    let kept = pods.get("apart").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_none(), "its budget keeps it");
    for name in ["apart", "away"] {
        pods.delete(name, &at_once()).await.unwrap();
    }
    let namespaces: Api<Namespace> = Api::all(rome.client());
    let is_unlabelled = |namespace: Option<&Namespace>| {
        let labels = namespace.map(ResourceExt::labels);
        labels.is_some_and(|labels| !labels.contains_key("liqo.io/scheduling-enabled"))
    };
    wait(namespaces, "stall", is_unlabelled).await;
}

/// Has a disruption budget keep a pod.
async fn keep(rome: &Town, pod: &str) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(rome.client(), "stall");
    let selector = json!({"matchLabels": {"app": pod}});
    let budget = json!({
        "metadata": {"name": pod}, "spec": {"minAvailable": 1, "selector": selector},
    });
    create(&budgets, budget).await;
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 0,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
    }});
    budgets.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
