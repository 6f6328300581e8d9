//! What consumers use of their offers, followed in every replica.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use futures::future::join;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use liqo_admission::Verdict;
use liqo_admission::quota::{Claim, Ledger, demand};
use liqo_api::keys::label;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::{PodPhase, ShadowPod};
use liqo_kit::watch::{Key, Store, watch};
use liqo_offloading::shadow_pod::is_over;
use liqo_sharing::amounts::Amounts;
use tracing::warn;

/// What is said while nothing can be said.
pub const COUNTING: &str = "what is used of offers is still being counted";

/// What consumers use of their offers.
pub struct Quota {
    offers: Store<ResourceOffer>,
    ledger: Mutex<Ledger>,
    is_ready: tokio::sync::watch::Sender<bool>,
}

/// It could not be found out.
pub struct Unknown(pub String);

impl Quota {
    /// What is used, and the future that keeps it true.
    pub fn new(client: &Client) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        // Offers of this cluster, not those that others made to it.
        let own = format!("{},{}={}", label::CLUSTER_ID, label::REPLICATION, label::TRUE);
        let (offers, keys) = watch(Api::all(client.clone()), Config::default().labels(&own));
        let is_ready = tokio::sync::watch::Sender::new(false);
        let this = Arc::new(Self { offers, ledger: Mutex::default(), is_ready });
        let following = Arc::clone(&this).follow(client.clone());
        let offers = keys.for_each(|_| std::future::ready(()));
        (this, async {
            join(following, offers).await;
        })
    }

    /// Whether everything has been counted.
    pub fn is_ready(&self) -> bool {
        *self.is_ready.borrow()
    }

    /// Whether a new ShadowPod may be made.
    pub fn allow(&self, pod: &ShadowPod, rehearsal: bool) -> Result<Verdict, Unknown> {
        if !self.is_ready() {
            return Err(Unknown(COUNTING.to_owned()));
        }
        let demand = match demand(&pod.spec.pod) {
            Ok(demand) => demand,
            Err(why) => return Ok(Verdict::Denied(why)),
        };
        let origin = pod.labels().get(label::ORIGIN).map_or("", String::as_str);
        let offered = self.offered(origin).map_err(Unknown)?;
        let claim = Claim { origin: origin.into(), demand, has_started: false, is_ending: false };
        let (key, now) = (Key::of(pod).to_string(), Timestamp::now());
        Ok(self.ledger().allow(&key, claim, &offered, rehearsal, now))
    }

    /// Whether a pod may be started; why not, if it may not.
    pub fn start(
        &self,
        key: &Key,
        origin: &str,
        spec: &PodSpec,
        has_started: bool,
    ) -> Result<(), String> {
        if has_started {
            return Ok(());
        }
        let demand = demand(spec)?;
        let offered = self.offered(origin)?;
        let claim = Claim { origin: origin.into(), demand, has_started, is_ending: false };
        self.ledger().start(&key.to_string(), &claim, &offered)
    }

    /// Takes back that a pod was about to start.
    pub fn stay(&self, key: &Key) {
        self.ledger().stay(&key.to_string());
    }

    /// What a consumer was offered.
    fn offered(&self, origin: &str) -> Result<Amounts, String> {
        let offers = self.offers.objects();
        let own = offers.iter().filter(|offer| {
            offer.labels().get(label::CLUSTER_ID).map(String::as_str) == Some(origin)
        });
        let offer = own.min_by_key(|offer| (offer.namespace(), offer.name_any()));
        let offer = offer.ok_or_else(|| format!("cluster {origin} was offered nothing"))?;
        let quota = offer.spec.resource_quota.as_ref();
        Ok(Amounts::readable(quota.and_then(|quota| quota.hard.as_ref())))
    }

    /// Follows all ShadowPods, of which only sums are kept.
    async fn follow(self: Arc<Self>, client: Client) {
        let all: Api<ShadowPod> = Api::all(client);
        let mut events = watcher(all, Config::default()).default_backoff().boxed();
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => {
                    listed.insert(Key::of(&pod).to_string());
                    self.see(&pod, true);
                }
                Ok(Event::InitDone) => {
                    self.ledger().keep(|key| listed.contains(key));
                    listed = HashSet::new();
                    let offers = self.offers.wait_until_ready().await;
                    self.is_ready.send_replace(offers.is_ok());
                }
                Ok(Event::Apply(pod)) => self.see(&pod, true),
                Ok(Event::Delete(pod)) => self.see(&pod, false),
                Err(error) => warn!(%error, "Watch of ShadowPods interrupted"),
            }
        }
    }

    fn see(&self, pod: &ShadowPod, is_there: bool) {
        let spec = &pod.spec.pod;
        let phase = pod.status.unwrap_or_default().phase;
        let is_over = is_over(spec.restart_policy.as_deref(), phase);
        let claim = (is_there && !is_over).then(|| Claim {
            origin: pod.labels().get(label::ORIGIN).map_or("", String::as_str).into(),
            // Made before limits were asked for, perhaps; it counts as far as it says.
            demand: demand(spec).unwrap_or_default(),
            has_started: phase != PodPhase::Unknown,
            is_ending: pod.metadata.deletion_timestamp.is_some(),
        });
        self.ledger().see(&Key::of(pod).to_string(), claim);
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
