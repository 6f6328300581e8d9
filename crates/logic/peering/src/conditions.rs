//! What a ForeignCluster says of itself, as functions of what was seen.

use jiff::Timestamp;
use liqo_api::Time;
use liqo_api::discovery::{
    OfferState, PeeringCondition, PeeringConditionStatus as Status, PeeringConditionType as Kind,
    ResourceRequest,
};
use liqo_api::keys::{object, reason};
use liqo_api::names::ClusterId;
use liqo_api::net::{ConnectionStatus, TunnelEndpoint};
use liqo_api::sharing::{ResourceOffer, VirtualKubeletStatus};

/// A condition without the aspect and the time: status, reason and message.
pub type Finding = (Status, &'static str, String);

/// Makes a condition of a finding.
pub fn condition(
    kind: Kind,
    (status, reason, message): Finding,
    now: Timestamp,
) -> PeeringCondition {
    PeeringCondition::new(kind, status, reason, message, Time(now))
}

/// A request, and the offer that answers it: in one direction or the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange<'a> {
    /// The request.
    pub request: Option<&'a ResourceRequest>,
    /// The offer.
    pub offer: Option<&'a ResourceOffer>,
}

/// Whether a peer has said what it makes of our request or of our offer.
pub fn has_answered(ours: Exchange<'_>) -> bool {
    let request = ours.request.filter(|request| request.metadata.deletion_timestamp.is_none());
    let offer = ours.offer.filter(|offer| offer.metadata.deletion_timestamp.is_none());
    request.is_some_and(|request| request.status.is_some())
        || offer.is_some_and(|offer| offer.status.is_some())
}

/// How far a peering has come in one direction.
pub fn peering(exchange: Exchange<'_>, tenant: &str) -> Finding {
    let Some(request) = exchange.request else {
        return (
            Status::None,
            reason::NO_RESOURCE_REQUEST,
            format!("Nobody asks for resources in namespace {tenant}"),
        );
    };
    let status = request.status.clone().unwrap_or_default();
    let pending = (
        Status::Pending,
        reason::RESOURCE_REQUEST_PENDING,
        format!("The request in namespace {tenant} waits for an offer"),
    );
    if status.offer_state == OfferState::None {
        return pending;
    }
    if request.spec.withdrawal_timestamp.is_some() || status.offer_withdrawal_timestamp.is_some() {
        return disconnecting(tenant);
    }
    match exchange.offer.map(|offer| offer.status.clone().unwrap_or_default()) {
        None => pending,
        Some(offer) if offer.virtual_kubelet_status == VirtualKubeletStatus::Created => (
            Status::Established,
            reason::RESOURCE_REQUEST_ACCEPTED,
            format!("The resources asked for in namespace {tenant} are in use"),
        ),
        Some(_) => (
            Status::Pending,
            reason::KUBELET_PENDING,
            format!("The offer in namespace {tenant} waits for its virtual kubelet"),
        ),
    }
}

/// A peering that is being taken back.
pub fn disconnecting(tenant: &str) -> Finding {
    (
        Status::Disconnecting,
        reason::RESOURCE_REQUEST_DELETING,
        format!("The resources asked for in namespace {tenant} are being given back"),
    )
}

/// How the network is doing; nothing while the tunnel itself does not say.
///
/// What the peer says of its network may be refused, whether there is a tunnel from before or not.
pub fn network(
    tunnel: Option<&TunnelEndpoint>,
    refusal: Option<&str>,
    tenant: &str,
) -> Option<Finding> {
    if let Some(refusal) = refusal {
        return Some((
            Status::Error,
            reason::NETWORK_CONFIG_REFUSED,
            format!("The networks are not connected: {refusal}"),
        ));
    }
    let Some(tunnel) = tunnel else {
        return Some((
            Status::None,
            reason::TUNNEL_ENDPOINT_NOT_FOUND,
            format!("There is no tunnel in namespace {tenant}"),
        ));
    };
    let connection = tunnel.status.as_ref()?.connection.as_ref()?;
    Some(match connection.status? {
        ConnectionStatus::Connecting => connecting(tenant),
        ConnectionStatus::Connected => (
            Status::Established,
            reason::TUNNEL_ENDPOINT_AVAILABLE,
            format!("The tunnel of namespace {tenant} works"),
        ),
        ConnectionStatus::Error => (
            Status::Error,
            reason::TUNNEL_ENDPOINT_ERROR,
            connection.status_message.clone().unwrap_or_else(|| "The tunnel has failed".to_owned()),
        ),
    })
}

