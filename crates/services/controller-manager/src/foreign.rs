//! The controller of ForeignClusters: observe, decide, act, report.

mod act;
mod handshake;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, ForeignClusterStatus, PeeringConditionType};
use liqo_api::keys::{manager, object};
use liqo_api::names::{Cluster, ClusterId};
use liqo_identity::signing::Application;
use liqo_identity::{address, secret, tenant};
use liqo_kit::apply::{Outcome, Writer};
use liqo_kit::client::Identity as Usable;
use liqo_kit::events::Events;
use liqo_kit::keyed::Next;
use liqo_kit::watch::Key;
use liqo_peering::conditions::{Attempt, Exchange};
use liqo_peering::foreign::{Action, Decision, Identity, Seen, Settings, decide};
use liqo_peering::silence;
use tokio::time::Instant;

use crate::error::Error;
use crate::monitor::Monitor;
use crate::world::{World, remote};

/// An object as we wrote it, and the version it was written over.
type Written = (Option<String>, Arc<ForeignCluster>);

/// The controller of ForeignClusters.
pub struct ForeignClusters {
    world: World,
    monitor: Arc<Monitor>,
    events: Arc<Events>,
    settings: Settings,
    resync: Duration,
    /// How long the API server of a peer is silent before the peer is asked where it is.
    pause: SignedDuration,
    requests: Writer,
    bindings: Writer,
    status: Writer,
    /// Keys for which a peer was asked and has not answered yet: the next try uses the same.
    applications: Mutex<HashMap<ClusterId, Application>>,
    /// When identities came.
    obtained: Mutex<HashMap<ClusterId, Timestamp>>,
    /// Which questions were refused, and when.
    refusals: Mutex<HashMap<ClusterId, (u64, Instant)>>,
    /// What was written last, by the version it was written over: watches lag behind writes.
    written: Mutex<HashMap<Key, Written>>,
}

/// What was found in the cluster, before it is looked at.
struct Found {
    foreign: Arc<ForeignCluster>,
    remote: Option<Cluster>,
    elder: Option<String>,
    tenant: Option<String>,
    identity: Option<(String, Option<SignedDuration>)>,
    auth_url: Result<String, String>,
}

