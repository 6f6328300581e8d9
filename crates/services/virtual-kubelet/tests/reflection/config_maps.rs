//! ConfigMaps between two real API servers: the model of all kinds that are reflected.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use liqo_testkit::until;
use serde_json::json;

use crate::pods::pod;
use crate::provider;
use crate::world::{MILAN, ROME, World, change, label_of, make};

#[tokio::test]
async fn a_copy_follows_its_object_and_nobody_else() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    let kubelet = world.kubelet(&[]);
    let labels = json!({ "app": "web" });
    make(&here, json!({"metadata": {"name": "web", "labels": labels}, "data": {"a": "1"}})).await;
    make(&here, json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}})).await;

    let copy = until("it is copied", &there, "web", |map| value(map) == Some("1")).await.unwrap();
    let copy = copy.unwrap();
    assert_eq!(label_of(&copy, "app"), Some("web"));
    assert_eq!(label_of(&copy, "virtualkubelet.liqo.io/origin"), Some(ROME));
    assert_eq!(label_of(&copy, "virtualkubelet.liqo.io/destination"), Some(MILAN));
    until("the authority has a name of its own", &there, "kube-root-ca.crt.41543", is_there)
        .await
        .unwrap();

    change(&here, "web", json!({"data": {"a": "2", "b": "3"}})).await;
    until("a change is copied", &there, "web", |map| value(map) == Some("2")).await.unwrap();
    change(&there, "web", json!({"data": {"a": "stolen"}, "metadata": {"labels": {"app": "x"}}}))
        .await;
    let reverted = |map: Option<&ConfigMap>| {
        value(map) == Some("2") && map.is_some_and(|map| label_of(map, "app") == Some("web"))
    };
    until("a change there is reverted", &there, "web", reverted).await.unwrap();
    let stripped = json!({"metadata": {"labels": {"virtualkubelet.liqo.io/origin": null}}});
    change(&there, "web", stripped).await;
    let ours = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| label_of(map, "virtualkubelet.liqo.io/origin") == Some(ROME))
    };
    until("it stays ours", &there, "web", ours).await.unwrap();
    change(&here, "web", json!({"data": {"b": null}})).await;
    let without = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.data.as_ref().is_some_and(|data| !data.contains_key("b")))
    };
    until("what is dropped here is dropped there", &there, "web", without).await.unwrap();
    there.delete("web", &DeleteParams::default()).await.unwrap();
    until("what is deleted there comes back", &there, "web", is_there).await.unwrap();
    here.delete("web", &DeleteParams::default()).await.unwrap();
    until("what is deleted here goes", &there, "web", |map| map.is_none()).await.unwrap();

    assert_eq!(
        world.events("web").await,
        [("liqo-configmap-reflection".to_owned(), "SuccessfulReflection".to_owned())],
        "one Event in its whole life"
    );
    let metrics = kubelet.metrics.text().unwrap();
    let name = "liqo_virtual_kubelet_reflection_item_counter{namespace=\"shop\",\
                reflector_resource=\"ConfigMap\"";
    assert!(metrics.contains(name), "{metrics}");
}

