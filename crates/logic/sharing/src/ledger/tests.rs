//! What the ledger promises.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, NodeCondition, NodeStatus, PodSpec, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;

use super::*;
use crate::amounts::CPU;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

#[test]
fn ninety_percent_of_what_is_free_is_offered() {
    let offered = |ledger: &Ledger| ledger.free(&rome()).share(90).of(CPU).to_string();
    let mut ledger = Ledger::default();
    ledger.node("a", NodeShare::of(&node("100")));
    assert_eq!(offered(&ledger), "90");
    ledger.pod("shop/web", PodShare::of(&pod("50", None)));
    assert_eq!(offered(&ledger), "45");
    ledger.pod("shop/web", None);
    ledger.node("b", NodeShare::of(&node("100")));
    assert_eq!(offered(&ledger), "180");
}

#[test]
fn an_offer_does_not_shrink_by_the_pods_it_is_for() {
    let mut ledger = Ledger::default();
    ledger.node("a", NodeShare::of(&node("10")));
    ledger.pod("x/1", PodShare::of(&pod("3", Some(ROME))));
    ledger.pod("x/2", PodShare::of(&pod("2", None)));
    assert_eq!(ledger.free(&rome()).of(CPU), Quantity::units(8));
    assert_eq!(ledger.free(&MILAN.parse().unwrap()).of(CPU), Quantity::units(5));
}

#[test]
fn pods_that_do_not_run_here_do_not_count() {
    let mut elsewhere = pod("1", None);
    elsewhere.metadata.labels =
        Some(BTreeMap::from([(label::SHADOW_POD.to_owned(), label::TRUE.to_owned())]));
    let mut done = pod("1", None);
    done.status = Some(PodStatus { phase: Some("Succeeded".to_owned()), ..PodStatus::default() });
    assert_eq!((PodShare::of(&elsewhere), PodShare::of(&done)), (None, None));
}

#[test]
fn nodes_that_are_virtual_or_not_ready_do_not_count() {
    let mut cut_off = node("1");
    cut_off.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".to_owned();
    let mut virtual_node = node("1");
    virtual_node.metadata.labels =
        Some(BTreeMap::from([(label::TYPE.to_owned(), label::TYPE_VIRTUAL_NODE.to_owned())]));
    assert_eq!((NodeShare::of(&cut_off), NodeShare::of(&virtual_node)), (None, None));
    let mut cordoned = node("1");
    cordoned.spec.get_or_insert_default().unschedulable = Some(true);
    assert!(NodeShare::of(&cordoned).is_some());
}

#[test]
fn a_resource_that_is_overused_hides_no_other() {
    let mut ledger = Ledger::default();
    let mut node = node("1");
    let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
    allocatable.insert("memory".to_owned(), Text("1Gi".to_owned()));
    ledger.node("a", NodeShare::of(&node));
    ledger.pod("x/1", PodShare::of(&pod("2", None)));
    let free = ledger.free(&rome());
    assert_eq!(free.of(CPU), Quantity::ZERO);
    assert_eq!(free.of("memory").to_string(), "1073741824");
}

#[test]
fn a_resource_vanishes_with_the_last_node_that_has_it() {
    let mut ledger = Ledger::default();
    ledger.node("a", NodeShare::of(&node("1")));
    ledger.node("a", None);
    assert!(ledger.free(&rome()).is_empty());
}

#[test]
fn what_did_not_change_is_told() {
    let mut ledger = Ledger::default();
    assert!(ledger.node("a", NodeShare::of(&node("1"))));
    assert!(!ledger.node("a", NodeShare::of(&node("1"))));
    assert!(ledger.pod("x/1", PodShare::of(&pod("1", None))));
    assert!(!ledger.pod("x/1", PodShare::of(&pod("1", None))));
    assert!(!ledger.pod("x/2", None));
}

#[test]
fn after_a_new_list_what_was_not_listed_is_gone() {
    let mut ledger = Ledger::default();
    ledger.node("a", NodeShare::of(&node("4")));
    ledger.pod("x/1", PodShare::of(&pod("1", None)));
    ledger.pod("x/2", PodShare::of(&pod("2", None)));
    ledger.keep_pods(|key| key == "x/1");
    assert_eq!(ledger.free(&rome()).of(CPU), Quantity::units(3));
    ledger.keep_nodes(|_| false);
    assert!(ledger.free(&rome()).is_empty());
}

proptest! {
    #[test]
    fn after_any_history_the_ledger_says_what_counting_anew_says(
        history in prop::collection::vec((0_u8..5, 0_i64..5, any::<bool>()), 0..40),
    ) {
        let mut ledger = Ledger::default();
        ledger.node("a", NodeShare::of(&node("100")));
        let mut last = BTreeMap::new();
        for (key, cpu, is_lent) in history {
            let share = (cpu > 0)
                .then(|| PodShare::of(&pod(&cpu.to_string(), is_lent.then_some(ROME))))
                .flatten();
            ledger.pod(&key.to_string(), share.clone());
            last.insert(key, share);
        }
        let mut anew = Ledger::default();
        anew.node("a", NodeShare::of(&node("100")));
        for (key, share) in last {
            anew.pod(&key.to_string(), share);
        }
        for consumer in [ROME, MILAN] {
            let consumer = consumer.parse().unwrap();
            prop_assert_eq!(ledger.free(&consumer), anew.free(&consumer));
        }
    }
}

fn rome() -> ClusterId {
    ROME.parse().unwrap()
}

fn node(cpu: &str) -> Node {
    let condition = NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        ..NodeCondition::default()
    };
    let status = NodeStatus {
        allocatable: Some(list(cpu)),
        conditions: Some(vec![condition]),
        ..NodeStatus::default()
    };
    Node { status: Some(status), ..Node::default() }
}

fn pod(cpu: &str, origin: Option<&str>) -> Pod {
    let labels =
        origin.map(|origin| BTreeMap::from([(label::ORIGIN.to_owned(), origin.to_owned())]));
    let resources =
        ResourceRequirements { requests: Some(list(cpu)), ..ResourceRequirements::default() };
    let container = Container { resources: Some(resources), ..Container::default() };
    Pod {
        metadata: ObjectMeta { labels, ..ObjectMeta::default() },
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        status: Some(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() }),
    }
}

fn list(cpu: &str) -> BTreeMap<String, Text> {
    BTreeMap::from([(CPU.to_owned(), Text(cpu.to_owned()))])
}
