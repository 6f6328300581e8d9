//! Clients of real API servers, and of remote ones whose identity changes.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use liqo_api::keys::{annotation, label, secret as field};
use liqo_kit::args::ClientArgs;
use liqo_kit::client::{Manners, remote};
use liqo_testkit::ControlPlane;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_kubeconfig_leads_to_its_cluster() {
    let plane = ControlPlane::start().await.unwrap();
    let client = manners().home(Some(&plane.kubeconfig())).await.unwrap();
    client.apiserver_version().await.unwrap();
}

#[tokio::test]
async fn two_hundred_watches_share_a_few_connections() {
    let plane = ControlPlane::start().await.unwrap();
    let client = manners().home(Some(&plane.kubeconfig())).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    // A line of the kernel's table: number, here, there, state 01 for a connection that is up.
    let connections = || {
        let server = format!(":{:04X} 01", client_port(&plane));
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let own = own_sockets();
        table.lines().filter(|line| line.contains(&server) && has(&own, line)).count()
    };
    let before = connections();
    let quiet = WatchParams::default().disable_bookmarks();
    let mut watches = vec![];
    for _ in 0..200 {
        watches.push(secrets.watch(&quiet, "0").await.unwrap().boxed());
    }
    let opened = connections() - before;
    assert!((4..=8).contains(&opened), "{opened} connections for 200 watches");
    client.apiserver_version().await.unwrap();
    let secret = Secret { metadata: named("seen"), ..Secret::default() };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    for mut watch in watches {
        let event = timeout(LIMIT, watch.next()).await.unwrap().unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(_)), "{event:?}");
    }
}

fn client_port(plane: &ControlPlane) -> u16 {
    let config = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let cluster = config.clusters.into_iter().next().unwrap().cluster.unwrap();
    cluster.server.unwrap().rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
}

/// The numbers of this process's sockets.
fn own_sockets() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let names = links.map(|link| link.display().to_string());
    names
        .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

fn has(sockets: &[String], line: &str) -> bool {
    line.split_whitespace().nth(9).is_some_and(|number| sockets.iter().any(|own| own == number))
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

#[tokio::test]
async fn a_remote_client_follows_its_identity() {
    let plane = ControlPlane::start().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "default");
    let (mut remote, follow) = remote(plane.client(), "default", "far", manners());
    let follow = tokio::spawn(follow);
    assert!(remote.current().is_none());

    let first = identity(&plane, "first", "tenant-1", 1000);
    secrets.create(&PostParams::default(), &first).await.unwrap();
    let now = timeout(LIMIT, remote.ready()).await.unwrap().unwrap();
    assert_eq!(now.namespace, "tenant-1");
    now.client.apiserver_version().await.unwrap();

    let second = identity(&plane, "second", "tenant-2", 4_000_000_000);
    secrets.create(&PostParams::default(), &second).await.unwrap();
    let now = timeout(LIMIT, remote.changed()).await.unwrap().unwrap().unwrap();
    assert_eq!(now.namespace, "tenant-2", "the one that lasts longest");

    secrets.delete("second", &DeleteParams::default()).await.unwrap();
    let now = timeout(LIMIT, remote.changed()).await.unwrap().unwrap().unwrap();
    assert_eq!(now.namespace, "tenant-1");

    secrets.delete("first", &DeleteParams::default()).await.unwrap();
    assert!(timeout(LIMIT, remote.changed()).await.unwrap().unwrap().is_none());
    follow.abort();
}

fn manners() -> Manners {
    let hundred = NonZeroU32::new(100).unwrap();
    Manners { component: "test", limits: ClientArgs { qps: hundred, burst: hundred } }
}

/// An identity with the rights of the control plane's own client.
fn identity(plane: &ControlPlane, name: &str, namespace: &str, expiry: u64) -> Secret {
    let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let cluster = file.clusters[0].cluster.as_ref().unwrap();
    let user = file.auth_infos[0].auth_info.as_ref().unwrap();
    let pem = |text: &str| BASE64_STANDARD.decode(text).unwrap();
    let data = BTreeMap::from([
        (field::NAMESPACE, namespace.into()),
        (field::API_SERVER_URL, cluster.server.clone().unwrap().into()),
        (field::API_SERVER_CA, pem(cluster.certificate_authority_data.as_ref().unwrap())),
        (field::CERTIFICATE, pem(user.client_certificate_data.as_ref().unwrap())),
        (field::PRIVATE_KEY, pem(user.client_key_data.as_ref().unwrap().expose_secret())),
    ]);
    let texts = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: texts(&[(label::LOCAL_IDENTITY, "true"), (label::CLUSTER_ID, "far")]),
        annotations: texts(&[(annotation::CERTIFICATE_EXPIRE_TIME, &expiry.to_string())]),
        ..ObjectMeta::default()
    };
    let data = data.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect();
    Secret { metadata, data: Some(data), ..Secret::default() }
}
