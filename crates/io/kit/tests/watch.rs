//! Watching a real API server, across an outage of the network.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use liqo_kit::keyed::{Next, Queue};
use liqo_kit::watch::{Key, watch};
use liqo_testkit::{ControlPlane, Line};
use tokio::sync::mpsc;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_is_deleted_during_an_outage_is_worked_on() {
    let plane = ControlPlane::start().await.unwrap();
    let direct: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    for name in ["doomed", "kept"] {
        direct.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    let mut line = Line::to(&plane).await.unwrap();
    let watched: Api<ConfigMap> = Api::namespaced(line.client(&plane).await.unwrap(), "default");
    let (store, touched) = watch(watched, Config::default());

    let (send, mut seen) = mpsc::unbounded_channel();
    let lookup = store.clone();
    let queue = tokio::spawn(Queue::new("test").workers(2).run(touched, move |key: Key| {
        let _ = send.send((key.name.clone(), lookup.object(&key).is_some()));
        async { Ok::<_, kube::Error>(Next::AwaitChange) }
    }));
    timeout(LIMIT, store.wait_until_ready()).await.unwrap().unwrap();
    let first = BTreeSet::from([next(&mut seen).await, next(&mut seen).await]);
    assert_eq!(first, BTreeSet::from([("doomed".to_owned(), true), ("kept".to_owned(), true)]));

    line.cut().await;
    direct.delete("doomed", &DeleteParams::default()).await.unwrap();
    line.restore();

    assert_eq!(next(&mut seen).await, ("doomed".to_owned(), false));
    queue.abort();
}

#[tokio::test]
async fn a_watch_of_metadata_fills_its_store_without_the_rest() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();

    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(plane.client(), "default");
    let (store, touched) = watch(metadata, Config::default());
    let key = timeout(LIMIT, Box::pin(touched).next()).await.unwrap().unwrap();
    assert_eq!(key, Key::namespaced("default", "a"));
    let object = store.object(&key).unwrap();
    assert_eq!(object.metadata.managed_fields, None);
    assert!(object.metadata.uid.is_some());
}

async fn next<T>(seen: &mut mpsc::UnboundedReceiver<T>) -> T {
    timeout(LIMIT, seen.recv()).await.unwrap().unwrap()
}

fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}
