//! The smallest change from one content to another, as a merge patch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// The merge patch that turns one content into another; none when they are equal.
///
/// In a merge patch, null is how a field goes away; contents of Kubernetes hold no nulls.
pub fn between(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for (name, wanted) in to {
        match from.get(name) {
            Some(had) => {
                if let Some(change) = between(had, wanted) {
                    patch.insert(name.clone(), change);
                }
            }
            None => {
                patch.insert(name.clone(), wanted.clone());
            }
        }
    }
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    Some(Value::Object(patch))
}

/// A patch of one field of an object, which fails on any other object of the same name.
pub fn of_field(object: &ObjectMeta, field: &str, change: Value) -> Value {
    let mut patch = Map::new();
    let uid = object.uid.clone().map(|uid| ("uid".to_owned(), Value::from(uid)));
    patch.insert("metadata".to_owned(), Value::Object(uid.into_iter().collect()));
    patch.insert(field.to_owned(), change);
    Value::Object(patch)
}

/// A patch that puts a finalizer on an object or takes it off; it fails when the object has changed.
pub fn of_finalizer(object: &ObjectMeta, name: &str, present: bool) -> Value {
    let others = object.finalizers.iter().flatten().filter(|other| *other != name).cloned();
    let mut finalizers: Vec<String> = others.collect();
    if present {
        finalizers.push(name.to_owned());
    }
    let version = object.resource_version.clone().unwrap_or_default();
    let metadata = Map::from_iter([
        ("finalizers".to_owned(), Value::from(finalizers)),
        ("resourceVersion".to_owned(), Value::from(version)),
    ]);
    Value::Object(Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let from = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2], "f": 0});
        let to = json!({"a": 1, "b": {"c": 2}, "e": [2], "g": {"h": 1}});
        let want = json!({"b": {"d": null}, "e": [2], "f": null, "g": {"h": 1}});
        assert_eq!(between(&from, &to), Some(want));
        assert_eq!(between(&to, &to), None);
    }

    #[test]
    fn a_status_that_is_new_is_named_whole() {
        assert_eq!(between(&Value::Null, &json!({"a": 1})), Some(json!({"a": 1})));
    }

    #[test]
    fn finalizers_of_others_stay() {
        let object = ObjectMeta {
            finalizers: Some(vec!["ours".to_owned(), "theirs".to_owned()]),
            resource_version: Some("7".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        };
        let want = json!({"metadata": {"finalizers": ["theirs"], "resourceVersion": "7"}});
        assert_eq!(of_finalizer(&object, "ours", false), want);
        let want = json!({"metadata": {"finalizers": ["theirs", "ours"], "resourceVersion": "7"}});
        assert_eq!(of_finalizer(&object, "ours", true), want);
        let want = json!({"metadata": {"uid": "u"}, "spec": {"a": 1}});
        assert_eq!(of_field(&object, "spec", json!({"a": 1})), want);
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_content_to_the_other(from in content(), to in content()) {
            let patched = match between(&from, &to) {
                Some(patch) => merged(from, &patch),
                None => from,
            };
            prop_assert_eq!(patched, to);
        }
    }

    /// What an API server makes of a merge patch.
    fn merged(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut target = if let Value::Object(target) = target { target } else { Map::new() };
        for (name, change) in patch {
            if change.is_null() {
                target.remove(name);
            } else {
                let old = target.remove(name).unwrap_or(Value::Null);
                target.insert(name.clone(), merged(old, change));
            }
        }
        Value::Object(target)
    }

    /// Contents without nulls.
    fn content() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0_i64..3).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        let tree = leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                fields(inner).prop_map(Value::Object),
            ]
        });
        fields(tree).prop_map(Value::Object)
    }

    fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::btree_map("[abc]", value, 0..4)
            .prop_map(|fields| fields.into_iter().collect())
    }
}
