//! A resource plugin: a program of the user's that says what to offer to whom, over gRPC.
//!
//! | method | asks |
//! | --- | --- |
//! | `/resource_reader/ReadResources` | how much is to be offered to a cluster |
//! | `/resource_reader/RemoveCluster` | to forget a cluster |
//! | `/resource_reader/Subscribe` | to be told when that changes, for one cluster or for all |
//!
//! What it says is offered as it is: no percentage is taken of it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use liqo_api::names::ClusterId;
use liqo_sharing::amounts::Amounts;
use liqo_sharing::quantity::Quantity;
use liqo_wire::resource_reader::resource_reader_client::ResourceReaderClient;
use liqo_wire::resource_reader::{ClusterIdentity, Empty};
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tracing::{info, warn};

use crate::error::Error;

/// How long the plugin may take to be reached at the start.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(5);
/// The pause before it is asked again to tell of changes.
const PAUSE: Duration = Duration::from_millis(100);

/// A resource plugin.
pub struct Plugin {
    address: String,
    client: ResourceReaderClient<Channel>,
    /// The clusters it was asked about.
    known: Mutex<BTreeSet<ClusterId>>,
}

impl Plugin {
    /// Connects to a plugin.
    pub async fn connect(address: &str) -> Result<Self, Error> {
        let fail = |reason: String| Error::Plugin { address: address.to_owned(), reason };
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| fail("the address reads like HOST:PORT".to_owned()))?;
        let late = |_| fail(format!("no connection within {} s", CONNECTING.as_secs()));
        let channel = timeout(CONNECTING, endpoint.connect()).await.map_err(late)?;
        let channel = channel.map_err(|error| fail(liqo_kit::keyed::chain(&error)))?;
        info!(address, "Resource plugin connected");
        let client = ResourceReaderClient::new(channel);
        Ok(Self { address: address.to_owned(), client, known: Mutex::default() })
    }

    /// How much is to be offered to a cluster.
    pub async fn read(&self, consumer: &ClusterId) -> Result<Amounts, Error> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(consumer.clone());
        let list = self.answer(self.client.clone().read_resources(identity(consumer))).await?;
        let mut amounts = Amounts::default();
        for (name, quantity) in list.resources {
            // No text is no amount.
            let text = quantity.string.filter(|text| !text.is_empty());
            amounts.set(&name, text.map_or(Ok(Quantity::ZERO), |text| text.parse())?);
        }
        Ok(amounts)
    }

    /// Tells the plugin that a cluster is not served any more, if it was.
    pub async fn forget(&self, consumer: &ClusterId) {
        if !self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(consumer) {
            return;
        }
        let told = self.answer(self.client.clone().remove_cluster(identity(consumer))).await;
        if let Err(error) = told {
            warn!(%error, %consumer, "Resource plugin keeps a cluster in mind");
        }
    }

    /// Calls back whenever the plugin says that something changed: for a cluster, or for all.
    pub async fn follow<F: Future<Output = ()>>(
        &self,
        mut tell: impl FnMut(Option<ClusterId>) -> F,
    ) {
        loop {
            match self.client.clone().subscribe(Empty {}).await {
                Ok(changes) => {
                    let mut changes = changes.into_inner();
                    // What changed while nobody listened is not told again.
                    tell(None).await;
                    while let Ok(Some(change)) = changes.message().await {
                        let id = change.cluster_id;
                        match (id.is_empty(), id.parse()) {
                            (true, _) => tell(None).await,
                            (false, Ok(id)) => tell(Some(id)).await,
                            (false, Err(error)) => warn!(%error, "Resource plugin names nobody"),
                        }
                    }
                }
                Err(status) => warn!(%status, address = self.address, "Resource plugin is silent"),
            }
            sleep(PAUSE).await;
        }
    }

    /// What the plugin answers, if it does in time.
    async fn answer<A>(
        &self,
        question: impl Future<Output = Result<Response<A>, Status>>,
    ) -> Result<A, Error> {
        let fail = |reason: String| Error::Plugin { address: self.address.clone(), reason };
        let late = |_| fail(format!("no answer within {} s", ANSWERING.as_secs()));
        let answer = timeout(ANSWERING, question).await.map_err(late)?;
        Ok(answer.map_err(|status| fail(status.to_string()))?.into_inner())
    }
}

fn identity(cluster: &ClusterId) -> ClusterIdentity {
    ClusterIdentity { cluster_id: cluster.to_string() }
}

#[cfg(test)]
mod tests;
