//! What happens with each peer: it is told, heard and connected, and in the end let go.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{annotation, finalizer, manager};
use liqo_api::names::ClusterId;
use liqo_api::net::NetworkConfig;
use liqo_ipam::ledger::Prefixes;
use liqo_ipam::{Networks, Refusal as NotAdmitted};
use liqo_kit::apply::{Outcome, Writer};
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::report::report;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use liqo_network_exchange::heard::{self, Refusal};
use liqo_network_exchange::pair::{self, Pair, is_standing};
use liqo_network_exchange::told::{self, Listener};
use liqo_network_exchange::tunnel::{Ends, tunnel};
use liqo_replication::patch;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use crate::book::{self, Book, written_by_us};
use crate::error::{Error, request};
use crate::world::World;

/// The pause after somebody else was faster; what it wrote wakes us sooner.
const PAUSE: Duration = Duration::from_millis(100);

/// One word on what is done, for Events.
const CONNECT: &str = "Connect";

/// Keeps what is said between this cluster and its peers, and the tunnels that follow.
pub struct Peers {
    client: Client,
    world: World,
    book: Arc<Book>,
    events: Events,
    configs: Writer,
    tunnels: Writer,
    /// Has peers looked at again.
    again: Sender<ClusterId>,
}

impl Peers {
    /// Keeps those of a cluster; `again` has a peer looked at.
    pub fn new(
        client: Client,
        world: World,
        book: Arc<Book>,
        events: Events,
        again: Sender<ClusterId>,
    ) -> Self {
        Self {
            client,
            world,
            book,
            events,
            configs: Writer::owning(manager::NETWORK_MANAGER),
            tunnels: Writer::owning(manager::NETWORK_MANAGER),
            again,
        }
    }

    /// Brings everything about a peer one step on.
    pub async fn reconcile(&self, peer: ClusterId) -> Result<Next, Error> {
        self.world.ready().await?;
        let cluster = self.world.cluster(&peer);
        let listener = cluster.as_deref().and_then(told::listener);
        let known = cluster.as_deref().zip(listener.as_ref());
        // What one half cannot do does not hold up the other: least of all an end.
        let told = self.tell(&peer, known).await;
        let namespace = self.world.namespace(&peer, cluster.as_deref());
        let next = self.connect(&peer, cluster.as_deref(), namespace.as_deref()).await;
        match told.and(next) {
            Err(error) if error.is_outdated() => Ok(Next::RequeueAfter(PAUSE)),
            result => result,
        }
    }

    /// Tells a peer of our network for as long as that is due, and takes it back then.
    async fn tell(
        &self,
        peer: &ClusterId,
        known: Option<(&ForeignCluster, &Listener)>,
    ) -> Result<(), Error> {
        let due = known.filter(|(cluster, _)| told::is_due(cluster));
        let mut kept = None;
        if let Some((cluster, listener)) = due {
            kept = Some(Key::namespaced(
                listener.namespace.clone(),
                listener.remote.unique_name().to_string(),
            ));
            self.write_config(cluster, listener).await?;
        }
        let ours = self.world.about(peer).into_iter().filter(|config| told::is_ours(config));
        for config in ours {
            let is_kept = kept.as_ref() == Some(&Key::of(&*config));
            if !is_kept && is_standing(Some(&*config)) {
                info!(cluster = %peer, config = %Key::of(&*config), "Not told any more");
                self.configs.delete(&self.configs_in(&config), &config).await?;
            }
        }
        Ok(())
    }

    async fn write_config(
        &self,
        cluster: &ForeignCluster,
        listener: &Listener,
    ) -> Result<(), Error> {
        let gateway = match self.world.gateway() {
            Ok(gateway) => gateway,
            // What it was told before still stands, or there is nothing to tell yet.
            Err(reason) => {
                let message = format!("The peer is not told of our gateway: {reason}");
                let note =
                    Note { warning: true, reason: "NoGateway", action: CONNECT, message: &message };
                self.events.tell(cluster, note).await;
                return Ok(());
            }
        };
        let own = self.book.ledger().own().map_err(book::Error::from)?;
        let want = told::config(cluster, listener, own, &gateway);
        let have = self.world.configs.object(&Key::of(&want));
        if have.is_some() && !is_standing(have.as_deref()) {
            // It is made again once it is gone, which wakes us.
            return Ok(());
        }
        let written = self.configs.apply(&self.configs_in(&want), &want, have.as_deref()).await?;
        if matches!(written, Outcome::Applied(_)) {
            let place = format!("{}:{}", gateway.address, gateway.port);
            info!(cluster = %listener.remote, gateway = place, "Told");
        }
        Ok(())
    }

