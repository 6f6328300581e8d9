//! Pods that run in another cluster, from their first moment to their last.

use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::ShadowPod;
use liqo_testkit::until;
use serde_json::{Value, json};

use crate::provider;
use crate::world::{MILAN, NODE, ROME, TENANT, World, change, label_of, make};

/// What a pod that runs elsewhere is marked with.
const MARK: &str = "liqo.io/shadowPod";

#[tokio::test]
async fn a_pod_runs_elsewhere_and_looks_as_if_it_ran_here() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let _kubelet = world.kubelet(&[]);
    let home = make(&here, pod("web")).await;

    let shadow = provider::shadow(&world, "web").await;
    assert_eq!(label_of(&shadow, "app"), Some("web"));
    assert_eq!(label_of(&shadow, "virtualkubelet.liqo.io/origin"), Some(ROME));
    assert_eq!(label_of(&shadow, "virtualkubelet.liqo.io/destination"), Some(MILAN));
    assert_eq!(label_of(&shadow, MARK), None);
    assert_eq!(shadow.spec.pod.node_name, None);
    assert_eq!(shadow.spec.pod.containers[0].image.as_deref(), Some("demo"));

    provider::run(&world, "web", "10.201.0.118").await;
    let pod = until("it runs here", &here, "web", is_running).await.unwrap().unwrap();
    assert_eq!(label_of(&pod, MARK), Some("true"), "whoever sees it run sees that");
    let status = pod.status.unwrap();
    assert_eq!(status.pod_ip.as_deref(), Some("10.201.0.118"));
    assert_eq!(status.host_ip.as_deref(), Some("10.200.0.9"), "the address of the node here");
    assert_eq!(status.host_ips.unwrap()[0].ip, "10.200.0.9");
    assert_eq!(status.start_time.unwrap().0.to_string(), "2026-11-16T07:00:00Z");

    change(&here, "web", json!({"metadata": {"labels": {"new": "yes"}}})).await;
    let follows = |shadow: Option<&ShadowPod>| {
        shadow.is_some_and(|shadow| label_of(shadow, "new") == Some("yes"))
    };
    until("labels follow", &shadows, "web", follows).await.unwrap();

    provider::end(&world, "web").await;
    provider::run(&world, "web", "10.201.0.119").await;
    let restarted = |pod: Option<&Pod>| {
        restarts(pod) == Some(1) && address(pod).as_deref() == Some("10.201.0.119")
    };
    until("a new pod there is a restart here", &here, "web", restarted).await.unwrap();

    here.delete("web", &DeleteParams::default()).await.unwrap();
    until("the ShadowPod goes", &shadows, "web", |shadow| shadow.is_none()).await.unwrap();
    let still = here.get("web").await.unwrap();
    assert_eq!(still.uid(), home.uid(), "it is there until nothing of it runs");
    assert!(still.metadata.deletion_timestamp.is_some());
    provider::end(&world, "web").await;
    until("it is gone", &here, "web", |pod| pod.is_none()).await.unwrap();

    assert_eq!(
        world.events("web").await,
        [("liqo-pod-reflection".to_owned(), "SuccessfulReflection".to_owned())],
        "one Event in its whole life"
    );
}

#[tokio::test]
async fn a_pod_costs_few_requests() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    provider::start(&world, "web").await;
    provider::set_status(
        &world,
        "web",
        json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}),
    )
    .await;
    let waiting = json!([{
        "name": "c", "image": "demo", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    }]);
    let created = json!({
        "phase": "Pending", "hostIP": "172.30.0.3", "hostIPs": [{"ip": "172.30.0.3"}],
        "containerStatuses": waiting,
    });
    provider::set_status(&world, "web", created).await;
    provider::set_status(&world, "web", provider::running("10.201.0.118")).await;
    until("it runs here", &here, "web", is_running).await.unwrap();
    here.delete("web", &DeleteParams::default()).await.unwrap();
    let shadows = world.there::<ShadowPod>();
    until("the ShadowPod goes", &shadows, "web", |shadow| shadow.is_none()).await.unwrap();
    provider::end(&world, "web").await;
    until("it is gone", &here, "web", |pod| pod.is_none()).await.unwrap();

    let [home, remote] = world.requests().await;
    for verb in ["APPLY", "PATCH", "GET"] {
        assert_eq!(home.get(&format!("{verb} pods")), None, "{home:?}");
    }
    let statuses = home.get("PATCH pods/status").copied().unwrap_or_default();
    assert!((1..=2).contains(&statuses), "its status and its label: {home:?}");
    assert_eq!(home.get("DELETE pods"), Some(&2), "the user's, and its end: {home:?}");
    assert_eq!(remote.get("POST shadowpods"), Some(&1), "{remote:?}");
    assert_eq!(remote.get("DELETE shadowpods"), Some(&1), "{remote:?}");
    assert_eq!(remote.get("PATCH shadowpods"), None, "{remote:?}");
    assert_eq!(home.get("POST events"), Some(&1), "{home:?}");
}

