//! Namespaces reach over two clusters, and pods of one are kept alive in the other: the components
//! that do it, on real API servers, with the rights that the chart grants them.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/additions.rs"]
mod additions;
#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;
#[path = "parts/evictions.rs"]
mod evictions;
#[path = "parts/room.rs"]
mod room;
#[path = "parts/town.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod town;

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use liqo_api::offloading::{NamespaceOffloading, OffloadingPhase};
use liqo_api::virtualkubelet::{NamespaceMap, PodPhase, ShadowEndpointSlice, ShadowPod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::town::{Town, gone, is_there, read, wait};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
/// The namespace that rome keeps for milan.
const AT_ROME: &str = "liqo-tenant-milan-ee0b4a";
/// The namespace that milan keeps for rome.
const AT_MILAN: &str = "liqo-tenant-rome-2f55ef";
/// What the namespace `shop` of rome is called at milan.
const SHOP: &str = "shop-rome-2f55ef";
/// Why a ShadowPod has no pod.
const ERROR: &str = "liqo.io/shadowpod-error";

#[tokio::test]
async fn namespaces_and_pods_reach_over_clusters() {
    let flags = [
        "--hosted-namespace-labels=pod-security.kubernetes.io/enforce=baseline",
        "--enable-resource-enforcement",
        "--enable-node-failure-controller",
        "--disable-internal-network",
    ];
    let found = tokio::join!(Town::found(ROME, "rome"), Town::managed(MILAN, "milan", &flags));
    let (mut rome, mut milan) = found;
    milan.add_node("worker", "10", "64Gi").await;
    rome.peer(&milan, MILAN, "milan").await;
    stand_for_milan(&rome, "north").await;

    a_namespace_reaches_the_other_cluster(&rome, &milan).await;
    the_label_is_put_back(&rome).await;
    a_namespace_that_somebody_deletes_is_made_again(&milan).await;
    a_grant_that_somebody_deletes_is_made_again(&milan).await;
    a_namespace_whose_map_is_gone_goes(&milan).await;
    the_selector_decides_and_so_do_the_labels_of_nodes(&rome, &milan).await;
    a_name_that_is_taken_is_left_alone(&rome, &milan).await;
    evictions::pods_that_are_in_the_wrong_place_go_if_that_is_asked_for(&rome).await;
    Box::pin(a_new_controller_manager_writes_nothing_again(&mut rome, &mut milan)).await;
    Box::pin(a_pod_is_kept_alive_for_its_shadow(&milan)).await;
    Box::pin(additions::a_container_is_added_to_a_pod_that_runs(&milan)).await;
    what_is_over_stays_over(&milan).await;
    Box::pin(a_pod_of_somebody_else_is_left_alone(&milan)).await;
    Box::pin(what_policies_refuse_is_told_and_tried_again(&milan)).await;
    more_than_was_offered_is_not_to_be_had(&milan).await;
    Box::pin(room::what_does_not_fit_is_told_at_home_and_starts_later(&rome, &milan)).await;
    Box::pin(pods_leave_a_node_that_has_failed(&milan)).await;
    a_cluster_that_is_left_gives_namespaces_back(&rome, &milan).await;
    what_is_offloaded_no_more_is_gone(&rome, &milan).await;
    Box::pin(endpoints_are_ready_while_their_cluster_answers(rome, &milan)).await;
    milan.close().await;
}

#[tokio::test]
async fn an_offloading_ends_though_its_peer_is_dead() {
    let found = tokio::join!(Town::found(ROME, "rome"), Town::found(MILAN, "milan"));
    let (rome, milan) = found;
    rome.peer(&milan, MILAN, "milan").await;
    stand_for_milan(&rome, "north").await;
    cluster::namespace(&rome.client(), "shop").await;
    let offloadings = offload(&rome, "shop", &json!({})).await;
    wait(offloadings.clone(), "offloading", is_phase(OffloadingPhase::Ready)).await;
    drop(milan);
    offloadings.delete("offloading", &DeleteParams::default()).await.unwrap();
    gone(offloadings, "offloading").await;
    let maps: Api<NamespaceMap> = Api::namespaced(rome.client(), AT_ROME);
    let map = maps.get("milan-ee0b4a").await.unwrap();
    assert!(map.spec.desired_mapping.is_empty(), "it is asked for no more when milan is back");
    let events: Api<Event> = Api::namespaced(rome.client(), "shop");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.iter().any(|event| event.reason.as_deref() == Some("PeerNotCleaned"));
    assert!(told, "{events:?}");
    rome.close().await;
}

async fn a_namespace_reaches_the_other_cluster(rome: &Town, milan: &Town) {
    cluster::namespace(&rome.client(), "shop").await;
    let offloadings = offload(rome, "shop", &json!({})).await;
    let done = wait(offloadings, "offloading", is_phase(OffloadingPhase::Ready)).await;
    assert_eq!(done.finalizers(), ["namespaceoffloading-controller.liqo.io/finalizer"]);
    let status = done.status.unwrap();
    assert_eq!(status.remote_namespace_name.as_deref(), Some(SHOP));
    assert_eq!(status.observed_generation, Some(1));
    let conditions = &status.remote_namespaces_conditions["milan-ee0b4a"];
    let reasons: Vec<_> = conditions.iter().filter_map(|one| one.reason.as_deref()).collect();
    assert_eq!(reasons, ["ClusterSelected", "NamespaceCreated"]);

    let namespaces: Api<Namespace> = Api::all(milan.client());
    let made = namespaces.get(SHOP).await.unwrap();
    assert_eq!(made.labels()["liqo.io/remote-cluster-id"], ROME);
    assert_eq!(made.labels()["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(made.annotations()["liqo.io/original-name"], "shop");
    let maker = format!("{AT_MILAN}/milan-ee0b4a");
    assert_eq!(made.annotations()["liqo.io/managed-by-namespace-map"], maker);
    let bindings: Api<RoleBinding> = Api::namespaced(milan.client(), SHOP);
    let binding = bindings.get(AT_MILAN).await.unwrap();
    assert_eq!(binding.role_ref.name, "liqo-virtual-kubelet-remote");
    assert_eq!(binding.subjects.unwrap()[0].name, ROME);
    let maps: Api<NamespaceMap> = Api::namespaced(milan.client(), AT_MILAN);
    let map = maps.get("milan-ee0b4a").await.unwrap();
    assert_eq!(map.finalizers(), ["namespacemap-controller.liqo.io/finalizer"]);
}

async fn the_label_is_put_back(rome: &Town) {
    let namespaces: Api<Namespace> = Api::all(rome.client());
    let is_labelled = |namespace: Option<&Namespace>| {
        let namespace = namespace.map(ResourceExt::labels);
        namespace.is_some_and(|labels| labels.contains_key("liqo.io/scheduling-enabled"))
    };
    let before = wait(namespaces.clone(), "shop", is_labelled).await;
    let change = json!({"metadata": {"labels": {"liqo.io/scheduling-enabled": null}}});
    merge(&namespaces, "shop", change).await;
    let version = before.resource_version();
    let is_back = move |namespace: Option<&Namespace>| {
        is_labelled(namespace) && namespace.unwrap().resource_version() != version
    };
    wait(namespaces, "shop", is_back).await;
}

async fn a_namespace_that_somebody_deletes_is_made_again(milan: &Town) {
    let namespaces: Api<Namespace> = Api::all(milan.client());
    let old = namespaces.get(SHOP).await.unwrap().uid();
    namespaces.delete(SHOP, &DeleteParams::default()).await.unwrap();
    wait(namespaces, SHOP, is_another(old)).await;
    let bindings: Api<RoleBinding> = Api::namespaced(milan.client(), SHOP);
    wait(bindings, AT_MILAN, is_there).await;
    let maps: Api<NamespaceMap> = Api::namespaced(milan.client(), AT_MILAN);
    let status = maps.get("milan-ee0b4a").await.unwrap().status.unwrap();
    let phase = status.current_mapping["shop"].phase;
    assert_eq!(phase, Some(liqo_api::virtualkubelet::MappingPhase::Accepted));
}

async fn a_grant_that_somebody_deletes_is_made_again(milan: &Town) {
    let bindings: Api<RoleBinding> = Api::namespaced(milan.client(), SHOP);
    let old = bindings.get(AT_MILAN).await.unwrap().uid();
    bindings.delete(AT_MILAN, &DeleteParams::default()).await.unwrap();
    wait(bindings, AT_MILAN, is_another(old)).await;
}

async fn a_namespace_whose_map_is_gone_goes(milan: &Town) {
    let namespaces: Api<Namespace> = Api::all(milan.client());
    let maker = format!("{AT_MILAN}/gone-000000");
    let left = json!({"metadata": {
        "name": "left",
        "labels": {"liqo.io/remote-cluster-id": ROME},
        "annotations": {
            "liqo.io/managed-by-namespace-map": maker, "liqo.io/original-name": "left",
        },
    }});
    create(&namespaces, left).await;
    gone(namespaces, "left").await;
}

async fn the_selector_decides_and_so_do_the_labels_of_nodes(rome: &Town, milan: &Town) {
    let offloadings: Api<NamespaceOffloading> = Api::namespaced(rome.client(), "shop");
    let south = json!({"key": "region", "operator": "In", "values": ["south"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [south]}]});
    merge(&offloadings, "offloading", json!({"spec": {"clusterSelector": terms}})).await;
    let none = is_phase(OffloadingPhase::NoClusterSelected);
    wait(offloadings.clone(), "offloading", none).await;
    gone(Api::<Namespace>::all(milan.client()), SHOP).await;
    let is_forgotten = |offloading: Option<&NamespaceOffloading>| {
        let status = offloading.and_then(|offloading| offloading.status.as_ref());
        status.is_some_and(|status| status.remote_namespaces_conditions["milan-ee0b4a"].len() == 1)
    };
    wait(offloadings.clone(), "offloading", is_forgotten).await;

    let nodes: Api<Node> = Api::all(rome.client());
    merge(&nodes, "liqo-milan", json!({"metadata": {"labels": {"region": "south"}}})).await;
    wait(offloadings, "offloading", is_phase(OffloadingPhase::Ready)).await;
    wait(Api::<Namespace>::all(milan.client()), SHOP, is_there).await;
}

async fn a_name_that_is_taken_is_left_alone(rome: &Town, milan: &Town) {
    cluster::namespace(&milan.client(), "stall").await;
    cluster::namespace(&rome.client(), "stall").await;
    let spec = json!({"namespaceMappingStrategy": "EnforceSameName"});
    let offloadings = offload(rome, "stall", &spec).await;
    wait(offloadings.clone(), "offloading", is_phase(OffloadingPhase::AllFailed)).await;
    let namespaces: Api<Namespace> = Api::all(milan.client());
    let theirs = namespaces.get("stall").await.unwrap();
    assert!(!theirs.labels().contains_key("liqo.io/remote-cluster-id"));
    namespaces.delete("stall", &DeleteParams::default()).await.unwrap();
    wait(offloadings, "offloading", is_phase(OffloadingPhase::Ready)).await;
    let ours = namespaces.get("stall").await.unwrap();
    assert_eq!(ours.annotations()["liqo.io/original-name"], "stall");
}

async fn a_new_controller_manager_writes_nothing_again(rome: &mut Town, milan: &mut Town) {
    let shadows = shadow(milan, "calm", &json!({"containers": [container()]})).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    wait(pods.clone(), "calm", is_there).await;
    become_phase(&pods, "calm", "Running").await;
    wait(shadows.clone(), "calm", is_pod_phase(PodPhase::Running)).await;
    let before = versions(rome, milan).await;
    rome.restart_manager().await;
    milan.restart_manager().await;
    // What is asked for now has been worked on, and so has everything that was there before.
    shadow(milan, "later", &json!({"containers": [container()]})).await;
    wait(pods.clone(), "later", is_there).await;
    cluster::namespace(&rome.client(), "later").await;
    let offloadings = offload(rome, "later", &json!({"clusterSelector": nowhere()})).await;
    let none = is_phase(OffloadingPhase::NoClusterSelected);
    wait(offloadings.clone(), "offloading", none).await;
    assert_eq!(versions(rome, milan).await, before);
    offloadings.delete("offloading", &DeleteParams::default()).await.unwrap();
    gone(offloadings, "offloading").await;
    for name in ["calm", "later"] {
        shadows.delete(name, &DeleteParams::default()).await.unwrap();
        gone(pods.clone(), name).await;
    }
}

/// The versions of everything that one namespace and one pod consist of.
async fn versions(rome: &Town, milan: &Town) -> Vec<Option<String>> {
    let (here, there) = (rome.client(), milan.client());
    vec![
        version::<Namespace>(Api::all(here.clone()), "shop").await,
        version::<NamespaceOffloading>(Api::namespaced(here.clone(), "shop"), "offloading").await,
        version::<NamespaceMap>(Api::namespaced(here, AT_ROME), "milan-ee0b4a").await,
        version::<NamespaceMap>(Api::namespaced(there.clone(), AT_MILAN), "milan-ee0b4a").await,
        version::<Namespace>(Api::all(there.clone()), SHOP).await,
        version::<RoleBinding>(Api::namespaced(there.clone(), SHOP), AT_MILAN).await,
        version::<ShadowPod>(Api::namespaced(there.clone(), SHOP), "calm").await,
        version::<Pod>(Api::namespaced(there, SHOP), "calm").await,
    ]
}

async fn version<K>(api: Api<K>, name: &str) -> Option<String>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    api.get_metadata(name).await.unwrap().resource_version()
}

/// A selector that selects no cluster.
fn nowhere() -> Value {
    let label = json!({"key": "no", "operator": "Exists"});
    json!({"nodeSelectorTerms": [{"matchExpressions": [label]}]})
}

async fn a_pod_is_kept_alive_for_its_shadow(milan: &Town) {
    let shadows = shadow(milan, "web", &json!({"containers": [container()]})).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    let pod = wait(pods.clone(), "web", is_there).await;
    let shadow = shadows.get("web").await.unwrap();
    assert_eq!(pod.owner_references()[0].uid, shadow.uid().unwrap());
    assert_eq!(pod.labels()["liqo.io/managed-by"], "shadowpod");
    assert_eq!(pod.labels()["app"], "web");
    assert_eq!(pod.spec.as_ref().unwrap().automount_service_account_token, Some(false));

    become_phase(&pods, "web", "Running").await;
    wait(shadows.clone(), "web", is_pod_phase(PodPhase::Running)).await;

    let change = json!({"metadata": {"labels": {"app": null, "tier": "front"}}});
    merge(&shadows, "web", change).await;
    let follows = |pod: Option<&Pod>| {
        let labels = pod.map(ResourceExt::labels);
        labels.is_some_and(|labels| labels.contains_key("tier") && !labels.contains_key("app"))
    };
    wait(pods.clone(), "web", follows).await;

    pods.delete("web", &at_once()).await.unwrap();
    wait(pods.clone(), "web", is_another(pod.uid())).await;
    shadows.delete("web", &DeleteParams::default()).await.unwrap();
    gone(pods, "web").await;
}

async fn what_is_over_stays_over(milan: &Town) {
    let once = json!({"restartPolicy": "Never", "containers": [container()]});
    let shadows = shadow(milan, "job", &once).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    wait(pods.clone(), "job", is_there).await;
    become_phase(&pods, "job", "Succeeded").await;
    wait(shadows.clone(), "job", is_pod_phase(PodPhase::Succeeded)).await;
    pods.delete("job", &at_once()).await.unwrap();
    // What is asked for later has been worked on, so the end of the other was looked at.
    let later = shadow(milan, "later", &json!({"containers": [container()]})).await;
    wait(pods.clone(), "later", is_there).await;
    assert!(pods.get_opt("job").await.unwrap().is_none());
    for name in ["job", "later"] {
        later.delete(name, &DeleteParams::default()).await.unwrap();
    }
    gone(pods, "later").await;
}

async fn a_pod_of_somebody_else_is_left_alone(milan: &Town) {
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    let pod = json!({"metadata": {"name": "mine"}, "spec": {"containers": [container()]}});
    let before = create(&pods, pod).await;
    let shadows = shadow(milan, "mine", &json!({"containers": [container()]})).await;
    wait(shadows.clone(), "mine", says("that is not Liqo's")).await;
    let after = pods.get("mine").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    shadows.delete("mine", &DeleteParams::default()).await.unwrap();
    pods.delete("mine", &at_once()).await.unwrap();
}

async fn what_policies_refuse_is_told_and_tried_again(milan: &Town) {
    let mut privileged = container();
    privileged["securityContext"] = json!({"privileged": true});
    let shadows = shadow(milan, "rough", &json!({"containers": [privileged]})).await;
    wait(shadows.clone(), "rough", says("violates PodSecurity")).await;
    let namespaces: Api<Namespace> = Api::all(milan.client());
    let relaxed = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": null}}});
    merge(&namespaces, SHOP, relaxed).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    wait(pods.clone(), "rough", is_there).await;
    let is_clean = |shadow: Option<&ShadowPod>| {
        shadow.is_some_and(|shadow| !shadow.annotations().contains_key(ERROR))
    };
    wait(shadows.clone(), "rough", is_clean).await;
    shadows.delete("rough", &DeleteParams::default()).await.unwrap();
    gone(pods.clone(), "rough").await;

    let wanted = json!({"hostNetwork": true, "containers": [container()]});
    let shadows = shadow(milan, "host", &wanted).await;
    wait(shadows.clone(), "host", says("cannot have hostNetwork")).await;
    assert!(pods.get_opt("host").await.unwrap().is_none());
    shadows.delete("host", &DeleteParams::default()).await.unwrap();
}

async fn more_than_was_offered_is_not_to_be_had(milan: &Town) {
    let mut large = container();
    large["resources"]["limits"]["cpu"] = json!("100");
    let shadows = shadow(milan, "large", &json!({"containers": [large]})).await;
    wait(shadows.clone(), "large", says("up to 100 of cpu, and 9 of the 9")).await;
    let unlimited = json!({"name": "main", "image": "example.org/any"});
    shadow(milan, "unlimited", &json!({"containers": [unlimited]})).await;
    wait(shadows.clone(), "unlimited", says("container main has no limit of cpu")).await;
    for name in ["large", "unlimited"] {
        shadows.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

async fn pods_leave_a_node_that_has_failed(milan: &Town) {
    let shadows = shadow(milan, "stuck", &json!({"containers": [container()]})).await;
    let pods: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    let pod = wait(pods.clone(), "stuck", is_there).await;
    bind(&milan.client(), SHOP, "stuck", "worker").await;
    pods.delete("stuck", &DeleteParams::default()).await.unwrap();
    let nodes: Api<Node> = Api::all(milan.client());
    let failed = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    nodes.patch_status("worker", &PatchParams::default(), &Patch::Merge(failed)).await.unwrap();
    wait(pods.clone(), "stuck", is_another(pod.uid())).await;
    let well = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("worker", &PatchParams::default(), &Patch::Merge(well)).await.unwrap();
    shadows.delete("stuck", &DeleteParams::default()).await.unwrap();
    gone(pods, "stuck").await;
}

async fn a_cluster_that_is_left_gives_namespaces_back(rome: &Town, milan: &Town) {
    let nodes: Api<Node> = Api::all(rome.client());
    nodes.delete("liqo-milan", &DeleteParams::default()).await.unwrap();
    gone(nodes, "liqo-milan").await;
    gone(Api::<NamespaceMap>::namespaced(rome.client(), AT_ROME), "milan-ee0b4a").await;
    gone(Api::<NamespaceMap>::namespaced(milan.client(), AT_MILAN), "milan-ee0b4a").await;
    gone(Api::<Namespace>::all(milan.client()), SHOP).await;
    let offloadings: Api<NamespaceOffloading> = Api::namespaced(rome.client(), "shop");
    let nowhere = is_phase(OffloadingPhase::NoClusterSelected);
    wait(offloadings.clone(), "offloading", nowhere).await;

    stand_for_milan(rome, "south").await;
    wait(offloadings, "offloading", is_phase(OffloadingPhase::Ready)).await;
    wait(Api::<Namespace>::all(milan.client()), SHOP, is_there).await;
}

async fn what_is_offloaded_no_more_is_gone(rome: &Town, milan: &Town) {
    for (namespace, there) in [("stall", "stall"), ("shop", SHOP)] {
        let offloadings: Api<NamespaceOffloading> = Api::namespaced(rome.client(), namespace);
        offloadings.delete("offloading", &DeleteParams::default()).await.unwrap();
        gone(offloadings, "offloading").await;
        gone(Api::<Namespace>::all(milan.client()), there).await;
        let home = Api::<Namespace>::all(rome.client()).get(namespace).await.unwrap();
        assert!(!home.labels().contains_key("liqo.io/scheduling-enabled"));
    }
    let maps: Api<NamespaceMap> = Api::namespaced(rome.client(), AT_ROME);
    let map = maps.get("milan-ee0b4a").await.unwrap();
    assert!(map.spec.desired_mapping.is_empty());
    assert!(map.status.unwrap().current_mapping.is_empty());
}

async fn endpoints_are_ready_while_their_cluster_answers(rome: Town, milan: &Town) {
    let shadows: Api<ShadowEndpointSlice> = Api::namespaced(milan.client(), "default");
    let shadow = json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "ShadowEndpointSlice",
        "metadata": {"name": "web-1", "labels": {
            "virtualkubelet.liqo.io/origin": ROME,
            "kubernetes.io/service-name": "web",
        }},
        "spec": {"template": {
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            ],
            "ports": [{"port": 80}],
        }},
    });
    create(&shadows, shadow).await;
    let slices: Api<EndpointSlice> = Api::namespaced(milan.client(), "default");
    let made = wait(slices.clone(), "web-1", is_ready([true, false])).await;
    assert_eq!(made.labels()["liqo.io/managed-by"], "shadowendpointslice");
    assert_eq!(made.labels()["kubernetes.io/service-name"], "web");
    drop(rome);
    wait(slices.clone(), "web-1", is_ready([false, false])).await;
    shadows.delete("web-1", &DeleteParams::default()).await.unwrap();
    gone(slices, "web-1").await;
}

