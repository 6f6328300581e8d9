//! Begins and ends reflection with the namespaces that the other cluster accepts.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::Api;
use kube::runtime::watcher::Config;
use liqo_api::keys::label;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::keyed::chain;
use liqo_kit::tasks::Tasks;
use liqo_kit::watch::watch;
use liqo_reflection::Place;
use liqo_reflection::mapping::{Mapping, accepted};
use tokio::sync::watch::{Receiver, Sender};
use tracing::{error, info, warn};

use super::Scope;
use super::kinds::Kind;
use crate::addresses::Addresses;
use crate::pods::Pods;

/// Which namespaces extend to the other cluster, as far as it is known; a clone knows the same.
#[derive(Clone, Debug)]
pub struct Namespaces(Receiver<Option<Arc<Mapping>>>);

impl Namespaces {
    /// The namespaces, and what tells them.
    pub(crate) fn channel() -> (Sender<Option<Arc<Mapping>>>, Self) {
        let (send, receive) = tokio::sync::watch::channel(None);
        (send, Self(receive))
    }

    /// What a namespace is called in the other cluster; nothing when it does not extend there.
    pub fn remote(&self, home: &str) -> Option<String> {
        self.0.borrow().as_ref()?.get(home).cloned()
    }

    /// All of them; nothing as long as they are not known.
    pub fn known(&self) -> Option<Arc<Mapping>> {
        self.0.borrow().clone()
    }

    /// Waits until they are others than at the last wait; false when they will never change again.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// What begins and ends with namespaces.
pub(crate) struct Activation {
    /// What is the same for all namespaces; its place names none.
    pub(crate) scope: Scope,
    /// The namespace of what is exchanged with the other cluster.
    pub(crate) tenant_namespace: String,
    /// What is reflected.
    pub(crate) kinds: Vec<Kind>,
    /// The pods, unless none run there.
    pub(crate) pods: Option<Arc<Pods>>,
    /// Where failures of tasks are told; a task must not own its owner.
    pub(crate) tasks: Tasks,
    /// Who else has to know.
    pub(crate) tell: Sender<Option<Arc<Mapping>>>,
}

/// Reflection between two namespaces; it ends with the value.
struct Session {
    remote_namespace: String,
    _tasks: Tasks,
}

impl Activation {
    /// Follows the NamespaceMap of the other cluster; never ends by itself.
    pub(crate) async fn follow(self) {
        let provider = &self.scope.place.remote.id;
        let maps: Api<NamespaceMap> =
            Api::namespaced(self.scope.home.clone(), &self.tenant_namespace);
        let config = Config::default().labels(&format!("{}={provider}", label::REMOTE_CLUSTER_ID));
        let (store, touched) = watch(maps, config);
        let mut touched = Box::pin(touched);
        let mut sessions = HashMap::new();
        // A list without a map touches nothing, and says something all the same.
        let mut first = Box::pin(store.wait_until_ready());
        let mut listed = false;
        loop {
            tokio::select! {
                key = touched.next() => if key.is_none() { return },
                ready = &mut first, if !listed => {
                    listed = true;
                    if ready.is_err() {
                        return;
                    }
                }
            }
            if !store.is_ready() {
                continue;
            }
            let maps = store.objects();
            match accepted(maps.iter().map(Arc::as_ref)) {
                Ok(mapping) => self.make_so(&mut sessions, mapping),
                Err(ambiguous) => {
                    let (maps, namespace) = (ambiguous.0, &self.tenant_namespace);
                    error!(
                        maps,
                        namespace,
                        "More than one NamespaceMap: nothing changes until all but one are deleted"
                    );
                }
            }
        }
    }

    fn make_so(&self, sessions: &mut HashMap<String, Session>, mapping: Mapping) {
        let before = sessions.len();
        sessions.retain(|home, session| {
            let goes_on = mapping.get(home) == Some(&session.remote_namespace);
            if !goes_on {
                info!(namespace = home, "Reflection ends");
                self.scope.addresses.let_go(home);
            }
            goes_on
        });
        if sessions.len() < before {
            self.tasks.spawn("addresses", give_back(Arc::clone(&self.scope.addresses)));
        }
        for (home, remote) in &mapping {
            if !sessions.contains_key(home) {
                info!(namespace = home, remote, "Reflection begins");
                sessions.insert(home.clone(), self.begin(home, remote));
            }
        }
        self.tell.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&mapping);
            if changed {
                *known = Some(Arc::new(mapping));
            }
            changed
        });
    }

    fn begin(&self, home: &str, remote: &str) -> Session {
        let place = Place {
            home_namespace: home.to_owned(),
            remote_namespace: remote.to_owned(),
            ..(*self.scope.place).clone()
        };
        let scope = Scope { place: Arc::new(place), ..self.scope.clone() };
        let tasks = self.tasks.child();
        for reflection in self.kinds.iter().filter_map(|kind| kind.start(scope.clone())) {
            tasks.spawn("reflection", reflection);
        }
        if let Some(pods) = &self.pods {
            tasks.spawn("pods of a namespace", Arc::clone(pods).attend(scope));
        }
        Session { remote_namespace: remote.to_owned(), _tasks: tasks }
    }
}

async fn give_back(addresses: Arc<Addresses>) {
    if let Err(error) = addresses.give_back().await {
        warn!(error = chain(&error), "Address not given back yet");
    }
}
