//! Services, their endpoints and the Ingresses in front of them, between two real API servers.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::DeleteParams;
use liqo_api::virtualkubelet::ShadowEndpointSlice;
use liqo_testkit::until;
use serde::Serialize;
use serde_json::{Value, json};

use crate::world::{NODE, World, change, make};

#[tokio::test]
async fn a_service_and_its_endpoints_are_known_in_both_clusters() {
    let world = World::make().await;
    let (here, there) = (world.here::<Service>(), world.there::<Service>());
    make(&there, service("taken", 80)).await;
    make(&here, service("taken", 81)).await;
    make(&here, service("web", 80)).await;
    let slices = (world.here::<EndpointSlice>(), world.there::<ShadowEndpointSlice>());
    make(&slices.0, slice("web-1", &["10.200.0.7"])).await;
    let _kubelet = world.kubelet(&[]);

    let copy = until("it is copied", &there, "web", |it| it.is_some()).await.unwrap().unwrap();
    let copy = serde_json::to_value(copy).unwrap();
    assert_eq!(copy["spec"]["selector"], json!({"app": "web"}));
    assert!(copy["spec"]["ports"][0]["nodePort"].as_i64().unwrap() > 0, "one of its own: {copy}");
    let origin = &copy["metadata"]["labels"]["virtualkubelet.liqo.io/origin"];
    assert_eq!(origin, crate::world::ROME);

    change(&here, "web", json!({"spec": {"ports": [{"port": 8080, "nodePort": 31999}]}})).await;
    let port = |number: i64| move |it: &Value| it["spec"]["ports"][0]["port"] == number;
    becomes("a change is copied", &there, "web", port(8080)).await;
    change(&there, "web", json!({"spec": {"selector": {"app": "thief"}}})).await;
    let back = |it: &Value| it["spec"]["selector"]["app"] == "web";
    becomes("a change there is reverted", &there, "web", back).await;
    let force = json!({"metadata": {"annotations": {"liqo.io/force-remote-node-port": "true"}}});
    change(&here, "web", force).await;
    let forced = |it: &Value| it["spec"]["ports"][0]["nodePort"] == 31999;
    becomes("a user may insist on a port", &there, "web", forced).await;

    endpoints_follow(&world, &slices).await;

    here.delete("web", &DeleteParams::default()).await.unwrap();
    goes("what is deleted here goes", &there, "web").await;
    let taken = serde_json::to_value(there.get("taken").await.unwrap()).unwrap();
    assert!(port(80)(&taken), "what is not ours is left alone: {taken}");
    world.hears("taken", "service", "FailedReflection").await;
}

type Slices = (Api<EndpointSlice>, Api<ShadowEndpointSlice>);

async fn endpoints_follow(world: &World, (here, there): &Slices) {
    let copy = becomes("endpoints are copied", there, "web-1", has(&["10.200.0.7"])).await;
    let endpoint = &copy["spec"]["template"]["endpoints"][0];
    assert_eq!(endpoint["nodeName"], "rome");
    assert_eq!(endpoint["targetRef"]["kind"], "RemotePod");
    let label = "endpointslice.kubernetes.io/managed-by";
    assert_eq!(copy["metadata"]["labels"][label], "endpointslice.reflection.liqo.io");

    change(here, "web-1", slice("web-1", &["10.200.0.8", "10.200.0.9"])).await;
    becomes("endpoints follow", there, "web-1", has(&["10.200.0.8", "10.200.0.9"])).await;
    change(there, "web-1", json!({"spec": {"template": {"endpoints": null}}})).await;
    becomes("and come back", there, "web-1", has(&["10.200.0.8", "10.200.0.9"])).await;
    change(here, "web-1", slice("web-1", &[])).await;
    let copy = becomes("without endpoints here", there, "web-1", has(&[])).await;
    assert_eq!(
        copy["spec"]["template"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "name": ""}])
    );

    let services = world.here::<Service>();
    let skip =
        |value: Value| json!({"metadata": {"annotations": {"liqo.io/skip-reflection": value}}});
    change(&services, "web", skip(json!(""))).await;
    goes("its Service keeps it here", there, "web-1").await;
    world.hears("web-1", "endpointslice", "ReflectionDisabled").await;
    change(&services, "web", skip(Value::Null)).await;
    becomes("and lets it go", there, "web-1", has(&[])).await;
    becomes("it is back itself", &world.there::<Service>(), "web", |_| true).await;
    change(here, "web-1", skip(json!("yes"))).await;
    goes("it stays by itself", there, "web-1").await;
    change(here, "web-1", skip(Value::Null)).await;
    becomes("and is back", there, "web-1", has(&[])).await;
    here.delete("web-1", &DeleteParams::default()).await.unwrap();
    goes("what is deleted here goes", there, "web-1").await;
}

