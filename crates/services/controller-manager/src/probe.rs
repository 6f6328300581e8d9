//! Probes the API servers of peers, and reports when one stops or starts answering.
//!
//! Peers are known by their identifier, whatever their ForeignCluster is called. The first probe
//! follows at once when there is another identity than before. A new peer has a moment to show by
//! itself that its API server works: what it tells of our request or offer went through it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::{
    ForeignCluster, ForeignClusterStatus, PeeringCondition, PeeringConditionStatus,
    PeeringConditionType as Kind,
};
use liqo_api::keys::{event, manager};
use liqo_kit::apply::Writer;
use liqo_kit::client::{Identity, Manners};
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::watch::Key;
use liqo_peering::conditions::{Exchange, api_server, condition, has_answered};
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::world::{World, remote, tenant_of};
use liqo_kit::keyed::chain;

/// How long a new peer has to show by itself that its API server works.
const GRACE: Duration = Duration::from_secs(1);

/// A peer that is probed.
struct Probed {
    /// The version of the identity in use.
    identity: Version,
    client: Client,
    /// When to probe it next.
    due: Instant,
}

/// Identifier and version of an identity.
type Version = (Option<String>, Option<String>);

/// Probes peers.
pub struct Probes {
    world: World,
    events: Arc<Events>,
    manners: Manners,
    /// The pause between probes; none at all when it is zero.
    interval: Duration,
    limit: Duration,
    status: Writer,
    peers: Mutex<HashMap<Key, Probed>>,
}

impl Probes {
    /// Probes, with what they need.
    pub fn new(
        world: World,
        events: Arc<Events>,
        manners: Manners,
        interval: Duration,
        limit: Duration,
    ) -> Self {
        let status = Writer::owning(manager::API_SERVER_CHECKER);
        Self { world, events, manners, interval, limit, status, peers: Mutex::default() }
    }

    /// Probes a peer, unless it was probed a moment ago.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let foreign = self.world.clusters.object(&key);
        let foreign = foreign.filter(|foreign| foreign.metadata.deletion_timestamp.is_none());
        let now = Timestamp::now();
        let known = foreign.as_deref().and_then(remote);
        let identity = known.and_then(|cluster| self.world.identity_at(&cluster.id, now));
        let (Some(foreign), Some(identity)) = (foreign, identity) else {
            self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Ok(Next::AwaitChange);
        };
        if self.world.elder(&foreign).is_some() {
            return Ok(Next::AwaitChange);
        }
        if self.interval.is_zero() {
            self.report(&foreign, Ok(())).await?;
            return Ok(Next::AwaitChange);
        }
        let version = (identity.uid(), identity.resource_version());
        let is_new = last(&foreign).is_none();
        let client = match self.turn(&key, &version) {
            Some((client, left)) if left.is_zero() => client,
            Some((client, _)) if is_new && self.has_answered(&foreign) => {
                self.note(key, version, client, self.interval);
                self.report(&foreign, Ok(())).await?;
                return Ok(Next::RequeueAfter(self.interval));
            }
            Some((_, left)) => return Ok(Next::RequeueAfter(left)),
            None => {
                let config = Identity::try_from(&*identity)?.config().await?;
                let client = self.manners.client(config)?;
                if is_new {
                    self.note(key, version, client, GRACE);
                    return Ok(Next::RequeueAfter(GRACE));
                }
                client
            }
        };
        let answer = self.probe(&client).await;
        self.note(key, version, client, self.interval);
        self.report(&foreign, answer.as_ref().copied().map_err(String::as_str)).await?;
        Ok(Next::RequeueAfter(self.interval))
    }

    /// The client of a peer with this identity, and how long its next probe is away.
    fn turn(&self, key: &Key, version: &Version) -> Option<(Client, Duration)> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let probed = peers.get(key).filter(|probed| probed.identity == *version)?;
        Some((probed.client.clone(), probed.due.saturating_duration_since(Instant::now())))
    }

    /// Notes how a peer is asked, and when next.
    fn note(&self, key: Key, identity: Version, client: Client, pause: Duration) {
        let probed = Probed { identity, client, due: Instant::now() + pause };
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(key, probed);
    }

    /// Whether a peer has told something through its API server.
    fn has_answered(&self, foreign: &ForeignCluster) -> bool {
        let Some(tenant) = tenant_of(foreign) else { return false };
        let (request, offer) = (self.world.own_request(tenant), self.world.own_offer(tenant));
        has_answered(Exchange { request: request.as_deref(), offer: offer.as_deref() })
    }

    async fn probe(&self, client: &Client) -> Result<(), String> {
        let request = Request::get("/livez").body(vec![]).map_err(|error| error.to_string())?;
        match timeout(self.limit, client.request_text(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(chain(&error)),
            Err(_) => Err(format!("no answer within {:?}", self.limit)),
        }
    }

    /// Reports an answer, when it is another one than before.
    async fn report(
        &self,
        foreign: &ForeignCluster,
        answer: Result<(), &str>,
    ) -> Result<(), Error> {
        let finding = api_server(answer);
        let before = last(foreign);
        if before.is_some_and(|before| before.status == finding.0) {
            return Ok(());
        }
        let is_news = before.is_some() || answer.is_err();
        let message = finding.2.clone();
        let condition = condition(Kind::ApiServerStatus, finding, Timestamp::now());
        let metadata = kube::api::ObjectMeta {
            name: Some(foreign.name_any()),
            ..kube::api::ObjectMeta::default()
        };
        let status = ForeignClusterStatus {
            peering_conditions: vec![condition],
            ..ForeignClusterStatus::default()
        };
        let want = ForeignCluster { metadata, spec: foreign.spec.clone(), status: Some(status) };
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        self.status.apply_status(&api, &want, None).await?;
        if is_news {
            let reason = match answer {
                Ok(()) => event::API_SERVER_READY,
                Err(_) => event::API_SERVER_NOT_READY,
            };
            let note =
                Note { warning: answer.is_err(), reason, action: "Probe", message: &message };
            self.events.tell(foreign, note).await;
        }
        Ok(())
    }
}

/// What was reported last, if anything was.
fn last(foreign: &ForeignCluster) -> Option<&PeeringCondition> {
    let conditions = &foreign.status.as_ref()?.peering_conditions;
    let found = conditions.iter().find(|condition| condition.kind == Kind::ApiServerStatus)?;
    (found.status != PeeringConditionStatus::None).then_some(found)
}
