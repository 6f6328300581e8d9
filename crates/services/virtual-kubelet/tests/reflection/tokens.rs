//! Tokens of service accounts, for pods that run in another cluster.

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use liqo_testkit::until;
use serde_json::json;

use crate::pods::pod;
use crate::provider;
use crate::world::{World, change, label_of, make};

#[tokio::test]
async fn a_pod_has_the_token_of_its_account_wherever_it_runs() {
    let world = World::make().await;
    let here = world.here::<Pod>();
    let secrets = world.there::<Secret>();
    make(&world.here::<ServiceAccount>(), json!({"metadata": {"name": "robot"}})).await;
    let flags = [
        "--enable-apiserver-support=true",
        "--kubernetes-service-host=10.96.0.1",
        "--kubernetes-service-port=443",
    ];
    let kubelet = world.kubelet(&flags);
    let mut wanted = pod("web");
    wanted["spec"]["serviceAccountName"] = json!("robot");
    let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}});
    wanted["spec"]["volumes"] = json!([{"name": "access", "projected": {"sources": [token]}}]);
    let home = make(&here, wanted.clone()).await;

    let shadow = provider::shadow(&world, "web").await;
    let spec = serde_json::to_value(&shadow.spec.pod).unwrap();
    let item = json!({"key": "access-3c469e", "path": "token"});
    let want = json!([{"secret": {"name": "web-token", "items": [item]}}]);
    assert_eq!(spec["volumes"][0]["projected"]["sources"], want);
    assert_eq!(spec["hostAliases"][0]["ip"], json!("10.96.0.1"));
    assert_eq!(spec["containers"][0]["env"][0]["value"], json!("kubernetes.default"));

    let secret = until("there is a token", &secrets, "web-token", is_there).await.unwrap().unwrap();
    let name = "virtualkubelet.liqo.io/service-account-for-pod-name";
    assert_eq!(label_of(&secret, name), Some("web"));
    let uid = "virtualkubelet.liqo.io/service-account-for-pod-uid";
    assert_eq!(secret.annotations()[uid], home.uid().unwrap());
    let version = secret.resource_version();
    let first = secret.data.unwrap()["access-3c469e"].clone();
    assert!(first.0.starts_with(b"ey"), "a token");

    // Somebody calls a Secret of their own just so.
    let own = world.here::<Secret>();
    make(&own, json!({"metadata": {"name": "web-token"}, "stringData": {"mine": "1"}})).await;
    world.told("web-token", "FailedReflection").await;
    let kept = secrets.get("web-token").await.unwrap();
    assert_eq!(kept.resource_version(), version, "the token stays what it is");
    own.delete("web-token", &DeleteParams::default()).await.unwrap();

    // Names of pods and accounts may be longer than labels.
    let long = format!("{}0", "long.".repeat(20));
    make(&world.here::<ServiceAccount>(), json!({"metadata": {"name": long}})).await;
    let mut other = wanted.clone();
    other["metadata"] = json!({"name": long});
    other["spec"]["serviceAccountName"] = json!(long);
    make(&here, other).await;
    let name = format!("{long}-token");
    until("so has one with a long name", &secrets, &name, is_there).await.unwrap();

    kubelet.kill().await;
    let soon = json!({"metadata": {"annotations": {
        "virtualkubelet.liqo.io/service-account-renewal": "2026-01-01T00:00:00Z",
    }}});
    change(&secrets, "web-token", soon).await;
    let _kubelet = world.kubelet(&flags);
    let renewed = |secret: Option<&Secret>| {
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.is_some_and(|data| data["access-3c469e"] != first)
    };
    until("it is renewed in time", &secrets, "web-token", renewed).await.unwrap();
    secrets.delete("web-token", &DeleteParams::default()).await.unwrap();
    until("it comes back", &secrets, "web-token", is_there).await.unwrap();

    here.delete("web", &DeleteParams::default()).await.unwrap();
    until("the pod is gone", &here, "web", |pod| pod.is_none()).await.unwrap();
    until("its token goes with it", &secrets, "web-token", |secret| secret.is_none())
        .await
        .unwrap();
}

fn is_there(secret: Option<&Secret>) -> bool {
    secret.is_some()
}
