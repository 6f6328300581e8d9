//! What a provider does about a request for its resources.
//!
//! ```text
//!   received ──allowed──> offer made ──withdrawn or denied──> offer withdrawn ──no virtual
//!      │                      ^                                    │            kubelet left──┐
//!      │ denied               │ allowed again                      └─consumer silent──────────┤
//!      v                      │                                                               v
//!   no offer <────────────────┴───────────────────────────────────────────────── offer deleted
//! ```
//!
//! Whoever gets no offer is told so with a time stamp, whether there ever was one or not.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{Resource, ResourceExt as _};
use liqo_api::Time;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, ForeignClusterSpec, OfferState, PeeringConditionStatus, PeeringConditionType,
    PeeringEnabled, ResourceRequest, ResourceRequestStatus,
};
use liqo_api::keys::label;
use liqo_api::names::{Cluster, InvalidName};
use liqo_api::sharing::{ResourceOffer, VirtualKubeletStatus};

use crate::until;

/// What is made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered with an offer.
    Allow,
    /// It is not wanted.
    Deny,
    /// It has been taken back.
    Deleting,
}

/// All that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The request received.
    pub request: &'a ResourceRequest,
    /// The cluster that asks, if it is known.
    pub foreign: Option<&'a ForeignCluster>,
    /// Our offer.
    pub offer: Option<&'a ResourceOffer>,
    /// Whether requests are allowed unless told otherwise.
    pub is_open: bool,
    /// How long a consumer that does not answer can keep an offer.
    pub patience: SignedDuration,
}

/// An effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the cluster that asks known.
    Introduce,
    /// Make the request belong to the cluster that asks.
    Own,
    /// Let the consumer read the metrics of its pods.
    GrantMetrics,
    /// Take that back.
    RevokeMetrics,
    /// Make the offer, or bring it up to date.
    Offer,
    /// Ask for the resources back.
    WithdrawOffer(Time),
    /// Delete the offer.
    DeleteOffer,
}

/// What to do, in this order, and what to report then.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is made of the request.
    pub verdict: Verdict,
    /// Effects, in order.
    pub actions: Vec<Action>,
    /// The status to report; whether there is an offer is known after the actions.
    pub status: ResourceRequestStatus,
    /// When to look again, if nothing happens before.
    pub again: Option<SignedDuration>,
}

/// Decides what to do about a request.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Decision {
    let verdict = judge(seen);
    let mut decision = Decision {
        verdict,
        actions: vec![],
        status: ResourceRequestStatus::default(),
        again: None,
    };
    if seen.foreign.is_none() && verdict != Verdict::Deleting {
        decision.actions.push(Action::Introduce);
    }
    let is_new = |foreign: &ForeignCluster| {
        // What belongs to something on its way out would go with it.
        !is_deleting(foreign) && !is_owned_by(seen.request, foreign)
    };
    if seen.foreign.is_some_and(is_new) && seen.request.metadata.deletion_timestamp.is_none() {
        decision.actions.push(Action::Own);
    }
    match verdict {
        Verdict::Allow => decision.offer(seen),
        Verdict::Deny | Verdict::Deleting => decision.take_back(seen, now),
    }
    decision
}

impl Decision {
    fn offer(&mut self, seen: &Seen<'_>) {
        self.actions.push(Action::GrantMetrics);
        // One that is on its way out is made again once it is gone.
        if !seen.offer.is_some_and(is_deleting) {
            self.actions.push(Action::Offer);
            self.status.offer_state = OfferState::Created;
        }
    }

    fn take_back(&mut self, seen: &Seen<'_>, now: Timestamp) {
        self.actions.push(Action::RevokeMetrics);
        let before = seen.request.status.clone().unwrap_or_default();
        let Some(offer) = seen.offer else {
            let since = before.offer_withdrawal_timestamp.unwrap_or(Time(now));
            self.status.offer_withdrawal_timestamp = Some(since);
            return;
        };
        self.status.offer_state = OfferState::Created;
        self.status.offer_withdrawal_timestamp = before.offer_withdrawal_timestamp;
        let withdrawn = offer.spec.withdrawal_timestamp.as_ref();
        let is_used = offer
            .status
            .as_ref()
            .is_some_and(|status| status.virtual_kubelet_status != VirtualKubeletStatus::None);
        let left = until(withdrawn, seen.patience, now);
        if is_deleting(offer) {
            // It goes once its copy has gone; a consumer that is silent does not hold the answer up.
            let left = until(offer.metadata.deletion_timestamp.as_ref(), seen.patience, now);
            if left.is_none() {
                self.status.offer_state = OfferState::None;
                let since = self.status.offer_withdrawal_timestamp.take().unwrap_or(Time(now));
                self.status.offer_withdrawal_timestamp = Some(since);
            }
            self.again = left;
        } else if !is_used || (withdrawn.is_some() && left.is_none() && is_silent(seen.foreign)) {
            self.actions.push(Action::DeleteOffer);
        } else {
            let since = withdrawn.cloned().unwrap_or(Time(now));
            self.actions.push(Action::WithdrawOffer(since));
            self.again = left;
        }
    }
}

fn judge(seen: &Seen<'_>) -> Verdict {
    let enabled = seen.foreign.map_or(PeeringEnabled::Auto, |foreign| {
        // What is about to go lends nothing any more.
        match foreign.metadata.deletion_timestamp {
            Some(_) => PeeringEnabled::No,
            None => foreign.spec.incoming_peering_enabled,
        }
    });
    if is_deleting(seen.request) || seen.request.spec.withdrawal_timestamp.is_some() {
        return Verdict::Deleting;
    }
    match enabled {
        PeeringEnabled::Yes => Verdict::Allow,
        PeeringEnabled::Auto if seen.is_open => Verdict::Allow,
        PeeringEnabled::Auto | PeeringEnabled::No => Verdict::Deny,
    }
}

/// Whether the consumer cannot be expected to answer.
fn is_silent(foreign: Option<&ForeignCluster>) -> bool {
    let status = foreign.and_then(|foreign| foreign.status.as_ref());
    let probed = status.map_or(PeeringConditionStatus::None, |status| {
        peering_status(&status.peering_conditions, PeeringConditionType::ApiServerStatus)
    });
    probed != PeeringConditionStatus::Established
}

fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn is_owned_by(request: &ResourceRequest, foreign: &ForeignCluster) -> bool {
    request.owner_references().iter().any(|owner| Some(&owner.uid) == foreign.uid().as_ref())
}

/// The ForeignCluster that makes a consumer known.
///
/// When its name belongs to another cluster already, only the object gets another name: what the
/// cluster calls itself stays what it is.
pub fn introduce(
    request: &ResourceRequest,
    is_taken: impl Fn(&str) -> bool,
) -> Result<ForeignCluster, InvalidName> {
    let consumer: Cluster = request.spec.cluster_identity.parse()?;
    let plain = consumer.name.to_string();
    let name = if is_taken(&plain) { consumer.unique_name().to_string() } else { plain };
    let labels = [
        (label::DISCOVERY_TYPE, label::DISCOVERY_INCOMING_PEERING),
        (label::CLUSTER_ID, consumer.id.as_str()),
    ];
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    let spec = ForeignClusterSpec {
        cluster_identity: Some(request.spec.cluster_identity.clone()),
        ..ForeignClusterSpec::reached_at(request.spec.auth_url.clone())
    };
    Ok(ForeignCluster { metadata, spec, status: None })
}

#[cfg(test)]
mod tests;
