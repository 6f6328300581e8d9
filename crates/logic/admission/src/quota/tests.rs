//! Consumers that use what they were offered, and want more.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn a_pod_asks_for_its_limits() {
    let spec = pod(&json!({
        "containers": [container("1", "1Gi"), container("500m", "1Gi")],
        "initContainers": [container("2", "100Mi")],
    }));
    let demand = demand(&spec).unwrap();
    assert_eq!(demand, amounts("2", "2Gi"));
}

#[test]
fn a_container_without_a_limit_is_refused() {
    let limited = json!({ "name": "main", "resources": { "limits": { "cpu": "1" } } });
    let error = demand(&pod(&json!({ "containers": [limited] }))).unwrap_err();
    assert!(error.starts_with("container main has no limit of memory"), "{error}");
    let init =
        json!({ "containers": [container("1", "1Gi")], "initContainers": [{ "name": "i" }] });
    assert!(demand(&pod(&init)).unwrap_err().contains("container i has no limit of cpu"));
}

#[test]
fn what_was_offered_can_be_used_once() {
    let mut ledger = Ledger::default();
    assert_eq!(ask(&mut ledger, "a", "1500m", 0), Verdict::Allowed);
    // It counts before it is seen, and when it is seen it does not count twice.
    assert!(matches!(ask(&mut ledger, "b", "1", 0), Verdict::Denied(_)));
    ledger.see("a", Some(claim("1500m")));
    assert_eq!(ask(&mut ledger, "c", "500m", 0), Verdict::Allowed);
    assert_eq!(
        ask(&mut ledger, "d", "1", 0),
        Verdict::denied(
            "the pod may use up to 1 of cpu, and 0 of the 2 that were offered are free"
        )
    );
    ledger.see("a", None);
    assert_eq!(ask(&mut ledger, "d", "1", 0), Verdict::Allowed);
}

#[test]
fn what_never_came_is_forgotten() {
    let mut ledger = Ledger::default();
    assert_eq!(ask(&mut ledger, "a", "2", 0), Verdict::Allowed);
    assert!(matches!(ask(&mut ledger, "b", "2", 29), Verdict::Denied(_)));
    assert_eq!(ask(&mut ledger, "b", "2", 30), Verdict::Allowed);
}

#[test]
fn a_rehearsal_takes_nothing() {
    let mut ledger = Ledger::default();
    let verdict = ledger.allow("a", claim("2"), &offered(), true, at(0));
    assert_eq!(verdict, Verdict::Allowed);
    assert_eq!(ask(&mut ledger, "b", "2", 0), Verdict::Allowed);
}

#[test]
fn consumers_do_not_use_each_others_offers() {
    let mut ledger = Ledger::default();
    ledger.see("other", Some(Claim { origin: "naples".into(), ..claim("2") }));
    assert_eq!(ask(&mut ledger, "a", "2", 0), Verdict::Allowed);
}

#[test]
fn what_was_not_offered_cannot_be_used_and_pods_are_counted() {
    let mut ledger = Ledger::default();
    let mut gpu = claim("1");
    gpu.demand.set("example.com/gpu", Quantity::units(1));
    assert!(matches!(
        ledger.allow("a", gpu, &offered(), false, at(0)),
        Verdict::Denied(why) if why.contains("example.com/gpu, of which nothing was offered")
    ));
    let mut few = offered();
    few.set("pods", Quantity::units(1));
    assert_eq!(ledger.allow("a", claim("0"), &few, false, at(0)), Verdict::Allowed);
    assert!(matches!(ledger.allow("b", claim("0"), &few, false, at(0)), Verdict::Denied(_)));
}

#[test]
fn a_name_is_free_once_its_owner_is_gone() {
    let mut ledger = Ledger::default();
    ledger.see("a", Some(Claim { is_ending: true, ..claim("1") }));
    assert!(
        matches!(ask(&mut ledger, "a", "1", 0), Verdict::Denied(why) if why.contains("way out"))
    );
}

#[test]
fn of_pods_that_were_allowed_by_several_only_those_that_fit_start() {
    let mut ledger = Ledger::default();
    for key in ["a", "b", "c"] {
        ledger.see(key, Some(claim("1")));
    }
    assert_eq!(ledger.start("a", &claim("1"), &offered()), Ok(()));
    assert_eq!(ledger.start("b", &claim("1"), &offered()), Ok(()));
    assert!(ledger.start("c", &claim("1"), &offered()).is_err());
    // What is started is not asked again, even when nothing is offered any more.
    let started = Claim { has_started: true, ..claim("1") };
    ledger.see("a", Some(started.clone()));
    assert_eq!(ledger.start("a", &started, &Amounts::default()), Ok(()));
    ledger.stay("b");
    assert_eq!(ledger.start("c", &claim("1"), &offered()), Ok(()));
}

proptest! {
    #[test]
    fn sums_are_those_of_the_claims_there_are(
        history in prop::collection::vec((0_u8..4, prop::option::of((0_i128..4, any::<bool>()))), 0..40),
    ) {
        let mut ledger = Ledger::default();
        for (key, claim) in history {
            let claim = claim.map(|(cpu, has_started)| {
                let demand = [(CPU, Quantity::units(i64::try_from(cpu).unwrap()))].into_iter().collect();
                Claim { origin: "rome".into(), demand, has_started, is_ending: false }
            });
            ledger.see(&key.to_string(), claim);
        }
        for (index, counts) in [(0, false), (1, true)] {
            let mut sum = Quantity::ZERO;
            for claim in ledger.claims.values().filter(|claim| !counts || claim.has_started) {
                sum = sum.plus(claim.demand.of(CPU));
            }
            prop_assert_eq!(ledger.sum("rome", index).of(CPU), sum);
        }
    }
}

fn ask(ledger: &mut Ledger, key: &str, cpu: &str, second: i64) -> Verdict {
    ledger.allow(key, claim(cpu), &offered(), false, at(second))
}

fn claim(cpu: &str) -> Claim {
    let demand = amounts(cpu, "1Mi");
    Claim { origin: "rome".into(), demand, has_started: false, is_ending: false }
}

fn offered() -> Amounts {
    amounts("2", "1Gi")
}

fn amounts(cpu: &str, memory: &str) -> Amounts {
    [(CPU, cpu), (MEMORY, memory)]
        .into_iter()
        .map(|(name, text)| (name, text.parse().unwrap()))
        .collect()
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({ "name": "main", "resources": { "limits": { "cpu": cpu, "memory": memory } } })
}

fn pod(spec: &Value) -> PodSpec {
    serde_json::from_value(spec.clone()).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
