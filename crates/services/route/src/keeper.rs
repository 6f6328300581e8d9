//! Keeps the routes of a node as tunnels and pods ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{annotation, event, finalizer, link, manager};
use liqo_api::net::TunnelEndpoint;
use liqo_fabric::node::{self, NodeState, Settings};
use liqo_fabric::owned::Scope;
use liqo_fabric::peer::key_of;
use liqo_fabric::plan::{Shown, plan};
use liqo_fabric::state::State;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::{Next, chain};
use liqo_kit::retry::or_gone;
use liqo_kit::watch::{Key, Store};
use liqo_netstate::{Kernel, Observed};
use liqo_replication::patch;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::error::Error;
use crate::lean;

/// How often one that leaves tries to let go of a tunnel.
const ATTEMPTS: usize = 10;

/// The one that keeps routes.
pub(crate) struct Keeper {
    pub client: Client,
    pub namespace: String,
    pub pod: String,
    pub kernel: Kernel,
    pub settings: Settings,
    pub endpoints: Store<TunnelEndpoint>,
    /// The pods of the cluster that are somewhere in it.
    pub pods: Store<Pod>,
    pub events: Events,
    /// Whether somebody touched what is ours in the kernel since it was looked at.
    pub touched: Arc<AtomicBool>,
    /// What the kernel held when it was looked at last, and had to hold.
    pub settled: tokio::sync::Mutex<Option<(Observed, State)>>,
    /// What was told of which tunnel.
    pub told: Mutex<BTreeMap<(String, String), String>>,
}

impl Keeper {
    /// Brings everything where it has to be.
    pub async fn converge(&self) -> Result<Next, Error> {
        let endpoints = self.endpoints.objects();
        let desired = |observed: &Observed| self.desired(&endpoints, observed);
        for endpoint in &endpoints {
            self.claim(endpoint).await?;
        }
        let observed = self.settle(&desired).await?;
        self.tell_mac(&observed).await?;
        let state = desired(&observed);
        let mut failure = None;
        for endpoint in &endpoints {
            let done = if endpoint.metadata.deletion_timestamp.is_some() {
                self.release(endpoint).await.map(drop)
            } else {
                self.report(endpoint, &state).await;
                Ok(())
            };
            // One that fails holds up nobody else.
            failure = failure.or(done.err());
        }
        failure.map_or(Ok(Next::AwaitChange), Err)
    }

    /// Makes the kernel hold what it has to, unless it does already and nobody touched it since.
    async fn settle(&self, desired: impl Fn(&Observed) -> NodeState) -> Result<Observed, Error> {
        let mut settled = self.settled.lock().await;
        let is_touched = self.touched.swap(false, Ordering::Relaxed);
        if let Some((observed, state)) = &*settled
            && !is_touched
            && desired(observed).state == *state
        {
            return Ok(observed.clone());
        }
        // What nobody touched need not be looked at again: it takes longer the more pods there are.
        let seen = settled.take().map(|(observed, _)| observed).filter(|_| !is_touched);
        let want = |observed: &Observed| desired(observed).state;
        let (_, observed) = self.kernel.settle_from(&Scope::node(), seen, want).await?;
        let state = want(&observed);
        *settled = Some((observed.clone(), state));
        Ok(observed)
    }

