//! Keeps tunnels as they are asked for: looks at everything, brings the kernel there, tells.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{annotation, component, event, finalizer, label, manager};
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::net::{ConnectionStatus, NatMapping, TunnelEndpoint, TunnelEndpointStatus};
use liqo_fabric::gateway::{GatewayState, told_widths};
use liqo_fabric::peer::{Peer, key_of};
use liqo_fabric::pulse::Health;
use liqo_fabric::report::{self, Origin};
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::{Key, Store};
use liqo_replication::patch;
use serde_json::{Value, json};
use tracing::info;

use crate::crowd::Crowd;
use crate::error::Error;
use crate::heart::Heart;
use crate::metrics::Meters;
use crate::site::Site;
use crate::whereabouts::Whereabouts;

/// How long until a name is looked up again whose bearer does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What a gateway watches.
#[derive(Clone)]
pub(crate) struct Sources {
    pub endpoints: Store<TunnelEndpoint>,
    pub mappings: Store<NatMapping>,
    /// The pods of gateways and of nodes' routes.
    pub pods: Store<Pod>,
    /// Where peers reach gateways.
    pub services: Store<Service>,
}

/// The one that keeps tunnels.
pub(crate) struct Keeper {
    pub client: Client,
    pub namespace: String,
    pub pod: String,
    pub address: Ipv4Addr,
    pub latency_interval: SignedDuration,
    pub sources: Sources,
    pub site: Arc<Site>,
    pub heart: Arc<Heart>,
    pub meters: Arc<Meters>,
    pub events: Events,
    pub whereabouts: tokio::sync::Mutex<Whereabouts>,
    pub peers: Mutex<BTreeMap<ClusterId, Peer>>,
    pub crowd: Crowd,
}

impl Keeper {
    /// Brings everything where it has to be.
    pub async fn converge(&self) -> Result<Next, Error> {
        let mut endpoints = self.sources.endpoints.objects();
        endpoints.sort_by_key(|endpoint| key_of(endpoint));
        let mappings = self.sources.mappings.objects();
        for endpoint in &endpoints {
            self.claim(endpoint).await?;
        }
        let mut widths = told_widths(endpoints.iter().map(AsRef::as_ref));
        widths.extend(self.heart.widths());
        let (state, cable) = self.site.settle(&endpoints, &mappings, &widths).await?;
        let found = self.find(&state).await;
        self.site.connect(&state.peers, &found).await?;
        self.heart.follow(&state.peers, &widths, Timestamp::now());
        self.note_peers(&state.peers);
        let (mtu, implementation) = (self.site.mtu(), self.site.implementation().await);
        let origin = Origin { node: self.address, cable, mtu, implementation };
        let mut failure = None;
        for endpoint in &endpoints {
            let done = if endpoint.metadata.deletion_timestamp.is_some() {
                self.release(endpoint).await
            } else {
                self.report(endpoint, &state, &found, origin).await
            };
            // One that fails holds up nobody else.
            failure = failure.or(done.err());
        }
        self.announce().await?;
        match failure {
            Some(error) => Err(error),
            None => Ok(self.next(&state, &found)),
        }
    }

    /// Shows metrics as they are now.
    pub async fn measure(&self) -> Result<(), Error> {
        let states = self.site.peers().await?;
        {
            // Held, so that nothing is shown of a peer that is being forgotten.
            let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            self.meters.show(&peers, &states, &self.heart);
        }
        if let Some(remembered) = self.site.remembered().await? {
            self.meters.show_connections(remembered);
            self.crowd.look(remembered);
        }
        Ok(())
    }

    fn note_peers(&self, peers: &BTreeMap<ClusterId, Peer>) {
        let mut known = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = known.values().filter(|peer| !peers.contains_key(&peer.cluster.id));
        gone.for_each(|peer| self.meters.forget(&peer.cluster));
        known.clone_from(peers);
    }

    async fn find(&self, state: &GatewayState) -> BTreeMap<ClusterId, SocketAddr> {
        let mut whereabouts = self.whereabouts.lock().await;
        whereabouts.keep(&state.peers);
        let mut found = BTreeMap::new();
        for (id, peer) in &state.peers {
            let doubted = self.heart.health(id, Timestamp::now()) == Health::Lost;
            if let Some(address) = whereabouts.find(peer, doubted).await {
                found.insert(id.clone(), address);
            }
        }
        found
    }

