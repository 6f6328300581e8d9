//! Pods that wait for a node in the other cluster.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use liqo_testkit::until;
use serde_json::json;

use crate::pods::{is_running, phase, pod, status};
use crate::provider;
use crate::world::{REMOTE, World, make};

#[tokio::test]
async fn that_no_node_there_takes_a_pod_is_told_here_once_somebody_warns() {
    let world = World::make().await;
    let (here, there) = (world.here::<Pod>(), world.there::<Event>());
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    let waits = provider::make_wait(&world, "web").await;
    let event = json!({
        "metadata": {"name": "web.0"},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": REMOTE, "name": "web", "uid": waits.uid(),
        },
        "type": "Warning", "reason": "FailedScheduling", "message": "0/1 nodes are available",
    });
    make(&there, event).await;
    until("the pod says why", &here, "web", is_unschedulable).await.unwrap();
    let told = world.here::<Event>();
    until("so does an Event", &told, "web.0", |event| event.is_some()).await.unwrap();

    provider::place(&world, "web").await;
    provider::set_status(&world, "web", provider::running("10.201.0.118")).await;
    until("it runs", &here, "web", is_running).await.unwrap();
}

#[tokio::test]
async fn that_no_node_there_takes_a_pod_is_told_here_even_if_nobody_warns() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    provider::make_wait(&world, "web").await;
    until("the pod says why", &here, "web", is_unschedulable).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_is_made_anew_and_waits_for_a_node_does_not_run() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    provider::run(&world, "web", "10.201.0.118").await;
    until("it runs", &here, "web", is_running).await.unwrap();
    provider::end(&world, "web").await;
    provider::make_wait(&world, "web").await;
    until("it waits", &here, "web", is_unschedulable).await.unwrap();
    assert_eq!(phase(here.get_opt("web").await.unwrap().as_ref()), Some("Pending"));

    provider::place(&world, "web").await;
    provider::set_status(&world, "web", provider::running("10.201.0.119")).await;
    until("it runs again", &here, "web", is_running).await.unwrap();
}

fn is_unschedulable(pod: Option<&Pod>) -> bool {
    let conditions = status(pod).and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}
