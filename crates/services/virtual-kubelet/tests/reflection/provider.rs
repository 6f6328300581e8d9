//! A stand-in for what makes pods of ShadowPods in the other cluster, one step at a time.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt as _};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::retry::or_gone;
use liqo_kit::watch::{Key, watch};
use liqo_testkit::until;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::world::World;

/// The node there.
const THERE: &str = "milan-1";

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

/// Makes the pod of a ShadowPod, on a node.
pub async fn start(world: &World, name: &str) -> Pod {
    let pod = placed(pod_of(&shadow(world, name).await));
    world.there::<Pod>().create(&PostParams::default(), &pod).await.unwrap()
}

/// Makes the pod of a ShadowPod, which no node takes.
pub async fn make_wait(world: &World, name: &str) -> Pod {
    let pod = pod_of(&shadow(world, name).await);
    let pod = world.there::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    let why = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    set_status(world, name, json!({ "conditions": [why] })).await;
    pod
}

/// Gives a pod that waits a node, as a scheduler does.
pub async fn place(world: &World, name: &str) {
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": THERE});
    let binding = json!({"metadata": {"name": name}, "target": target});
    let params = PostParams::default();
    let pods = world.there::<Pod>();
    let _: Value = pods.create_subresource("binding", name, &params, &binding).await.unwrap();
}

fn placed(mut pod: Pod) -> Pod {
    pod.spec.as_mut().unwrap().node_name = Some(THERE.to_owned());
    pod
}

fn pod_of(shadow: &ShadowPod) -> Pod {
    let owner = json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "ShadowPod",
        "name": shadow.name_any(),
        "uid": shadow.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    let mut labels = shadow.labels().clone();
    labels.insert("liqo.io/managed-by".to_owned(), "shadowpod".to_owned());
    let pod = json!({
        "metadata": {
            "name": shadow.name_any(),
            "labels": labels,
            "annotations": shadow.annotations(),
            "ownerReferences": [owner],
        },
        "spec": shadow.spec.pod,
    });
    serde_json::from_value(pod).unwrap()
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

/// Keeps the pods of all ShadowPods running, until the value is dropped.
pub struct Provider(JoinHandle<()>);

impl Drop for Provider {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Provider {
    /// Starts in the other cluster.
    pub fn start(world: &World) -> Self {
        let (shadows, one) = watch(world.there::<ShadowPod>(), Config::default());
        let (pods, other) = watch(world.there::<Pod>(), Config::default());
        let api = world.there::<Pod>();
        let touched = stream::select(one, other);
        let work = async move |key: Key| -> Result<Next, kube::Error> {
            if !shadows.is_ready() || !pods.is_ready() {
                return Ok(Next::RequeueAfter(Duration::from_millis(10)));
            }
            attend(&api, &key.name, shadows.object(&key), pods.object(&key)).await?;
            Ok(Next::AwaitChange)
        };
        Self(tokio::spawn(async move {
            Queue::new("provider").workers(8).run(touched, |key| work(key)).await;
        }))
    }
}

async fn attend(
    pods: &Api<Pod>,
    name: &str,
    shadow: Option<Arc<ShadowPod>>,
    pod: Option<Arc<Pod>>,
) -> kube::Result<()> {
    match (shadow, pod) {
        (Some(shadow), None) => {
            let pod = placed(pod_of(&shadow));
            let made = pods.create(&PostParams::default(), &pod).await;
            if !matches!(&made, Err(kube::Error::Api(status)) if status.code == 409) {
                made?;
            }
        }
        (Some(shadow), Some(pod)) if pod.owner_references()[0].uid == shadow.uid().unwrap() => {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase != Some("Running") {
                let status = json!({ "status": running("10.201.0.1") });
                pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
            }
        }
        (_, Some(pod)) => {
            let seen = Preconditions { uid: pod.uid(), resource_version: None };
            let params = DeleteParams {
                preconditions: Some(seen),
                grace_period_seconds: Some(0),
                ..DeleteParams::default()
            };
            or_gone(pods.delete(name, &params).await)?;
        }
        (None, None) => {}
    }
    Ok(())
}
