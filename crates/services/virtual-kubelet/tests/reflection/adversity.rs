//! Clusters that refuse, are busy or do not show everything: nothing is lost, and nothing held up.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use liqo_api::virtualkubelet::ShadowPod;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::pods::{is_running, pod};
use crate::provider;
use crate::world::{World, make};

/// The largest that an API server takes.
const LARGEST: usize = 1024 * 1024;

#[tokio::test]
async fn one_that_is_refused_holds_up_nobody() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    // Names may be longer than labels.
    let refused = "a".repeat(253);
    world.forbid_there::<ConfigMap>(&refused, map(&refused, "")).await;
    let _kubelet = world.kubelet(&[]);
    make(&here, map(&refused, "1")).await;
    make(&here, map("large", &"x".repeat(LARGEST))).await;
    make(&here, map("small", "1")).await;
    for name in ["large", "small"] {
        let copy = until("it is copied", &there, name, |it| it.is_some()).await.unwrap().unwrap();
        let original = here.get(name).await.unwrap();
        assert_eq!(copy.data, original.data, "{name}");
    }
    world.told(&refused, "FailedReflection").await;
    assert!(there.get_opt(&refused).await.unwrap().is_none());
}

#[tokio::test]
async fn one_that_is_busy_is_asked_again() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    let _kubelet = world.kubelet(&[]);
    make(&here, map("goes", "1")).await;
    until("it is copied", &there, "goes", |it| it.is_some()).await.unwrap();
    make(&world.here::<Pod>(), pod("web")).await;
    provider::run(&world, "web", "10.201.0.1").await;
    until("it runs", &world.here::<Pod>(), "web", is_running).await.unwrap();
    let shadow = world.there::<ShadowPod>().get("web").await.unwrap();

    let busy = world.be_busy_there().await;
    let before = world.refused_there().await;
    here.delete("goes", &DeleteParams::default()).await.unwrap();
    make(&here, map("comes", "1")).await;
    make(&world.here::<Pod>(), pod("late")).await;
    world.until_refused_there(before + 3).await;
    assert!(there.get_opt("comes").await.unwrap().is_none());
    world.be_idle_there(busy).await;

    until("what goes goes", &there, "goes", |it| it.is_none()).await.unwrap();
    until("what comes comes", &there, "comes", |it| it.is_some()).await.unwrap();
    provider::run(&world, "late", "10.201.0.2").await;
    let late = until("it runs", &world.here::<Pod>(), "late", is_running).await.unwrap();
    assert_eq!(late.unwrap().status.unwrap().reason, None);
    let after = world.there::<ShadowPod>().get("web").await.unwrap();
    assert_eq!(after.resource_version(), shadow.resource_version(), "nobody touched it");
}

#[tokio::test]
async fn what_cannot_be_seen_here_is_not_taken_for_gone() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    let kubelet = world.kubelet(&[]);
    for name in ["goes", "stays"] {
        make(&here, map(name, "1")).await;
        until("it is copied", &there, name, |it| it.is_some()).await.unwrap();
    }
    make(&world.here::<Pod>(), pod("web")).await;
    let shadow = provider::shadow(&world, "web").await;
    kubelet.kill().await;

    let rights = world.hide_here(&["configmaps", "pods"]).await;
    here.delete("goes", &DeleteParams::default()).await.unwrap();
    let _kubelet = world.kubelet(&[]);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "web"}, "spec": {"defaultBackend": backend}});
    make(&world.here::<Ingress>(), ingress).await;
    until("others go on", &world.there::<Ingress>(), "web", |it| it.is_some()).await.unwrap();
    for name in ["goes", "stays"] {
        assert!(there.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    let still = world.there::<ShadowPod>().get("web").await.unwrap();
    assert_eq!(still.resource_version(), shadow.resource_version());

    world.show_here(rights).await;
    until("what went goes", &there, "goes", |it| it.is_none()).await.unwrap();
    assert!(there.get_opt("stays").await.unwrap().is_some());
    let still = world.there::<ShadowPod>().get("web").await.unwrap();
    assert_eq!(still.uid(), shadow.uid());
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": value}})
}