#[tokio::test]
async fn an_ingress_is_copied_without_its_class() {
    let world = World::make().await;
    let (here, there) = (world.here::<Ingress>(), world.there::<Ingress>());
    let ingress = |host: &str| {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
        let rule = json!({"host": host, "http": {"paths": [path]}});
        json!({
            "metadata": {"name": "web"},
            "spec": {"ingressClassName": "nginx", "rules": [rule]},
        })
    };
    let _kubelet = world.kubelet(&[]);
    make(&here, ingress("shop.example")).await;
    let host = |host: &'static str| move |it: &Value| it["spec"]["rules"][0]["host"] == host;
    let copy = becomes("it is copied", &there, "web", host("shop.example")).await;
    assert_eq!(copy["spec"].get("ingressClassName"), None, "{copy}");
    change(&here, "web", ingress("store.example")).await;
    becomes("a change is copied", &there, "web", host("store.example")).await;
    change(&there, "web", ingress("stolen.example")).await;
    becomes("a change there is reverted", &there, "web", host("store.example")).await;
    here.delete("web", &DeleteParams::default()).await.unwrap();
    goes("what is deleted here goes", &there, "web").await;
}

#[tokio::test]
async fn without_addresses_that_mean_something_there_no_endpoints_are_told() {
    let world = World::make().await;
    let (here, there) = (world.here::<Service>(), world.there::<Service>());
    make(&world.here::<EndpointSlice>(), slice("web-1", &["10.200.0.7"])).await;
    make(&here, service("web", 80)).await;
    let _kubelet = world.kubelet(&["--disable-ip-reflection", "--ingress-reflection-workers=0"]);
    becomes("Services are copied", &there, "web", |_| true).await;
    let slices = world.there::<ShadowEndpointSlice>();
    assert!(slices.get_opt("web-1").await.unwrap().is_none());
}

/// Waits until an object is as it should be, and returns it.
async fn becomes<K>(what: &str, api: &Api<K>, name: &str, is_so: impl Fn(&Value) -> bool) -> Value
where
    K: kube::Resource
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Serialize
        + Send
        + 'static,
{
    let value = |object: &K| serde_json::to_value(object).unwrap();
    let object = until(what, api, name, |it| it.is_some_and(|it| is_so(&value(it)))).await.unwrap();
    value(&object.unwrap())
}

/// Waits until an object is gone.
async fn goes<K>(what: &str, api: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    until(what, api, name, |it| it.is_none()).await.unwrap();
}

/// Whether a slice tells just these addresses.
fn has(addresses: &'static [&'static str]) -> impl Fn(&Value) -> bool {
    move |slice| {
        let endpoints = slice["spec"]["template"]["endpoints"].as_array();
        let told = endpoints.into_iter().flatten();
        told.map(|endpoint| &endpoint["addresses"][0]).eq(addresses)
    }
}

fn service(name: &str, port: i32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"type": "NodePort", "selector": {"app": name}, "ports": [{"port": port}]},
    })
}

/// A slice with endpoints here, and one that runs in the other cluster.
fn slice(name: &str, addresses: &[&str]) -> Value {
    let here = |address: &&str| {
        let pod = json!({"kind": "Pod", "name": "web", "namespace": "shop"});
        json!({"addresses": [address], "nodeName": "rome-1", "targetRef": pod})
    };
    let there = json!({"addresses": ["10.71.0.5"], "nodeName": NODE});
    let endpoints: Vec<Value> = addresses.iter().map(here).chain([there]).collect();
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    })
}
