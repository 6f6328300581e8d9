//! The end of a ForeignCluster: both directions are wound up first, but not for ever.

use jiff::Timestamp;
use liqo_api::discovery::PeeringConditionType as Kind;
use liqo_api::names::Cluster;

use super::{Action, Decision, Seen, is_held, is_there, outgoing};
use crate::conditions::{self, Exchange};
use crate::until;

/// Winds up both directions, and lets the ForeignCluster go once that is done or takes too long.
pub(super) fn decide(decision: &mut Decision, seen: &Seen<'_>, remote: &Cluster, now: Timestamp) {
    let tenant = seen.tenant.unwrap_or_default();
    let request = seen.outgoing.request.filter(|request| is_there(Some(*request)));
    let patience = seen.settings.patience;
    let left = until(seen.foreign.metadata.deletion_timestamp.as_ref(), patience, now);
    let open: Vec<&str> = [
        (request.is_some(), "our request for resources"),
        (seen.outgoing.offer.is_some(), "the offer it made"),
        (is_there(seen.incoming.offer), "our offer to it"),
    ]
    .into_iter()
    .filter_map(|(is_open, what)| is_open.then_some(what))
    .collect();

    if open.is_empty() || left.is_none() {
        if request.is_some() {
            decision.actions.push(Action::DeleteRequest);
        }
        if is_there(seen.outgoing.offer) {
            decision.actions.push(Action::DeleteOffer);
        }
        if !open.is_empty() {
            decision.actions.push(Action::TellNotCleaned(format!(
                "{remote} did not take part in the end of the peering for {} s; dropped without \
                 it: {}. What it keeps is cleaned when it returns",
                patience.as_secs(),
                open.join(", "),
            )));
        }
        let none = conditions::peering(Exchange::default(), tenant);
        decision.report(Kind::OutgoingPeering, none.clone(), now);
        decision.report(Kind::IncomingPeering, none, now);
        if is_held(seen.foreign) {
            decision.actions.push(Action::Release);
        }
        return;
    }
    decision.come_back(left);
    let outgoing = outgoing::decide(decision, seen, remote, now);
    decision.report(Kind::OutgoingPeering, outgoing, now);
    let incoming = conditions::peering(seen.incoming, tenant);
    decision.report(Kind::IncomingPeering, incoming, now);
}