impl ForeignClusters {
    /// The controller, with what it needs.
    pub fn new(
        world: World,
        monitor: Arc<Monitor>,
        events: Arc<Events>,
        settings: Settings,
        resync: Duration,
        pause: SignedDuration,
    ) -> Self {
        Self {
            world,
            monitor,
            events,
            settings,
            resync,
            pause,
            requests: Writer::owning(manager::FOREIGN_CLUSTER),
            bindings: Writer::owning(manager::FOREIGN_CLUSTER),
            status: Writer::owning(manager::FOREIGN_CLUSTER),
            applications: Mutex::default(),
            obtained: Mutex::default(),
            refusals: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Brings a ForeignCluster one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(foreign) = self.latest(&key) else {
            self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Ok(Next::AwaitChange);
        };
        let mut found = self.observe(foreign)?;
        let mut decision = self.decide(&found, None);
        let mut failure = None;
        if decision.actions.contains(&Action::Learn) {
            match self.learn(&found.foreign).await {
                // The change wakes us.
                Ok(()) => return Ok(Next::AwaitChange),
                Err(error) => {
                    decision = self.decide(&found, Some(&handshake::attempt(&error)));
                    failure = Some(error);
                }
            }
        } else if let (true, Some(remote)) =
            (decision.actions.contains(&Action::Authenticate), found.remote.clone())
        {
            match self.authenticate(&found.foreign, &remote, found.tenant.as_deref()).await {
                Ok((tenant, identity)) => {
                    found.tenant = Some(tenant);
                    let foreign = &found.foreign;
                    found.identity = self.usable(&identity, &remote.id, foreign, Timestamp::now());
                    decision = self.decide(&found, None);
                }
                Err(error) => {
                    decision = self.decide(&found, Some(&handshake::attempt(&error)));
                    failure = Some(error);
                }
            }
        }
        let acted = self.act(&found, &decision.actions).await;
        self.report(&found.foreign, decision.status).await?;
        acted?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Next::RequeueAfter(next(decision.again, self.resync))),
        }
    }

    fn observe(&self, foreign: Arc<ForeignCluster>) -> Result<Found, Error> {
        let now = Timestamp::now();
        let remote = remote(&foreign);
        let tenant = match &remote {
            Some(remote) => {
                tenant::existing(&self.world.tenants_of(&remote.id))?.map(str::to_owned)
            }
            None => None,
        };
        let identity = remote.as_ref().and_then(|remote| {
            self.usable(&*self.world.identity_at(&remote.id, now)?, &remote.id, &foreign, now)
        });
        let elder = self.world.elder(&foreign);
        Ok(Found { foreign, remote, elder, tenant, identity, auth_url: self.auth_url() })
    }

    fn decide(&self, found: &Found, attempt: Option<&Attempt>) -> Decision {
        let World { home, .. } = &self.world;
        let tenant = found.tenant.as_deref();
        let of_tenant = tenant.unwrap_or_default();
        let (own_request, received_offer) =
            (self.world.own_request(of_tenant), self.world.received_offer(of_tenant));
        let (received_request, own_offer) =
            (self.world.received_request(of_tenant), self.world.own_offer(of_tenant));
        let tunnel = found.remote.as_ref().and_then(|remote| self.world.tunnel_to(&remote.id));
        let refusal = tenant.and_then(|tenant| self.world.network_refusal(tenant));
        let seen = Seen {
            home,
            settings: self.settings,
            foreign: &found.foreign,
            elder: found.elder.as_deref(),
            tenant,
            identity: match &found.identity {
                Some((namespace, renewal)) => Identity::Usable { namespace, renewal: *renewal },
                None => Identity::Missing,
            },
            attempt,
            tunnel: tunnel.as_deref(),
            refusal: refusal.as_deref(),
            auth_url: found.auth_url.as_deref().map_err(String::as_str),
            outgoing: Exchange {
                request: own_request.as_deref(),
                offer: received_offer.as_deref(),
            },
            incoming: Exchange {
                request: received_request.as_deref(),
                offer: own_offer.as_deref(),
            },
        };
        decide(&seen, Timestamp::now())
    }

    /// The namespace of an identity that can be used, and how long it is until it is to be renewed.
    fn usable(
        &self,
        identity: &Secret,
        remote: &ClusterId,
        foreign: &ForeignCluster,
        now: Timestamp,
    ) -> Option<(String, Option<SignedDuration>)> {
        let usable = Usable::try_from(identity).ok()?;
        let validity = secret::validity(identity)?;
        if validity.has_ended(now) {
            return None;
        }
        let obtained = self.obtained.lock().unwrap_or_else(PoisonError::into_inner);
        let obtained = obtained.get(remote).copied();
        let due = obtained.map_or_else(|| validity.due(), |then| validity.due_since(then));
        if !secret::is_through(identity, proxy(foreign)) {
            return Some((usable.namespace, None));
        }
        let silent = silence::since(foreign);
        let again = silent.map(|since| silence::ask_again(since, obtained, self.pause));
        let left = again.map_or(due, |again| again.min(due)).duration_since(now);
        Some((usable.namespace, left.is_positive().then_some(left)))
    }

    /// Where peers reach our authentication service.
    fn auth_url(&self) -> Result<String, String> {
        let key = Key::namespaced(self.world.namespace.clone(), object::AUTH);
        let service = self.world.services.object(&key).ok_or_else(|| {
            format!("there is no Service {key}; is the authentication service installed?")
        })?;
        address::authentication(&service, &self.monitor.nodes()).map_err(|error| error.to_string())
    }

    /// The ForeignCluster as it is after our own last write, even if the watch has not shown it.
    fn latest(&self, key: &Key) -> Option<Arc<ForeignCluster>> {
        let foreign = self.world.clusters.object(key)?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match written.get(key) {
            Some((over, object))
                if *over == foreign.resource_version() && object.uid() == foreign.uid() =>
            {
                Some(Arc::clone(object))
            }
            Some(_) | None => Some(foreign),
        }
    }

    async fn report(
        &self,
        foreign: &ForeignCluster,
        status: ForeignClusterStatus,
    ) -> Result<(), Error> {
        let mut before = foreign.status.clone().unwrap_or_default();
        let is_ours = |kind| kind != PeeringConditionType::ApiServerStatus;
        before.peering_conditions.retain(|condition| is_ours(condition.kind));
        if before == status {
            return Ok(());
        }
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        let want = ForeignCluster {
            metadata: named(foreign),
            spec: foreign.spec.clone(),
            status: Some(status),
        };
        match self.status.apply_status(&api, &want, None).await {
            Ok(Outcome::Applied(mut object)) => {
                object.metadata.managed_fields = None;
                let over = foreign.resource_version();
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                written.insert(Key::of(foreign), (over, Arc::new(*object)));
                Ok(())
            }
            Ok(Outcome::Skipped) => Ok(()),
            // It went while we were at it.
            Err(_) if foreign.metadata.deletion_timestamp.is_some() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The proxy through which the API server of a cluster is reached, if any.
fn proxy(foreign: &ForeignCluster) -> Option<&str> {
    foreign.spec.foreign_proxy_url.as_deref().filter(|url| !url.is_empty())
}

/// The name of an object that exists, for a write.
fn named(foreign: &ForeignCluster) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { name: Some(foreign.name_any()), ..kube::api::ObjectMeta::default() }
}

/// When to look again: when time itself matters, or after the period of all resyncs.
pub fn next(again: Option<SignedDuration>, resync: Duration) -> Duration {
    let again = again.and_then(|again| Duration::try_from(again).ok());
    // A moment later rather than a moment too early.
    again.map_or(resync, |again| (again + Duration::from_millis(20)).min(resync))
}