/// The tunnel is being set up.
pub fn connecting(tenant: &str) -> Finding {
    (
        Status::Pending,
        reason::TUNNEL_ENDPOINT_CONNECTING,
        format!("The tunnel of namespace {tenant} is being set up"),
    )
}

/// The network is somebody else's.
pub fn external_network() -> Finding {
    let message = "Somebody else connects the pods of the two clusters";
    (Status::External, reason::EXTERNAL_NETWORK, message.to_owned())
}

/// Whether the remote API server answers.
pub fn api_server(answer: Result<(), &str>) -> Finding {
    match answer {
        Ok(()) => (
            Status::Established,
            reason::API_SERVER_READY,
            "The API server of the remote cluster answers".to_owned(),
        ),
        Err(why) => (
            Status::Error,
            reason::API_SERVER_NOT_READY,
            format!("The API server of the remote cluster does not answer: {why}"),
        ),
    }
}

/// What came of asking the remote cluster for an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It refused.
    Refused {
        /// Whether a token was presented.
        had_token: bool,
    },
    /// Somebody else answered.
    Mistaken(String),
    /// It did not answer.
    Unreachable(String),
    /// Something else went wrong.
    Failed(String),
}

/// Why there is no identity.
pub fn no_identity(attempt: &Attempt, remote: &ClusterId) -> Finding {
    let secret = object::remote_token_secret(remote);
    match attempt {
        Attempt::Refused { had_token: false } => (
            Status::EmptyDenied,
            reason::IDENTITY_EMPTY_DENIED,
            format!(
                "The remote cluster wants a token and got none; put its token into Secret {secret}"
            ),
        ),
        Attempt::Refused { had_token: true } => (
            Status::Denied,
            reason::IDENTITY_DENIED,
            format!(
                "The remote cluster refused the token; put the right one into Secret {secret}, or \
                 peer again with what `liqoctl generate peer-command` says there"
            ),
        ),
        Attempt::Mistaken(why) => (
            Status::Denied,
            reason::IDENTITY_DENIED,
            format!("Not the authentication service of the remote cluster: {why}"),
        ),
        Attempt::Unreachable(why) => (
            Status::Error,
            reason::AUTH_NOT_REACHABLE,
            format!("The authentication service of the remote cluster does not answer: {why}"),
        ),
        Attempt::Failed(why) => (
            Status::Error,
            reason::IDENTITY_ERROR,
            format!("The remote cluster gave no identity: {why}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{accepted, offer, request, time};

    #[test]
    fn a_peer_has_answered_once_it_tells_what_it_makes_of_something_of_ours() {
        let mut asked = request(OfferState::None);
        asked.status = None;
        let offered = offer("rome");
        let silent = Exchange { request: Some(&asked), offer: Some(&offered) };
        assert!(!has_answered(Exchange::default()) && !has_answered(silent));
        let answered = request(OfferState::None);
        assert!(has_answered(Exchange { request: Some(&answered), ..silent }));
        let taken = accepted(VirtualKubeletStatus::None);
        assert!(has_answered(Exchange { offer: Some(&taken), ..silent }));
    }

    #[test]
    fn what_was_said_of_something_that_goes_is_no_answer() {
        let mut old = request(OfferState::None);
        old.metadata.deletion_timestamp = Some(time(0));
        assert!(!has_answered(Exchange { request: Some(&old), offer: None }));
    }
}
