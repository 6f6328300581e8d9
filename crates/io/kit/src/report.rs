//! Tells a peer what became of something that it copied here: the status of its copy.
//!
//! Whatever is written to a copy crosses the wire to the peer, with everything that the API server
//! notes about it. It notes who applied which field, so this is patched and not applied.

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use liqo_replication::patch;
use serde::Serialize;

use crate::retry::or_gone;
use crate::terse;

/// Writes the status of a copy; whether that was news. A copy that is gone needs none.
pub async fn report<K, S>(
    api: &Api<K>,
    manager: &str,
    copy: &K,
    before: Option<&S>,
    now: &S,
) -> kube::Result<bool>
where
    K: Resource + Clone,
    S: Serialize,
{
    let value = |status: Option<&S>| serde_json::to_value(status).map_err(kube::Error::SerdeError);
    let Some(change) = patch::between(&value(before)?, &value(Some(now))?) else {
        return Ok(false);
    };
    let change = Patch::Merge(patch::of_field(copy.meta(), "status", change));
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let name = copy.meta().name.as_deref().unwrap_or_default();
    or_gone(terse::patch_status(api, name, &params, &change).await).map(|_| true)
}
