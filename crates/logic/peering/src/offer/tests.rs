//! What is done about offers.

use liqo_api::discovery::{OfferState, PeeringEnabled};

use super::*;
use crate::fixtures::{accepted, at, foreign, offer, request, time};

#[test]
fn an_offer_is_accepted_and_its_virtual_kubelet_run() {
    let decision = decided(&offer("milan"), Kubelet::Starting);
    assert_eq!(decision.actions, [Action::Own, Action::Hold, Action::Run]);
    assert_eq!(decision.status.phase, OfferPhase::Accepted);
    assert_eq!(decision.status.virtual_kubelet_status, VirtualKubeletStatus::Created);
}

#[test]
fn a_person_may_have_to_accept() {
    let foreign = foreign(PeeringEnabled::Yes);
    let offer = offer("milan");
    let seen = Seen {
        offer: &offer,
        foreign: Some(&foreign),
        kubelet: Kubelet::Missing,
        has_node: false,
        auto_accept: false,
        patience: crate::PATIENCE,
    };
    let decision = decide(&seen, at(0));
    assert_eq!(decision.status.phase, OfferPhase::ManualActionRequired);
    assert!(!decision.actions.contains(&Action::Run));
}

#[test]
fn what_runs_is_kept_up_to_date() {
    let both = [finalizer::VIRTUAL_KUBELET, finalizer::NODE];
    let offer = held(accepted(VirtualKubeletStatus::Created), &both);
    assert_eq!(decided(&offer, Kubelet::Running).actions, [Action::Own, Action::Run]);
}

#[test]
fn a_node_is_drained_before_its_virtual_kubelet_stops() {
    let both = [finalizer::VIRTUAL_KUBELET, finalizer::NODE];
    let mut offer = held(accepted(VirtualKubeletStatus::Created), &both);
    offer.spec.withdrawal_timestamp = Some(time(0));
    let decision = decided(&offer, Kubelet::Running);
    assert_eq!(decision.actions, [Action::Own]);
    assert_eq!(decision.status.virtual_kubelet_status, VirtualKubeletStatus::Deleting);

    let drained = held(offer, &[finalizer::VIRTUAL_KUBELET]);
    let decision = decided(&drained, Kubelet::Running);
    assert_eq!(decision.actions, [Action::Own, Action::Stop, Action::Release]);
    assert_eq!(decision.status.virtual_kubelet_status, VirtualKubeletStatus::None);
}

#[test]
fn a_virtual_kubelet_that_never_came_up_holds_nothing() {
    let both = [finalizer::VIRTUAL_KUBELET, finalizer::NODE];
    let mut offer = held(accepted(VirtualKubeletStatus::Created), &both);
    offer.spec.withdrawal_timestamp = Some(time(0));
    let decision = decided(&offer, Kubelet::Starting);
    assert_eq!(decision.actions, [Action::Own, Action::Stop, Action::Release]);
}

#[test]
fn a_virtual_kubelet_starts_while_its_offer_is_on_its_way() {
    let mut asked = request(OfferState::None);
    asked.status = None;
    assert_eq!(outlook(Some(&asked), true), Outlook::Start);
    assert_eq!(outlook(Some(&request(OfferState::Created)), true), Outlook::Stay);
    assert_eq!(outlook(Some(&asked), false), Outlook::Stop, "a person has to accept it first");
}

#[test]
fn no_virtual_kubelet_waits_for_an_offer_that_will_not_come() {
    let mut withdrawn = request(OfferState::Created);
    withdrawn.spec.withdrawal_timestamp = Some(time(0));
    let mut deleted = request(OfferState::Created);
    deleted.metadata.deletion_timestamp = Some(time(0));
    for request in [None, Some(&withdrawn), Some(&deleted), Some(&request(OfferState::None))] {
        assert_eq!(outlook(request, true), Outlook::Stop, "{request:?}");
    }
}

#[test]
fn a_node_without_a_virtual_kubelet_does_not_hold_an_offer_for_ever() {
    let mut offer = held(accepted(VirtualKubeletStatus::Deleting), &[finalizer::NODE]);
    offer.metadata.deletion_timestamp = Some(time(0));
    let foreign = foreign(PeeringEnabled::Yes);
    let seen = Seen {
        offer: &offer,
        foreign: Some(&foreign),
        kubelet: Kubelet::Missing,
        has_node: true,
        auto_accept: true,
        patience: crate::PATIENCE,
    };
    let early = decide(&seen, at(20));
    assert_eq!((early.actions, early.again), (vec![], Some(SignedDuration::from_secs(40))));
    let late = decide(&seen, at(60));
    assert_eq!((late.actions, late.again), (vec![Action::RemoveNode], None));
}

#[test]
fn a_refused_offer_runs_nothing() {
    let mut offer = accepted(VirtualKubeletStatus::Created);
    offer.status.as_mut().unwrap().phase = OfferPhase::Refused;
    let decision = decided(&offer, Kubelet::Running);
    assert_eq!(decision.actions, [Action::Own, Action::Stop]);
    assert_eq!(decision.status.phase, OfferPhase::Refused);
}

#[test]
fn nothing_is_stopped_that_never_ran() {
    let mut offer = offer("milan");
    offer.spec.withdrawal_timestamp = Some(time(0));
    assert_eq!(decided(&offer, Kubelet::Missing).actions, [Action::Own]);
}

fn decided(offer: &ResourceOffer, kubelet: Kubelet) -> Decision {
    let foreign = foreign(PeeringEnabled::Yes);
    decide(
        &Seen {
            offer,
            foreign: Some(&foreign),
            kubelet,
            has_node: kubelet == Kubelet::Running,
            auto_accept: true,
            patience: crate::PATIENCE,
        },
        at(0),
    )
}

fn held(mut offer: ResourceOffer, finalizers: &[&str]) -> ResourceOffer {
    let names = finalizers.iter().map(|name| (*name).to_owned());
    offer.metadata.finalizers = Some(names.collect());
    offer
}
