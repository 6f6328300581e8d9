//! The outgoing side of a peering: our request, from its making to its end.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use liqo_api::Time;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ClusterIdentity, OfferState, PeeringConditionStatus as Status, PeeringConditionType as Kind,
    PeeringEnabled, PeeringType, ResourceRequest, ResourceRequestSpec,
};
use liqo_api::keys::{label, reason};
use liqo_api::names::Cluster;

use super::{Action, Decision, Identity, Seen, is_there};
use crate::conditions::{self, Exchange, Finding};
use crate::{controller, sooner, until};

/// How long a provider that has no offer may take to say so; some never do.
const SILENCE: SignedDuration = SignedDuration::from_secs(10);

/// Decides on the outgoing side, and says how far it is then.
pub(super) fn decide(
    decision: &mut Decision,
    seen: &Seen<'_>,
    remote: &Cluster,
    now: Timestamp,
) -> Finding {
    let Some(tenant) = seen.tenant else {
        return conditions::peering(Exchange::default(), "of that cluster");
    };
    let is_wanted = is_wanted(seen);
    if is_wanted && matches!(seen.identity, Identity::Usable { .. }) {
        return ask(decision, seen, remote, tenant);
    }
    let Some(request) = seen.outgoing.request.filter(|request| is_there(Some(*request))) else {
        return conditions::peering(Exchange::default(), tenant);
    };
    if is_wanted {
        // Nobody wants it back: an identity that is lost is asked for until there is one again.
        return conditions::peering(seen.outgoing, tenant);
    }
    match end(seen, request, now) {
        End::Withdraw => {
            let at = request.spec.withdrawal_timestamp.clone().unwrap_or(Time(now));
            let withdrawn = written(seen, request.spec.auth_url.clone(), remote, tenant, Some(at));
            decision.actions.push(Action::Request(Box::new(withdrawn)));
            conditions::disconnecting(tenant)
        }
        End::Wait(left) => {
            decision.come_back(left);
            conditions::disconnecting(tenant)
        }
        End::Abandon => {
            decision.actions.push(Action::TellNotCleaned(format!(
                "{remote} did not answer for {} s; what it keeps of the peering is cleaned when \
                 it returns",
                seen.settings.patience.as_secs()
            )));
            decision.actions.push(Action::DeleteOffer);
            conditions::disconnecting(tenant)
        }
        End::Delete => {
            decision.actions.push(Action::DeleteRequest);
            conditions::peering(Exchange::default(), tenant)
        }
    }
}

/// Whether the user wants resources of the cluster.
fn is_wanted(seen: &Seen<'_>) -> bool {
    let is_lan = seen.foreign.labels().get(label::DISCOVERY_TYPE).map(String::as_str)
        == Some(label::DISCOVERY_LAN);
    seen.foreign.metadata.deletion_timestamp.is_none()
        && match seen.foreign.spec.outgoing_peering_enabled {
            PeeringEnabled::Yes => true,
            PeeringEnabled::No => false,
            PeeringEnabled::Auto => seen.settings.auto_join && is_lan,
        }
}

fn ask(decision: &mut Decision, seen: &Seen<'_>, remote: &Cluster, tenant: &str) -> Finding {
    let waiting = |why| {
        (
            Status::Pending,
            reason::RESOURCE_REQUEST_PENDING,
            format!("The request in namespace {tenant} {why}"),
        )
    };
    if seen.outgoing.request.is_some() && !is_there(seen.outgoing.request) {
        return waiting("can be made once the previous one is gone");
    }
    let url = match seen.auth_url {
        Ok(url) => url.to_owned(),
        // It was told another way, through the tunnel, when the clusters were introduced.
        Err(_) if seen.foreign.spec.peering_type == PeeringType::InBand => String::new(),
        Err(why) => {
            let message = format!(
                "No resources are asked for, because the remote cluster could not answer: {why}"
            );
            return (Status::None, reason::NO_RESOURCE_REQUEST, message);
        }
    };
    let request = written(seen, url, remote, tenant, None);
    decision.actions.push(Action::Request(Box::new(request)));
    match seen.outgoing.request {
        // What was withdrawn is about to be asked for again.
        Some(request) if request.spec.withdrawal_timestamp.is_some() => {
            let mut request = request.clone();
            request.spec.withdrawal_timestamp = None;
            let exchange = Exchange { request: Some(&request), offer: seen.outgoing.offer };
            conditions::peering(exchange, tenant)
        }
        Some(_) => conditions::peering(seen.outgoing, tenant),
        None => waiting("waits for an offer"),
    }
}

/// How our request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is taken back.
    Withdraw,
    /// The provider has its time to answer.
    Wait(Option<SignedDuration>),
    /// The provider is silent: what it offered is given up without it.
    Abandon,
    /// There is nothing left behind it.
    Delete,
}

fn end(seen: &Seen<'_>, request: &ResourceRequest, now: Timestamp) -> End {
    let status = request.status.clone().unwrap_or_default();
    let Some(withdrawn) = &request.spec.withdrawal_timestamp else { return End::Withdraw };
    let has_offer = seen.outgoing.offer.is_some();
    if status.offer_withdrawal_timestamp.is_some() && !has_offer {
        return End::Delete;
    }
    let (quiet, gone) =
        (until(Some(withdrawn), SILENCE, now), until(Some(withdrawn), seen.settings.patience, now));
    if status.offer_state == OfferState::None && !has_offer && quiet.is_none() {
        return End::Delete;
    }
    match gone {
        Some(_) => End::Wait(sooner(quiet, gone)),
        None if !is_silent(seen) => End::Wait(None),
        None if is_there(seen.outgoing.offer) => End::Abandon,
        // The offer has its own bounded way to go.
        None if has_offer => End::Wait(None),
        None => End::Delete,
    }
}

/// Whether the provider cannot be expected to answer.
fn is_silent(seen: &Seen<'_>) -> bool {
    let conditions = seen.foreign.status.as_ref().map(|status| &status.peering_conditions);
    let probed = conditions
        .map_or(Status::None, |conditions| peering_status(conditions, Kind::ApiServerStatus));
    probed != Status::Established
        || seen.identity == Identity::Missing
        || seen.foreign.metadata.deletion_timestamp.is_some()
}

/// Our request, as it is written.
fn written(
    seen: &Seen<'_>,
    auth_url: String,
    remote: &Cluster,
    tenant: &str,
    withdrawal_timestamp: Option<Time>,
) -> ResourceRequest {
    let labels = [(label::REPLICATION, label::TRUE), (label::REMOTE_ID, remote.id.as_str())];
    let metadata = ObjectMeta {
        name: Some(seen.home.name.to_string()),
        namespace: Some(tenant.to_owned()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![controller(seen.foreign)]),
        ..ObjectMeta::default()
    };
    let spec = ResourceRequestSpec {
        cluster_identity: ClusterIdentity::from(seen.home),
        auth_url,
        withdrawal_timestamp,
    };
    ResourceRequest { metadata, spec, status: None }
}
