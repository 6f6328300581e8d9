//! What a consumer does about an offer it received.
//!
//! ```text
//!   Pending ──(a person, with manual acceptance)──> Accepted ──> virtual kubelet runs
//!                                                      │
//!       refused, withdrawn or deleted                  v
//!   node drained by its virtual kubelet ──> virtual kubelet stopped ──> offer let go
//! ```

use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt as _;
use liqo_api::discovery::{ForeignCluster, OfferState, ResourceRequest};
use liqo_api::keys::finalizer;
use liqo_api::sharing::{OfferPhase, ResourceOffer, ResourceOfferStatus, VirtualKubeletStatus};

use crate::until;

/// All that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The offer received.
    pub offer: &'a ResourceOffer,
    /// The cluster that made it, if it is known.
    pub foreign: Option<&'a ForeignCluster>,
    /// Whether there is a virtual kubelet for it.
    pub kubelet: Kubelet,
    /// Whether there is a virtual node.
    pub has_node: bool,
    /// Whether offers are accepted without asking a person.
    pub auto_accept: bool,
    /// How long a node waits for its virtual kubelet to drain it.
    pub patience: SignedDuration,
}

/// How far a virtual kubelet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// There is none.
    Missing,
    /// It has been asked for.
    Starting,
    /// It runs.
    Running,
}

/// What becomes of a virtual kubelet while there is no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// An offer is on its way: what has to start may start.
    Start,
    /// Whatever there is may stay.
    Stay,
    /// No offer will come.
    Stop,
}

/// Decides what becomes of a virtual kubelet while there is no offer.
///
/// It takes as long to start as an offer takes to come, so both are done at once. Whoever answered
/// that there is nothing to offer is believed.
pub fn outlook(request: Option<&ResourceRequest>, auto_accept: bool) -> Outlook {
    let is_live = |request: &&ResourceRequest| {
        request.metadata.deletion_timestamp.is_none() && request.spec.withdrawal_timestamp.is_none()
    };
    let Some(request) = request.filter(is_live).filter(|_| auto_accept) else {
        return Outlook::Stop;
    };
    match request.status.as_ref().map(|status| status.offer_state) {
        None => Outlook::Start,
        Some(OfferState::Created) => Outlook::Stay,
        Some(OfferState::None) => Outlook::Stop,
    }
}

/// An effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the offer belong to the cluster that made it.
    Own,
    /// Keep the offer until its virtual kubelet and its node are gone.
    Hold,
    /// Run the virtual kubelet, as the flags want it now.
    Run,
    /// Stop the virtual kubelet.
    Stop,
    /// Remove the node in the place of its virtual kubelet, and tell users.
    RemoveNode,
    /// Let the offer go.
    Release,
}

/// What to do, in this order, and what to report then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Effects, in order.
    pub actions: Vec<Action>,
    /// The status to report.
    pub status: ResourceOfferStatus,
    /// When to look again, if nothing happens before.
    pub again: Option<SignedDuration>,
}

/// Decides what to do about an offer.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Decision {
    let offer = seen.offer;
    let before = offer.status.clone().unwrap_or_default();
    let phase = match before.phase {
        OfferPhase::Pending if seen.auto_accept => OfferPhase::Accepted,
        OfferPhase::Pending => OfferPhase::ManualActionRequired,
        phase @ (OfferPhase::ManualActionRequired | OfferPhase::Accepted | OfferPhase::Refused) => {
            phase
        }
    };
    let mut decision = Decision {
        actions: vec![],
        status: ResourceOfferStatus { phase, virtual_kubelet_status: VirtualKubeletStatus::None },
        again: None,
    };
    let has = |name: &str| offer.finalizers().iter().any(|finalizer| finalizer == name);
    let is_deleting = offer.metadata.deletion_timestamp.is_some();
    let is_new = |foreign: &ForeignCluster| {
        // What belongs to something on its way out would go with it.
        foreign.metadata.deletion_timestamp.is_none() && !is_owned_by(offer, foreign)
    };
    if !is_deleting && seen.foreign.is_some_and(is_new) {
        decision.actions.push(Action::Own);
    }
    let is_withdrawn = offer.spec.withdrawal_timestamp.is_some();
    if phase == OfferPhase::Accepted && !is_deleting && !is_withdrawn && seen.foreign.is_some() {
        if !finalizers().all(has) {
            decision.actions.push(Action::Hold);
        }
        decision.actions.push(Action::Run);
        decision.status.virtual_kubelet_status = VirtualKubeletStatus::Created;
        return decision;
    }
    // Who does not run has made no node to drain.
    let is_idle = !seen.has_node && seen.kubelet != Kubelet::Running;
    if has(finalizer::NODE) && !is_idle {
        decision.status.virtual_kubelet_status = VirtualKubeletStatus::Deleting;
        if seen.kubelet != Kubelet::Missing {
            // Draining takes as long as pods need; the virtual kubelet bounds it.
            return decision;
        }
        // Nobody is left to drain the node.
        let began = offer.spec.withdrawal_timestamp.as_ref();
        let began = offer.metadata.deletion_timestamp.as_ref().or(began);
        decision.again = until(began, seen.patience, now);
        if began.is_some() && decision.again.is_none() {
            decision.actions.push(Action::RemoveNode);
        }
        return decision;
    }
    let is_held = finalizers().any(has);
    if seen.kubelet != Kubelet::Missing || is_held {
        decision.actions.push(Action::Stop);
    }
    if is_held {
        decision.actions.push(Action::Release);
    }
    decision
}

/// What holds an offer that is used: its virtual kubelet, and the node that has to be drained.
pub fn finalizers() -> impl Iterator<Item = &'static str> {
    [finalizer::VIRTUAL_KUBELET, finalizer::NODE].into_iter()
}

fn is_owned_by(offer: &ResourceOffer, foreign: &ForeignCluster) -> bool {
    offer.owner_references().iter().any(|owner| Some(&owner.uid) == foreign.uid().as_ref())
}

#[cfg(test)]
mod tests;
