//! What to do about a source and its replica.
//!
//! ```text
//!  source   replica            what is done
//!  new      -           hold the source, then make the replica
//!  there    there       spec to the replica, status to the source
//!  there    going       wait; it is made again once it is gone
//!  there    -           make the replica (again)
//!  going    there       delete the replica
//!  going    -           let the source go
//!  -        there       delete the replica
//! ```

use serde_json::Value;

use crate::carried::Carried;
use crate::patch;

/// How a kind stands with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// It is copied.
    Copy,
    /// It is not copied any more, but what was is kept up.
    KeepUp,
    /// The peer is being left: replicas go.
    Leave,
    /// Somebody else copies it, and takes the copy back.
    Aside,
}

/// One thing to do; in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put the finalizer on the source.
    Hold,
    /// Make the replica.
    Make,
    /// Change the spec of the replica by this patch.
    Respecify(Value),
    /// Change the status of the source by this patch.
    Report(Value),
    /// Delete the replica.
    Delete,
    /// Take the finalizer off the source.
    Release,
}

/// Decides what to do about a source and its replica.
pub fn decide<K>(
    source: Option<&Carried<K>>,
    replica: Option<&Carried<K>>,
    stance: Stance,
) -> Vec<Action> {
    if stance == Stance::Aside {
        let is_held = source.is_some_and(Carried::is_held);
        return if is_held { vec![Action::Release] } else { vec![] };
    }
    let delete = |replica: &Carried<K>| {
        if replica.is_ending() { vec![] } else { vec![Action::Delete] }
    };
    let Some(source) = source else { return replica.map(delete).unwrap_or_default() };
    if source.is_ending() || stance == Stance::Leave {
        return match replica {
            Some(replica) => delete(replica),
            None if source.is_held() => vec![Action::Release],
            None => vec![],
        };
    }
    if stance == Stance::KeepUp && !source.is_held() && replica.is_none() {
        return vec![];
    }
    let mut actions = Vec::new();
    if !source.is_held() {
        actions.push(Action::Hold);
    }
    match replica {
        None => actions.push(Action::Make),
        Some(replica) if replica.is_ending() => {}
        Some(replica) => {
            actions.extend(patch::between(&replica.spec, &source.spec).map(Action::Respecify));
            if !replica.status.is_null() {
                let change = patch::between(&source.status, &replica.status);
                actions.extend(change.map(Action::Report));
            }
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use liqo_api::discovery::ResourceRequest;
    use liqo_api::keys::finalizer;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    type Object = Carried<ResourceRequest>;

    #[test]
    fn a_new_source_is_held_before_it_is_copied() {
        let source = object(1, false, false);
        assert_eq!(decide(Some(&source), None, Stance::Copy), [Action::Hold, Action::Make]);
        assert_eq!(decide(Some(&source), None, Stance::KeepUp), []);
    }

    #[test]
    fn nothing_is_done_when_both_ends_agree() {
        let (source, replica) = (object(1, true, false), object(1, false, false));
        assert_eq!(decide(Some(&source), Some(&replica), Stance::Copy), []);
    }

    #[test]
    fn spec_goes_there_and_status_comes_back() {
        let (mut source, mut replica) = (object(2, true, false), object(1, false, false));
        source.status = json!({"seen": 1});
        replica.status = json!({"seen": 2});
        let want = [Action::Respecify(json!({"a": 2})), Action::Report(json!({"seen": 2}))];
        assert_eq!(decide(Some(&source), Some(&replica), Stance::Copy), want);
        assert_eq!(decide(Some(&source), Some(&replica), Stance::KeepUp), want);
        replica.status = Value::Null;
        assert_eq!(decide(Some(&source), Some(&replica), Stance::Copy), want[..1]);
    }

    #[test]
    fn a_replica_that_somebody_deleted_is_made_again_once_it_is_gone() {
        let source = object(1, true, false);
        assert_eq!(decide(Some(&source), Some(&object(1, true, true)), Stance::Copy), []);
        assert_eq!(decide(Some(&source), None, Stance::Copy), [Action::Make]);
    }

    #[test]
    fn a_source_goes_after_its_replica() {
        for (source, stance) in [
            (object(1, true, true), Stance::Copy),
            (object(1, true, true), Stance::KeepUp),
            (object(1, true, false), Stance::Leave),
        ] {
            let decide = |replica: Option<Object>| decide(Some(&source), replica.as_ref(), stance);
            assert_eq!(decide(Some(object(1, false, false))), [Action::Delete]);
            assert_eq!(decide(Some(object(1, false, true))), []);
            assert_eq!(decide(None), [Action::Release]);
        }
    }

    #[test]
    fn a_replica_without_a_source_goes() {
        for stance in [Stance::Copy, Stance::KeepUp, Stance::Leave] {
            assert_eq!(decide(None, Some(&object(1, false, false)), stance), [Action::Delete]);
            assert_eq!(decide(None, Some(&object(1, false, true)), stance), []);
            assert_eq!(decide::<ResourceRequest>(None, None, stance), []);
        }
    }

    #[test]
    fn what_somebody_else_copies_is_left_alone() {
        let (held, free, replica) =
            (object(1, true, false), object(1, false, true), object(2, false, false));
        assert_eq!(decide(Some(&free), Some(&replica), Stance::Aside), []);
        assert_eq!(decide(None, Some(&replica), Stance::Aside), []);
        assert_eq!(decide(Some(&held), Some(&replica), Stance::Aside), [Action::Release]);
    }

    proptest! {
        #[test]
        fn whatever_happens_first_both_ends_agree_in_the_end(
            source in prop::option::of(any_object()),
            replica in prop::option::of(any_object()),
            stance in prop_oneof![
                Just(Stance::Copy),
                Just(Stance::KeepUp),
                Just(Stance::Leave),
            ],
        ) {
            let (mut source, mut replica) = (source, replica);
            for _ in 0..6 {
                let actions = decide(source.as_ref(), replica.as_ref(), stance);
                for action in &actions {
                    enact(action, &mut source, &mut replica);
                }
                let is_going = |object: &Option<Object>| {
                    object.as_ref().is_some_and(|object| object.is_ending() && !object.is_held())
                };
                // What is let go goes.
                if is_going(&source) {
                    source = None;
                }
                if replica.as_ref().is_some_and(Carried::is_ending) {
                    replica = None;
                }
            }
            prop_assert_eq!(decide(source.as_ref(), replica.as_ref(), stance), []);
            match (source, replica) {
                (None, replica) => prop_assert!(replica.is_none(), "no replica outlives its source"),
                (Some(source), Some(replica)) => {
                    prop_assert!(source.is_held());
                    prop_assert_eq!(source.spec, replica.spec);
                }
                (Some(source), None) => prop_assert!(!source.is_held()),
            }
        }
    }

    fn enact(action: &Action, source: &mut Option<Object>, replica: &mut Option<Object>) {
        let finalizers = |held: bool| held.then(|| vec![finalizer::CRD_REPLICATOR.to_owned()]);
        match action {
            Action::Hold => source.as_mut().unwrap().metadata.finalizers = finalizers(true),
            Action::Release => source.as_mut().unwrap().metadata.finalizers = finalizers(false),
            Action::Make => {
                assert!(source.as_ref().unwrap().is_held(), "never before it is held");
                *replica = Some(object(
                    source.as_ref().unwrap().spec["a"].as_i64().unwrap(),
                    false,
                    false,
                ));
            }
            Action::Respecify(_) => {
                replica.as_mut().unwrap().spec = source.as_ref().unwrap().spec.clone();
            }
            Action::Report(_) => {
                source.as_mut().unwrap().status = replica.as_ref().unwrap().status.clone();
            }
            Action::Delete => replica.as_mut().unwrap().metadata.deletion_timestamp = end(true),
        }
    }

    fn any_object() -> impl Strategy<Value = Object> {
        (0_i64..3, any::<bool>(), any::<bool>(), 0_i64..3).prop_map(
            |(spec, held, ending, status)| {
                let mut object = object(spec, held, ending);
                object.status = if status == 0 { Value::Null } else { json!({"seen": status}) };
                object
            },
        )
    }

    fn object(spec: i64, held: bool, ending: bool) -> Object {
        let metadata = ObjectMeta {
            finalizers: held.then(|| vec![finalizer::CRD_REPLICATOR.to_owned()]),
            deletion_timestamp: end(ending),
            ..ObjectMeta::default()
        };
        Carried::new(metadata, json!({"a": spec}))
    }

    fn end(ending: bool) -> Option<Time> {
        ending.then_some(Time(Timestamp::UNIX_EPOCH))
    }
}
