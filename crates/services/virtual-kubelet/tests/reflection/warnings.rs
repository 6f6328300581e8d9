//! What another cluster warns of about pods, told here.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::pods::pod;
use crate::provider;
use crate::world::{NODE, REMOTE, World, make};

#[tokio::test]
async fn what_goes_wrong_there_is_told_here() {
    let world = World::make().await;
    let (here, there) = (world.here::<Event>(), world.there::<Event>());
    let kubelet = world.kubelet(&[]);
    let home = make(&world.here::<Pod>(), pod("web")).await;
    let pod = provider::start(&world, "web").await;
    let uid = pod.uid().unwrap();
    make(&there, event("web.0", "Normal", "Scheduled", &uid)).await;
    make(&there, event("web.1", "Warning", "Failed", "that of an earlier pod")).await;
    make(&there, event("web.2", "Warning", "Failed", &uid)).await;

    let told = until("it is told", &here, "web.2", |it| it.is_some()).await.unwrap().unwrap();
    assert_eq!(told.involved_object.uid, home.uid());
    assert_eq!(told.involved_object.field_path.as_deref(), Some("spec.containers{c}"));
    assert_eq!(told.reason.as_deref(), Some("Failed"));
    assert_eq!(told.message.as_deref(), Some("Error: ErrImagePull"));
    assert_eq!(told.count, Some(3));
    assert_eq!(told.source.as_ref().unwrap().host.as_deref(), Some(NODE));

    // Whoever comes after tells the rest, and nothing twice.
    kubelet.kill().await;
    make(&there, event("web.3", "Warning", "BackOff", &uid)).await;
    let _kubelet = world.kubelet(&[]);
    until("the rest is told", &here, "web.3", |it| it.is_some()).await.unwrap();
    let mut all = here.list(&ListParams::default()).await.unwrap().items;
    all.retain(|event| event.reason.as_deref() != Some("SuccessfulReflection"));
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["web.2", "web.3"], "neither what is normal, nor of another pod");
    let again = here.get("web.2").await.unwrap();
    assert_eq!(again.resource_version(), told.resource_version());
}

/// Something that the other cluster says of a pod.
fn event(name: &str, kind: &str, reason: &str, uid: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": REMOTE, "name": "web", "uid": uid,
            "fieldPath": "spec.containers{c}",
        },
        "type": kind, "reason": reason, "message": "Error: ErrImagePull", "count": 3,
        "firstTimestamp": "2026-11-16T07:00:00Z", "lastTimestamp": "2026-11-16T07:01:00Z",
        "source": {"component": "kubelet", "host": "milan-1"},
    })
}
