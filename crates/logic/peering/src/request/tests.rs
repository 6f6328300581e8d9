//! What is done about requests.

use liqo_api::discovery::PeeringCondition;

use super::*;
use crate::fixtures::{ROME, accepted, at, condition, foreign, offer, request, time};

#[test]
fn an_unknown_cluster_is_introduced_and_answered() {
    let request = request(OfferState::None);
    let decision = decide(&seen(&request, None, None), at(0));
    assert_eq!(decision.verdict, Verdict::Allow);
    assert_eq!(decision.actions, [Action::Introduce, Action::GrantMetrics, Action::Offer]);
    assert_eq!(decision.status.offer_state, OfferState::Created);
}

#[test]
fn the_word_of_the_foreign_cluster_counts() {
    for (enabled, is_open, verdict) in [
        (PeeringEnabled::Yes, false, Verdict::Allow),
        (PeeringEnabled::Auto, true, Verdict::Allow),
        (PeeringEnabled::Auto, false, Verdict::Deny),
        (PeeringEnabled::No, true, Verdict::Deny),
    ] {
        let (request, foreign) = (request(OfferState::None), consumer(enabled));
        let seen = Seen { is_open, ..seen(&request, Some(&foreign), None) };
        assert_eq!(decide(&seen, at(0)).verdict, verdict, "{enabled:?} {is_open}");
    }
}

#[test]
fn who_never_had_an_offer_is_told_that_there_is_none() {
    let mut request = request(OfferState::None);
    request.spec.withdrawal_timestamp = Some(time(0));
    let foreign = consumer(PeeringEnabled::Auto);
    let decision = decide(&seen(&request, Some(&foreign), None), at(5));
    assert_eq!(decision.verdict, Verdict::Deleting);
    assert_eq!(decision.status.offer_withdrawal_timestamp, Some(time(5)));

    request.status = Some(decision.status.clone());
    let again = decide(&seen(&request, Some(&foreign), None), at(9));
    assert_eq!(again.status, decision.status, "once");
}

#[test]
fn what_is_in_use_is_asked_back_first() {
    let (request, foreign) = (request(OfferState::Created), consumer(PeeringEnabled::No));
    let mut offer = accepted(VirtualKubeletStatus::Created);
    let decision = decide(&seen(&request, Some(&foreign), Some(&offer)), at(0));
    assert_eq!(
        decision.actions,
        [Action::Own, Action::RevokeMetrics, Action::WithdrawOffer(time(0))]
    );
    assert_eq!(decision.status.offer_withdrawal_timestamp, None);

    offer.spec.withdrawal_timestamp = Some(time(0));
    offer.status.as_mut().unwrap().virtual_kubelet_status = VirtualKubeletStatus::None;
    let decision = decide(&seen(&request, Some(&foreign), Some(&offer)), at(1));
    assert!(decision.actions.contains(&Action::DeleteOffer));
}

#[test]
fn a_consumer_that_is_gone_does_not_keep_an_offer() {
    let request = request(OfferState::Created);
    let mut foreign = consumer(PeeringEnabled::No);
    let mut offer = accepted(VirtualKubeletStatus::Created);
    offer.spec.withdrawal_timestamp = Some(time(0));
    let early = decide(&seen(&request, Some(&foreign), Some(&offer)), at(59));
    assert_eq!(early.again, Some(SignedDuration::from_secs(1)));
    assert!(!early.actions.contains(&Action::DeleteOffer));
    let late = decide(&seen(&request, Some(&foreign), Some(&offer)), at(60));
    assert!(late.actions.contains(&Action::DeleteOffer));

    // One that answers may take its time.
    let answers: PeeringCondition =
        condition(PeeringConditionType::ApiServerStatus, PeeringConditionStatus::Established);
    foreign.status.get_or_insert_default().peering_conditions.push(answers);
    let late = decide(&seen(&request, Some(&foreign), Some(&offer)), at(600));
    assert!(!late.actions.contains(&Action::DeleteOffer));
}

#[test]
fn an_answer_does_not_wait_for_ever_for_a_copy_to_go() {
    let (request, foreign) = (request(OfferState::Created), consumer(PeeringEnabled::No));
    let mut offer = accepted(VirtualKubeletStatus::None);
    offer.metadata.deletion_timestamp = Some(time(0));
    let early = decide(&seen(&request, Some(&foreign), Some(&offer)), at(1));
    assert_eq!(early.status.offer_withdrawal_timestamp, None);
    let late = decide(&seen(&request, Some(&foreign), Some(&offer)), at(61));
    assert_eq!(late.status.offer_state, OfferState::None);
    assert_eq!(late.status.offer_withdrawal_timestamp, Some(time(61)));
}

#[test]
fn allowing_again_takes_the_withdrawal_back() {
    let mut request = request(OfferState::None);
    request.status.as_mut().unwrap().offer_withdrawal_timestamp = Some(time(0));
    let foreign = consumer(PeeringEnabled::Yes);
    let decision = decide(&seen(&request, Some(&foreign), None), at(5));
    assert!(decision.actions.contains(&Action::Offer));
    assert_eq!(decision.status.offer_withdrawal_timestamp, None);
}

#[test]
fn an_offer_on_its_way_out_is_made_again_once_it_is_gone() {
    let (request, foreign) = (request(OfferState::Created), consumer(PeeringEnabled::Yes));
    let mut offer = offer("milan");
    offer.metadata.deletion_timestamp = Some(time(0));
    let decision = decide(&seen(&request, Some(&foreign), Some(&offer)), at(5));
    assert!(!decision.actions.contains(&Action::Offer));
    assert_eq!(decision.status.offer_state, OfferState::None);
}

#[test]
fn nobody_is_introduced_who_is_leaving() {
    let mut request = request(OfferState::None);
    request.spec.withdrawal_timestamp = Some(time(0));
    let decision = decide(&seen(&request, None, None), at(0));
    assert!(!decision.actions.contains(&Action::Introduce));
}

#[test]
fn a_cluster_keeps_its_name_even_if_an_object_has_it() {
    let made = introduce(&request(OfferState::None), |_| false).unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some("rome"));
    let made = introduce(&request(OfferState::None), |name| name == "rome").unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some("rome-2f55ef"));
    let identity = made.spec.cluster_identity.unwrap();
    assert_eq!((identity.cluster_id.as_str(), identity.cluster_name.as_str()), (ROME, "rome"));
    assert_eq!(
        made.metadata.labels.unwrap()["discovery.liqo.io/discovery-type"],
        "IncomingPeering"
    );
}

fn seen<'a>(
    request: &'a ResourceRequest,
    foreign: Option<&'a ForeignCluster>,
    offer: Option<&'a ResourceOffer>,
) -> Seen<'a> {
    Seen { request, foreign, offer, is_open: true, patience: crate::PATIENCE }
}

fn consumer(incoming: PeeringEnabled) -> ForeignCluster {
    let mut foreign = foreign(PeeringEnabled::Auto);
    foreign.spec.incoming_peering_enabled = incoming;
    foreign
}
