//! Containers that are added to pods of another cluster while they run.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use liqo_api::virtualkubelet::PodPhase;
use serde_json::{Value, json};

use crate::town::{Town, gone, is_there, wait};
use crate::{
    SHOP, at_once, become_phase, container, is_another, is_pod_phase, merge, says, shadow,
};

/// What a ShadowPod gets, its pod gets; unless this cluster does not allow it.
pub async fn a_container_is_added_to_a_pod_that_runs(milan: &Town) {
    let pod = json!({"containers": [container()]});
    let shadows = shadow(milan, "sick", &pod).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    let first = wait(pods.clone(), "sick", is_there).await;
    become_phase(&pods, "sick", "Running").await;
    let doctor = json!({"name": "doctor", "image": "example.org/any"});
    let mut bold = doctor.clone();
    bold["name"] = json!("bold");
    bold["securityContext"] = json!({"privileged": true});
    let with = |all: &[&Value]| json!({"spec": {"pod": {"ephemeralContainers": all}}});
    merge(&shadows, "sick", with(&[&doctor])).await;
    let has_doctor = |pod: Option<&Pod>| {
        let spec = pod.and_then(|pod| pod.spec.as_ref());
        let all = spec.and_then(|spec| spec.ephemeral_containers.as_deref());
        all.is_some_and(|all| all.len() == 1 && all[0].name == "doctor")
    };
    wait(pods.clone(), "sick", has_doctor).await;

    // What policies do not allow is told, and the pod runs on.
    merge(&shadows, "sick", with(&[&doctor, &bold])).await;
    wait(shadows.clone(), "sick", says("privileged")).await;
    wait(shadows.clone(), "sick", is_pod_phase(PodPhase::Running)).await;
    assert_eq!(pods.get("sick").await.unwrap().uid(), first.uid());

    shadows.delete("sick", &DeleteParams::default()).await.unwrap();
    gone(pods.clone(), "sick").await;
    // A pod is never made with such a container, and has it all the same.
    let mut pod = pod;
    pod["ephemeralContainers"] = json!([doctor]);
    let shadows = shadow(milan, "sick", &pod).await;
    let second = wait(pods.clone(), "sick", has_doctor).await;
    pods.delete("sick", &at_once()).await.unwrap();
    wait(pods.clone(), "sick", is_another(second.uid())).await;
    wait(pods.clone(), "sick", has_doctor).await;
    shadows.delete("sick", &DeleteParams::default()).await.unwrap();
    gone(pods, "sick").await;
}
