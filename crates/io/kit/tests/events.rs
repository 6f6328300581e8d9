//! Events on a real API server.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use liqo_kit::events::{Events, Note};
use liqo_testkit::ControlPlane;

#[tokio::test]
async fn an_event_is_written_once_for_the_same_words() {
    let plane = ControlPlane::start().await.unwrap();
    let map = make(&plane, "settings").await;
    let events = Events::new(plane.client(), "liqo-test");
    for message in ["no room", "no room", "no rights"] {
        events.tell(&map, note(message)).await;
    }
    let by_us = |text: &str| ("liqo-test".to_owned(), text.to_owned());
    assert_eq!(told(&plane, "settings").await, [by_us("no rights"), by_us("no room")]);

    // Whatever is too long for an Event is told as far as it goes.
    let name = "a".repeat(253);
    let map = make(&plane, &name).await;
    events.tell(&map, note(&"no room at all; ".repeat(1000))).await;
    let [(_, text)] = &told(&plane, &name).await[..] else { panic!("it is told once") };
    assert!(text.starts_with("no room at all") && text.len() <= 1024, "{text}");
}

async fn make(plane: &ControlPlane, name: &str) -> ConfigMap {
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.unwrap()
}

/// Who says what about an object.
async fn told(plane: &ControlPlane, name: &str) -> Vec<(String, String)> {
    let written: Api<Event> = Api::namespaced(plane.client(), "default");
    let written = written.list(&ListParams::default()).await.unwrap();
    let mut told: Vec<_> = written
        .into_iter()
        .filter(|event| event.regarding.as_ref().unwrap().name.as_deref() == Some(name))
        .map(|event| (event.reporting_controller.unwrap(), event.note.unwrap()))
        .collect();
    told.sort();
    told
}

fn note(message: &str) -> Note<'_> {
    Note { warning: true, reason: "Failed", action: "Reflect", message }
}
