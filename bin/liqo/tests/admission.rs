//! The webhooks, called by a real API server: what it lets in, and how.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;
#[path = "parts/town.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod town;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use liqo_api::offloading::NamespaceOffloading;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::ShadowPod;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use self::component::LIMIT;
use self::town::{Town, is_there, read, wait};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

#[tokio::test]
async fn what_may_enter_is_decided_at_the_door() {
    let mut milan = Town::managed(MILAN, "milan", &["--enable-resource-enforcement"]).await;
    let client = milan.client();
    host(&client, "shop").await;
    offer(&client).await;
    register(&client, milan.webhook_port()).await;

    a_selector_without_sense_is_refused(&client).await;
    a_pod_waits_for_the_namespace_to_be_offloaded(&client).await;
    Box::pin(what_a_controller_makes_is_kept_without_records_and_can_be_applied(&client)).await;
    Box::pin(a_pod_that_only_one_node_may_take_is_bound_if_asked_for(&client)).await;
    a_pod_of_another_cluster_stays_in_its_bounds(&client).await;
    Box::pin(no_more_is_let_in_than_was_offered(&client)).await;
    what_is_there_changes_as_pods_do(&client).await;
    certificates_change_and_nobody_notices(&client).await;
    milan.stop_manager().await;
    without_webhooks_only_what_is_ours_waits(&client).await;
    milan.close().await;
}

async fn a_selector_without_sense_is_refused(client: &Client) {
    let wrong = json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "region", "operator": "Like", "values": ["south"]}]},
    ]});
    let api: Api<NamespaceOffloading> = Api::namespaced(client.clone(), "default");
    let why = refused(create(&api, offloading(&json!({"clusterSelector": wrong}))).await);
    assert!(why.contains("'Like' is no operator"), "{why}");
}

async fn a_pod_waits_for_the_namespace_to_be_offloaded(client: &Client) {
    let labels = json!({"liqo.io/scheduling-enabled": "true"});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": "early", "labels": labels}});
    create(&namespaces, namespace).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "early");
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [container("1")]}});
    let why = refused(create(&pods, pod.clone()).await);
    assert!(why.contains("has no NamespaceOffloading"), "{why}");
    let api: Api<NamespaceOffloading> = Api::namespaced(client.clone(), "early");
    create(&api, offloading(&json!({"podOffloadingStrategy": "Remote"}))).await.unwrap();
    let made = create(&pods, pod).await.unwrap();
    let spec = serde_json::to_value(made.spec.unwrap()).unwrap();
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let key = &required["nodeSelectorTerms"][0]["matchExpressions"][0]["key"];
    assert_eq!(key, "liqo.io/type", "{spec}");
}

async fn what_a_controller_makes_is_kept_without_records_and_can_be_applied(client: &Client) {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "early");
    let front = json!({"tier": "front"});
    let template = json!({"metadata": {"labels": front}, "spec": {"containers": [container("1")]}});
    let set = json!({
        "metadata": {"name": "many"},
        "spec": {"replicas": 0, "selector": {"matchLabels": front}, "template": template},
    });
    // The garbage collector takes what has no owner.
    let set = create(&sets, set).await.unwrap();
    let owner = set.controller_owner_ref(&()).unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "early");
    let made = json!({
        "metadata": {"name": "one-of-many", "ownerReferences": [owner], "labels": front},
        "spec": {"containers": [container("1")]},
    });
    let made = create(&pods, made).await.unwrap();
    assert_eq!(made.metadata.managed_fields, None);
    let status = Patch::Merge(json!({"status": {"message": "told"}}));
    let told = pods.patch_status("one-of-many", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(told.metadata.managed_fields, None, "none is begun later");
    let applied = |labels: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}}))
    };
    let params = PatchParams::apply("somebody");
    let other = pods.patch("one-of-many", &params, &applied(json!({"tier": "back"}))).await;
    let why = refused(other);
    assert!(why.contains("conflict with \"before-first-apply\""), "{why}");
    let mine = pods.patch("one-of-many", &params, &applied(json!({"zone": "a"}))).await.unwrap();
    assert!(mine.metadata.managed_fields.is_some_and(|records| records.len() == 2));
}