    /// Connects a peer when both sides have told and answered; lets it go when they take it back.
    async fn connect(
        &self,
        peer: &ClusterId,
        cluster: Option<&ForeignCluster>,
        namespace: Option<&str>,
    ) -> Result<Next, Error> {
        let told = namespace.and_then(|namespace| self.world.told(peer, namespace, cluster));
        let heard = namespace.and_then(|namespace| self.world.heard(peer, namespace));
        let tunnels = self.world.tunnels(peer);
        let pair = Pair {
            told: told.as_deref(),
            heard: heard.as_deref(),
            tunnel: tunnels.first().map(|tunnel| &**tunnel),
        };
        let verdict = pair::decide(pair, Timestamp::now());
        if verdict.ends_tunnel {
            for tunnel in &tunnels {
                let api = Api::namespaced(self.client.clone(), &namespace_of(&**tunnel));
                self.tunnels.delete(&api, &**tunnel).await?;
                info!(cluster = %peer, "Tunnel deleted");
            }
        }
        if let Some(namespace) = namespace {
            self.join(peer, cluster, namespace, pair).await?;
        }
        if verdict.frees_networks {
            self.free(peer).await?;
        }
        if verdict.lets_go {
            let ending = self.world.about(peer).into_iter();
            for config in ending.filter(|config| !is_standing(Some(&**config))) {
                self.let_go(&config).await?;
            }
        }
        let again = verdict.again.and_then(|again| Duration::try_from(again).ok());
        Ok(again.map_or(Next::AwaitChange, |again| Next::RequeueAfter(again + PAUSE)))
    }

    /// Answers a peer, and describes the tunnel once both have answered.
    ///
    /// Who connects clusters by hand has them answer before it introduces them, so that is not
    /// waited for; the tunnel is.
    async fn join(
        &self,
        peer: &ClusterId,
        cluster: Option<&ForeignCluster>,
        namespace: &str,
        pair: Pair<'_>,
    ) -> Result<(), Error> {
        let Some(heard) = pair.heard.filter(|heard| is_standing(Some(heard))) else {
            return Ok(());
        };
        let Some((remote, remote_here)) = self.hear(peer, cluster, heard).await? else {
            return Ok(());
        };
        let Some(told) = pair.told.filter(|told| is_standing(Some(told))) else { return Ok(()) };
        let Some(own_there) = self.learn(peer, cluster, told).await? else { return Ok(()) };
        let Some(cluster) = cluster else { return Ok(()) };
        let Some(listener) = told::listener_in(cluster, namespace) else { return Ok(()) };
        let listener = &listener;
        let own = self.book.ledger().own().map_err(book::Error::from)?;
        let ends = Ends { cluster, told, heard, own, own_there, remote, remote_here };
        let want = tunnel(listener, ends);
        if pair.tunnel.is_some_and(|have| have.metadata.deletion_timestamp.is_some()) {
            // The end of the old one wakes us.
            return Ok(());
        }
        let have = pair.tunnel.filter(|have| Key::of(*have) == Key::of(&want));
        let api = Api::namespaced(self.client.clone(), &listener.namespace);
        if let Outcome::Applied(_) = self.tunnels.apply(&api, &want, have).await? {
            let (pod, external) = (remote_here.pod, remote_here.external);
            info!(cluster = %listener.remote, %pod, %external, "Tunnel described");
        }
        Ok(())
    }

    /// Finds a place for the networks of a peer, and answers it; nothing when they are refused.
    async fn hear(
        &self,
        peer: &ClusterId,
        cluster: Option<&ForeignCluster>,
        heard: &NetworkConfig,
    ) -> Result<Option<(Networks, Networks)>, Error> {
        // Before networks are taken: whoever takes it back must not be gone before they are free.
        let owner = cluster.and_then(|cluster| told::purpose(cluster, heard));
        self.hold(heard, owner).await?;
        let placed = match heard::networks(&heard.spec) {
            Err(refusal) => Err(refusal),
            Ok(asked) => match self.book.change(peer, |ledger| ledger.admit(peer, asked)).await {
                Ok(given) => Ok((asked, given)),
                Err(book::Error::Refused(refusal)) => Err(Refusal::Ledger(refusal)),
                Err(error) => return Err(error.into()),
            },
        };
        self.mark(cluster, heard, placed.as_ref().err()).await?;
        let Ok((asked, given)) = placed else { return Ok(None) };
        let (api, answer) = (self.configs_in(heard), heard::answer(asked, given));
        let before = heard.status.as_ref();
        let told = report(&api, manager::NETWORK_MANAGER, heard, before, &answer).await;
        if told.map_err(request("answer a NetworkConfig"))? {
            info!(cluster = %peer, pod = %given.pod, external = %given.external, "Networks placed");
        }
        Ok(Some((asked, given)))
    }

