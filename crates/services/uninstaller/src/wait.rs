//! Waiting until objects are gone, without asking again and again.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use liqo_kit::watch::{Key, Object, watch};
use tokio::time::timeout;

/// Objects of a kind in all namespaces.
pub(crate) fn everywhere<K>(client: &Client) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::all(client.clone())
}

/// The time is over, and these objects are still there.
#[derive(Debug, PartialEq, Eq)]
pub struct StillThere(Vec<(String, Vec<Key>)>);

impl std::error::Error for StillThere {}

impl fmt::Display for StillThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over, and these are still there: ")?;
        for (place, (kind, keys)) in self.0.iter().enumerate() {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let comma = if place == 0 { "" } else { "; " };
            write!(f, "{comma}{kind} {}", keys.join(", "))?;
        }
        Ok(())
    }
}

type Wait = Pin<Box<dyn Future<Output = Option<(String, Vec<Key>)>> + Send>>;

/// Kinds of objects that have to be gone within some time.
pub(crate) struct Gone {
    limit: Duration,
    waits: Vec<Wait>,
}

impl Gone {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, waits: vec![] }
    }

    /// Waits also for the objects with these labels that matter.
    pub(crate) fn until<K: Object>(
        mut self,
        api: Api<K>,
        labels: &str,
        matters: fn(&K) -> bool,
    ) -> Self {
        self.waits.push(Box::pin(gone(api, labels.to_owned(), matters, self.limit)));
        self
    }

    /// Waits until all are gone.
    pub(crate) async fn wait(self) -> Result<(), StillThere> {
        let left: Vec<_> = join_all(self.waits).await.into_iter().flatten().collect();
        if left.is_empty() { Ok(()) } else { Err(StillThere(left)) }
    }
}

/// Waits until none that matters is left; after the time, the kind and what is left of it.
async fn gone<K: Object>(
    api: Api<K>,
    labels: String,
    matters: fn(&K) -> bool,
    limit: Duration,
) -> Option<(String, Vec<Key>)> {
    let params = ListParams::default().labels(&labels).limit(1);
    if let Err(kube::Error::Api(status)) = api.list_metadata(&params).await
        && status.code == 404
    {
        // The kind itself is gone.
        return None;
    }
    let (store, keys) = watch(api, watcher::Config::default().labels(&labels));
    let mut keys = pin!(keys);
    let left = || {
        let objects = store.objects();
        let mut keys: Vec<Key> = objects
            .iter()
            .filter(|object| matters(object))
            .map(|object| Key::of(&**object))
            .collect();
        keys.sort();
        keys
    };
    let empty = async {
        let mut ready = false;
        while !ready || !left().is_empty() {
            // Reading the keys is what fills the store.
            tokio::select! {
                known = store.wait_until_ready(), if !ready => ready = known.is_ok(),
                _ = keys.next() => {}
            }
        }
    };
    match timeout(limit, empty).await {
        Ok(()) => None,
        Err(_) => Some((K::kind(&()).into_owned(), left())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_by_kind() {
        let left = StillThere(vec![
            ("Node".to_owned(), vec![Key::cluster("liqo-milan")]),
            (
                "TunnelEndpoint".to_owned(),
                vec![Key::namespaced("a", "x"), Key::namespaced("b", "y")],
            ),
        ]);
        assert_eq!(
            left.to_string(),
            "the time is over, and these are still there: Node liqo-milan; TunnelEndpoint a/x, b/y"
        );
    }
}