async fn a_pod_that_only_one_node_may_take_is_bound_if_asked_for(client: &Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "early");
    let pod = json!({"metadata": {"name": "straight"}, "spec": {"containers": [container("1")]}});
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    let node_of = async || {
        let pod = pods.create(&rehearsal, &read(pod.clone())).await.unwrap();
        pod.spec.unwrap().node_name
    };
    virtual_node(client, "liqo-naples").await;
    assert_eq!(node_of().await, None, "nobody asks for it");
    let offloadings: Api<NamespaceOffloading> = Api::namespaced(client.clone(), "early");
    let asked = json!({"metadata": {"annotations": {"liqo.io/skip-scheduler": "true"}}});
    let asked = Patch::Merge(asked);
    offloadings.patch("offloading", &PatchParams::default(), &asked).await.unwrap();
    let becomes = async |node: Option<&str>| {
        let mut ticks = interval(Duration::from_millis(100));
        let seen = async {
            while node_of().await.as_deref() != node {
                ticks.tick().await;
            }
        };
        timeout(LIMIT, seen).await.unwrap();
    };
    becomes(Some("liqo-naples")).await;
    virtual_node(client, "liqo-turin").await;
    becomes(None).await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("liqo-turin", &DeleteParams::default()).await.unwrap();
    becomes(Some("liqo-naples")).await;
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    nodes.patch("liqo-naples", &PatchParams::default(), &cordon).await.unwrap();
    becomes(None).await;
}

/// A virtual node that takes pods.
async fn virtual_node(client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({"liqo.io/type": "virtual-node"});
    create(&nodes, json!({"metadata": {"name": name, "labels": labels}})).await.unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    // A controller takes this away from nodes that are ready, and none runs here.
    let taintless = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(name, &PatchParams::default(), &taintless).await.unwrap();
}

async fn a_pod_of_another_cluster_stays_in_its_bounds(client: &Client) {
    let elsewhere: Api<ShadowPod> = Api::namespaced(client.clone(), "default");
    let why = refused(create(&elsewhere, shadow("a", &[container("1")], &json!({}))).await);
    assert!(why.contains("namespace default is not for pods of cluster"), "{why}");
    let api: Api<ShadowPod> = Api::namespaced(client.clone(), "shop");
    let presumptuous = json!({"hostPID": true, "priorityClassName": "system-node-critical"});
    let why = refused(create(&api, shadow("a", &[container("1")], &presumptuous)).await);
    assert!(why.contains("cannot have hostPID, priorityClassName"), "{why}");
    let unlimited = json!({"name": "main", "image": "example.org/any"});
    let why = refused(create(&api, shadow("a", &[unlimited], &json!({}))).await);
    assert!(why.contains("container main has no limit of cpu"), "{why}");
}

async fn no_more_is_let_in_than_was_offered(client: &Client) {
    let api: Api<ShadowPod> = Api::namespaced(client.clone(), "shop");
    let once = json!({"restartPolicy": "Never"});
    let of = |name: &str, cpu: &str| shadow(name, &[container(cpu)], &once);
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&rehearsal, &read(of("rehearsal", "2"))).await.unwrap();
    create(&api, of("large", "1500m")).await.unwrap();
    let why = refused(create(&api, of("more", "1")).await);
    let told = "the pod may use up to 1 of cpu, and 500m of the 2 that were offered are free";
    assert!(why.contains(told), "{why}");
    create(&api, of("small", "500m")).await.unwrap();
    // What is over takes nothing any more, and neither does what is gone.
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    wait(pods.clone(), "large", is_there).await;
    let over = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("large", &PatchParams::default(), &Patch::Merge(over)).await.unwrap();
    in_time(&api, of("more", "1")).await;
    api.delete("more", &DeleteParams::default()).await.unwrap();
    in_time(&api, of("again", "1500m")).await;
}

