//! The controller of ShadowEndpointSlices: makes an EndpointSlice of each, ready while its cluster is.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use liqo_api::keys::manager;
use liqo_api::names::ClusterId;
use liqo_kit::apply::applied;
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use liqo_offloading::shadow_slice::{is_made_of, is_reachable, origin, slice};
use tracing::debug;

use crate::error::Error;
use crate::world::World;

/// The controller of ShadowEndpointSlices.
pub struct ShadowSlices {
    world: World,
}

impl ShadowSlices {
    /// The controller, with what it needs.
    pub fn new(world: World) -> Self {
        Self { world }
    }

    /// Brings a ShadowEndpointSlice one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let shadow = self.world.offloading.shadow_slices.object(&key);
        let Some(shadow) = shadow.filter(|one| one.metadata.deletion_timestamp.is_none()) else {
            return Ok(Next::AwaitChange);
        };
        let id = origin(&shadow).and_then(|id| id.parse::<ClusterId>().ok());
        let Some(cluster) = id.and_then(|id| self.world.cluster(&id)) else {
            debug!(slice = %key, "No ForeignCluster for this slice");
            return Ok(Next::AwaitChange);
        };
        let mut want = slice(&shadow, is_reachable(&cluster));
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let api: Api<EndpointSlice> = Api::namespaced(self.world.client.clone(), namespace);
        let params = PostParams {
            field_manager: Some(manager::SHADOW_ENDPOINT_SLICE.to_owned()),
            ..PostParams::default()
        };
        match self.world.offloading.slices.object(&key) {
            None => match api.create(&params, &want).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Refused {
                    why: format!("there is a slice {key} that was not made of this one"),
                }),
                made => {
                    made.map_err(Error::request("make a slice"))?;
                    Ok(Next::AwaitChange)
                }
            },
            // It goes with its own one.
            Some(have) if !is_made_of(&have, &shadow) => Ok(Next::AwaitChange),
            Some(have) if is_already(&want, &have) => Ok(Next::AwaitChange),
            Some(have) => {
                // Somebody else may have written meanwhile: then it is looked at again.
                want.metadata.resource_version = have.resource_version();
                want.metadata.uid = have.uid();
                let written = or_gone(api.replace(&key.name, &params, &want).await);
                written.map_err(Error::request("change a slice"))?;
                Ok(Next::AwaitChange)
            }
        }
    }
}

/// Whether a slice says what it should, and no more than that.
fn is_already(want: &EndpointSlice, have: &EndpointSlice) -> bool {
    let count = |slice: &EndpointSlice| {
        (slice.endpoints.iter().flatten().count(), slice.ports.iter().flatten().count())
    };
    want.labels() == have.labels()
        && want.annotations() == have.annotations()
        && count(want) == count(have)
        && applied(want, have)
}
