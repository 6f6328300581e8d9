//! What `kubectl` does to a pod that runs in another cluster, through two real API servers.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/street.rs"]
mod street;
#[path = "parts/stub.rs"]
mod stub;

use std::time::Duration;

use futures::io::AsyncBufReadExt as _;
use http::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{LogParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use self::street::{Street, read};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn kubectl_works_on_a_pod_of_another_cluster() {
    let street = Street::build().await;
    timeout(LIMIT, works_on(&street)).await.expect("all of it is quick");
}

async fn works_on(street: &Street) {
    let pods: Api<Pod> = Api::namespaced(street.home.client(), "shop");
    logs_keep_their_options(&pods).await;
    logs_come_line_by_line(street, &pods).await;
    errors_of_the_other_cluster_are_told(street, &pods).await;
    for (part, asked) in [
        (
            "exec?container=main&command=sh&command=-c&command=a%20%26%20b&stdin=true&stdout=true&tty=true",
            "/exec/shop-rome/web/main?command=sh&command=-c&command=a+%26+b&input=1&output=1&tty=1\n",
        ),
        (
            "attach?container=main&stdout=true&stderr=true",
            "/attach/shop-rome/web/main?error=1&output=1\n",
        ),
        ("portforward", "/portForward/shop-rome/web\n"),
    ] {
        a_stream_is_carried(&street.home.client(), "SPDY/3.1", part, asked).await;
    }
    let (part, asked) = (
        "exec?container=main&command=id&stdout=true",
        "/exec/shop-rome/web/main?command=id&output=1\n",
    );
    a_stream_is_carried(&street.home.client(), "websocket", part, asked).await;
    a_stream_to_nowhere_is_refused(street).await;
    the_pods_of_the_node_are_listed(street).await;
    only_those_who_may_are_let_in(street).await;
    nothing_else_is_there(street).await;
}

async fn logs_keep_their_options(pods: &Api<Pod>) {
    let params = LogParams {
        container: Some("main".to_owned()),
        tail_lines: Some(3),
        since_seconds: Some(60),
        timestamps: true,
        previous: true,
        limit_bytes: Some(1000),
        ..LogParams::default()
    };
    let text = pods.logs("web", &params).await.unwrap();
    assert_eq!(
        text,
        "/containerLogs/shop-rome/web/main?limitBytes=1000&previous=true&sinceSeconds=60\
         &tailLines=3&timestamps=true\nsecond\n"
    );
}

async fn logs_come_line_by_line(street: &Street, pods: &Api<Pod>) {
    let params =
        LogParams { container: Some("main".to_owned()), follow: true, ..LogParams::default() };
    let mut lines = pods.log_stream("web", &params).await.unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).await.unwrap();
    assert!(line.contains("follow=true"), "{line}");
    // The first line is here, and the second was not printed yet.
    street.stub.go_on.notify_one();
    line.clear();
    lines.read_line(&mut line).await.unwrap();
    assert_eq!(line, "second\n");
}

async fn errors_of_the_other_cluster_are_told(street: &Street, pods: &Api<Pod>) {
    let of = |container: &str| LogParams {
        container: Some(container.to_owned()),
        ..LogParams::default()
    };
    let why = told(pods.logs("web", &of("waiting")).await);
    assert!(why.contains("400") && why.contains("is waiting to start"), "{why}");
    let elsewhere: Api<Pod> = Api::namespaced(street.home.client(), "other");
    let why = told(elsewhere.logs("web", &of("main")).await);
    assert!(why.contains("404"), "{why}");
    // API servers do not pass on why something is not found; the kubelet says it.
    let direct = street.caller(&street.home).await;
    let asked = Request::get("/containerLogs/other/web/main").body(kube::client::Body::empty());
    let answer = direct.send(asked.unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    let text = answer.into_body().collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.starts_with("namespace other is not offloaded"), "{text}");
}

/// Opens a stream as kubectl does, and talks to the far end.
async fn a_stream_is_carried(client: &Client, protocol: &str, part: &str, asked: &str) {
    let response = client.send(upgrade(protocol, part)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS, "{part}");
    assert_eq!(response.headers()["upgrade"], protocol);
    if protocol != "websocket" {
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
    }
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let mut heard = vec![0; asked.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), asked);
    let told: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let (mut from, mut to) = tokio::io::split(stream);
    let mut heard = vec![0; told.len()];
    let (sent, received) = tokio::join!(to.write_all(&told), from.read_exact(&mut heard));
    sent.unwrap();
    received.unwrap();
    assert_eq!(heard, told);
}

