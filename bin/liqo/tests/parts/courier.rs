//! Carries requests and offers between two clusters, in the place of the replicator.

use std::fmt::Debug;

use futures::StreamExt as _;
use futures::stream::select;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource, ResourceExt};
use liqo_api::discovery::ResourceRequest;
use liqo_api::keys::label;
use liqo_api::sharing::ResourceOffer;
use liqo_kit::watch::{Key, watch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

/// A cluster, and the namespace that it keeps for the other one.
#[derive(Clone)]
pub struct End {
    /// A client with all rights.
    pub client: Client,
    /// Its identifier.
    pub id: &'static str,
    /// Its tenant namespace for the other end.
    pub tenant: &'static str,
}

/// What is carried: the spec goes there, the status comes back.
pub trait Carried:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// The same with other metadata, and without a status.
    fn copy(&self, metadata: ObjectMeta) -> Self;
    /// The same with the status of another one, if it differs.
    fn with_status_of(&self, other: &Self) -> Option<Self>;
}

macro_rules! carried {
    ($kind:ty) => {
        impl Carried for $kind {
            fn copy(&self, metadata: ObjectMeta) -> Self {
                Self { metadata, spec: self.spec.clone(), status: None }
            }

            fn with_status_of(&self, other: &Self) -> Option<Self> {
                (other.status.is_some() && self.status != other.status).then(|| Self {
                    metadata: bare(self),
                    spec: self.spec.clone(),
                    status: other.status.clone(),
                })
            }
        }
    };
}

carried!(ResourceRequest);
carried!(ResourceOffer);

/// Carries both kinds both ways, until the handles are aborted.
pub fn carry_all(one: &End, other: &End) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(carry::<ResourceRequest>(one.clone(), other.clone())),
        tokio::spawn(carry::<ResourceRequest>(other.clone(), one.clone())),
        tokio::spawn(carry::<ResourceOffer>(one.clone(), other.clone())),
        tokio::spawn(carry::<ResourceOffer>(other.clone(), one.clone())),
    ]
}

async fn carry<K: Carried>(from: End, to: End) {
    let here: Api<K> = Api::namespaced(from.client.clone(), from.tenant);
    let there: Api<K> = Api::namespaced(to.client.clone(), to.tenant);
    let selector = |name| Config::default().labels(&format!("{name}=true"));
    let (sources, one) = watch(here.clone(), selector(label::REPLICATION));
    let (copies, other) = watch(there.clone(), selector(label::REPLICATED));
    let names = select(one, other).map(|key| key.name);
    let mut names = Box::pin(names);
    while let Some(name) = names.next().await {
        let source = sources.object(&Key::namespaced(from.tenant, &name));
        let copy = copies.object(&Key::namespaced(to.tenant, &name));
        // A failure is made good by the next change; the test is bounded in any case.
        let _ = match (source, copy) {
            (Some(source), None) if source.meta().deletion_timestamp.is_some() => {
                finalizers(&here, &source, &[]).await
            }
            (Some(source), Some(copy)) if source.meta().deletion_timestamp.is_some() => {
                there.delete(&copy.name_any(), &DeleteParams::default()).await.map(|_| ())
            }
            (Some(source), copy) => {
                bring(&here, &there, &source, copy.as_deref(), &from, &to).await
            }
            (None, Some(copy)) => {
                there.delete(&copy.name_any(), &DeleteParams::default()).await.map(|_| ())
            }
            (None, None) => Ok(()),
        };
    }
}

async fn bring<K: Carried>(
    here: &Api<K>,
    there: &Api<K>,
    source: &K,
    copy: Option<&K>,
    from: &End,
    to: &End,
) -> kube::Result<()> {
    if source.finalizers().is_empty() {
        finalizers(here, source, &["test.liqo.io/courier"]).await?;
    }
    let labels = [
        (label::REPLICATION, label::FALSE),
        (label::REPLICATED, label::TRUE),
        (label::ORIGIN_ID, from.id),
        (label::REMOTE_ID, to.id),
    ];
    let metadata = ObjectMeta {
        name: Some(source.name_any()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    let params = PatchParams::apply("courier").force();
    there.patch(&source.name_any(), &params, &Patch::Apply(source.copy(metadata))).await?;
    if let Some(back) = copy.and_then(|copy| source.with_status_of(copy)) {
        here.patch_status(&source.name_any(), &params, &Patch::Apply(back)).await?;
    }
    Ok(())
}

async fn finalizers<K: Carried>(api: &Api<K>, object: &K, names: &[&str]) -> kube::Result<()> {
    let patch = serde_json::json!({"metadata": {"finalizers": names}});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn bare(object: &impl ResourceExt) -> ObjectMeta {
    ObjectMeta { name: Some(object.name_any()), ..ObjectMeta::default() }
}
