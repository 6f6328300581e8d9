//! Watches that cost less show the same as others, of real API servers.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use liqo_kit::client::concise;
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_watch_of_pods_shows_what_json_shows() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    pod_with_everything(&client).await;
    let pods = |client: &Client| -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), "default", &ApiResource::erase::<Pod>(&()))
    };
    let quiet = WatchParams::default().disable_bookmarks();
    let mut plain = pods(&client).watch(&quiet, "0").await.unwrap().boxed();
    let mut concise = pods(&concise(&client)).watch(&quiet, "0").await.unwrap().boxed();
    let (mut want, mut have) = (next(&mut plain).await, next(&mut concise).await);
    assert!(want.metadata.managed_fields.take().is_some());
    assert_eq!(have.metadata.managed_fields.take(), None, "they need not be sent");
    assert_eq!(have.types, want.types);
    assert_eq!(have.metadata, want.metadata);
    assert_eq!(have.data["status"], want.data["status"]);
    let read = |pod: &DynamicObject, field: &str| pod.data["spec"][field].clone();
    assert_eq!(read(&have, "nodeName"), json!("far"));
    assert_eq!(read(&have, "serviceAccountName"), read(&want, "serviceAccountName"));
    let requests = |pod: &DynamicObject| pod.data["spec"]["containers"][0]["resources"].clone();
    assert_eq!(requests(&have), requests(&want));
    assert!(have.data["spec"]["containers"][0].get("image").is_none(), "it was not JSON");
}

#[tokio::test]
async fn a_watch_of_metadata_shows_what_json_shows() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    pod_with_everything(&client).await;
    let quiet = WatchParams::default().disable_bookmarks();
    let pods = |client: &Client| Api::<Pod>::namespaced(client.clone(), "default");
    let mut plain = pods(&client).watch_metadata(&quiet, "0").await.unwrap().boxed();
    let concise = pods(&concise(&client));
    let mut concise = concise.watch_metadata(&quiet, "0").await.unwrap().boxed();
    let (mut want, mut have) = (next(&mut plain).await, next(&mut concise).await);
    assert!(want.metadata.managed_fields.take().is_some());
    assert_eq!(have.metadata.managed_fields.take(), None);
    assert_eq!((have.types, have.metadata), (want.types, want.metadata));
}

#[tokio::test]
async fn an_answer_that_is_metadata_is_what_json_says() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    pod_with_everything(&client).await;
    let pods = |client: &Client| Api::<Pod>::namespaced(client.clone(), "default");
    let mut want = pods(&client).get_metadata("all").await.unwrap();
    want.metadata.managed_fields = None;
    let have = pods(&concise(&client)).get_metadata("all").await.unwrap();
    assert_eq!((have.types, have.metadata), (want.types, want.metadata));
    let missing = pods(&concise(&client)).get_metadata("none").await;
    assert!(matches!(missing, Err(kube::Error::Api(status)) if status.code == 404));
    let all = pods(&concise(&client)).list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

async fn next<K: std::fmt::Debug>(watch: &mut Events<K>) -> K {
    let event = timeout(LIMIT, watch.next()).await.unwrap().unwrap().unwrap();
    let WatchEvent::Added(object) = event else { panic!("{event:?}") };
    object
}

/// A pod whose status has something in every field.
async fn pod_with_everything(client: &Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({
        "metadata": {
            "name": "all", "labels": {"app": "all"}, "annotations": {"note": "ä\n"},
            "finalizers": ["example.com/keep"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b",
                                 "controller": true, "blockOwnerDeletion": false}],
        },
        "spec": {
            "nodeName": "far", "serviceAccountName": "default",
            "automountServiceAccountToken": false,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
            "containers": [{"name": "web", "image": "web",
                            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        },
    });
    let pod = serde_json::from_value(pod).unwrap();
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    let change = Patch::Merge(json!({ "status": status() }));
    pods.patch_status(&made.name_any(), &PatchParams::default(), &change).await.unwrap();
}

fn status() -> Value {
    let time = "2026-01-02T03:04:05Z";
    let container = |name: &str, state: Value| {
        json!({
            "name": name, "image": "web", "imageID": "sha256:1", "containerID": "a://1",
            "ready": false, "restartCount": 3, "started": false, "state": state,
            "lastState": {"terminated": {"exitCode": 0, "signal": 9, "reason": "Error",
                "message": "m", "startedAt": time, "finishedAt": time, "containerID": "a://0"}},
            "allocatedResources": {"cpu": "100m"},
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "100m", "memory": "1Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true,
                              "recursiveReadOnly": "Disabled"}],
            "user": {"linux": {"uid": 0, "gid": 1, "supplementalGroups": [1, 2]}},
        })
    };
    json!({
        "phase": "Running", "message": "m", "reason": "r", "nominatedNodeName": "near",
        "observedGeneration": 1,
        "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}],
        "podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.2"}, {"ip": "2001:db8::1"}],
        "startTime": time, "qosClass": "Burstable",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
            {"type": "PodScheduled", "status": "False", "lastProbeTime": time,
             "lastTransitionTime": time, "reason": "Unschedulable", "message": "no room"},
        ],
        "initContainerStatuses": [container("first", json!({"waiting": {"reason": "PodInitializing", "message": "m"}}))],
        "containerStatuses": [container("web", json!({"running": {"startedAt": time}}))],
        "ephemeralContainerStatuses": [container("debugger", json!({"waiting": {}}))],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-1"}],
    })
}