    /// Notes what a peer calls our networks; nothing while it has not answered, or nonsense.
    async fn learn(
        &self,
        peer: &ClusterId,
        cluster: Option<&ForeignCluster>,
        told: &NetworkConfig,
    ) -> Result<Option<Prefixes>, Error> {
        self.hold(told, None).await?;
        let learnt = match heard::answered(told.status.as_ref()) {
            Err(refusal) => Err(refusal),
            Ok(None) => return Ok(None),
            Ok(Some(prefixes)) => {
                match self.book.change(peer, |ledger| ledger.learn(peer, prefixes)).await {
                    Ok(()) => Ok(prefixes),
                    Err(book::Error::Refused(NotAdmitted::UnknownPeer(_))) => return Ok(None),
                    Err(book::Error::Refused(refusal)) => Err(Refusal::Ledger(refusal)),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.mark(cluster, told, learnt.as_ref().err()).await?;
        Ok(learnt.ok())
    }

    /// Takes back what a peer held, and has those looked at for whom there was no room.
    async fn free(&self, peer: &ClusterId) -> Result<(), Error> {
        if self.book.ledger().peer(peer).is_none() {
            return Ok(());
        }
        self.book.change(peer, |ledger| Ok(ledger.release(peer))).await?;
        info!(cluster = %peer, "Networks freed");
        for waiting in self.world.refused() {
            // Nobody listens when the service ends.
            let _ = self.again.send(waiting).await;
        }
        Ok(())
    }

    /// Shows on what a peer said why it is refused, or that it is not.
    async fn mark(
        &self,
        cluster: Option<&ForeignCluster>,
        config: &NetworkConfig,
        refusal: Option<&Refusal>,
    ) -> Result<(), Error> {
        let message = refusal.map(ToString::to_string);
        if let (Some(cluster), Some(refusal), Some(message)) = (cluster, refusal, &message) {
            let reason = refusal.reason();
            self.events
                .tell(cluster, Note { warning: true, reason, action: CONNECT, message })
                .await;
        }
        let marked = config.annotations().get(annotation::NETWORK_REFUSED);
        if marked == message.as_ref() {
            return Ok(());
        }
        if let Some(message) = &message {
            warn!(config = %Key::of(config), reason = message, "Refused");
        }
        let annotations = json!({ annotation::NETWORK_REFUSED: message });
        let change = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let api = self.configs_in(config);
        let patched = api.patch(&config.name_any(), &written_by_us(), &change).await;
        or_gone(patched).map(drop).map_err(request("mark a NetworkConfig"))
    }

    /// Has what is said wait for us before it goes, and go with its owner.
    async fn hold(
        &self,
        config: &NetworkConfig,
        owner: Option<OwnerReference>,
    ) -> Result<(), Error> {
        if is_held(config) && owner.is_none() {
            return Ok(());
        }
        let name = finalizer::TUNNEL_ENDPOINT_CREATOR;
        let mut change = patch::of_finalizer(&config.metadata, name, true);
        if let Some(owner) = owner {
            let owners = config.owner_references().iter().cloned().chain([owner]);
            let owners: Vec<OwnerReference> = owners.collect();
            change["metadata"]["ownerReferences"] = json!(owners);
            // It would go back to the peer with every change who wrote which field of what it told.
            change["metadata"]["managedFields"] = json!([{}]);
        }
        self.change(config, change).await
    }

    /// Lets what is said go.
    async fn let_go(&self, config: &NetworkConfig) -> Result<(), Error> {
        if !is_held(config) {
            return Ok(());
        }
        let name = finalizer::TUNNEL_ENDPOINT_CREATOR;
        self.change(config, patch::of_finalizer(&config.metadata, name, false)).await
    }

    async fn change(&self, config: &NetworkConfig, change: Value) -> Result<(), Error> {
        let api = self.configs_in(config);
        let change = Patch::Merge(change);
        let patched = api.patch(&config.name_any(), &written_by_us(), &change).await;
        or_gone(patched).map(drop).map_err(request("change who holds a NetworkConfig"))
    }

    fn configs_in(&self, config: &NetworkConfig) -> Api<NetworkConfig> {
        Api::namespaced(self.client.clone(), &namespace_of(config))
    }
}

fn is_held(config: &NetworkConfig) -> bool {
    config.finalizers().iter().any(|have| have == finalizer::TUNNEL_ENDPOINT_CREATOR)
}

fn namespace_of(object: &impl kube::ResourceExt) -> String {
    object.namespace().unwrap_or_default()
}
