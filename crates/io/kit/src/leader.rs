//! One of several replicas leads: the one that holds a Lease.
//!
//! ```text
//!  waiting ──free, or not renewed for its duration──> leading ──done──> released
//!     ^                                                  │
//!     └───────────── (by its caller's choice) <── lost ──┘ not renewed within the deadline
//! ```
//!
//! The rules are those of Kubernetes' own components, so that replicas of either kind respect each
//! other. Clocks of different machines are never compared: a Lease is stale when *this* process
//! has seen no change of it for as long as it lasts. A leader gives up after the deadline, which is
//! shorter than that, so there are never two.
//!
//! One that cannot renew because the API server does not answer, and that nobody could follow, may go on
//! for longer, if its caller says so: see [`Solitude`].

mod term;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::term::{Move, Observed};
use crate::keyed::chain;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait for a leader that does not renew; whole seconds.
    pub lease: Duration,
    /// How long a leader may fail to renew before it gives up; shorter than the lease.
    pub deadline: Duration,
    /// The pause between two attempts, to lead or to renew.
    pub pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let [lease, deadline, pause] = [15, 10, 2].map(Duration::from_secs);
        Self { lease, deadline, pause }
    }
}

/// Timings under which there could be two leaders, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lease must be longer than the deadline, and that longer than the pause, which is not zero"
)]
pub struct BadTiming;

/// The Lease could not be renewed in time: somebody else may lead by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leadership was lost")]
pub struct Lost;

/// When a leader goes on that cannot renew because the API server does not answer.
#[derive(Clone)]
pub struct Solitude {
    /// Whether nobody else could lead, as far as this process knows.
    pub is_alone: Arc<dyn Fn() -> bool + Send + Sync>,
    /// For how long it goes on; by then, somebody may have come of whom it could not hear.
    pub limit: Duration,
}

/// A replica that wants to lead.
#[derive(Clone)]
pub struct Candidate {
    leases: Api<Lease>,
    lease: String,
    identity: String,
    timing: Timing,
    solitude: Option<Solitude>,
}

impl Candidate {
    /// A candidate for a Lease; its identity differs from that of every other replica.
    pub fn new(
        client: Client,
        namespace: &str,
        lease: impl Into<String>,
        identity: impl Into<String>,
        timing: Timing,
    ) -> Result<Self, BadTiming> {
        let Timing { lease: length, deadline, pause } = timing;
        if length <= deadline || deadline <= pause || pause.is_zero() || length.as_secs() == 0 {
            return Err(BadTiming);
        }
        Ok(Self {
            leases: Api::namespaced(client, namespace),
            lease: lease.into(),
            identity: identity.into(),
            timing,
            solitude: None,
        })
    }

    /// The same, which goes on for a while when nobody else could lead.
    #[must_use]
    pub fn while_alone(self, solitude: Solitude) -> Self {
        Self { solitude: Some(solitude), ..self }
    }

