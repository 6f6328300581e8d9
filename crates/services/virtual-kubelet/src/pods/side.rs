//! What is known of the pods of one namespace in the other cluster.

use std::sync::{Arc, PoisonError};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use liqo_api::keys::{label, object};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_kit::client::concise;
use liqo_kit::keyed::Touch;
use liqo_kit::watch::{Key, Packing, Store, watch_packed};
use liqo_pod_offloading::lean::{RemotePod, trim_secret, trim_shadow};
use liqo_pod_offloading::tokens;
use liqo_reflection::{Place, ServiceAccounts};
use tokio::sync::watch::Receiver;
use tracing::debug;

use super::Pods;
use super::waiting::{PLACED, Waiting};
use crate::reflection::Scope;
use crate::reflection::link::{BACKOFF, WATCH};

/// How pods there are kept.
pub(super) const PACKING: Packing<RemotePod> =
    Packing { trim: RemotePod::trim, pack: RemotePod::pack, unpack: RemotePod::unpack };

/// A namespace of the other cluster.
pub(super) struct Side {
    /// Which, and of which here.
    pub(super) place: Arc<Place>,
    /// The other cluster.
    pub(super) client: Client,
    answers: Receiver<bool>,
    shadows: Store<PartialObjectMeta<ShadowPod>>,
    /// Pods that have a node.
    pods: Store<RemotePod>,
    /// Pods that have none.
    pub(super) waiting: Waiting,
    secrets: Option<Store<PartialObjectMeta<Secret>>>,
}

impl Side {
    /// Whether all of it is known.
    pub(super) fn is_ready(&self) -> bool {
        let secrets = self.secrets.as_ref();
        self.shadows.is_ready() && self.pods.is_ready() && secrets.is_none_or(Store::is_ready)
    }

    /// Whether the other cluster answers, as far as anybody knows.
    pub(super) fn answers(&self) -> bool {
        *self.answers.borrow()
    }

    /// The ShadowPod of a pod.
    pub(super) fn shadow(&self, name: &str) -> Option<ObjectMeta> {
        Some(self.shadows.object(&self.key(name))?.metadata.clone())
    }

    /// The pod that was made of it.
    pub(super) fn pod(&self, name: &str) -> Option<Arc<RemotePod>> {
        let key = self.key(name);
        self.pods.object(&key).or_else(|| self.waiting.pod(&key))
    }

    /// The Secret with the tokens of a pod.
    pub(super) fn secret(&self, name: &str) -> Option<ObjectMeta> {
        let key = self.key(&object::token_secret(name));
        Some(self.secrets.as_ref()?.object(&key)?.metadata.clone())
    }

    /// Objects in this namespace.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.place.remote_namespace)
    }

    fn key(&self, name: &str) -> Key {
        Key::namespaced(&self.place.remote_namespace, name)
    }
}

impl Pods {
    /// Follows the pods of a namespace in the other cluster; never ends by itself.
    pub(crate) async fn attend(self: Arc<Self>, scope: Scope) {
        let link = scope.link.clone();
        link.each(|client| self.follow(&scope, client)).await;
    }

    async fn follow(&self, scope: &Scope, client: Client) {
        let place = &scope.place;
        let client = concise(&client);
        let api = || (client.clone(), &place.remote_namespace);
        let config = |labels: &str| Config::default().labels(labels).timeout(WATCH);
        let ours = place.selector();
        let made = format!("{ours},{}={}", label::MANAGED_BY, label::MANAGED_BY_SHADOW_POD);
        let (cluster, namespace) = api();
        let (shadows, shadow_keys) = watch_packed(
            Api::namespaced(cluster, namespace),
            config(&ours),
            BACKOFF,
            Packing::json(|shadow: &mut PartialObjectMeta<ShadowPod>| {
                shadow.types = None;
                trim_shadow(&mut shadow.metadata);
            }),
        );
        let (cluster, namespace) = api();
        let (pods, pod_keys) = watch_packed(
            Api::namespaced(cluster, namespace),
            config(&made).fields(PLACED),
            BACKOFF,
            PACKING,
        );
        let mut names = vec![
            shadow_keys.map(|key| Touch::from(key.name)).boxed(),
            pod_keys.map(|key| Touch { key: key.name, is_urgent: true }).boxed(),
        ];
        let secrets = (place.service_accounts == ServiceAccounts::TokenApi).then(|| {
            let (cluster, namespace) = api();
            let (secrets, keys) = watch_packed(
                Api::namespaced(cluster, namespace),
                config(&tokens::selector(place)),
                BACKOFF,
                Packing::json(|secret: &mut PartialObjectMeta<Secret>| {
                    secret.types = None;
                    trim_secret(&mut secret.metadata);
                }),
            );
            names.push(keys.map(|key| Touch::from(pod_of(&key.name))).boxed());
            secrets
        });
        let (place, answers) = (Arc::clone(place), scope.link.answers.clone());
        let waiting = Waiting::new();
        let side = Arc::new(Side { place, client, answers, shadows, pods, waiting, secrets });
        let _seat = Seat::take(self, &side);
        let mut names = stream::select_all(names);
        let forward = async {
            while let Some(name) = names.next().await {
                self.touch(&side, name).await;
            }
        };
        let waiting = self.watch_waiting(&side, config(&made));
        tokio::join!(forward, waiting, self.announce(&side), self.pass_on(&side));
    }

    /// Has all pods looked at once all of a side is known.
    async fn announce(&self, side: &Side) {
        let ready = async {
            side.shadows.wait_until_ready().await?;
            side.pods.wait_until_ready().await?;
            match &side.secrets {
                Some(secrets) => secrets.wait_until_ready().await,
                None => Ok(()),
            }
        };
        if ready.await.is_err() {
            return;
        }
        debug!(namespace = side.place.home_namespace, "Pods there are known");
        let here = self.ground.store.keys().into_iter();
        let here = here.filter(|key| key.namespace.as_ref() == Some(&side.place.home_namespace));
        let mut names: Vec<String> = here.map(|key| key.name).collect();
        names.extend(side.shadows.keys().into_iter().map(|key| key.name));
        let secrets = side.secrets.iter().flat_map(Store::keys);
        names.extend(secrets.map(|key| pod_of(&key.name)));
        for name in names {
            self.touch(side, name.into()).await;
        }
    }

    pub(super) async fn touch(&self, side: &Side, touch: Touch<String>) {
        let Touch { key, is_urgent } = touch;
        let key = Key::namespaced(&side.place.home_namespace, key);
        // There is always somebody to hear it as long as pods are worked on.
        let _ = self.touch.send(Touch { key, is_urgent }).await;
    }
}

/// The pod that a Secret with tokens is for.
fn pod_of(secret: &str) -> String {
    let suffix = object::token_secret("");
    secret.strip_suffix(&suffix).unwrap_or(secret).to_owned()
}

/// The place of a side among those that are known; it is given up with the value.
struct Seat<'a> {
    pods: &'a Pods,
    side: Arc<Side>,
}

impl<'a> Seat<'a> {
    fn take(pods: &'a Pods, side: &Arc<Side>) -> Self {
        let mut sides = pods.sides.lock().unwrap_or_else(PoisonError::into_inner);
        sides.insert(side.place.home_namespace.clone(), Arc::clone(side));
        Self { pods, side: Arc::clone(side) }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut sides = self.pods.sides.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = &self.side.place.home_namespace;
        if sides.get(namespace).is_some_and(|side| Arc::ptr_eq(side, &self.side)) {
            sides.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_tells_its_pod() {
        assert_eq!(pod_of(&object::token_secret("web-0")), "web-0");
    }
}