#[tokio::test]
async fn a_virtual_kubelet_that_dies_loses_nothing_and_doubles_nothing() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let kubelet = world.kubelet(&[]);
    for name in ["goes", "returns", "stays"] {
        make(&here, pod(name)).await;
        provider::run(&world, name, "10.201.0.1").await;
        until("it runs here", &here, name, is_running).await.unwrap();
    }
    provider::end(&world, "stays").await;
    provider::run(&world, "stays", "10.201.0.2").await;
    until("it was restarted", &here, "stays", |pod| restarts(pod) == Some(1)).await.unwrap();
    let before = shadows.get("stays").await.unwrap();
    kubelet.kill().await;

    let at_once = DeleteParams::default().grace_period(0);
    here.delete("goes", &at_once).await.unwrap();
    here.delete("returns", &at_once).await.unwrap();
    make(&here, pod("returns")).await;
    make(&here, pod("comes")).await;
    let old = shadows.get("returns").await.unwrap();

    let _kubelet = world.kubelet(&[]);
    until("what is gone here goes there", &shadows, "goes", |shadow| shadow.is_none())
        .await
        .unwrap();
    provider::shadow(&world, "comes").await;
    until("its old ShadowPod makes room", &shadows, "returns", |shadow| shadow.is_none())
        .await
        .unwrap();
    provider::end(&world, "returns").await;
    let new = provider::shadow(&world, "returns").await;
    assert_ne!(new.uid(), old.uid());
    provider::run(&world, "returns", "10.201.0.3").await;
    let runs = |pod: Option<&Pod>| is_running(pod) && restarts(pod) == Some(0);
    until("it runs here", &here, "returns", runs).await.unwrap();
    let stays = here.get("stays").await.unwrap();
    assert_eq!(restarts(Some(&stays)), Some(1), "restarts are not forgotten");
    let after = shadows.get("stays").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version(), "nobody touched it");
}

#[tokio::test]
async fn a_pod_lives_on_with_a_new_virtual_kubelet_at_every_step() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let home = make(&here, pod("web")).await;
    let kubelet = world.kubelet(&[]);
    let shadow = provider::shadow(&world, "web").await;
    kubelet.kill().await;
    provider::start(&world, "web").await;
    let kubelet = world.kubelet(&[]);
    provider::set_status(&world, "web", provider::running("10.201.0.1")).await;
    until("it runs here", &here, "web", is_running).await.unwrap();
    kubelet.kill().await;
    assert_eq!(shadows.get("web").await.unwrap().uid(), shadow.uid(), "there was only one");
    let deleted = here.delete("web", &DeleteParams::default()).await.unwrap();
    assert_eq!(deleted.left().unwrap().uid(), home.uid());
    let kubelet = world.kubelet(&[]);
    until("the ShadowPod goes", &shadows, "web", |shadow| shadow.is_none()).await.unwrap();
    kubelet.kill().await;
    provider::end(&world, "web").await;
    let _kubelet = world.kubelet(&[]);
    until("it is gone", &here, "web", |pod| pod.is_none()).await.unwrap();
}