async fn what_is_there_changes_as_pods_do(client: &Client) {
    let api: Api<ShadowPod> = Api::namespaced(client.clone(), "shop");
    let params = PatchParams::default();
    let label = json!({"metadata": {"labels": {"tier": "front"}}});
    api.patch("small", &params, &Patch::Merge(label)).await.unwrap();
    let host = json!({"spec": {"pod": {"hostNetwork": true}}});
    let why = refused(api.patch("small", &params, &Patch::Merge(host)).await);
    assert!(why.contains("only images, activeDeadlineSeconds and tolerations"), "{why}");
    let doctor = json!([{"name": "doctor", "image": "example.org/any"}]);
    let with = |all: &Value| json!({"spec": {"pod": {"ephemeralContainers": all}}});
    api.patch("small", &params, &Patch::Merge(with(&doctor))).await.unwrap();
    let why = refused(api.patch("small", &params, &Patch::Merge(with(&json!([])))).await);
    assert!(why.contains("neither be changed nor removed"), "{why}");
    let origin = json!({"metadata": {"labels": {"virtualkubelet.liqo.io/origin": MILAN}}});
    let why = refused(api.patch("small", &params, &Patch::Merge(origin)).await);
    assert!(why.contains("cannot become another cluster's"), "{why}");
}

async fn certificates_change_and_nobody_notices(client: &Client) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
    let certificate = |secret: &Secret| secret.data.as_ref().unwrap()["tls.crt"].clone();
    // The second time, the certificate of the first is the one in use.
    for _ in 0..2 {
        let before = certificate(&secrets.get("liqo-webhook-certs").await.unwrap());
        let soon = json!({"metadata": {"annotations": {
            "discovery.liqo.io/certificate-expire-time": "2026-01-01T00:00:00Z",
        }}});
        let params = PatchParams::default();
        secrets.patch("liqo-webhook-certs", &params, &Patch::Merge(soon)).await.unwrap();
        let is_new = |secret: Option<&Secret>| secret.is_some_and(|it| certificate(it) != before);
        let new = certificate(&wait(secrets.clone(), "liqo-webhook-certs", is_new).await);
        let trusts = |found: Option<&MutatingWebhookConfiguration>| {
            let hooks = found.and_then(|found| found.webhooks.as_ref());
            let bundles = hooks.into_iter().flatten().map(|hook| &hook.client_config.ca_bundle);
            bundles.flatten().all(|bundle| bundle.0.starts_with(&new.0))
        };
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let asked = async {
            let announced = wait(mutating, "liqo-webhook", trusts);
            tokio::pin!(announced);
            let mut ticks = interval(Duration::from_millis(50));
            loop {
                a_selector_without_sense_is_refused(client).await;
                tokio::select! {
                    _ = &mut announced => return,
                    _ = ticks.tick() => {}
                }
            }
        };
        timeout(LIMIT, asked).await.unwrap();
        a_selector_without_sense_is_refused(client).await;
    }
}

async fn without_webhooks_only_what_is_ours_waits(client: &Client) {
    let pod = json!({"metadata": {"name": "b"}, "spec": {"containers": [container("1")]}});
    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), "default");
    create(&elsewhere, pod.clone()).await.unwrap();
    let offloaded: Api<Pod> = Api::namespaced(client.clone(), "early");
    let why = refused(create(&offloaded, pod).await);
    assert!(why.contains("pod.mutate.liqo.io"), "{why}");
}

/// A namespace that is hosted for rome.
async fn host(client: &Client, name: &str) {
    let labels = json!({"liqo.io/remote-cluster-id": ROME});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": name, "labels": labels}})).await.unwrap();
}

/// What rome is offered.
async fn offer(client: &Client) {
    cluster::namespace(client, "liqo-tenant-rome-2f55ef").await;
    let offers: Api<ResourceOffer> = Api::namespaced(client.clone(), "liqo-tenant-rome-2f55ef");
    let labels = json!({"discovery.liqo.io/cluster-id": ROME, "liqo.io/replication": "true"});
    let hard = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
    let offer = json!({
        "apiVersion": "sharing.liqo.io/v1alpha1",
        "kind": "ResourceOffer",
        "metadata": {"name": "milan", "labels": labels},
        "spec": {"clusterId": MILAN, "resourceQuota": {"hard": hard}},
    });
    create(&offers, offer).await.unwrap();
}

