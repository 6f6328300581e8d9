//! Services that have a say in whether what belongs to them is reflected.
//!
//! Users annotate their Services; the slices of a Service are made by Kubernetes, and have none of its
//! annotations. Only metadata is watched, and of it only what counts is kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::annotation;
use liqo_kit::watch::{Key, Store, watch_trimmed};
use tokio::time::timeout;

use super::link::BACKOFF;

/// How long a look waits for the Services to be known.
const PATIENCE: Duration = Duration::from_secs(5);

/// It is not known which Services there are.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the Services of the namespace cannot be listed yet")]
pub(super) struct Unknown;

/// The Services of a namespace, and what belongs to each of them.
pub(super) struct Owners {
    services: Store<PartialObjectMeta<Service>>,
    namespace: String,
    belongings: Arc<Belongings>,
}

impl Owners {
    /// Watches Services; the stream names what belongs to one that changed, and must be read.
    pub(super) fn watch(client: Client, namespace: &str) -> (Self, BoxStream<'static, String>) {
        let api: Api<PartialObjectMeta<Service>> = Api::namespaced(client, namespace);
        let (services, touched) = watch_trimmed(api, Config::default(), BACKOFF, trim);
        let belongings = Arc::new(Belongings::default());
        let named = Arc::clone(&belongings);
        let touched = touched.flat_map(move |key| stream::iter(named.of(&key.name))).boxed();
        (Self { services, namespace: namespace.to_owned(), belongings }, touched)
    }

    /// The Service of an object, which is named from now on when that changes.
    pub(super) async fn owner(
        &self,
        name: &str,
        service: Option<&str>,
    ) -> Result<Option<Arc<PartialObjectMeta<Service>>>, Unknown> {
        self.belongings.note(name, service);
        let Some(service) = service else { return Ok(None) };
        let known = timeout(PATIENCE, self.services.wait_until_ready()).await;
        known.map_err(|_| Unknown)?.map_err(|_| Unknown)?;
        Ok(self.services.object(&Key::namespaced(&self.namespace, service)))
    }
}

/// What belongs to which Service.
#[derive(Default)]
struct Belongings(Mutex<HashMap<String, BTreeSet<String>>>);

impl Belongings {
    /// What belongs to a Service.
    fn of(&self, service: &str) -> Vec<String> {
        self.lock().get(service).into_iter().flatten().cloned().collect()
    }

    /// Notes whose an object is now; nobody's when it is gone.
    fn note(&self, name: &str, service: Option<&str>) {
        let mut all = self.lock();
        all.retain(|owner, names| {
            if Some(owner.as_str()) != service {
                names.remove(name);
            }
            !names.is_empty()
        });
        if let Some(service) = service {
            all.entry(service.to_owned()).or_default().insert(name.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn trim(service: &mut PartialObjectMeta<Service>) {
    let metadata = &mut service.metadata;
    let mut annotations = metadata.annotations.take();
    if let Some(annotations) = &mut annotations {
        annotations.retain(|key, _| key == annotation::SKIP_REFLECTION);
    }
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        resource_version: metadata.resource_version.take(),
        annotations,
        ..ObjectMeta::default()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_belongs_to_one_service_at_a_time() {
        let belongings = Belongings::default();
        belongings.note("web-1", Some("web"));
        belongings.note("web-2", Some("web"));
        assert_eq!(belongings.of("web"), ["web-1", "web-2"]);
        belongings.note("web-1", Some("shop"));
        assert_eq!(
            (belongings.of("web"), belongings.of("shop")),
            (vec!["web-2".to_owned()], vec!["web-1".to_owned()])
        );
        belongings.note("web-2", None);
        assert!(belongings.of("web").is_empty());
    }
}
