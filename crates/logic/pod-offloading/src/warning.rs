//! What the other cluster warns of about a pod there, told about the pod here.
//!
//! Warnings alone come home: an image that cannot be pulled, a volume that cannot be mounted, no node
//! with room. What goes well shows in the status of the pod, and would only be written again and again.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use liqo_api::keys::event;
use liqo_reflection::Place;

/// Selects the Events that matter, by their fields.
pub const FIELDS: &str = "involvedObject.kind=Pod,type=Warning";

/// Drops of an Event what nobody reads.
pub fn trim(event: &mut Event) {
    event.metadata.labels = None;
    event.metadata.annotations = None;
    event.related = None;
}

/// The Event about a pod here, from the one about its pod there; it has the same name, so that it is
/// always the same one.
pub fn home(there: &Event, pod: &ObjectMeta, place: &Place) -> Event {
    let seen = there.event_time.as_ref().map(|time| time.0);
    let made = there.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let first = there.first_timestamp.as_ref().map(|time| time.0).or(seen).or(made);
    let series = there.series.as_ref();
    let again = series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = again.or(there.last_timestamp.as_ref().map(|time| time.0)).or(first);
    let count = series.and_then(|series| series.count).or(there.count).unwrap_or_default().max(1);
    let second = |time: Timestamp| Timestamp::from_second(time.as_second()).ok().map(Time);
    Event {
        metadata: ObjectMeta {
            name: there.metadata.name.clone(),
            namespace: Some(place.home_namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.name.clone(),
            namespace: Some(place.home_namespace.clone()),
            uid: pod.uid.clone(),
            field_path: there.involved_object.field_path.clone(),
            resource_version: None,
        },
        type_: there.type_.clone(),
        reason: there.reason.clone(),
        message: there.message.clone(),
        source: Some(EventSource { component: component(there), host: Some(place.node.clone()) }),
        reporting_component: Some(event::from_reflection("event")),
        first_timestamp: first.and_then(second),
        last_timestamp: last.and_then(second),
        count: Some(count),
        ..Event::default()
    }
}

/// Who has said it.
fn component(there: &Event) -> Option<String> {
    let source = there.source.as_ref().and_then(|source| source.component.clone());
    source.filter(|name| !name.is_empty()).or_else(|| there.reporting_component.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{home_pod, place};

    #[test]
    fn a_kubelets_warning_is_told_of_the_pod_here_as_one_of_the_virtual_node() {
        let told = told(json!({
            "reason": "Failed", "message": "Error: ErrImagePull", "type": "Warning", "count": 4,
            "firstTimestamp": "2026-11-17T10:00:00Z", "lastTimestamp": "2026-11-17T10:03:00Z",
            "source": {"component": "kubelet", "host": "milan-1"},
        }));
        let want = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "srv.17a", "namespace": "shop"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "srv",
                "uid": home_pod().metadata.uid, "fieldPath": "spec.containers{c}",
            },
            "reason": "Failed", "message": "Error: ErrImagePull", "type": "Warning", "count": 4,
            "firstTimestamp": "2026-11-17T10:00:00Z", "lastTimestamp": "2026-11-17T10:03:00Z",
            "source": {"component": "kubelet", "host": "liqo-milan"},
            "reportingComponent": "liqo-event-reflection",
        });
        assert_eq!(told, want);
    }

    #[test]
    fn a_warning_of_the_newer_form_has_its_times_and_its_number() {
        let told = told(json!({
            "reason": "FailedScheduling", "message": "0/1 nodes are available", "type": "Warning",
            "eventTime": "2026-11-17T10:00:00.123456Z", "reportingComponent": "default-scheduler",
            "series": {"count": 7, "lastObservedTime": "2026-11-17T10:05:00.000001Z"},
        }));
        assert_eq!(told["count"], 7);
        assert_eq!(told["firstTimestamp"], "2026-11-17T10:00:00Z");
        assert_eq!(told["lastTimestamp"], "2026-11-17T10:05:00Z");
        assert_eq!(told["source"]["component"], "default-scheduler");
        assert_eq!(told.get("eventTime"), None, "{told}");
    }

    fn told(mut event: Value) -> Value {
        event["metadata"] = json!({
            "name": "srv.17a", "namespace": "shop-rome",
            "creationTimestamp": "2026-11-17T10:00:00Z",
        });
        event["involvedObject"] = json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": "shop-rome", "name": "srv",
            "uid": "remote", "fieldPath": "spec.containers{c}",
        });
        let event: Event = serde_json::from_value(event).unwrap();
        serde_json::to_value(home(&event, &home_pod().metadata, &place())).unwrap()
    }
}