/// Registers the webhooks as the chart does; the Service leads to this machine.
async fn register(client: &Client, port: u16) {
    let services: Api<Service> = Api::namespaced(client.clone(), "liqo");
    let service = json!({
        "metadata": {"name": "liqo-controller-manager"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    create(&services, service).await.unwrap();
    let hook = |name: &str, path: &str, rule: [&str; 3], operations: Value, selector: Value| {
        let [group, version, resource] = rule;
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {
                "namespace": "liqo", "name": "liqo-controller-manager", "path": path, "port": port,
            }},
            "namespaceSelector": selector,
            "rules": [{
                "apiGroups": [group], "apiVersions": [version], "resources": [resource],
                "operations": operations,
            }],
        })
    };
    let enabled = json!({"matchLabels": {"liqo.io/scheduling-enabled": "true"}});
    let pods =
        hook("pod.mutate.liqo.io", "/mutate/pod", ["", "v1", "pods"], json!(["CREATE"]), enabled);
    let rule = ["offloading.liqo.io", "v1alpha1", "namespaceoffloadings"];
    let both = json!(["CREATE", "UPDATE"]);
    let path = "/validate/namespace-offloading";
    let offloadings = hook("nsoff.validate.liqo.io", path, rule, both, json!({}));
    let rule = ["virtualkubelet.liqo.io", "v1alpha1", "shadowpods"];
    let all = json!(["CREATE", "UPDATE", "DELETE"]);
    let shadows = hook("shadowpod.validate.liqo.io", "/validate/shadowpods", rule, all, json!({}));

    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let named = json!({"name": "liqo-webhook"});
    create(&mutating, json!({"metadata": named, "webhooks": [pods]})).await.unwrap();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let hooks = json!({"metadata": named, "webhooks": [offloadings, shadows]});
    create(&validating, hooks).await.unwrap();
    wait(mutating, "liqo-webhook", |found: Option<&MutatingWebhookConfiguration>| {
        let hooks = found.and_then(|found| found.webhooks.as_ref());
        hooks.is_some_and(|all| all.iter().all(|one| one.client_config.ca_bundle.is_some()))
    })
    .await;
    wait(validating, "liqo-webhook", |found: Option<&ValidatingWebhookConfiguration>| {
        let hooks = found.and_then(|found| found.webhooks.as_ref());
        hooks.is_some_and(|all| all.iter().all(|one| one.client_config.ca_bundle.is_some()))
    })
    .await;
    // The API server learns of webhooks by a watch of its own.
    let api: Api<ShadowPod> = Api::namespaced(client.clone(), "default");
    let probe = shadow("probe", &[container("1")], &json!({}));
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    let mut ticks = interval(Duration::from_millis(100));
    let asked = async {
        while api.create(&rehearsal, &read(probe.clone())).await.is_ok() {
            ticks.tick().await;
        }
    };
    timeout(LIMIT, asked).await.unwrap();
}

fn offloading(spec: &Value) -> Value {
    json!({
        "apiVersion": "offloading.liqo.io/v1alpha1",
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading"},
        "spec": spec,
    })
}

fn shadow(name: &str, containers: &[Value], more: &Value) -> Value {
    let mut pod = more.clone();
    pod["containers"] = json!(containers);
    json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "ShadowPod",
        "metadata": {"name": name, "labels": {"virtualkubelet.liqo.io/origin": ROME}},
        "spec": {"pod": pod},
    })
}

fn container(cpu: &str) -> Value {
    let limits = json!({"cpu": cpu, "memory": "64Mi"});
    json!({"name": "main", "image": "example.org/any", "resources": {"limits": limits}})
}

async fn create<K>(api: &Api<K>, object: Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    api.create(&PostParams::default(), &read(object)).await
}

/// Creates something as soon as it is let in.
async fn in_time(api: &Api<ShadowPod>, object: Value) {
    let mut ticks = interval(Duration::from_millis(100));
    let made = async {
        while create(api, object.clone()).await.is_err() {
            ticks.tick().await;
        }
    };
    timeout(LIMIT, made).await.unwrap();
}

/// Why something was refused.
fn refused<T: Debug>(result: kube::Result<T>) -> String {
    result.unwrap_err().to_string()
}
