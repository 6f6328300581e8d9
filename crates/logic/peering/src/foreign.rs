//! What to do about a ForeignCluster, on either side of a peering.
//!
//! ```text
//!   known? ──/ids──> processable? ──token, CSR──> authenticated ──> request ──> grants
//!                                                                     │
//!          outgoing `No`, or the ForeignCluster is being deleted      v
//!   request withdrawn ──the provider says its offer is gone──> request deleted
//!          └──it stays silent for too long──> offer and request deleted, and that is told
//! ```
//!
//! The tenant namespace is made when the remote cluster has accepted us, not before: a refused
//! token leaves nothing behind.

mod outgoing;
mod teardown;

use http::Uri;
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt as _;
use liqo_api::condition::{peering_status, set};
use liqo_api::discovery::{
    ForeignCluster, ForeignClusterStatus, PeeringConditionStatus as Status,
    PeeringConditionType as Kind, PeeringEnabled, PeeringType, ResourceRequest,
};
use liqo_api::keys::{finalizer, label, reason};
use liqo_api::names::Cluster;
use liqo_api::net::TunnelEndpoint;

use crate::conditions::{self, Attempt, Exchange, Finding, condition};
use crate::grants::Grant;
use crate::sooner;

/// What the flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether to peer with clusters found on the local network unless told otherwise.
    pub auto_join: bool,
    /// Whether somebody else takes care of the network.
    pub external_network: bool,
    /// Whether remote API servers are probed.
    pub is_probing: bool,
    /// How long a peer that does not answer can hold up the end of a peering.
    pub patience: SignedDuration,
}

/// What identity this cluster has at the remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// None that could be used.
    Missing,
    /// One that can be used.
    Usable {
        /// The namespace that the remote cluster keeps for this one.
        namespace: &'a str,
        /// How long it is until it should be renewed; nothing when that is now.
        renewal: Option<SignedDuration>,
    },
}

/// All that a decision depends on.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// This cluster.
    pub home: &'a Cluster,
    /// What the flags say.
    pub settings: Settings,
    /// The ForeignCluster.
    pub foreign: &'a ForeignCluster,
    /// An older ForeignCluster of the same cluster.
    pub elder: Option<&'a str>,
    /// The tenant namespace, if it exists.
    pub tenant: Option<&'a str>,
    /// The identity.
    pub identity: Identity<'a>,
    /// What came of asking the remote cluster just now, if it was asked.
    pub attempt: Option<&'a Attempt>,
    /// The tunnel.
    pub tunnel: Option<&'a TunnelEndpoint>,
    /// Why what the peer says of the network is refused.
    pub refusal: Option<&'a str>,
    /// Where peers reach our authentication service, or why that is not known.
    pub auth_url: Result<&'a str, &'a str>,
    /// Our request, and the offer received.
    pub outgoing: Exchange<'a>,
    /// The request received, and our offer.
    pub incoming: Exchange<'a>,
}

/// An effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the remote cluster who it is, and write that down.
    Learn,
    /// Ask the remote cluster for an identity, and decide again.
    Authenticate,
    /// Label the ForeignCluster with the identifier of its cluster.
    Label,
    /// Keep the ForeignCluster until [`Action::Release`].
    Hold,
    /// Let the ForeignCluster go.
    Release,
    /// Grant a role to the peer.
    Bind(Grant),
    /// Take a role from the peer.
    Unbind(Grant),
    /// Write our request.
    Request(Box<ResourceRequest>),
    /// Delete our request.
    DeleteRequest,
    /// Delete the offer received.
    DeleteOffer,
    /// Tell users that the peer may keep something.
    TellNotCleaned(String),
    /// Delete the ForeignCluster.
    Delete,
}

/// What to do, in this order, and what to report then.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Effects, in order.
    pub actions: Vec<Action>,
    /// The status to report.
    pub status: ForeignClusterStatus,
    /// When to look again, if nothing happens before.
    pub again: Option<SignedDuration>,
}

/// Decides what to do about a ForeignCluster.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision { actions: vec![], status: own_status(seen.foreign), again: None };
    let is_deleting = seen.foreign.metadata.deletion_timestamp.is_some();
    match remote(seen) {
        Err(problem) => decision.report(Kind::ProcessForeignClusterStatus, problem, now),
        Ok(None) if is_deleting => {}
        Ok(None) => match seen.attempt {
            None => decision.actions.push(Action::Learn),
            Some(attempt) => decision.report(Kind::AuthenticationStatus, unknown(attempt), now),
        },
        Ok(Some(remote)) => {
            decide_on_known(&mut decision, seen, &remote, now);
            return decision;
        }
    }
    // Nothing was ever begun in its name.
    if is_deleting && is_held(seen.foreign) {
        decision.actions.push(Action::Release);
    }
    decision
}

