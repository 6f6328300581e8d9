//! Containers that are added to pods while they run, as `kubectl debug` does.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::pods::pod;
use crate::provider;
use crate::world::World;

#[tokio::test]
async fn a_container_that_is_added_here_is_added_there_and_its_status_comes_home() {
    let world = World::make().await;
    let (here, there) = (world.here::<Pod>(), world.there::<Pod>());
    let shadows = world.there::<ShadowPod>();
    let kubelet = world.kubelet(&[]);
    crate::world::make(&here, pod("web")).await;
    provider::run(&world, "web", "10.201.0.118").await;
    let running = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    until("it runs here", &here, "web", running).await.unwrap();
    assert_eq!(names(shadows.get("web").await.unwrap().spec.pod.ephemeral_containers), [""; 0]);

    let one = json!({"name": "one", "image": "tools", "targetContainerName": "c", "stdin": true});
    add(&here, "web", &one).await;
    until("it is told", &shadows, "web", |shadow| debuggers(shadow) == ["one"]).await.unwrap();
    let shadow = serde_json::to_value(shadows.get("web").await.unwrap()).unwrap();
    let container = &shadow["spec"]["pod"]["ephemeralContainers"][0];
    assert_eq!(
        (&container["image"], &container["targetContainerName"]),
        (&one["image"], &json!("c"))
    );

    // A virtual kubelet that comes later adds what came meanwhile, and leaves what is there.
    kubelet.kill().await;
    add(&here, "web", &json!({"name": "two", "image": "tools"})).await;
    let _kubelet = world.kubelet(&[]);
    let both = |shadow: Option<&ShadowPod>| debuggers(shadow) == ["one", "two"];
    let shadow = until("both are told", &shadows, "web", both).await.unwrap().unwrap();
    let after = serde_json::to_value(&shadow).unwrap();
    assert_eq!(after["spec"]["pod"]["ephemeralContainers"][0], *container);

    for container in shadow.spec.pod.ephemeral_containers.unwrap() {
        add(&there, "web", &serde_json::to_value(container).unwrap()).await;
    }
    let mut status = provider::running("10.201.0.118");
    status["ephemeralContainerStatuses"] = json!([{
        "name": "one", "image": "tools", "imageID": "tools", "ready": false, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-11-16T08:00:00Z"}},
    }]);
    provider::set_status(&world, "web", status).await;
    let shown = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let all = status.and_then(|status| status.ephemeral_container_statuses.as_deref());
        all.is_some_and(|all| all[0].state.as_ref().is_some_and(|state| state.running.is_some()))
    };
    until("its status comes home", &here, "web", shown).await.unwrap();
}

#[tokio::test]
async fn why_a_container_is_not_added_is_told() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    let _kubelet = world.kubelet(&[]);
    crate::world::make(&here, pod("web")).await;
    provider::run(&world, "web", "10.201.0.118").await;
    add(&here, "web", &json!({"name": "one", "image": "tools"})).await;
    let shadows = world.there::<ShadowPod>();
    until("it is told", &shadows, "web", |shadow| debuggers(shadow) == ["one"]).await.unwrap();
    let error = json!({"metadata": {"annotations": {"liqo.io/shadowpod-error": "too bold"}}});
    crate::world::change(&shadows, "web", error).await;
    world.hears("web", "pod", "FailedReflection").await;
}

/// Adds a container to a pod.
async fn add(pods: &Api<Pod>, name: &str, container: &Value) {
    let change = json!({"spec": {"ephemeralContainers": [container]}});
    let patch = Patch::Strategic(change);
    pods.patch_ephemeral_containers(name, &PatchParams::default(), &patch).await.unwrap();
}

fn debuggers(shadow: Option<&ShadowPod>) -> Vec<String> {
    names(shadow.and_then(|shadow| shadow.spec.pod.ephemeral_containers.clone()))
}

fn names(containers: Option<Vec<k8s_openapi::api::core::v1::EphemeralContainer>>) -> Vec<String> {
    containers.into_iter().flatten().map(|container| container.name).collect()
}
