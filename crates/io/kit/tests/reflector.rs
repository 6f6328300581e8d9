//! Reflecting between two namespaces of a real API server, as between two clusters.

use std::collections::BTreeMap;

use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_kit::apply::{Error, Writer};
use liqo_kit::keyed::Next;
use liqo_kit::reflector::{Names, Pair, Reflector, Side};
use liqo_kit::retry::Backoff;
use liqo_testkit::{ControlPlane, until};
use tokio::task::JoinHandle;

#[tokio::test]
async fn what_is_here_is_there_and_what_went_meanwhile_goes() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    for name in ["here", "there"] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let here: Api<ConfigMap> = Api::namespaced(client.clone(), "here");
    let there: Api<ConfigMap> = Api::namespaced(client.clone(), "there");
    here.create(&PostParams::default(), &map("a", "1")).await.unwrap();

    let running = reflect(&client);
    let is = |value: &'static str| move |map: Option<&ConfigMap>| value_of(map) == Some(value);
    until("it is copied", &there, "a", is("1")).await.unwrap();
    there.delete("a", &DeleteParams::default()).await.unwrap();
    until("it is copied again", &there, "a", is("1")).await.unwrap();
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());

    here.delete("a", &DeleteParams::default()).await.unwrap();
    here.create(&PostParams::default(), &map("b", "2")).await.unwrap();
    let running = reflect(&client);
    until("it is gone there, too", &there, "a", |map| map.is_none()).await.unwrap();
    until("the other one is copied", &there, "b", is("2")).await.unwrap();
    running.abort();
}

fn reflect(client: &Client) -> JoinHandle<()> {
    let side = |namespace: &str| Side {
        client: client.clone(),
        namespace: namespace.to_owned(),
        config: Config::default().labels("reflected=yes"),
        trim: |_| {},
    };
    let there: Api<ConfigMap> = Api::namespaced(client.clone(), "there");
    let (from, to) = (side("here"), side("there"));
    let reflector = Reflector {
        name: "maps",
        workers: 2,
        backoff: Backoff::default(),
        names: Names::default(),
    };
    tokio::spawn(async move {
        let writer = Writer::owning("test");
        let work = async |pair: Pair<ConfigMap, ConfigMap>| -> Result<Next, Error> {
            match (pair.here, pair.there) {
                (Some(here), have) => {
                    let mut want = map(&pair.name, "");
                    want.data.clone_from(&here.data);
                    writer.apply(&there, &want, have.as_deref()).await?;
                }
                (None, Some(have)) => drop(writer.delete(&there, &have).await?),
                (None, None) => {}
            }
            Ok(Next::AwaitChange)
        };
        reflector.run(from, to, stream::pending(), |_| {}, work).await;
    })
}

fn value_of(map: Option<&ConfigMap>) -> Option<&str> {
    map?.data.as_ref()?.get("value").map(String::as_str)
}

fn map(name: &str, value: &str) -> ConfigMap {
    let labels = BTreeMap::from([("reflected".to_owned(), "yes".to_owned())]);
    let metadata =
        ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    ConfigMap { metadata, data, ..ConfigMap::default() }
}