    /// What would change in the kernel, in words.
    pub async fn preview(&self) -> Result<String, Error> {
        let (scope, endpoints) = (Scope::node(), self.endpoints.objects());
        let observed = self.kernel.observe(&scope, &BTreeMap::new()).await?;
        let want = self.desired(&endpoints, &observed);
        let observed = self.kernel.observe(&scope, &want.state.settings).await?;
        let mut text = Shown(&plan(&scope, &want.state, &observed.state)).to_string();
        for ((namespace, name), refusal) in &want.refused {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "! nothing for {namespace}/{name}: {refusal}");
        }
        Ok(text)
    }

    /// Leaves without a trace: nothing in the kernel, nobody who waits for this node.
    pub async fn leave(&self) {
        if let Err(error) = self.kernel.settle(&Scope::node(), |_| State::default()).await {
            warn!(error = chain(&error), "Something of the routes stays");
            return;
        }
        for endpoint in self.endpoints.objects() {
            for _ in 0..ATTEMPTS {
                match self.release(&endpoint).await {
                    Ok(true) => break,
                    // Others leave as well.
                    Ok(false) => {}
                    Err(error) => {
                        let endpoint = Key::of(&*endpoint);
                        warn!(%endpoint, error = chain(&error), "Not released");
                    }
                }
            }
        }
    }

    fn desired(&self, endpoints: &[Arc<TunnelEndpoint>], observed: &Observed) -> NodeState {
        let pods = self.pods.objects();
        let routes = pods.iter().filter(|pod| lean::is_route(pod, &self.namespace));
        let neighbours = lean::neighbours(routes.map(AsRef::as_ref));
        let places: BTreeSet<_> = pods.iter().filter_map(|pod| lean::place(pod)).collect();
        let has_cable = observed.names.contains(link::HOST_VETH);
        let endpoints = endpoints.iter().map(AsRef::as_ref);
        node::desired(endpoints, &neighbours, &places, &self.settings, has_cable)
    }

    /// Tells the other nodes the hardware address of the overlay here.
    async fn tell_mac(&self, observed: &Observed) -> Result<(), Error> {
        let Some(mac) = observed.macs.get(link::OVERLAY).map(ToString::to_string) else {
            return Ok(());
        };
        let told = self.pods.object(&Key::namespaced(&self.namespace, &self.pod));
        let told = told.and_then(|pod| pod.annotations().get(annotation::VXLAN_MAC).cloned());
        if told.as_ref() == Some(&mac) {
            return Ok(());
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let key = annotation::VXLAN_MAC;
        let change = json!({ "metadata": { "annotations": { key: mac } } });
        let changed = pods.patch(&self.pod, &ours(), &Patch::Merge(change)).await;
        or_gone(changed).map_err(Error::request("tell the hardware address of the overlay"))?;
        info!(mac, "Overlay told");
        Ok(())
    }

    async fn report(&self, endpoint: &TunnelEndpoint, state: &NodeState) {
        let key = key_of(endpoint);
        let (warning, message) = if let Some(refusal) = state.refused.get(&key) {
            (true, format!("no routes are set up: {refusal}"))
        } else if state.routed.contains(&key) {
            (false, "routes are set up".to_owned())
        } else {
            return;
        };
        let before = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.insert(key, message.clone())
        };
        if before.as_ref() != Some(&message) {
            self.tell(endpoint, warning, &message).await;
        }
    }

    /// Has a tunnel wait for this node before it goes.
    async fn claim(&self, endpoint: &TunnelEndpoint) -> Result<(), Error> {
        let name = finalizer::route(self.settings.address);
        let is_held = endpoint.finalizers().contains(&name);
        if is_held || endpoint.metadata.deletion_timestamp.is_some() || !has_gateway(endpoint) {
            return Ok(());
        }
        let change = patch::of_finalizer(&endpoint.metadata, &name, true);
        self.change(endpoint, change, "claim a TunnelEndpoint").await.map(drop)
    }

    /// Lets a tunnel go to which nothing leads from here any more.
    ///
    /// False when somebody else was faster to change it.
    async fn release(&self, endpoint: &TunnelEndpoint) -> Result<bool, Error> {
        let name = finalizer::route(self.settings.address);
        if !endpoint.finalizers().contains(&name) {
            return Ok(true);
        }
        // Everybody changes the same list: only the newest one counts.
        let api = self.api(endpoint);
        let newest = api.get_opt(&endpoint.name_any()).await;
        let newest = newest.map_err(Error::request("read a TunnelEndpoint"))?;
        let Some(newest) = newest.filter(|newest| newest.finalizers().contains(&name)) else {
            return Ok(true);
        };
        let change = patch::of_finalizer(&newest.metadata, &name, false);
        self.change(endpoint, change, "release a TunnelEndpoint").await
    }

    async fn change(
        &self,
        endpoint: &TunnelEndpoint,
        change: Value,
        action: &'static str,
    ) -> Result<bool, Error> {
        let api = self.api(endpoint);
        let changed = api.patch(&endpoint.name_any(), &ours(), &Patch::Merge(change)).await;
        match changed {
            // Whoever was faster has touched it, and it is looked at again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            changed => or_gone(changed).map(|_| true).map_err(Error::request(action)),
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

fn has_gateway(endpoint: &TunnelEndpoint) -> bool {
    let status = endpoint.status.as_ref();
    let address = status.and_then(|status| status.gateway_ip.as_ref());
    address.is_some_and(|address| address.parse::<Ipv4Addr>().is_ok())
}

fn ours() -> PatchParams {
    PatchParams { field_manager: Some(manager::ROUTE.to_owned()), ..PatchParams::default() }
}