async fn a_stream_to_nowhere_is_refused(street: &Street) {
    let client = street.home.client();
    let pods: Api<Pod> = Api::namespaced(street.remote.client(), "shop-rome");
    let params = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    pods.delete("web", &params).await.unwrap();
    let response =
        client.send(upgrade("SPDY/3.1", "exec?container=main&command=id")).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let status: Value =
        serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap();
    assert_eq!(status["message"], "pods \"web\" not found", "{status}");
}

async fn the_pods_of_the_node_are_listed(street: &Street) {
    let client = street.caller(&street.home).await;
    let list: Value = get(&client, "/runningpods/").await.unwrap();
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]).collect();
    assert_eq!((list["kind"].as_str(), names.len()), (Some("PodList"), 2), "{list}");
}

async fn only_those_who_may_are_let_in(street: &Street) {
    let stranger = street.caller(&street.remote).await;
    let nobody = street.bearer(None).await;
    let liar = street.bearer(Some("made-up")).await;
    for client in [&stranger, &nobody, &liar] {
        for path in ["/healthz", "/pods", "/containerLogs/shop/web/main", "/nowhere"] {
            let why = told(get::<Value>(client, path).await);
            assert!(why.contains("401"), "{path}: {why}");
        }
    }
    let client = street.home.client();
    let known = street.bearer(Some(&token(&client, "reader").await)).await;
    let why = told(get::<Value>(&known, "/metrics/resource").await);
    assert!(why.contains("403") && why.contains("may not get nodes/metrics"), "{why}");
    let token = token(&client, "scraper").await;
    allow_metrics(&client, "scraper").await;
    let allowed = street.bearer(Some(&token)).await;
    // The other cluster has no metric agent, and says so in its own words.
    let why = told(get::<Value>(&allowed, "/metrics/resource").await);
    assert!(why.contains("metrics.liqo.io") && !why.contains("may not"), "{why}");
    let why = told(get::<Value>(&allowed, "/pods").await);
    assert!(why.contains("403") && why.contains("may not get nodes/pods"), "{why}");
}

async fn nothing_else_is_there(street: &Street) {
    let client = street.caller(&street.home).await;
    for path in ["/", "/run/shop/web/main", "/checkpoint/shop/web/main", "/configz", "/metrics/x"] {
        let why = told(get::<Value>(&client, path).await);
        assert!(why.contains("404"), "{path}: {why}");
    }
    let post = Request::post("/pods").body(kube::client::Body::empty()).unwrap();
    assert_eq!(client.send(post).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}

fn upgrade(protocol: &str, part: &str) -> Request<kube::client::Body> {
    let path = format!("/api/v1/namespaces/shop/pods/web/{part}");
    let request = if protocol == "websocket" {
        Request::get(path)
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw==")
            .header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
    } else {
        Request::post(path).header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
    };
    let request = request.header("Connection", "Upgrade").header("Upgrade", protocol);
    request.body(kube::client::Body::empty()).unwrap()
}

async fn get<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> kube::Result<T> {
    client.request(Request::get(path).body(vec![]).unwrap()).await
}

/// An error with its code.
fn told<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    let error = result.unwrap_err();
    let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
    format!("{code} {error:?}")
}

async fn token(client: &Client, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let new = PostParams::default();
    accounts.create(&new, &read(json!({"metadata": {"name": account}}))).await.unwrap();
    let request: TokenRequest = read(json!({"spec": {"audiences": []}}));
    let made = accounts.create_token_request(account, &new, &request).await;
    made.unwrap().status.unwrap().token.unwrap()
}

/// Allows an account to read metrics of nodes, and waits until it may.
async fn allow_metrics(client: &Client, account: &str) {
    let new = PostParams::default();
    let rules = json!([{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": account}, "rules": rules});
    Api::<ClusterRole>::all(client.clone()).create(&new, &read(role)).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": account},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    });
    Api::<ClusterRoleBinding>::all(client.clone()).create(&new, &read(binding)).await.unwrap();
    let attributes = json!({"resource": "nodes", "subresource": "metrics", "verb": "get"});
    let user = format!("system:serviceaccount:default:{account}");
    let spec = json!({"user": user, "resourceAttributes": attributes});
    let review: SubjectAccessReview = read(json!({"spec": spec}));
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let is_so =
        async { while !reviews.create(&new, &review).await.unwrap().status.unwrap().allowed {} };
    timeout(Duration::from_secs(20), is_so).await.unwrap();
}
