//! Waits until objects are ready, by watching them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use liqo_api::keys::label;
use liqo_install::object::Id;
use liqo_install::ready::{Seen, progress};
use serde::de::DeserializeOwned;

use crate::{Engine, Error};

/// What was seen, and changes what is known.
type Sight = Box<dyn FnOnce(&mut Seen) + Send>;
type Sights = BoxStream<'static, Result<Sight, watcher::Error>>;

impl Engine<'_> {
    /// Waits until objects are ready, or one of them never will be.
    pub(crate) async fn ready(&self, ids: &[Id], verb: &str) -> Result<(), Error> {
        let mut sights = self.sights(ids);
        let mut seen = Seen::default();
        loop {
            let now = progress(ids.iter(), &seen);
            if now.is_done() {
                self.wait_for(now);
                return Ok(());
            }
            if let Some((what, why)) = now.failed.first() {
                let (what, why) = (what.clone(), why.clone());
                return Err(Error::Never { what, why });
            }
            if now != self.waiting() {
                self.report.step(&format!("{verb}: {}", now.line()));
                self.wait_for(now);
            }
            match sights.next().await {
                Some(Ok(sight)) => sight(&mut seen),
                Some(Err(watcher::Error::InitialListFailed(source))) if is_refusal(&source) => {
                    return Err(Error::request("watch the objects of the release")(source));
                }
                // The watch begins anew by itself.
                Some(Err(_)) => {}
                None => return Ok(()),
            }
        }
    }

    /// Watches what objects of these kinds need.
    fn sights(&self, ids: &[Id]) -> stream::SelectAll<Sights> {
        let ours = format!("{}={}", label::APP_PART_OF, label::PART_OF_LIQO);
        let ours = watcher::Config::default().labels(&ours);
        let any = |kind: &str| ids.iter().any(|id| id.kind == kind);
        let mut streams = vec![see(self.own(), ours.clone(), |seen| &mut seen.pods)];
        if any("Deployment") {
            streams.push(see(self.own(), ours.clone(), |seen| &mut seen.deployments));
        }
        if any("DaemonSet") {
            streams.push(see(self.own(), ours.clone(), |seen| &mut seen.daemon_sets));
        }
        if any("Job") {
            streams.push(see(self.own(), ours.clone(), |seen| &mut seen.jobs));
        }
        if any("APIService") {
            streams.push(see(Api::all(self.client.clone()), ours, |seen| &mut seen.api_services));
        }
        stream::select_all(streams)
    }

    pub(crate) fn own<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn see<K>(
    api: Api<K>,
    config: watcher::Config,
    place: fn(&mut Seen) -> &mut BTreeMap<String, K>,
) -> Sights
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let sight = move |event| -> Sight { Box::new(move |seen| keep(place(seen), event)) };
    watcher(api, config).default_backoff().map(move |event| event.map(sight)).boxed()
}

fn keep<K: Resource>(known: &mut BTreeMap<String, K>, event: Event<K>) {
    match event {
        Event::Apply(object) | Event::InitApply(object) => {
            known.insert(object.name_any(), object);
        }
        Event::Delete(object) => {
            known.remove(&object.name_any());
        }
        Event::Init => known.clear(),
        Event::InitDone => {}
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