#[tokio::test]
async fn clusters_that_did_not_see_each_other_agree_again() {
    let mut world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let _kubelet = world.kubelet(&[]);
    for name in ["deleted", "kept"] {
        make(&here, pod(name)).await;
        provider::run(&world, name, "10.201.0.1").await;
        until("it runs here", &here, name, is_running).await.unwrap();
    }
    let kept = shadows.get("kept").await.unwrap();

    world.line.cut().await;
    make(&here, pod("made")).await;
    here.delete("deleted", &DeleteParams::default()).await.unwrap();
    change(&here, "kept", json!({"metadata": {"annotations": {"note": "new"}}})).await;
    provider::set_status(
        &world,
        "kept",
        json!({"podIP": "10.201.0.9", "podIPs": [{"ip": "10.201.0.9"}]}),
    )
    .await;
    world.told("made", "FailedReflection").await;
    assert!(here.get("deleted").await.is_ok(), "it may still run there");
    world.line.restore();

    provider::shadow(&world, "made").await;
    until("what was deleted goes", &shadows, "deleted", |shadow| shadow.is_none()).await.unwrap();
    provider::end(&world, "deleted").await;
    until("it is gone here", &here, "deleted", |pod| pod.is_none()).await.unwrap();
    let moved = |pod: Option<&Pod>| address(pod).as_deref() == Some("10.201.0.9");
    let pod = until("its status comes home", &here, "kept", moved).await.unwrap();
    assert_eq!(restarts(pod.as_ref()), Some(0), "nothing was restarted");
    let annotated = |shadow: Option<&ShadowPod>| {
        shadow.is_some_and(|shadow| shadow.annotations().contains_key("note"))
    };
    let after = until("annotations follow", &shadows, "kept", annotated).await.unwrap().unwrap();
    assert_eq!(after.uid(), kept.uid());
}

#[tokio::test]
async fn while_a_cluster_is_silent_its_pods_are_as_others_say() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let clusters: Api<ForeignCluster> = Api::all(here.clone().into_client());
    let identity = json!({"clusterID": MILAN, "clusterName": "milan"});
    let spec = json!({"clusterIdentity": identity, "foreignAuthUrl": "https://milan.example.org"});
    let labels = json!({"discovery.liqo.io/cluster-id": MILAN});
    make(&clusters, json!({"metadata": {"name": "milan", "labels": labels}, "spec": spec})).await;
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    provider::run(&world, "web", "10.201.0.1").await;
    until("it runs here", &here, "web", is_running).await.unwrap();

    let answers = async |status: &str| {
        let condition = json!({"type": "APIServerStatus", "status": status});
        let status = json!({"status": {"peeringConditions": [condition]}});
        clusters
            .patch_status("milan", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    };
    answers("Error").await;
    let nodes: Api<Node> = Api::all(here.clone().into_client());
    let offers: Api<ResourceOffer> = Api::namespaced(here.clone().into_client(), TENANT);
    make(&offers, offer()).await;
    until("the node says so", &nodes, NODE, is_not_ready).await.unwrap();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    here.patch_status("web", &PatchParams::default(), &Patch::Merge(not_ready)).await.unwrap();
    change(&here, "web", json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    let follows = |shadow: Option<&ShadowPod>| {
        shadow.is_some_and(|shadow| label_of(shadow, "seen") == Some("yes"))
    };
    until("the change was seen", &shadows, "web", follows).await.unwrap();
    assert_eq!(ready(Some(&here.get("web").await.unwrap())).as_deref(), Some("False"));
    answers("Established").await;
    let is_ready = |pod: Option<&Pod>| ready(pod).as_deref() == Some("True");
    until("it is as it is there", &here, "web", is_ready).await.unwrap();
}

fn offer() -> Value {
    json!({
        "metadata": {"name": "milan", "labels": {"liqo.io/originID": MILAN}},
        "spec": {
            "clusterId": MILAN,
            "resourceQuota": {"hard": {"cpu": "1", "memory": "1G"}},
        },
    })
}

fn is_not_ready(node: Option<&Node>) -> bool {
    let status = node.and_then(|node| node.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "False")
}

fn ready(pod: Option<&Pod>) -> Option<String> {
    let conditions = status(pod)?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(ready.status.clone())
}

#[tokio::test]
async fn pods_of_a_namespace_that_does_not_extend_wait_and_fail_when_it_ceases_to() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    world.map(false).await;
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("web")).await;
    let pod = until("it waits", &here, "web", |pod| reason(pod) == Some("OffloadingBackOff"));
    assert_eq!(phase(pod.await.unwrap().as_ref()), Some("Pending"));
    world.told("web", "ReflectionDisabled").await;

    world.map(true).await;
    provider::run(&world, "web", "10.201.0.1").await;
    let pod = until("it runs", &here, "web", is_running).await.unwrap();
    assert_eq!(reason(pod.as_ref()), None, "the reason is gone");

    world.map(false).await;
    let pod = until("it has failed", &here, "web", |pod| reason(pod) == Some("OffloadingAborted"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(phase(Some(&pod)), Some("Failed"));
    let status = pod.status.unwrap();
    assert!(status.conditions.unwrap().iter().all(|condition| condition.status == "False"));
    assert!(status.container_statuses.unwrap().iter().all(|container| !container.ready));
    world.map(true).await;
    let shadows = world.there::<ShadowPod>();
    until("what is left there goes", &shadows, "web", |shadow| shadow.is_none()).await.unwrap();

    make(&here, self::pod("late")).await;
    world.map(false).await;
    here.delete("late", &DeleteParams::default()).await.unwrap();
    until("it may go at any time", &here, "late", |pod| pod.is_none()).await.unwrap();
}

#[tokio::test]
async fn what_is_over_is_over_and_what_is_lost_there_is_made_again() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let _kubelet = world.kubelet(&[]);
    for name in ["job", "web"] {
        make(&here, pod(name)).await;
        provider::run(&world, name, "10.201.0.1").await;
    }
    let ended = json!([{
        "name": "c", "image": "demo", "imageID": "demo", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0}},
    }]);
    provider::set_status(&world, "job", json!({"phase": "Succeeded", "containerStatuses": ended}))
        .await;
    until("it is over", &here, "job", |pod| phase(pod) == Some("Succeeded")).await.unwrap();
    until("it runs", &here, "web", is_running).await.unwrap();
    for name in ["job", "web"] {
        shadows.delete(name, &DeleteParams::default()).await.unwrap();
        provider::end(&world, name).await;
    }
    provider::shadow(&world, "web").await;
    assert!(shadows.get_opt("job").await.unwrap().is_none(), "it is not started again");
    assert_eq!(phase(Some(&here.get("job").await.unwrap())), Some("Succeeded"));
}

