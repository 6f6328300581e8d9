//! The controller of offers received: accepts them, and runs their virtual kubelets.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::{event, finalizer, manager, object};
use liqo_api::names::Cluster;
use liqo_api::sharing::{ResourceOffer, ResourceOfferStatus, VirtualKubeletStatus};
use liqo_kit::apply::Writer;
use liqo_kit::events::{Events, Note};
use liqo_kit::keyed::Next;
use liqo_kit::retry::Failure as _;
use liqo_kit::watch::Key;
use liqo_peering::controller;
use liqo_peering::kubelet::{Kubelet, Settings};
use liqo_peering::offer::{Action, Seen, decide};
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
    status: Writer,
}

impl Offers {
    /// The controller, with what it needs.
    pub fn new(world: World, events: Arc<Events>, settings: Settings, policy: Policy) -> Self {
        let [kubelets, rights, accounts, status] =
            [(); 4].map(|()| Writer::owning(manager::RESOURCE_OFFER));
        Self { world, events, settings, policy, kubelets, rights, accounts, status }
    }

    /// Brings an offer one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let offer = self.world.offers.object(&key).filter(|offer| is_copy(&**offer));
        let Some(offer) = offer else { return Ok(Next::AwaitChange) };
        let provider = offer.spec.provider()?;
        let foreign = self.world.cluster(&provider);
        let tenant = offer.namespace().unwrap_or_default();
        let kubelet = self.kubelet(&tenant);
        let seen = Seen {
            offer: &offer,
            foreign: foreign.as_deref(),
            has_kubelet: kubelet.is_some(),
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
                        let hold = holds.then_some(finalizer::VIRTUAL_KUBELET);
                        marks::own(&api, &offer, manager::RESOURCE_OFFER, owner, hold).await?;
                        // The version that was seen is not the latest any more; the change wakes us.
                        return Ok(Next::AwaitChange);
                    }
                }
                Action::Hold => {
                    let name = finalizer::VIRTUAL_KUBELET;
                    marks::hold(&api, &offer, manager::RESOURCE_OFFER, name).await?;
                }
                Action::Run => {
                    if let Some(provider) = foreign.as_deref().and_then(remote) {
                        self.run(&provider, &tenant, &offer, kubelet.as_deref()).await?;
                    }
                }
                Action::Stop => {
                    let provider = foreign.as_deref().and_then(remote);
                    self.stop(provider.as_ref(), &tenant, &offer, kubelet.as_deref()).await?;
                }
                Action::RemoveNode => self.remove_node(&api, &offer).await?,
                Action::Release => {
                    let name = finalizer::VIRTUAL_KUBELET;
                    marks::release(&api, &offer, manager::RESOURCE_OFFER, name).await?;
                }
            }
        }
        self.report(&api, &offer, decision.status).await?;
        Ok(Next::RequeueAfter(next(decision.again, self.policy.resync)))
    }

    fn kubelet(&self, tenant: &str) -> Option<Arc<Deployment>> {
        self.world.kubelets.object(&Key::namespaced(tenant, object::VIRTUAL_KUBELET))
    }

    async fn run(
        &self,
        provider: &Cluster,
        tenant: &str,
        offer: &ResourceOffer,
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
        let message = format!("The virtual kubelet for {provider} has been started");
        self.tell(offer, VirtualKubeletStatus::Created, event::VK_CREATED, &message).await;
        Ok(())
    }

    async fn stop(
        &self,
        provider: Option<&Cluster>,
        tenant: &str,
        offer: &ResourceOffer,
        have: Option<&Deployment>,
    ) -> Result<(), Error> {
        let client = || self.world.client.clone();
        if let Some(have) = have {
            let deployments: Api<Deployment> = Api::namespaced(client(), tenant);
            self.kubelets.delete(&deployments, have).await?;
        }
        if let Some(provider) = provider {
            let bindings: Api<ClusterRoleBinding> = Api::all(client());
            let name = object::virtual_kubelet_binding(&provider.unique_name());
            let found = bindings.get_opt(&name).await;
            let found = found.map_err(Error::request("read the rights of a virtual kubelet"))?;
            if let Some(have) = found {
                self.rights.delete(&bindings, &have).await?;
            }
        }
        let message = format!("The virtual kubelet of namespace {tenant} has been stopped");
        self.tell(offer, VirtualKubeletStatus::None, event::VK_DELETED, &message).await;
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
        marks::release(api, offer, manager::RESOURCE_OFFER, finalizer::NODE).await
    }

    async fn report(
        &self,
        api: &Api<ResourceOffer>,
        offer: &ResourceOffer,
        status: ResourceOfferStatus,
    ) -> Result<(), Error> {
        if offer.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let metadata = ObjectMeta {
            name: Some(offer.name_any()),
            namespace: offer.namespace(),
            ..ObjectMeta::default()
        };
        let want = ResourceOffer { metadata, spec: offer.spec.clone(), status: Some(status) };
        match self.status.apply_status(api, &want, None).await {
            Ok(_) => Ok(()),
            // It went with its last finalizer.
            Err(_) if offer.metadata.deletion_timestamp.is_some() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
