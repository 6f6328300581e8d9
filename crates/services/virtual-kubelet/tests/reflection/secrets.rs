//! Secrets between two real API servers, and the tokens that stay.

use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use liqo_testkit::until;
use serde_json::json;

use crate::world::{MILAN, ROME, World, change, make};

#[tokio::test]
async fn secrets_are_copied_and_tokens_stay() {
    let world = World::make().await;
    let (here, there) = (world.here::<Secret>(), world.there::<Secret>());
    let labels = json!({
        "virtualkubelet.liqo.io/origin": ROME,
        "virtualkubelet.liqo.io/destination": MILAN,
        "virtualkubelet.liqo.io/service-account-for-pod-name": "web",
    });
    make(&there, json!({"metadata": {"name": "web-token", "labels": labels}})).await;
    make(&here, json!({"metadata": {"name": "web-token"}, "stringData": {"a": "1"}})).await;
    let account = json!({"kubernetes.io/service-account.name": "robot"});
    make(
        &here,
        json!({
            "metadata": {"name": "robot", "annotations": account},
            "type": "kubernetes.io/service-account-token",
        }),
    )
    .await;
    make(&here, json!({"metadata": {"name": "web"}, "stringData": {"a": "1"}})).await;
    let _kubelet = world.kubelet(&[]);

    let copy = until("it is copied", &there, "web", |it| value(it) == Some(b"1")).await.unwrap();
    assert_eq!(copy.unwrap().type_.as_deref(), Some("Opaque"));
    change(&here, "web", json!({"stringData": {"a": "2"}})).await;
    until("a change is copied", &there, "web", |it| value(it) == Some(b"2")).await.unwrap();
    change(&there, "web", json!({"stringData": {"a": "stolen"}})).await;
    until("a change there is reverted", &there, "web", |it| value(it) == Some(b"2")).await.unwrap();
    here.delete("web", &DeleteParams::default()).await.unwrap();
    let another =
        json!({"metadata": {"name": "web"}, "type": "example.org/x", "stringData": {"a": "3"}});
    make(&here, another).await;
    let is_another = |it: Option<&Secret>| {
        value(it) == Some(b"3") && it.is_some_and(|it| it.type_.as_deref() == Some("example.org/x"))
    };
    until("one of another type takes its place", &there, "web", is_another).await.unwrap();
    here.delete("web", &DeleteParams::default()).await.unwrap();
    until("what is deleted here goes", &there, "web", |it| it.is_none()).await.unwrap();

    assert!(there.get_opt("robot").await.unwrap().is_none(), "a token stays here");
    world.hears("robot", "secret", "ReflectionDisabled").await;
    let tokens = there.get("web-token").await.unwrap();
    assert_eq!(tokens.data, None, "the tokens of a pod are not overwritten");
    world.hears("web-token", "secret", "FailedReflection").await;
}

fn value(secret: Option<&Secret>) -> Option<&[u8]> {
    secret?.data.as_ref()?.get("a").map(|bytes| bytes.0.as_slice())
}
