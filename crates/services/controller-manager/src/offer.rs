//! The controller of offers received: accepts them, and runs their virtual kubelets.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{event, finalizer, label, manager, object};
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::sharing::{ResourceOffer, ResourceOfferStatus, VirtualKubeletStatus};
use liqo_kit::apply::Writer;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::report::report;
use liqo_kit::retry::Failure as _;
use liqo_kit::watch::Key;
use liqo_peering::controller;
use liqo_peering::kubelet::{self, Kubelet, Settings};
use liqo_peering::offer::{self, Action, Outlook, Seen, decide, finalizers, outlook};
use tracing::warn;

use crate::error::Error;
use crate::foreign::next;
use crate::marks;
use crate::world::{World, is_copy, remote};
use liqo_kit::keyed::chain;

/// What the flags say.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Whether offers are accepted without asking a person.
    pub auto_accept: bool,
    /// How long a node waits for its virtual kubelet to drain it.
    pub patience: SignedDuration,
    /// Time after which everything is looked at again.
    pub resync: Duration,
}

/// The controller of offers received.
pub struct Offers {
    world: World,
    events: Arc<Events>,
    settings: Settings,
    policy: Policy,
    kubelets: Writer,
    rights: Writer,
    accounts: Writer,
}

impl Offers {
    /// The controller, with what it needs.
    pub fn new(world: World, events: Arc<Events>, settings: Settings, policy: Policy) -> Self {
        let [kubelets, rights, accounts] =
            [(); 3].map(|()| Writer::owning(manager::RESOURCE_OFFER));
        Self { world, events, settings, policy, kubelets, rights, accounts }
    }