    fn next(&self, state: &GatewayState, found: &BTreeMap<ClusterId, SocketAddr>) -> Next {
        let now = Timestamp::now();
        let is_doubtful = |(id, peer): (&ClusterId, &Peer)| {
            let is_name = peer.endpoint.parse::<IpAddr>().is_err();
            let is_lost = self.heart.health(id, now) == Health::Lost;
            is_name && (is_lost || !found.contains_key(id))
        };
        if state.peers.iter().any(is_doubtful) {
            return Next::RequeueAfter(LOOK_AGAIN);
        }
        Next::AwaitChange
    }

    /// Has a tunnel wait for this gateway before it goes.
    async fn claim(&self, endpoint: &TunnelEndpoint) -> Result<(), Error> {
        let is_held = endpoint.finalizers().iter().any(|name| name == finalizer::GATEWAY);
        if is_held || endpoint.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let change = patch::of_finalizer(&endpoint.metadata, finalizer::GATEWAY, true);
        self.change(endpoint, change, "claim a TunnelEndpoint").await
    }

    /// Lets a tunnel go whose place in the kernel is empty, and which nodes that are gone cannot let
    /// go themselves.
    async fn release(&self, endpoint: &TunnelEndpoint) -> Result<(), Error> {
        let nodes = self.nodes();
        let is_done = |name: &String| {
            let of_node = finalizer::routed_node(name);
            name == finalizer::GATEWAY || of_node.is_some_and(|node| !nodes.contains(&node))
        };
        if !endpoint.finalizers().iter().any(is_done) {
            return Ok(());
        }
        let left: Vec<&String> =
            endpoint.finalizers().iter().filter(|name| !is_done(name)).collect();
        let change = json!({ "metadata": {
            "finalizers": left,
            "resourceVersion": endpoint.resource_version(),
        } });
        self.change(endpoint, change, "release a TunnelEndpoint").await?;
        info!(endpoint = %Key::of(endpoint), "Tunnel removed");
        let message = "connection to the peer closed";
        self.tell(endpoint, false, message).await;
        Ok(())
    }

    async fn report(
        &self,
        endpoint: &TunnelEndpoint,
        state: &GatewayState,
        found: &BTreeMap<ClusterId, SocketAddr>,
        origin: Origin,
    ) -> Result<(), Error> {
        let now = Timestamp::now();
        let mut pause = self.latency_interval;
        let (status, refusal) = if let Some(refusal) = state.refused.get(&key_of(endpoint)) {
            (report::of_refusal(refusal), Some(refusal.to_string()))
        } else {
            let id = endpoint.spec.cluster_identity.parse().map(|Cluster { id, .. }| id);
            let Some(peer) = id.ok().and_then(|id| state.peers.get(&id)) else { return Ok(()) };
            let id = &peer.cluster.id;
            let mut health = self.heart.health(id, now);
            if let (Health::Connected(_), Some((usual, is_young))) = (health, self.heart.usual(id))
            {
                health = usual;
                pause = if is_young { SignedDuration::ZERO } else { pause };
            }
            let mtu = self.heart.width(id).unwrap_or(origin.mtu);
            let origin = Origin { mtu, ..origin };
            (report::of_peer(origin, peer, found.get(id).copied(), health, now), None)
        };
        if !report::is_news(&status, endpoint.status.as_ref(), pause) {
            return Ok(());
        }
        self.write(endpoint, &status).await?;
        if let Some(refusal) = refusal {
            self.tell(endpoint, true, &format!("nothing is set up: {refusal}")).await;
        } else if is_worth_telling(status_of(&status), endpoint.status.as_ref().and_then(status_of))
        {
            let message = status.connection.and_then(|one| one.status_message).unwrap_or_default();
            self.tell(endpoint, false, &message).await;
        }
        Ok(())
    }

    async fn write(
        &self,
        endpoint: &TunnelEndpoint,
        status: &TunnelEndpointStatus,
    ) -> Result<(), Error> {
        let mut want = TunnelEndpoint::new(&endpoint.name_any(), endpoint.spec.clone());
        want.metadata =
            ObjectMeta { name: endpoint.metadata.name.clone(), ..ObjectMeta::default() };
        want.status = Some(status.clone());
        let params = PatchParams::apply(manager::GATEWAY).force();
        let written = self
            .api(endpoint)
            .patch_status(&endpoint.name_any(), &params, &Patch::Apply(&want))
            .await;
        or_gone(written).map(drop).map_err(Error::request("tell how a tunnel is"))
    }

