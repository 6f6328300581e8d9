//! Events on a real API server.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use liqo_kit::events::{Events, Note};
use liqo_testkit::ControlPlane;

#[tokio::test]
async fn an_event_is_written_once_for_the_same_words() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let metadata = ObjectMeta { name: Some("settings".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let map = maps.create(&PostParams::default(), &map).await.unwrap();

    let events = Events::new(plane.client(), "liqo-test");
    let note = |message| Note { warning: true, reason: "Failed", action: "Reflect", message };
    for message in ["no room", "no room", "no rights"] {
        events.tell(&map, note(message)).await;
    }

    let written: Api<Event> = Api::namespaced(plane.client(), "default");
    let written = written.list(&ListParams::default()).await.unwrap();
    let mut told: Vec<_> = written
        .into_iter()
        .filter(|event| event.regarding.as_ref().unwrap().name.as_deref() == Some("settings"))
        .map(|event| (event.reporting_controller.unwrap(), event.note.unwrap()))
        .collect();
    told.sort();
    let by_us = |text: &str| ("liqo-test".to_owned(), text.to_owned());
    assert_eq!(told, [by_us("no rights"), by_us("no room")]);
}
