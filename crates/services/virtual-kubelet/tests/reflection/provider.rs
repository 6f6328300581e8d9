//! A stand-in for what makes pods of ShadowPods in the other cluster, one step at a time.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::world::{World, make};

/// Waits for the ShadowPod of a pod.
pub async fn shadow(world: &World, name: &str) -> ShadowPod {
    let shadows = world.there::<ShadowPod>();
    until("there is a ShadowPod", &shadows, name, |shadow| shadow.is_some()).await.unwrap().unwrap()
}

/// Makes the pod of a ShadowPod, and has it run.
pub async fn run(world: &World, name: &str, address: &str) -> Pod {
    let pod = start(world, name).await;
    set_status(world, name, running(address)).await;
    pod
}

/// Makes the pod of a ShadowPod.
pub async fn start(world: &World, name: &str) -> Pod {
    let shadow = shadow(world, name).await;
    let owner = json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "ShadowPod",
        "name": name,
        "uid": shadow.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    let mut labels = shadow.labels().clone();
    labels.insert("liqo.io/managed-by".to_owned(), "shadowpod".to_owned());
    let pod = json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": shadow.annotations(),
            "ownerReferences": [owner],
        },
        "spec": shadow.spec.pod,
    });
    make(&world.there::<Pod>(), pod).await
}

/// Gives a pod there a status.
pub async fn set_status(world: &World, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    world.there::<Pod>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// What a pod that runs says.
pub fn running(address: &str) -> Value {
    json!({
        "phase": "Running",
        "podIP": address, "podIPs": [{"ip": address}],
        "hostIP": "172.30.0.3", "hostIPs": [{"ip": "172.30.0.3"}],
        "startTime": "2026-11-16T07:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "c", "image": "demo", "imageID": "demo", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-11-16T07:00:00Z"}},
        }],
    })
}

/// Ends a pod there, as its node would.
pub async fn end(world: &World, name: &str) {
    let at_once = DeleteParams::default().grace_period(0);
    world.there::<Pod>().delete(name, &at_once).await.unwrap();
}
