//! The ledger of networks and addresses, and the one place that writes it into the cluster.
//!
//! A change is made to a copy, written over exactly the version it was made from, and counts once the
//! API server has it. Who comes second makes the change again, to what the first one left.

use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{label, manager, object};
use liqo_api::names::ClusterId;
use liqo_api::net::{IpamStorage, IpamStorageSpec};
use liqo_ipam::{Ledger, Refusal, Settings, Unreadable};
use liqo_kit::retry::{Failure, Retry};
use liqo_replication::patch;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::{info, warn};

/// How often a change is made again because somebody else was faster.
const TRIES: usize = 8;

/// How many peers may be behind before a change waits for them.
const BEHIND: usize = 64;

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is stored does not read as a ledger.
    #[error(
        "IpamStorage {name} cannot be read; mend it, or unpeer from all clusters and delete it"
    )]
    Unreadable {
        /// The stored object.
        name: String,
        /// Why.
        source: Unreadable,
    },
    /// There are several.
    #[error(
        "there are {} IpamStorages ({}), and only one can be right; delete those that do not list \
         your peers in spec.clusterSubnets",
        .0.len(), .0.join(", ")
    )]
    Several(Vec<String>),
    /// The API server refuses, or does not answer.
    #[error("cannot {attempt} the IpamStorage")]
    Request {
        /// What was tried.
        attempt: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Somebody else writes all the time.
    #[error(
        "the IpamStorage changes faster than it can be written; is there a second network manager?"
    )]
    Contended,
    /// The ledger cannot be expressed in JSON.
    #[error("cannot encode the IpamStorage")]
    Encode(#[from] serde_json::Error),
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Refused(_) | Self::Unreadable { .. } | Self::Several(_) | Self::Encode(_) => {
                Retry::Never
            }
            Self::Request { source, .. } => source.retry(),
            Self::Contended => Retry::Soon,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.reason(),
            Self::Unreadable { .. } | Self::Several(_) | Self::Encode(_) => "Unreadable",
            Self::Request { source, .. } => source.reason(),
            Self::Contended => "Conflict",
        }
    }
}

/// The ledger, and where it is kept.
pub struct Book {
    api: Api<IpamStorage>,
    /// The object as it was written last; one change at a time.
    page: tokio::sync::Mutex<IpamStorage>,
    /// What that says.
    known: Mutex<Arc<Ledger>>,
    /// Told of every peer that a change was about.
    changed: Sender<ClusterId>,
}

impl Book {
    /// Finds the ledger or begins a new one, and has it agree with what the user says. The second
    /// value names every peer that a change was about.
    pub async fn open(
        client: &Client,
        settings: &Settings,
    ) -> Result<(Self, Receiver<ClusterId>), Error> {
        let api = Api::all(client.clone());
        let page = find_or_create(&api).await?;
        let known = Mutex::new(Arc::new(read(&page)?));
        let (changed, about) = channel(BEHIND);
        let book = Self { api, page: tokio::sync::Mutex::new(page), known, changed };
        book.write(|ledger| ledger.open(settings)).await?;
        Ok((book, about))
    }

    /// The ledger as it is now.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change about a peer; nothing is written when it changes nothing.
    pub async fn change<T>(
        &self,
        peer: &ClusterId,
        change: impl Fn(&mut Ledger) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        let known = self.ledger();
        let mut draft = (*known).clone();
        let result = change(&mut draft)?;
        if draft == *known {
            return Ok(result);
        }
        let result = self.write(change).await?;
        // Nobody listens when the service ends.
        let _ = self.changed.send(peer.clone()).await;
        Ok(result)
    }

    async fn write<T>(
        &self,
        change: impl Fn(&mut Ledger) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        let mut page = self.page.lock().await;
        for _ in 0..TRIES {
            let mut ledger = read(&page)?;
            let result = change(&mut ledger)?;
            let spec = IpamStorageSpec::from(&ledger);
            let Some(difference) = difference(&page.spec, &spec)? else {
                self.publish(ledger);
                return Ok(result);
            };
            match self.store(&page, difference).await {
                Ok(written) => {
                    *page = written;
                    self.publish(ledger);
                    return Ok(result);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    *page = self.look_again(&page).await?;
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    *page = self.look_again(&page).await?;
                }
                Err(source) => return Err(request("write", source)),
            }
        }
        Err(Error::Contended)
    }

    async fn store(&self, over: &IpamStorage, difference: Value) -> kube::Result<IpamStorage> {
        let version = json!({ "resourceVersion": over.resource_version() });
        let change = json!({ "metadata": version, "spec": difference });
        self.api.patch(&over.name_any(), &written_by_us(), &Patch::Merge(change)).await
    }

    /// What somebody else wrote; if it was deleted, all that was in it is put down again.
    async fn look_again(&self, page: &IpamStorage) -> Result<IpamStorage, Error> {
        match self.api.get_opt(&page.name_any()).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => {
                warn!(name = page.name_any(), "The ledger was deleted: written down again");
                create(&self.api, page.spec.clone()).await
            }
            Err(source) => Err(request("read", source)),
        }
    }

    fn publish(&self, ledger: Ledger) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(ledger);
    }
}

async fn find_or_create(api: &Api<IpamStorage>) -> Result<IpamStorage, Error> {
    let ours = ListParams::default().labels(&format!("{}={}", label::IPAM_STORAGE, label::TRUE));
    let mut found = api.list(&ours).await.map_err(|source| request("find", source))?.items;
    match found.len() {
        0 => create(api, IpamStorageSpec::default()).await,
        1 => Ok(found.remove(0)),
        _ => Err(Error::Several(found.iter().map(kube::ResourceExt::name_any).collect())),
    }
}

async fn create(api: &Api<IpamStorage>, spec: IpamStorageSpec) -> Result<IpamStorage, Error> {
    let mark = (label::IPAM_STORAGE.to_owned(), label::TRUE.to_owned());
    let metadata = ObjectMeta {
        generate_name: Some(object::IPAM_STORAGE_PREFIX.to_owned()),
        labels: Some([mark].into()),
        ..ObjectMeta::default()
    };
    let params = PostParams {
        field_manager: Some(manager::NETWORK_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api.create(&params, &IpamStorage { metadata, spec }).await;
    let made = made.map_err(|source| request("create", source))?;
    info!(name = made.name_any(), "A new ledger");
    Ok(made)
}

fn read(page: &IpamStorage) -> Result<Ledger, Error> {
    let name = || page.name_any();
    Ledger::try_from(&page.spec).map_err(|source| Error::Unreadable { name: name(), source })
}

fn difference(from: &IpamStorageSpec, to: &IpamStorageSpec) -> Result<Option<Value>, Error> {
    Ok(patch::between(&serde_json::to_value(from)?, &serde_json::to_value(to)?))
}

fn request(attempt: &'static str, source: kube::Error) -> Error {
    Error::Request { attempt, source: Box::new(source) }
}

/// The parameters of every change that is not applied.
pub fn written_by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::NETWORK_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