/// Makes the virtual node that stands for milan at rome.
async fn stand_for_milan(rome: &Town, region: &str) {
    let labels = json!({
        "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": MILAN, "region": region,
    });
    let nodes: Api<Node> = Api::all(rome.client());
    create(&nodes, json!({"metadata": {"name": "liqo-milan", "labels": labels}})).await;
}

/// Has a namespace extend to other clusters.
async fn offload(town: &Town, namespace: &str, spec: &Value) -> Api<NamespaceOffloading> {
    let api: Api<NamespaceOffloading> = Api::namespaced(town.client(), namespace);
    let object = json!({
        "apiVersion": "offloading.liqo.io/v1alpha1",
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading"},
        "spec": spec,
    });
    create(&api, object).await;
    api
}

/// Asks milan for a pod, as rome.
async fn shadow(milan: &Town, name: &str, pod: &Value) -> Api<ShadowPod> {
    let api: Api<ShadowPod> = Api::namespaced(milan.client(), SHOP);
    let object = json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "ShadowPod",
        "metadata": {"name": name, "labels": {
            "app": name, "virtualkubelet.liqo.io/origin": ROME,
        }},
        "spec": {"pod": pod},
    });
    create(&api, object).await;
    api
}

fn container() -> Value {
    let limits = json!({"cpu": "100m", "memory": "64Mi"});
    json!({"name": "main", "image": "example.org/any", "resources": {"limits": limits}})
}