#[tokio::test]
async fn what_is_not_ours_or_not_to_be_reflected_stays_where_it_is() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    make(&there, json!({"metadata": {"name": "taken"}, "data": {"a": "theirs"}})).await;
    make(&here, json!({"metadata": {"name": "taken"}, "data": {"a": "ours"}})).await;
    make(&here, json!({"metadata": {"name": "web"}, "data": {"a": "1"}})).await;
    let _kubelet = world.kubelet(&[]);
    until("it is copied", &there, "web", is_there).await.unwrap();

    let skip = json!({"metadata": {"annotations": {"liqo.io/skip-reflection": "yes"}}});
    change(&here, "web", skip).await;
    until("its copy goes", &there, "web", |map| map.is_none()).await.unwrap();
    let skip = json!({"metadata": {"annotations": {"liqo.io/skip-reflection": null}}});
    change(&here, "web", skip).await;
    until("its copy is back", &there, "web", is_there).await.unwrap();
    world.told("web", "ReflectionDisabled").await;

    assert_eq!(value(Some(&there.get("taken").await.unwrap())), Some("theirs"));
    let reasons = world.events("taken").await;
    assert_eq!(reasons, [("liqo-configmap-reflection".to_owned(), "FailedReflection".to_owned())]);
    there.delete("taken", &DeleteParams::default()).await.unwrap();
    until("a free place is taken", &there, "taken", |map| value(map) == Some("ours"))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_happens_while_nobody_looks_is_made_up_for() {
    let mut world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    for name in ["goes", "changes", "stays"] {
        make(&here, json!({"metadata": {"name": name}, "data": {"a": "1"}})).await;
    }
    let kubelet = world.kubelet(&[]);
    for name in ["goes", "changes", "stays"] {
        until("it is copied", &there, name, is_there).await.unwrap();
    }
    kubelet.kill().await;
    here.delete("goes", &DeleteParams::default()).await.unwrap();
    change(&here, "changes", json!({"data": {"a": "2"}})).await;
    make(&here, json!({"metadata": {"name": "comes"}, "data": {"a": "1"}})).await;
    let before = there.get("stays").await.unwrap();
    let _kubelet = world.kubelet(&[]);
    until("what went goes", &there, "goes", |map| map.is_none()).await.unwrap();
    until("what changed changes", &there, "changes", |map| value(map) == Some("2")).await.unwrap();
    until("what came comes", &there, "comes", is_there).await.unwrap();

    world.line.cut().await;
    here.delete("changes", &DeleteParams::default()).await.unwrap();
    change(&here, "comes", json!({"data": {"a": "3"}})).await;
    make(&here, json!({"metadata": {"name": "late"}, "immutable": true, "data": {"a": "1"}})).await;
    world.line.restore();
    until("what went goes", &there, "changes", |map| map.is_none()).await.unwrap();
    until("what changed changes", &there, "comes", |map| value(map) == Some("3")).await.unwrap();
    until("what came comes", &there, "late", is_there).await.unwrap();
    let after = there.get("stays").await.unwrap();
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.resource_version(), before.resource_version(), "nobody touched it");

    here.delete("late", &DeleteParams::default()).await.unwrap();
    make(&here, json!({"metadata": {"name": "late"}, "immutable": true, "data": {"a": "2"}})).await;
    until("even what cannot change is made anew", &there, "late", |map| value(map) == Some("2"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_kind_that_nobody_works_on_stays_here() {
    let world = World::make().await;
    let _kubelet = world.kubelet(&["--configmap-reflection-workers=0"]);
    make(&world.here::<ConfigMap>(), json!({"metadata": {"name": "web"}})).await;
    make(&world.here::<Pod>(), pod("web")).await;
    provider::shadow(&world, "web").await;
    let copies = world.there::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    assert!(copies.items.is_empty(), "{copies:?}");
}

#[tokio::test]
async fn reflection_begins_and_ends_with_its_namespace() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    world.map(false).await;
    let _kubelet = world.kubelet(&[]);
    make(&here, json!({"metadata": {"name": "one"}, "data": {"a": "1"}})).await;
    world.map(true).await;
    until("it is copied", &there, "one", is_there).await.unwrap();
    world.map(false).await;
    // A second namespace that is accepted later shows that the first was let go before.
    make(&here, json!({"metadata": {"name": "two"}, "data": {"a": "1"}})).await;
    here.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(there.get_opt("one").await.unwrap().is_some(), "copies are left to the other cluster");
    world.map(true).await;
    until("it goes on", &there, "two", is_there).await.unwrap();
    until("it goes on", &there, "one", |map| map.is_none()).await.unwrap();
}

fn is_there(map: Option<&ConfigMap>) -> bool {
    map.is_some()
}

fn value(map: Option<&ConfigMap>) -> Option<&str> {
    map?.data.as_ref()?.get("a").map(String::as_str)
}
