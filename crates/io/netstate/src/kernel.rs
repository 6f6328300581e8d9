//! The kernel, as far as one namespace is concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use liqo_fabric::owned::Scope;
use liqo_fabric::plan::{Step, plan};
use liqo_fabric::state::State;
use tokio::task::JoinHandle;
use tracing::{debug, info};

use crate::error::Error;
use crate::filter::Known;
use crate::namespace::Namespace;
use crate::observe::Observed;

/// How often a plan is made before what is left counts as an error: what the kernel tells after the
/// first round, such as hardware addresses, may ask for a second.
const ROUNDS: usize = 3;

/// A conversation with the kernel about one namespace.
pub struct Kernel {
    pub(crate) namespace: Namespace,
    /// Where the other ends of cables are.
    pub(crate) beyond: Option<Box<Kernel>>,
    pub(crate) netlink: rtnetlink::Handle,
    /// The numbers of our interfaces, for those who wait for changes.
    pub(crate) indexes: Arc<Mutex<BTreeSet<u32>>>,
    /// What is known of the packet filter.
    pub(crate) known: Mutex<Known>,
    connection: JoinHandle<()>,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Kernel {
    /// Begins a conversation about a namespace, and the one where the other ends of cables are.
    pub async fn open(namespace: Namespace, beyond: Option<Namespace>) -> Result<Self, Error> {
        let beyond = match beyond {
            Some(beyond) => Some(Box::new(Self::open_one(beyond, None).await?)),
            None => None,
        };
        Self::open_one(namespace, beyond).await
    }

    async fn open_one(namespace: Namespace, beyond: Option<Box<Self>>) -> Result<Self, Error> {
        let opened = namespace.run(rtnetlink::new_connection).await?;
        let (connection, netlink, _) =
            opened.map_err(|source| Error::kernel("talk to the kernel", source))?;
        Ok(Self {
            namespace,
            beyond,
            netlink,
            indexes: Arc::default(),
            known: Mutex::default(),
            connection: tokio::spawn(connection),
        })
    }

    /// Makes a namespace hold what it has to hold, within a scope; how many changes that took.
    ///
    /// What is wanted may depend on what is there.
    pub async fn settle(
        &self,
        scope: &Scope,
        want: impl Fn(&Observed) -> State,
    ) -> Result<usize, Error> {
        self.settle_from(scope, None, want).await.map(|(taken, _)| taken)
    }

    /// The same, beginning with what was seen last if nobody has touched it since; and what is there
    /// then.
    pub async fn settle_from(
        &self,
        scope: &Scope,
        mut seen: Option<Observed>,
        want: impl Fn(&Observed) -> State,
    ) -> Result<(usize, Observed), Error> {
        let (mut taken, mut left) = (0, Vec::new());
        // The last look changes nothing: what was done has to be what is there.
        for round in 0..=ROUNDS {
            let mut observed = match seen.take() {
                Some(seen) => seen,
                None => self.observe(scope, &BTreeMap::new()).await?,
            };
            let wanted = want(&observed);
            observed.state.settings = self.settings(&wanted.settings).await?;
            left = plan(scope, &wanted, &observed.state);
            if left.is_empty() {
                return Ok((taken, observed));
            }
            if round < ROUNDS {
                for step in &left {
                    self.take(step).await?;
                }
                taken += left.len();
            }
        }
        let first = left.first().map(ToString::to_string).unwrap_or_default();
        Err(Error::Unsettled { left: left.len(), rounds: ROUNDS, first })
    }

    /// Takes one step, and says so.
    pub async fn take(&self, step: &Step) -> Result<(), Error> {
        if let Step::LoadFilter(filter) = step {
            info!(digest = filter.digest, peers = filter.flows.len(), "Packet filter replaced");
        } else {
            debug!(%step, "Changed");
        }
        match self.enact(step).await {
            // The kernel removes much by itself, such as the cables of a namespace that goes.
            Err(error) if step.removes() && error.is_absence() => Ok(()),
            result => result,
        }
    }

    pub(crate) fn note_indexes(&self, indexes: BTreeSet<u32>) {
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = indexes;
    }
}