fn decide_on_known(decision: &mut Decision, seen: &Seen<'_>, remote: &Cluster, now: Timestamp) {
    let is_deleting = seen.foreign.metadata.deletion_timestamp.is_some();
    let fine = (
        Status::Success,
        reason::FOREIGN_CLUSTER_PROCESSABLE,
        "The cluster is known, and there is nothing wrong with it".to_owned(),
    );
    decision.report(Kind::ProcessForeignClusterStatus, fine, now);
    if seen.foreign.labels().get(label::CLUSTER_ID).map(String::as_str) != Some(remote.id.as_str())
    {
        decision.actions.push(Action::Label);
    }
    decision.status.tenant_namespace.local = seen.tenant.map(str::to_owned);
    let expected = remote.tenant_namespace().map(String::from).unwrap_or_default();
    let tenant = seen.tenant.unwrap_or(&expected);
    let network = if seen.settings.external_network {
        Some(conditions::external_network())
    } else {
        // What was refused and is not any more is not to be read as refused.
        conditions::network(seen.tunnel, seen.refusal, tenant)
            .or_else(|| was_refused(&decision.status).then(|| conditions::connecting(tenant)))
    };
    if let Some(network) = network {
        decision.report(Kind::NetworkStatus, network, now);
    }
    decision.authenticate(seen, remote, is_deleting, now);
    let is_waiting = decision.actions.contains(&Action::Authenticate);
    if is_waiting && seen.identity == Identity::Missing {
        return;
    }
    if is_deleting {
        teardown::decide(decision, seen, remote, now);
    } else {
        if seen.settings.is_probing && !is_held(seen.foreign) && seen.tenant.is_some() {
            decision.actions.push(Action::Hold);
        }
        let outgoing = outgoing::decide(decision, seen, remote, now);
        decision.report(Kind::OutgoingPeering, outgoing, now);
        let incoming = conditions::peering(seen.incoming, tenant);
        decision.report(Kind::IncomingPeering, incoming, now);
    }
    decision.grant(seen.tenant.is_some());
    if is_left_over(seen, &decision.status) {
        decision.actions.push(Action::Delete);
    }
}

impl Decision {
    fn report(&mut self, kind: Kind, finding: Finding, now: Timestamp) {
        set(&mut self.status.peering_conditions, condition(kind, finding, now));
    }

    fn come_back(&mut self, after: Option<SignedDuration>) {
        self.again = sooner(self.again, after);
    }

    fn authenticate(
        &mut self,
        seen: &Seen<'_>,
        remote: &Cluster,
        is_deleting: bool,
        now: Timestamp,
    ) {
        match (seen.identity, seen.attempt) {
            (Identity::Usable { namespace, renewal }, attempt) => {
                self.status.tenant_namespace.remote = Some(namespace.to_owned());
                let accepted = (
                    Status::Established,
                    reason::IDENTITY_ACCEPTED,
                    "The remote cluster has accepted the identity of this one".to_owned(),
                );
                self.report(Kind::AuthenticationStatus, accepted, now);
                match renewal {
                    Some(_) => self.come_back(renewal),
                    None if attempt.is_none() && !is_deleting => {
                        self.actions.push(Action::Authenticate);
                    }
                    None => {}
                }
            }
            (Identity::Missing, Some(attempt)) => {
                self.status.tenant_namespace.remote = None;
                let refusal = conditions::no_identity(attempt, &remote.id);
                self.report(Kind::AuthenticationStatus, refusal, now);
            }
            // The way there is the tunnel, whose news wakes us.
            (Identity::Missing, None) if is_deleting || awaits_tunnel(seen, &self.status) => {}
            (Identity::Missing, None) => self.actions.push(Action::Authenticate),
        }
    }

    /// Grants go first: what the peer writes in answer to a request must be allowed by then.
    fn grant(&mut self, has_tenant: bool) {
        if !has_tenant {
            return;
        }
        let conditions = &self.status.peering_conditions;
        let grants = Grant::ALL.map(|grant| {
            if grant.is_due(conditions) { Action::Bind(grant) } else { Action::Unbind(grant) }
        });
        self.actions.splice(0..0, grants);
    }
}