    /// Waits to lead, then works as long as it leads; at the end, lets others lead at once.
    ///
    /// Nothing is returned when `stop` comes before it leads. After that, the work goes on until it
    /// ends by itself; it is dropped when leadership is lost.
    pub async fn lead<T>(
        &self,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, Lost> {
        let mut observed = Observed::default();
        let since = tokio::select! {
            since = self.acquire(&mut observed) => since,
            () = stop.cancelled() => return Ok(None),
        };
        info!(lease = self.lease, identity = self.identity, "Leading");
        let mut work = pin!(work);
        tokio::select! {
            result = &mut work => {
                self.release().await;
                Ok(Some(result))
            }
            lost = self.hold(&mut observed, since) => {
                warn!(lease = self.lease, identity = self.identity, "Leadership lost");
                Err(lost)
            }
        }
    }

    /// Tries until it leads; since when it does.
    async fn acquire(&self, observed: &mut Observed) -> Instant {
        loop {
            let start = Instant::now();
            match timeout(self.timing.deadline, self.attempt(observed)).await {
                Ok(Ok(true)) => return start,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => warn!(lease = self.lease, error = chain(&error), "Cannot lead"),
                Err(_) => warn!(lease = self.lease, "Cannot lead: the API server does not answer"),
            }
            sleep(self.timing.pause).await;
        }
    }

    /// Renews until that is not possible any more.
    async fn hold(&self, observed: &mut Observed, mut renewed: Instant) -> Lost {
        loop {
            sleep(self.timing.pause).await;
            let start = Instant::now();
            let end = (renewed + self.patience()).min(start + self.timing.deadline);
            match timeout_at(end, self.attempt(observed)).await {
                Ok(Ok(true)) => {
                    renewed = start;
                    continue;
                }
                Ok(Ok(false)) => return Lost,
                Ok(Err(error)) => {
                    debug!(lease = self.lease, error = chain(&error), "Cannot renew");
                }
                Err(_) => debug!(lease = self.lease, "Cannot renew: no answer"),
            }
            // Somebody may have come who could lead.
            let next = Instant::now() + self.timing.pause;
            if next > renewed + self.patience() {
                return Lost;
            }
            if next > renewed + self.timing.deadline {
                warn!(lease = self.lease, "Cannot renew, but nobody else could lead: goes on");
            }
        }
    }

    /// How long it may fail to renew.
    fn patience(&self) -> Duration {
        let alone = self.solitude.as_ref().filter(|solitude| (solitude.is_alone)());
        alone.map_or(self.timing.deadline, |alone| alone.limit.max(self.timing.deadline))
    }

    /// Takes or renews the Lease, if it is free or ours; whether it is ours now.
    ///
    /// This reads and replaces, unlike other writes: only the version tells who was first.
    async fn attempt(&self, observed: &mut Observed) -> kube::Result<bool> {
        let lease = self.leases.get_opt(&self.lease).await?;
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        observed.see(spec, Instant::now());
        let next = match observed.next(&self.identity, Instant::now()) {
            Move::Wait => return Ok(false),
            Move::Take => term::taken(spec, &self.identity, self.timing.lease, Timestamp::now()),
            Move::Renew => term::renewed(spec, self.timing.lease, Timestamp::now()),
        };
        let result = self.write(lease, next).await;
        match result {
            Ok(lease) => {
                observed.see(lease.spec.as_ref(), Instant::now());
                Ok(true)
            }
            // Somebody was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                if observed.is_held_by(&self.identity) {
                    Err(kube::Error::Api(status))
                } else {
                    Ok(false)
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Lets others lead; if that fails, they wait until the Lease is stale.
    async fn release(&self) {
        let give = async {
            let Some(lease) = self.leases.get_opt(&self.lease).await? else { return Ok(()) };
            let spec = lease.spec.clone().unwrap_or_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                self.write(Some(lease), term::released(spec, Timestamp::now())).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(self.timing.deadline, give).await {
            Ok(Ok(())) => info!(lease = self.lease, "Leadership released"),
            Ok(Err(error)) => {
                warn!(lease = self.lease, error = chain(&error), "Cannot release leadership");
            }
            Err(_) => warn!(lease = self.lease, "Cannot release leadership in time"),
        }
    }

    async fn write(&self, lease: Option<Lease>, spec: LeaseSpec) -> kube::Result<Lease> {
        let params = PostParams::default();
        if let Some(lease) = lease {
            let lease = Lease { spec: Some(spec), ..lease };
            return self.leases.replace(&self.lease, &params, &lease).await;
        }
        let metadata = ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() };
        self.leases.create(&params, &Lease { metadata, spec: Some(spec) }).await
    }
}

/// An identity that no other process has: the host's name, and chance.
pub fn own_identity() -> String {
    let host = nix::unistd::gethostname().ok();
    let host = host.and_then(|name| name.into_string().ok()).unwrap_or_default();
    format!("{host}_{:032x}", rand::random::<u128>())
}