/// Places a pod on a node.
async fn bind(client: &Client, namespace: &str, pod: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let bound: kube::Result<kube::core::Status> =
        pods.create_subresource("binding", pod, &PostParams::default(), &binding).await;
    bound.unwrap();
}

async fn become_phase(pods: &Api<Pod>, name: &str, phase: &str) {
    let status = json!({"status": {"phase": phase}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &read(object)).await.unwrap()
}

async fn merge<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, change: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

fn at_once() -> DeleteParams {
    DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }
}

fn is_phase(phase: OffloadingPhase) -> impl Fn(Option<&NamespaceOffloading>) -> bool {
    move |offloading| {
        offloading.is_some_and(|offloading| {
            let status = offloading.status.clone().unwrap_or_default();
            status.offloading_phase == Some(phase)
                && status.observed_generation == offloading.metadata.generation
        })
    }
}

fn is_pod_phase(phase: PodPhase) -> impl Fn(Option<&ShadowPod>) -> bool {
    move |shadow| shadow.is_some_and(|shadow| shadow.status.unwrap_or_default().phase == phase)
}

/// Whether a ShadowPod says why it has no pod.
fn says(why: &'static str) -> impl Fn(Option<&ShadowPod>) -> bool {
    move |shadow| {
        let told = shadow.and_then(|shadow| shadow.annotations().get(ERROR));
        told.is_some_and(|told| told.contains(why))
    }
}

fn is_ready(want: [bool; 2]) -> impl Fn(Option<&EndpointSlice>) -> bool {
    move |slice| {
        let endpoints = slice.and_then(|slice| slice.endpoints.as_ref());
        let ready = endpoints
            .into_iter()
            .flatten()
            .map(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready));
        ready.eq(want.map(Some))
    }
}

/// Whether there is another one of the same name, which stays.
fn is_another<K: ResourceExt>(old: Option<String>) -> impl Fn(Option<&K>) -> bool {
    move |found| {
        found.is_some_and(|found| found.uid() != old && found.meta().deletion_timestamp.is_none())
    }
}