/// The status as far as it is written here: the API server is somebody else's to report on.
fn own_status(foreign: &ForeignCluster) -> ForeignClusterStatus {
    let mut status = foreign.status.clone().unwrap_or_default();
    status.peering_conditions.retain(|condition| condition.kind != Kind::ApiServerStatus);
    status
}

/// The cluster that is meant; nothing when it has to be asked first.
fn remote(seen: &Seen<'_>) -> Result<Option<Cluster>, Finding> {
    let refuse = |reason, message| Err((Status::Error, reason, message));
    let spec = &seen.foreign.spec;
    let Some(identity) = &spec.cluster_identity else { return Ok(None) };
    if identity.cluster_id == seen.home.id.as_str() {
        let message = "This is the cluster itself; a cluster does not peer with itself";
        return refuse(reason::LOCAL_CLUSTER, message.to_owned());
    }
    if identity.cluster_id.is_empty() || identity.cluster_name.is_empty() {
        return Ok(None);
    }
    let cluster = match identity.parse() {
        Ok(cluster) => cluster,
        Err(error) => return refuse(reason::INVALID_CLUSTER_IDENTITY, error.to_string()),
    };
    if let Err(error) = cluster.tenant_namespace() {
        return refuse(reason::INVALID_CLUSTER_IDENTITY, error.to_string());
    }
    if let Some(elder) = seen.elder {
        let message =
            format!("ForeignCluster {elder} is the same cluster and older; delete one of the two");
        return refuse(reason::CLUSTER_ID_REPETITION, message);
    }
    match spec.foreign_proxy_url.as_deref() {
        Some(url) if !url.is_empty() && !is_url(url) => {
            let message = format!("'{url}' is no URL such as http://proxy.example:8118");
            refuse(reason::INVALID_PROXY_URL, message)
        }
        Some(_) | None => Ok(Some(cluster)),
    }
}

fn is_url(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some())
}

fn unknown(attempt: &Attempt) -> Finding {
    let why = match attempt {
        Attempt::Refused { .. } => "it refuses to say who it is".to_owned(),
        Attempt::Mistaken(why) | Attempt::Unreachable(why) | Attempt::Failed(why) => why.clone(),
    };
    let message =
        format!("The authentication service of the remote cluster does not say who it is: {why}");
    (Status::Error, reason::AUTH_NOT_REACHABLE, message)
}

/// Whether a cluster that is reached through the tunnel cannot be reached yet.
fn awaits_tunnel(seen: &Seen<'_>, status: &ForeignClusterStatus) -> bool {
    let network = peering_status(&status.peering_conditions, Kind::NetworkStatus);
    seen.foreign.spec.peering_type == PeeringType::InBand
        && !matches!(network, Status::Established | Status::External)
}

fn was_refused(status: &ForeignClusterStatus) -> bool {
    status.peering_conditions.iter().any(|condition| {
        condition.kind == Kind::NetworkStatus
            && condition.reason.as_deref() == Some(reason::NETWORK_CONFIG_REFUSED)
    })
}

fn is_held(foreign: &ForeignCluster) -> bool {
    foreign.finalizers().iter().any(|name| name == finalizer::API_SERVER_CHECKER)
}

/// Whether a ForeignCluster that nobody made by hand has no purpose any more.
fn is_left_over(seen: &Seen<'_>, status: &ForeignClusterStatus) -> bool {
    let is_idle = |kind| peering_status(&status.peering_conditions, kind) == Status::None;
    let origin = seen.foreign.labels().get(label::DISCOVERY_TYPE).map(String::as_str);
    origin == Some(label::DISCOVERY_INCOMING_PEERING)
        && seen.foreign.metadata.deletion_timestamp.is_none()
        && seen.foreign.spec.outgoing_peering_enabled != PeeringEnabled::Yes
        && seen.incoming.request.is_none()
        && is_idle(Kind::IncomingPeering)
        && is_idle(Kind::OutgoingPeering)
}

/// Whether an offer or a request is there, and not just about to go.
fn is_there<K: kube_core::Resource>(object: Option<&K>) -> bool {
    object.is_some_and(|object| object.meta().deletion_timestamp.is_none())
}

#[cfg(test)]
mod tests;
