//! Writing to a real API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ObjectMeta;
use liqo_kit::apply::{Outcome, Writer, applied};
use liqo_kit::retry::{Failure as _, Retry};
use liqo_testkit::ControlPlane;

#[tokio::test]
async fn objects_are_written_when_they_differ_and_only_then() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let writer = Writer::new("one");

    let want = map(&[("a", "1"), ("b", "2")]);
    let made = written(writer.apply(&maps, &want, None).await.unwrap());
    assert!(applied(&want, &made));
    let again = writer.apply(&maps, &want, Some(&made)).await.unwrap();
    assert_eq!(again, Outcome::Skipped, "nothing changed");

    let secrets: Api<Secret> = Api::namespaced(plane.client(), "default");
    let namesake = Secret { metadata: want.metadata.clone(), ..Secret::default() };
    writer.apply(&secrets, &namesake, None).await.unwrap();
    let again = writer.apply(&maps, &want, Some(&made)).await.unwrap();
    assert_eq!(again, Outcome::Skipped, "what has the same name is another object");

    let less = map(&[("a", "1")]);
    let shrunk = written(writer.apply(&maps, &less, Some(&made)).await.unwrap());
    assert_eq!(shrunk.data, less.data, "what is not wanted any more is given up");

    let restarted = Writer::new("one");
    let same = written(restarted.apply(&maps, &less, Some(&shrunk)).await.unwrap());
    assert_eq!(same.metadata.resource_version, shrunk.metadata.resource_version);
}

#[tokio::test]
async fn fields_are_taken_from_others_only_by_those_who_own_the_object() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    Writer::new("one").apply(&maps, &map(&[("a", "1")]), None).await.unwrap();

    let want = map(&[("a", "2")]);
    let error = Writer::new("two").apply(&maps, &want, None).await.unwrap_err();
    assert_eq!((error.reason(), error.retry()), ("Conflict", Retry::Soon));
    assert_eq!(error.to_string(), "cannot apply ConfigMap settings");
    let taken = written(Writer::owning("two").apply(&maps, &want, None).await.unwrap());
    assert_eq!(taken.data, want.data);
}

#[tokio::test]
async fn only_the_object_that_was_seen_is_deleted() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let writer = Writer::new("one");
    let first = written(writer.apply(&maps, &map(&[]), None).await.unwrap());
    assert!(writer.delete(&maps, &first).await.unwrap());
    assert!(!writer.delete(&maps, &first).await.unwrap(), "it is gone already");

    writer.apply(&maps, &map(&[]), None).await.unwrap();
    let error = writer.delete(&maps, &first).await.unwrap_err();
    assert_eq!(error.reason(), "Conflict");
    assert!(maps.get_opt("settings").await.unwrap().is_some());
}

fn map(data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<_, _> =
        data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = ObjectMeta { name: Some("settings".to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

fn written(outcome: Outcome<ConfigMap>) -> ConfigMap {
    match outcome {
        Outcome::Applied(object) => *object,
        Outcome::Skipped => panic!("nothing was written"),
    }
}
