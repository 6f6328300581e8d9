//! Consumers that ask for namespaces, fairly and unfairly.

use liqo_api::Time;
use serde_json::{Value, json};

use super::*;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";

#[test]
fn what_is_asked_for_is_made_as_peers_expect_it() {
    let map = map(&json!({ "shop": "shop-rome-2f55ef" }));
    let entries = steps(&map, &[]);
    assert_eq!(entries[0].step, Step::Make);
    let namespace = host().namespace(&map, &rome(), &entries[0]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&namespace).unwrap(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Namespace",
      "metadata": {
        "annotations": {
          "liqo.io/managed-by-namespace-map": "liqo-tenant-rome-2f55ef/milan-ee0b4a",
          "liqo.io/original-name": "shop"
        },
        "labels": {
          "liqo.io/remote-cluster-id": "41543714-6e17-4c7b-9bc9-70de7f7ae64f"
        },
        "name": "shop-rome-2f55ef"
      }
    }
    "#);
    let binding = binding(&map, &rome(), "shop-rome-2f55ef");
    assert_eq!(binding.metadata.name.as_deref(), Some("liqo-tenant-rome-2f55ef"));
    assert_eq!(binding.role_ref.name, "liqo-virtual-kubelet-remote");
    assert_eq!(binding.subjects.unwrap()[0].name, ROME);
}

#[test]
fn what_was_made_for_it_is_kept_and_mended() {
    let map = map(&json!({ "shop": "shop" }));
    let made = made(&map, "shop", "shop");
    assert_eq!(steps(&map, std::slice::from_ref(&made))[0].step, Step::Keep { mend: false });
    let unmarked = ObjectMeta { labels: None, ..made };
    assert_eq!(steps(&map, &[unmarked])[0].step, Step::Keep { mend: true });
}

#[test]
fn what_belongs_to_somebody_else_is_not_touched() {
    let map = map(&json!({ "shop": "shop", "stall": "stall" }));
    let plain = ObjectMeta { name: Some("shop".to_owned()), ..ObjectMeta::default() };
    let mut other = made(&map, "stall", "stall");
    let annotations = other.annotations.as_mut().unwrap();
    annotations.insert("liqo.io/managed-by-namespace-map".to_owned(), "elsewhere/other".to_owned());
    let entries = steps(&map, &[plain, other]);
    assert_eq!(entries.len(), 2);
    for entry in entries {
        assert!(matches!(&entry.step, Step::Refuse(why) if why.contains("already")), "{entry:?}");
    }
}

#[test]
fn two_namespaces_of_a_consumer_do_not_share_one_here() {
    let map = map(&json!({ "shop": "same", "stall": "same" }));
    let entries = steps(&map, &[made(&map, "shop", "same")]);
    assert_eq!(entries[0].step, Step::Keep { mend: false });
    assert!(matches!(entries[1].step, Step::Refuse(_)));
}

#[test]
fn some_names_are_not_to_be_had() {
    for name in ["kube-system", "liqo-tenant-naples-5eada1", "liqo", "Shop", "", "a.b"] {
        let map = map(&json!({ "shop": name }));
        assert!(matches!(steps(&map, &[])[0].step, Step::Refuse(_)), "{name}");
    }
}

#[test]
fn what_is_not_asked_for_any_more_goes() {
    let mut map = map(&json!({ "shop": "new" }));
    let old = made(&map, "shop", "old");
    let going = ObjectMeta { deletion_timestamp: Some(time()), ..made(&map, "x", "y") };
    let entries = steps(&map, &[old.clone(), going]);
    let steps_of: Vec<_> = entries.iter().map(|entry| (&*entry.remote, &entry.step)).collect();
    assert_eq!(steps_of, [("old", &Step::Remove), ("y", &Step::Leave), ("new", &Step::Make)]);
    map.metadata.deletion_timestamp = Some(time());
    map.spec.desired_mapping = [("shop".to_owned(), "old".to_owned())].into();
    assert_eq!(steps(&map, &[old])[0].step, Step::Remove);
    assert_eq!(steps(&map, &[]), []);
}

#[test]
fn a_hiccup_does_not_take_back_what_was_accepted() {
    let accepted = Some(MappingPhase::Accepted);
    let keep = Step::Keep { mend: false };
    assert_eq!(phase(&Step::Make, true, None), MappingPhase::Accepted);
    assert_eq!(phase(&keep, false, accepted), MappingPhase::Accepted);
    assert_eq!(phase(&Step::Await, true, accepted), MappingPhase::Accepted);
    assert_eq!(phase(&keep, false, None), MappingPhase::CreationLoopBackOff);
    let refused = Step::Refuse(String::new());
    assert_eq!(phase(&refused, true, accepted), MappingPhase::CreationLoopBackOff);
    assert_eq!(phase(&Step::Leave, true, accepted), MappingPhase::Terminating);
}

fn steps(map: &NamespaceMap, namespaces: &[ObjectMeta]) -> Vec<Entry> {
    let find =
        |name: &str| namespaces.iter().find(|one| one.name.as_deref() == Some(name)).cloned();
    let made = namespaces.iter().filter(|one| is_made_for(one, map));
    host().entries(map, &rome(), made, find)
}

fn made(map: &NamespaceMap, local: &str, remote: &str) -> ObjectMeta {
    let (local, remote) = (local.to_owned(), remote.to_owned());
    host().namespace(map, &rome(), &Entry { local, remote, step: Step::Make }).metadata
}

fn host() -> Host {
    Host { own: ["liqo".to_owned()].into(), labels: BTreeMap::new() }
}

fn map(wanted: &Value) -> NamespaceMap {
    serde_json::from_value(json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1",
        "kind": "NamespaceMap",
        "metadata": { "name": "milan-ee0b4a", "namespace": "liqo-tenant-rome-2f55ef" },
        "spec": { "desiredMapping": wanted },
    }))
    .unwrap()
}

fn rome() -> ClusterId {
    ROME.parse().unwrap()
}

fn time() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}
