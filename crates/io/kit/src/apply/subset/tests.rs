//! Facts about subsets, and properties that hold for any object.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn fields_of_others_do_not_matter() {
    let want = json!({"metadata": {"labels": {"app": "web"}}, "data": {"a": "1"}});
    let have = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"labels": {"app": "web", "team": "x"}, "uid": "1"}, "data": {"a": "1"},
    });
    assert!(is_subset(&want, &have));
    assert!(!is_subset(&have, &want));
}

#[test]
fn kind_and_version_are_not_compared() {
    assert!(is_subset(&json!({"apiVersion": "v1", "kind": "Pod"}), &json!({})));
}

#[test]
fn what_the_api_server_drops_is_not_missed() {
    for value in [json!(null), json!([])] {
        assert!(is_subset(&json!({"spec": {"field": value}}), &json!({"spec": {}})), "{value}");
    }
}

#[test]
fn what_may_mean_something_is_missed() {
    for value in [json!({}), json!(""), json!(0), json!(false)] {
        assert!(!is_subset(&json!({"spec": {"field": value}}), &json!({"spec": {}})), "{value}");
    }
}

#[test]
fn empty_maps_and_texts_of_metadata_say_nothing() {
    let want = json!({"metadata": {"labels": {}, "namespace": ""}});
    assert!(is_subset(&want, &json!({"metadata": {}})));
}

#[test]
fn containers_are_matched_by_name_in_any_order() {
    let want = json!({"spec": {"containers": [{"name": "web", "image": "a"}]}});
    let with_sidecar = json!({"spec": {"containers": [
        {"name": "proxy", "image": "p"}, {"name": "web", "image": "a", "tty": false},
    ]}});
    let other = json!({"spec": {"containers": [{"name": "web", "image": "b"}]}});
    assert!(is_subset(&want, &with_sidecar));
    assert!(!is_subset(&want, &other));
}

#[test]
fn conditions_are_matched_by_type() {
    let want = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let have = json!({"status": {"conditions": [
        {"type": "Synced", "status": "True"}, {"type": "Ready", "status": "True"},
    ]}});
    assert!(is_subset(&want, &have));
}

#[test]
fn lists_without_names_match_place_by_place() {
    let want = json!({"endpoints": [{"addresses": ["10.0.0.1"]}]});
    let same = json!({"endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "n"}]});
    let more = json!({"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]});
    let longer = json!({"endpoints": [{"addresses": ["10.0.0.1", "10.0.0.3"]}]});
    assert!(is_subset(&want, &same));
    assert!(!is_subset(&want, &more));
    assert!(!is_subset(&want, &longer));
}

#[test]
fn items_with_the_same_name_are_not_told_apart_by_it() {
    let want = json!({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]});
    let swapped = json!({"ports": [{"name": "a", "port": 2}, {"name": "a", "port": 1}]});
    assert!(is_subset(&want, &want));
    assert!(!is_subset(&want, &swapped));
}

#[test]
fn finalizers_and_owners_of_others_do_not_matter() {
    let want = json!({"metadata": {"finalizers": ["ours"], "ownerReferences": [{"uid": "1"}]}});
    let have = json!({"metadata": {
        "finalizers": ["theirs", "ours"],
        "ownerReferences": [{"uid": "2", "name": "a"}, {"uid": "1", "name": "b"}],
    }});
    assert!(is_subset(&want, &have));
}

#[test]
fn amounts_are_compared_as_amounts_where_amounts_stand() {
    let limits = |cpu: &str, memory: &str| json!({"spec": {"resources": {"limits": {"cpu": cpu, "memory": memory}}}});
    assert!(is_subset(&limits("1000m", "1Gi"), &limits("1", "1073741824")));
    assert!(is_subset(&limits("0.5", "1e3"), &limits("500m", "1k")));
    assert!(!is_subset(&limits("1", "1Gi"), &limits("1", "1G")));
    assert!(!is_subset(&json!({"data": {"cpu": "1000m"}}), &json!({"data": {"cpu": "1"}})));
}

#[test]
fn amounts_have_one_value_however_they_are_written() {
    for (one, other) in
        [("1Ki", "1024"), ("-1.5k", "-1500"), ("1E3", "1000"), ("100n", "0.0000001")]
    {
        assert_eq!(amount(one), amount(other), "{one} {other}");
        assert!(amount(one).is_some(), "{one}");
    }
    for text in ["", "Gi", "1X", "1e", "1.2.3", "1--", "99999999999999999999999999999999Ei"] {
        assert_eq!(amount(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn everything_is_part_of_itself(object in object()) {
        prop_assert!(is_subset(&object, &object));
    }

    #[test]
    fn what_others_add_to_maps_does_not_matter(object in object(), name in "zz[a-z]{3}", extra in leaf()) {
        let mut grown = object.clone();
        add_everywhere(&mut grown, &name, &extra);
        prop_assert!(is_subset(&object, &grown));
    }

    #[test]
    fn a_changed_leaf_is_always_seen(object in object(), choice: prop::sample::Index) {
        let leaves = count_leaves(&object);
        prop_assume!(leaves > 0);
        let mut changed = object.clone();
        change_leaf(&mut changed, &mut choice.index(leaves));
        prop_assert!(!is_subset(&changed, &object));
    }

    #[test]
    fn amounts_never_panic(text in ".{0,40}") {
        let _ = amount(&text);
    }
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-9..9_i32).prop_map(Value::from),
        "[a-z]{1,4}".prop_map(Value::from)
    ]
}

fn object() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-y]{1,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(prop_oneof!["spec", "data", "metadata", "[a-y]{1,3}"], value, 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn add_everywhere(value: &mut Value, name: &str, extra: &Value) {
    match value {
        Value::Object(map) => {
            for value in map.values_mut() {
                add_everywhere(value, name, extra);
            }
            map.insert(name.to_owned(), extra.clone());
        }
        Value::Array(items) => {
            for item in items {
                add_everywhere(item, name, extra);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn count_leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(count_leaves).sum(),
        Value::Array(items) => items.iter().map(count_leaves).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// Replaces the leaf with this number by a text that occurs nowhere else.
fn change_leaf(value: &mut Value, number: &mut usize) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| change_leaf(value, number)),
        Value::Array(items) => items.iter_mut().for_each(|item| change_leaf(item, number)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if *number == 0 {
                *value = Value::from("CHANGED");
            }
            *number = number.wrapping_sub(1);
        }
    }
}
