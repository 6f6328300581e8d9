//! Who owns which field of an object, after Helm has written to it, too.
//!
//! A field that is not wanted any more is removed by giving up its ownership. What Helm wrote is
//! Helm's, so its fields have to become ours before they can be given up.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::Value;

/// The name Helm writes under.
const HELM: &str = "helm";

/// The ownership of an object with Helm's fields being ours; nothing when none is Helm's.
pub fn adopted(entries: &[ManagedFieldsEntry], ours: &str) -> Option<Vec<ManagedFieldsEntry>> {
    let is_helms = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(HELM) && entry.subresource.is_none()
    };
    let is_ours = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(ours) && entry.operation.as_deref() == Some("Apply")
    };
    let own = entries.iter().find(|entry| is_ours(entry))?;
    let same =
        |entry: &&ManagedFieldsEntry| is_helms(entry) && entry.api_version == own.api_version;
    let helms: Vec<&ManagedFieldsEntry> = entries.iter().filter(same).collect();
    if helms.is_empty() {
        return None;
    }
    let mut fields = fields(own);
    for helm in helms {
        join(&mut fields, self::fields(helm));
    }
    let mut own = own.clone();
    own.fields_v1 = Some(FieldsV1(fields));
    let others = entries.iter().filter(|entry| !is_ours(entry) && !is_helms(entry)).cloned();
    Some(others.chain([own]).collect())
}

fn fields(entry: &ManagedFieldsEntry) -> Value {
    entry.fields_v1.as_ref().map_or(Value::Null, |fields| fields.0.clone())
}

/// Adds the fields of one tree to another.
fn join(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                join(
                    into.entry(key).or_insert_with(|| Value::Object(serde_json::Map::new())),
                    value,
                );
            }
        }
        (into, from) if into.is_null() => *into = from,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_helm_owns_becomes_ours() {
        let entries = [
            entry("liqoctl", "Apply", json!({ "f:spec": { "f:a": {} } })),
            entry(
                "helm",
                "Update",
                json!({ "f:spec": { "f:b": { "f:c": {} } }, "f:metadata": {} }),
            ),
            entry("kubelet", "Update", json!({ "f:status": {} })),
        ];
        let adopted = adopted(&entries, "liqoctl").unwrap();
        assert_eq!(adopted.len(), 2);
        assert_eq!(adopted[0], entries[2]);
        assert_eq!(
            adopted[1].fields_v1.clone().unwrap().0,
            json!({ "f:spec": { "f:a": {}, "f:b": { "f:c": {} } }, "f:metadata": {} })
        );
    }

    #[test]
    fn nothing_changes_where_helm_has_never_been() {
        let entries = [entry("liqoctl", "Apply", json!({}))];
        assert_eq!(adopted(&entries, "liqoctl"), None);
        let entries = [entry("helm", "Update", json!({}))];
        assert_eq!(adopted(&entries, "liqoctl"), None);
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            api_version: Some("v1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }
}