#[tokio::test]
async fn why_another_cluster_does_not_run_a_pod_is_told_here() {
    let world = World::make().await;
    let (here, shadows) = (world.here::<Pod>(), world.there::<ShadowPod>());
    let probe = json!({
        "metadata": {"name": "denied"},
        "spec": {"pod": {"containers": [{"name": "c", "image": "demo"}]}},
    });
    world.forbid_there::<ShadowPod>("denied", probe).await;
    let _kubelet = world.kubelet(&[]);
    make(&here, pod("denied")).await;
    let told = |pod: Option<&Pod>| message(pod).is_some_and(|it| it.contains("no room for you"));
    let pod = until("a refusal is told", &here, "denied", told).await.unwrap();
    assert_eq!(reason(pod.as_ref()), Some("OffloadingBackOff"));

    make(&here, self::pod("broken")).await;
    provider::shadow(&world, "broken").await;
    let why = "bad image name; ".repeat(1000);
    let error = json!({"metadata": {"annotations": {"liqo.io/shadowpod-error": why}}});
    change(&shadows, "broken", error).await;
    let told = |pod: Option<&Pod>| message(pod).is_some_and(|it| it.contains("bad image name"));
    let pod = until("a failure is told", &here, "broken", told).await.unwrap();
    let told = message(pod.as_ref()).unwrap();
    assert!(told.len() < 1100 && told.ends_with('…'), "as far as there is room: {told}");
    world.told("broken", "FailedReflection").await;
    provider::run(&world, "broken", "10.201.0.1").await;
    until("it runs in the end", &here, "broken", is_running).await.unwrap();
}

/// A pod that is bound to the virtual node.
pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": NODE,
            "nodeSelector": {"liqo.io/type": "virtual-node"},
            "containers": [{"name": "c", "image": "demo"}],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
        },
    })
}

pub fn is_running(pod: Option<&Pod>) -> bool {
    phase(pod) == Some("Running")
}

pub fn status(pod: Option<&Pod>) -> Option<&PodStatus> {
    pod?.status.as_ref()
}

pub fn phase(pod: Option<&Pod>) -> Option<&str> {
    status(pod)?.phase.as_deref()
}

fn reason(pod: Option<&Pod>) -> Option<&str> {
    status(pod)?.reason.as_deref()
}

fn message(pod: Option<&Pod>) -> Option<&str> {
    status(pod)?.message.as_deref()
}

fn address(pod: Option<&Pod>) -> Option<String> {
    status(pod)?.pod_ip.clone()
}

fn restarts(pod: Option<&Pod>) -> Option<i32> {
    Some(status(pod)?.container_statuses.as_ref()?.first()?.restart_count)
}
