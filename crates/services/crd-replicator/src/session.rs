//! What goes on with one peer: its identity is followed, and every kind copied by itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::api::ListParams;
use kube::{Api, Client};
use liqo_api::discovery::ResourceRequest;
use liqo_api::names::ClusterId;
use liqo_api::net::NetworkConfig;
use liqo_api::sharing::ResourceOffer;
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::client::{Manners, Remote, remote};
use liqo_kit::tasks::Tasks;
use liqo_replication::carried::Carried;
use liqo_replication::kind::Copied;
use liqo_replication::peer::Peer;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::copy::{Copier, Runs};
use crate::local::{Local, Sources};
use crate::orphans;

/// How long a peer may take to show that it is there.
const PROBE: Duration = Duration::from_secs(5);

/// What is the same for all peers.
#[derive(Clone)]
pub struct Home {
    /// This cluster.
    pub id: ClusterId,
    /// Its client.
    pub client: Client,
    /// How to present oneself to peers.
    pub manners: Manners,
    /// How many objects of a kind to work on at once.
    pub workers: u16,
    /// How long to wait for a peer that is out of reach and to be left.
    pub patience: SignedDuration,
    /// Counts.
    pub runs: Runs,
    /// The owner of all tasks.
    pub tasks: Arc<Tasks>,
}

/// The sources of every kind; a clone is the same.
#[derive(Clone)]
pub struct Kinds {
    /// What this cluster wants of peers.
    pub requests: Local<ResourceRequest>,
    /// What this cluster offers to peers.
    pub offers: Local<ResourceOffer>,
    /// Which namespaces extend to peers.
    pub maps: Local<NamespaceMap>,
    /// How peers reach the network of this cluster.
    pub networks: Local<NetworkConfig>,
}

impl Kinds {
    /// The sources of every kind, one after the other.
    pub fn each(&self) -> [&dyn Sources; 4] {
        [&self.requests, &self.offers, &self.maps, &self.networks]
    }
}

/// What goes on with one peer; it ends with the value.
pub struct Session {
    peer: Sender<Peer>,
    remote: Remote,
    /// End with this value.
    _tasks: Tasks,
}

impl Session {
    /// Begins to copy.
    pub fn start(home: &Home, kinds: &Kinds, peer: Peer) -> Self {
        let (client, manners) = (home.client.clone(), home.manners.clone());
        let (remote, follow) = remote(client, &peer.local, peer.id.as_str(), manners);
        let (peer, state) = channel(peer);
        let tasks = home.tasks.child();
        tasks.spawn("identity", follow);
        copy(&tasks, home, &kinds.requests, &state, &remote);
        copy(&tasks, home, &kinds.offers, &state, &remote);
        copy(&tasks, home, &kinds.maps, &state, &remote);
        copy(&tasks, home, &kinds.networks, &state, &remote);
        tasks.spawn("orphans", orphans::follow(home.client.clone(), state.clone(), remote.clone()));
        Self { peer, remote, _tasks: tasks }
    }

    /// Whether this session can go on with what is known of the peer now.
    pub fn is_for(&self, peer: &Peer) -> bool {
        let known = self.peer.borrow();
        (&known.id, &known.local) == (&peer.id, &peer.local)
    }

    /// Goes on with what is known of the peer now.
    pub fn update(&self, peer: Peer) {
        self.peer.send_if_modified(|known| {
            let differs = *known != peer;
            *known = peer;
            differs
        });
    }

    /// Asks whether the peer answers, and lets us in.
    pub fn probe(&self) -> impl Future<Output = bool> + Send + use<> {
        let (remote, namespace) = (self.remote.current(), self.peer.borrow().remote.clone());
        async move {
            let Some(remote) = remote else { return false };
            let requests: Api<Carried<ResourceRequest>> =
                Api::namespaced(remote.client, &namespace);
            let one = ListParams::default().limit(1);
            matches!(timeout(PROBE, requests.list(&one)).await, Ok(Ok(_)))
        }
    }
}

fn copy<K: Copied + Send + Sync + 'static>(
    tasks: &Tasks,
    home: &Home,
    local: &Local<K>,
    peer: &Receiver<Peer>,
    remote: &Remote,
) {
    let copier = Copier {
        home: home.id.clone(),
        workers: home.workers,
        patience: home.patience,
        runs: home.runs.clone(),
        local: local.clone(),
        peer: peer.clone(),
        remote: remote.clone(),
    };
    tasks.spawn("copy", copier.run());
}
