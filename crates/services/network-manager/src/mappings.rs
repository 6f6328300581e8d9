//! What gateways translate for each peer, as the ledger says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{ObjectMeta, Patch, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{label, manager, object};
use liqo_api::names::ClusterId;
use liqo_api::net::{NatMapping, NatMappingSpec};
use liqo_kit::apply::Writer;
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_replication::patch;
use serde_json::json;
use tracing::{debug, info};

use crate::book::{Book, written_by_us};
use crate::error::{Error, request};
use crate::world::World;

/// Keeps what gateways translate.
pub struct Mappings {
    api: Api<NatMapping>,
    world: World,
    book: Arc<Book>,
    writer: Writer,
    /// The names of those that we made last.
    made: Mutex<HashMap<ClusterId, String>>,
}

impl Mappings {
    /// Keeps those of a cluster.
    pub fn new(client: Client, world: World, book: Arc<Book>) -> Self {
        let writer = Writer::new(manager::NETWORK_MANAGER);
        Self { api: Api::all(client), world, book, writer, made: Mutex::default() }
    }

    /// Makes what gateways translate for a peer as the ledger says.
    pub async fn reconcile(&self, peer: ClusterId) -> Result<Next, Error> {
        self.world.mappings.wait_until_ready().await?;
        let mut have = self.world.mappings(&peer).into_iter();
        match self.book.ledger().nat_mapping(&peer) {
            None => drop(self.made().remove(&peer)),
            Some(want) => match have.next() {
                Some(have) => self.update(&have, &want).await?,
                None => self.create(&peer, want).await?,
            },
        }
        // What nobody needs, and what there is twice.
        for extra in have {
            self.remove(&extra).await?;
        }
        Ok(Next::AwaitChange)
    }

    async fn create(&self, peer: &ClusterId, spec: NatMappingSpec) -> Result<(), Error> {
        // A name that the server chooses is no guard: the watch may not show yet what we made.
        let made = self.made().get(peer).cloned();
        if let Some(name) = made {
            let there = self.api.get_metadata_opt(&name).await;
            if there.map_err(request("look for a NatMapping"))?.is_some() {
                return Ok(());
            }
        }
        let labels = [(label::NAT_MAPPING, label::TRUE), (label::PEER_ID, peer.as_str())];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let metadata = ObjectMeta {
            generate_name: Some(object::NAT_MAPPING_PREFIX.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        };
        let params = PostParams {
            field_manager: Some(manager::NETWORK_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let mapping = NatMapping { metadata, spec, status: None };
        let made = self.api.create(&params, &mapping).await;
        let made = made.map_err(request("create a NatMapping"))?;
        info!(cluster = %peer, name = made.name_any(), "Addresses are translated");
        self.made().insert(peer.clone(), made.name_any());
        Ok(())
    }

    fn made(&self) -> MutexGuard<'_, HashMap<ClusterId, String>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn update(&self, have: &NatMapping, want: &NatMappingSpec) -> Result<(), Error> {
        let value = |spec: &NatMappingSpec| {
            json!({
                "clusterID": spec.cluster_id,
                "podCIDR": spec.pod_cidr,
                "externalCIDR": spec.external_cidr,
                "clusterMappings": spec.cluster_mappings,
            })
        };
        let Some(change) = patch::between(&value(&have.spec), &value(want)) else { return Ok(()) };
        debug!(cluster = want.cluster_id, "Addresses changed");
        let change = Patch::Merge(patch::of_field(&have.metadata, "spec", change));
        let patched = self.api.patch(&have.name_any(), &written_by_us(), &change).await;
        or_gone(patched).map(drop).map_err(request("change a NatMapping"))
    }

    /// Gateways go by the label: it goes first.
    async fn remove(&self, have: &NatMapping) -> Result<(), Error> {
        if have.labels().contains_key(label::NAT_MAPPING) {
            let labels = json!({ "metadata": { "labels": { label::NAT_MAPPING: null } } });
            let params = written_by_us();
            let patched = self.api.patch(&have.name_any(), &params, &Patch::Merge(labels)).await;
            or_gone(patched).map_err(request("take the label off a NatMapping"))?;
        }
        self.writer.delete(&self.api, have).await?;
        info!(cluster = have.spec.cluster_id, "Addresses are not translated any more");
        Ok(())
    }
}