    /// Says who is active, where users and peers look for it.
    async fn announce(&self) -> Result<(), Error> {
        for pod in self.sources.pods.objects() {
            if !is(&pod, component::GATEWAY) {
                continue;
            }
            let is_self = pod.name_any() == self.pod;
            let wanted = if is_self { label::GATEWAY_ACTIVE } else { label::GATEWAY_STANDBY };
            if pod.labels().get(label::GATEWAY).map(String::as_str) != Some(wanted) {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
                let change = json!({ "metadata": { "labels": { label::GATEWAY: wanted } } });
                let changed = pods.patch(&pod.name_any(), &ours(), &Patch::Merge(change)).await;
                or_gone(changed).map_err(Error::request("say which gateway is active"))?;
            }
        }
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        for service in self.sources.services.objects() {
            let address = self.address.to_string();
            if service.annotations().get(annotation::GATEWAY_NODE_IP) != Some(&address) {
                let key = annotation::GATEWAY_NODE_IP;
                let change = json!({ "metadata": { "annotations": { key: address } } });
                let name = service.name_any();
                let changed = services.patch(&name, &ours(), &Patch::Merge(change)).await;
                or_gone(changed).map_err(Error::request("say where the gateway is"))?;
            }
        }
        Ok(())
    }

    /// Whether no other gateway could take over, as far as is known.
    pub(crate) fn is_alone(&self) -> bool {
        let pods = &self.sources.pods;
        pods.is_ready()
            && !pods.objects().iter().any(|pod| could_lead(pod) && pod.name_any() != self.pod)
    }

    /// The nodes that have somebody to remove their routes.
    fn nodes(&self) -> BTreeSet<Ipv4Addr> {
        let pods = self.sources.pods.objects();
        let routes = pods.iter().filter(|pod| is(pod, component::ROUTE));
        let address = |pod: &Arc<Pod>| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
        routes.filter_map(address).collect()
    }

    async fn change(
        &self,
        endpoint: &TunnelEndpoint,
        change: Value,
        action: &'static str,
    ) -> Result<(), Error> {
        let api = self.api(endpoint);
        let changed = api.patch(&endpoint.name_any(), &ours(), &Patch::Merge(change)).await;
        match changed {
            // Whoever was faster has touched it, and it is looked at again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            changed => or_gone(changed).map(drop).map_err(Error::request(action)),
        }
    }

    async fn tell(&self, endpoint: &TunnelEndpoint, warning: bool, message: &str) {
        let note = Note { warning, reason: event::PROCESSING, action: event::PROCESSING, message };
        self.events.tell(endpoint, note).await;
    }

    fn api(&self, endpoint: &TunnelEndpoint) -> Api<TunnelEndpoint> {
        Api::namespaced(self.client.clone(), &endpoint.namespace().unwrap_or_default())
    }
}

/// Whether people want to know: that a peer is waited for is no news, unless it was there before.
fn is_worth_telling(now: Option<ConnectionStatus>, before: Option<ConnectionStatus>) -> bool {
    now != before && (now != Some(ConnectionStatus::Connecting) || before.is_some())
}

fn status_of(status: &TunnelEndpointStatus) -> Option<ConnectionStatus> {
    status.connection.as_ref()?.status
}

fn is(pod: &Pod, component: &str) -> bool {
    pod.labels().get(label::APP_NAME).map(String::as_str) == Some(component)
}

/// Whether a pod is a gateway that is there, or may be soon.
fn could_lead(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    is(pod, component::GATEWAY) && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn ours() -> PatchParams {
    PatchParams { field_manager: Some(manager::GATEWAY.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_has_ended_takes_over_from_nobody() {
        let could = |name: &str, phase: Option<&str>| {
            let pod = json!({
                "metadata": { "labels": { label::APP_NAME: name } }, "status": { "phase": phase },
            });
            could_lead(&serde_json::from_value(pod).unwrap())
        };
        assert!(could(component::GATEWAY, Some("Running")) && could(component::GATEWAY, None));
        assert!(could(component::GATEWAY, Some("Pending")), "it may run in a moment");
        assert!(!could(component::GATEWAY, Some("Failed")), "it was evicted");
        assert!(!could(component::ROUTE, Some("Running")));
    }
}