    /// Brings an offer one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let offer = self.world.offers.object(&key).filter(|offer| is_copy(&**offer));
        let Some(offer) = offer else {
            return self.await_offer(&key.namespace.unwrap_or_default()).await;
        };
        let provider = offer.spec.provider()?;
        let foreign = self.world.cluster(&provider);
        let tenant = offer.namespace().unwrap_or_default();
        let kubelet = self.kubelet(&tenant);
        let seen = Seen {
            offer: &offer,
            foreign: foreign.as_deref(),
            kubelet: progress(kubelet.as_deref()),
            has_node: !self.world.nodes_of(&provider).is_empty(),
            auto_accept: self.policy.auto_accept,
            patience: self.policy.patience,
        };
        let decision = decide(&seen, Timestamp::now());
        let api: Api<ResourceOffer> = Api::namespaced(self.world.client.clone(), &tenant);
        for action in &decision.actions {
            match action {
                Action::Own => {
                    if let Some(foreign) = &foreign {
                        let owner = controller(&**foreign);
                        let holds = decision.actions.contains(&Action::Hold);
                        let holds: Vec<_> = finalizers().filter(|_| holds).collect();
                        marks::own(&api, &offer, manager::RESOURCE_OFFER, owner, &holds).await?;
                        // The version that was seen is not the latest any more; the change wakes us.
                        return Ok(Next::AwaitChange);
                    }
                }
                Action::Hold => {
                    let all: Vec<_> = finalizers().collect();
                    marks::hold(&api, &offer, manager::RESOURCE_OFFER, &all).await?;
                }
                Action::Run => {
                    if let Some(provider) = foreign.as_deref().and_then(remote) {
                        self.run(&provider, &tenant, Some(&offer), kubelet.as_deref()).await?;
                        let message =
                            format!("The virtual kubelet for {provider} has been started");
                        let now = VirtualKubeletStatus::Created;
                        self.tell(&offer, now, event::VK_CREATED, &message).await;
                    }
                }
                Action::Stop => {
                    self.stop(&provider, &tenant, kubelet.as_deref()).await?;
                    let message =
                        format!("The virtual kubelet of namespace {tenant} has been stopped");
                    let now = VirtualKubeletStatus::None;
                    self.tell(&offer, now, event::VK_DELETED, &message).await;
                }
                Action::RemoveNode => self.remove_node(&api, &offer).await?,
                Action::Release => {
                    let all: Vec<_> = finalizers().collect();
                    marks::release(&api, &offer, manager::RESOURCE_OFFER, &all).await?;
                }
            }
        }
        self.report(&api, &offer, decision.status).await?;
        Ok(Next::RequeueAfter(next(decision.again, self.policy.resync)))
    }

    /// Starts what an offer that is on its way will need, or stops it when none will come.
    async fn await_offer(&self, tenant: &str) -> Result<Next, Error> {
        let have = self.kubelet(tenant);
        if self.world.received_offer(tenant).is_some() {
            return Ok(Next::AwaitChange);
        }
        let request = self.world.own_request(tenant);
        match (outlook(request.as_deref(), self.policy.auto_accept), have) {
            (Outlook::Start, None) => {
                let foreign = self.world.cluster_of_tenant(tenant);
                if let Some(provider) = foreign.as_deref().and_then(remote) {
                    self.run(&provider, tenant, None, None).await?;
                }
            }
            (Outlook::Stop, Some(have)) => {
                let id = have.labels().get(label::CLUSTER_ID);
                if let Some(Ok(provider)) = id.map(|id| id.parse()) {
                    self.stop(&provider, tenant, Some(&have)).await?;
                }
            }
            (Outlook::Start | Outlook::Stay, Some(_)) | (Outlook::Stay | Outlook::Stop, None) => {}
        }
        Ok(Next::AwaitChange)
    }

    fn kubelet(&self, tenant: &str) -> Option<Arc<Deployment>> {
        self.world.kubelets.object(&Key::namespaced(tenant, object::VIRTUAL_KUBELET))
    }

    async fn run(
        &self,
        provider: &Cluster,
        tenant: &str,
        offer: Option<&ResourceOffer>,
        have: Option<&Deployment>,
    ) -> Result<(), Error> {
        let client = || self.world.client.clone();
        let kubelet =
            Kubelet { home: &self.world.home, provider, tenant, offer, settings: &self.settings };
        let accounts: Api<ServiceAccount> = Api::namespaced(client(), tenant);
        let account = accounts.get_opt(object::VIRTUAL_KUBELET).await;
        let account = account.map_err(Error::request("read the account of a virtual kubelet"))?;
        self.accounts.apply(&accounts, &kubelet.service_account(), account.as_ref()).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        let want = kubelet.binding();
        let binding = bindings.get_opt(&want.name_any()).await;
        let binding = binding.map_err(Error::request("read the rights of a virtual kubelet"))?;
        self.rights.apply(&bindings, &want, binding.as_ref()).await?;
        let deployments: Api<Deployment> = Api::namespaced(client(), tenant);
        let written = self.kubelets.apply(&deployments, &kubelet.deployment()?, have).await;
        if let (Err(error), Some(have)) = (&written, have)
            && error.reason() == "Invalid"
        {
            // Made by another version, in a way that cannot be changed.
            warn!(tenant, error = chain(error), "Virtual kubelet made anew");
            self.kubelets.delete(&deployments, have).await?;
        }
        written?;
        Ok(())
    }

    async fn stop(
        &self,
        provider: &ClusterId,
        tenant: &str,
        have: Option<&Deployment>,
    ) -> Result<(), Error> {
        let client = || self.world.client.clone();
        if let Some(have) = have {
            let deployments: Api<Deployment> = Api::namespaced(client(), tenant);
            self.kubelets.delete(&deployments, have).await?;
        }
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        let params = ListParams::default().labels(&kubelet::bindings_for(provider));
        let found = bindings.list_metadata(&params).await;
        let found = found.map_err(Error::request("read the rights of a virtual kubelet"))?;
        let bindings: Api<PartialObjectMeta<ClusterRoleBinding>> = Api::all(client());
        for have in &found.items {
            self.rights.delete(&bindings, have).await?;
        }
        Ok(())
    }

    /// Tells users when the virtual kubelet comes or goes.
    async fn tell(
        &self,
        offer: &ResourceOffer,
        now: VirtualKubeletStatus,
        reason: &'static str,
        message: &str,
    ) {
        let before = offer.status.clone().unwrap_or_default().virtual_kubelet_status;
        if before != now {
            let note = Note { warning: false, reason, action: "Offload", message };
            self.events.tell(offer, note).await;
        }
    }

    /// Removes the node whose virtual kubelet is gone, and with it what holds the offer.
    async fn remove_node(
        &self,
        api: &Api<ResourceOffer>,
        offer: &ResourceOffer,
    ) -> Result<(), Error> {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.world.client.clone());
        for node in self.world.nodes_of(&offer.spec.provider()?) {
            if node.metadata.deletion_timestamp.is_none() {
                self.kubelets.delete(&nodes, &*node).await?;
            }
        }
        let message = format!(
            "No virtual kubelet drained the node for {} s; it was removed as it was",
            self.policy.patience.as_secs()
        );
        let reason = event::PEER_NOT_CLEANED;
        let note = Note { warning: true, reason, action: "Offload", message: &message };
        self.events.tell(offer, note).await;
        marks::release(api, offer, manager::RESOURCE_OFFER, &[finalizer::NODE]).await
    }

    async fn report(
        &self,
        api: &Api<ResourceOffer>,
        offer: &ResourceOffer,
        status: ResourceOfferStatus,
    ) -> Result<(), Error> {
        let before = offer.status.as_ref();
        match report(api, manager::RESOURCE_OFFER, offer, before, &status).await {
            Ok(_) => Ok(()),
            // It went with its last finalizer.
            Err(_) if offer.metadata.deletion_timestamp.is_some() => Ok(()),
            Err(error) => Err(Error::request("answer an offer")(error)),
        }
    }
}

/// How far a virtual kubelet is.
fn progress(kubelet: Option<&Deployment>) -> offer::Kubelet {
    let runs = |kubelet: &Deployment| kubelet.status.as_ref()?.ready_replicas;
    match kubelet {
        None => offer::Kubelet::Missing,
        Some(kubelet) if runs(kubelet).unwrap_or_default() > 0 => offer::Kubelet::Running,
        Some(_) => offer::Kubelet::Starting,
    }
}
