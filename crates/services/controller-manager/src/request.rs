//! The controller of requests received: introduces their cluster, and answers with an offer.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use liqo_api::Time;
use liqo_api::discovery::{ForeignCluster, ResourceRequest, ResourceRequestStatus};
use liqo_api::keys::manager;
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::sharing::ResourceOffer;
use liqo_kit::apply::Writer;
use liqo_kit::keyed::Next;
use liqo_kit::report::report;
use liqo_kit::watch::{Key, Store};
use liqo_peering::request::{Action, Seen, Verdict, decide, introduce};
use liqo_peering::{controller, grants};
use liqo_sharing::offer::{Recipient, Terms, offer, still_holds, storage_classes};

use crate::error::Error;
use crate::foreign::next;
use crate::marks;
use crate::reader::Reader;
use crate::routes::Routes;
use crate::world::{World, is_copy};

/// What the flags say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether requests are allowed unless told otherwise.
    pub is_open: bool,
    /// How long a consumer that does not answer can keep an offer.
    pub patience: SignedDuration,
    /// By how many percent amounts may change before the offer does.
    pub threshold: u8,
    /// Labels for the virtual nodes that stand for this cluster.
    pub labels: BTreeMap<String, String>,
    /// The storage class to offer as the default; the cluster's own default if empty.
    pub storage_class: String,
    /// Time after which everything is looked at again.
    pub resync: Duration,
}

/// The controller of requests received.
pub struct Requests {
    world: World,
    reader: Arc<Reader>,
    settings: Settings,
    /// Clusters whose offers are to be brought up to date however little has changed.
    pressing: Mutex<HashSet<ClusterId>>,
    offers: Writer,
    roles: Writer,
}

impl Requests {
    /// The controller, with what it needs.
    pub fn new(world: World, reader: Arc<Reader>, settings: Settings) -> Self {
        let [offers, roles] = [(); 2].map(|()| Writer::owning(manager::RESOURCE_REQUEST));
        Self { world, reader, settings, pressing: Mutex::default(), offers, roles }
    }

    /// Brings a request one step on.
    pub async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let request = self.world.requests.object(&key).filter(|request| is_copy(&**request));
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let Some(request) = request else { return self.forget(namespace).await };
        let consumer = request.spec.cluster_identity.parse()?;
        let foreign = self.world.cluster(&consumer.id);
        let have = self.world.own_offer(namespace);
        let seen = Seen {
            request: &request,
            foreign: foreign.as_deref(),
            offer: have.as_deref(),
            is_open: self.settings.is_open,
            patience: self.settings.patience,
        };
        let decision = decide(&seen, Timestamp::now());
        for action in decision.actions {
            match action {
                Action::Introduce => self.introduce(&request).await?,
                Action::Own => self.own(&request, foreign.as_deref()).await?,
                Action::GrantMetrics => self.grant(&consumer).await?,
                Action::RevokeMetrics => self.revoke(&consumer).await?,
                Action::Offer => self.offer(&request, &consumer, have.as_deref()).await?,
                Action::WithdrawOffer(at) => {
                    self.withdraw(&request, &consumer, have.as_deref(), at).await?;
                }
                Action::DeleteOffer => self.delete(have.as_deref()).await?,
            }
        }
        if decision.verdict != Verdict::Allow {
            self.reader.forget(&consumer.id).await;
        }
        self.report(&request, decision.status).await?;
        Ok(Next::RequeueAfter(next(decision.again, self.settings.resync)))
    }

    /// Wakes the requests whose offers are out of date; that of a given cluster in any case.
    pub async fn look_again(&self, world: &World, routes: &Routes, consumer: Option<ClusterId>) {
        for (route, key) in routes.received_requests(world) {
            let Some(request) = world.requests.object(&key) else { continue };
            let id = request.spec.cluster_identity.cluster_id.as_str();
            let is_due = match &consumer {
                Some(consumer) => consumer.as_str() == id,
                None => self.is_out_of_date(&request).await,
            };
            if is_due {
                if let Some(consumer) = &consumer {
                    self.pressing().insert(consumer.clone());
                }
                // A queue that has ended needs no keys.
                let _ = route.send(key).await;
            }
        }
    }

    fn pressing(&self) -> MutexGuard<'_, HashSet<ClusterId>> {
        self.pressing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the offer to a cluster should be looked at again.
    async fn is_out_of_date(&self, request: &ResourceRequest) -> bool {
        let namespace = request.namespace().unwrap_or_default();
        let Some(have) = self.world.own_offer(&namespace) else { return false };
        let Ok(consumer) = request.spec.cluster_identity.parse() else { return false };
        if have.spec.withdrawal_timestamp.is_some() {
            return false;
        }
        match self.wanted(request, &consumer).await {
            Ok(want) => !still_holds(&have, &want, self.settings.threshold),
            Err(_) => true,
        }
    }

    /// What is left when a request has vanished.
    async fn forget(&self, namespace: &str) -> Result<Next, Error> {
        if let Some(foreign) = self.world.cluster_of_tenant(namespace)
            && let Some(consumer) = crate::world::remote(&foreign)
            && self.world.received_request(namespace).is_none()
        {
            self.reader.forget(&consumer.id).await;
            self.delete(self.world.own_offer(namespace).as_deref()).await?;
            self.revoke(&consumer).await?;
        }
        Ok(Next::AwaitChange)
    }

    async fn introduce(&self, request: &ResourceRequest) -> Result<(), Error> {
        let is_taken = |name: &str| self.world.clusters.object(&Key::cluster(name)).is_some();
        let foreign = introduce(request, is_taken)?;
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        let params = PostParams {
            field_manager: Some(manager::RESOURCE_REQUEST.to_owned()),
            ..PostParams::default()
        };
        api.create(&params, &foreign)
            .await
            .map_err(Error::request("make a ForeignCluster for who asks"))?;
        Ok(())
    }

    async fn own(
        &self,
        request: &ResourceRequest,
        foreign: Option<&ForeignCluster>,
    ) -> Result<(), Error> {
        let Some(foreign) = foreign else { return Ok(()) };
        let api = self.requests_in(request);
        marks::own(&api, request, manager::RESOURCE_REQUEST, controller(foreign), &[]).await
    }

    async fn offer(
        &self,
        request: &ResourceRequest,
        consumer: &Cluster,
        have: Option<&ResourceOffer>,
    ) -> Result<(), Error> {
        let want = self.wanted(request, consumer).await?;
        let is_pressing = self.pressing().remove(&consumer.id);
        let threshold = if is_pressing { 0 } else { self.settings.threshold };
        if have.is_some_and(|have| still_holds(have, &want, threshold)) {
            return Ok(());
        }
        self.offers.apply(&self.offers_in(request), &want, have).await?;
        Ok(())
    }

    async fn withdraw(
        &self,
        request: &ResourceRequest,
        consumer: &Cluster,
        have: Option<&ResourceOffer>,
        at: Time,
    ) -> Result<(), Error> {
        let Some(have) = have else { return Ok(()) };
        let recipient = recipient(request, consumer);
        let mut want = offer(
            &self.world.home,
            &recipient,
            &liqo_sharing::amounts::Amounts::default(),
            &Terms::default(),
        );
        want.spec = have.spec.clone();
        want.spec.withdrawal_timestamp = Some(at);
        self.offers.apply(&self.offers_in(request), &want, Some(have)).await?;
        Ok(())
    }

    async fn delete(&self, have: Option<&ResourceOffer>) -> Result<(), Error> {
        let Some(have) = have else { return Ok(()) };
        if have.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let namespace = have.namespace().unwrap_or_default();
        let api: Api<ResourceOffer> = Api::namespaced(self.world.client.clone(), &namespace);
        self.offers.delete(&api, have).await?;
        Ok(())
    }

    /// The offer as it should be now.
    async fn wanted(
        &self,
        request: &ResourceRequest,
        consumer: &Cluster,
    ) -> Result<ResourceOffer, Error> {
        let amounts = self.reader.read(&consumer.id).await?;
        let classes = self.world.classes.as_ref().map(Store::objects).unwrap_or_default();
        let classes = classes.iter().map(Arc::as_ref);
        let terms = Terms {
            labels: self.settings.labels.clone(),
            storage_classes: storage_classes(classes, &self.settings.storage_class),
        };
        Ok(offer(&self.world.home, &recipient(request, consumer), &amounts, &terms))
    }

    async fn grant(&self, consumer: &Cluster) -> Result<(), Error> {
        let (role, binding) = grants::metrics(consumer, self.world.has_namesake(consumer));
        let roles: Api<ClusterRole> = Api::all(self.world.client.clone());
        let have = roles.get_opt(&role.name_any()).await;
        let have = have.map_err(Error::request("read the role of a consumer"))?;
        self.roles.apply(&roles, &role, have.as_ref()).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.world.client.clone());
        let have = bindings.get_opt(&binding.name_any()).await;
        let have = have.map_err(Error::request("read the binding of a consumer"))?;
        self.roles.apply(&bindings, &binding, have.as_ref()).await?;
        Ok(())
    }

    async fn revoke(&self, consumer: &Cluster) -> Result<(), Error> {
        let (role, _) = grants::metrics(consumer, self.world.has_namesake(consumer));
        let name = role.name_any();
        let bindings: Api<ClusterRoleBinding> = Api::all(self.world.client.clone());
        let found = bindings.get_opt(&name).await;
        if let Some(have) = found.map_err(Error::request("read the binding of a consumer"))? {
            self.roles.delete(&bindings, &have).await?;
        }
        let roles: Api<ClusterRole> = Api::all(self.world.client.clone());
        let found = roles.get_opt(&name).await;
        if let Some(have) = found.map_err(Error::request("read the role of a consumer"))? {
            self.roles.delete(&roles, &have).await?;
        }
        Ok(())
    }

    async fn report(
        &self,
        request: &ResourceRequest,
        status: ResourceRequestStatus,
    ) -> Result<(), Error> {
        let (api, before) = (self.requests_in(request), request.status.as_ref());
        let told = report(&api, manager::RESOURCE_REQUEST, request, before, &status).await;
        match told {
            Ok(_) => Ok(()),
            // It went while we were at it, or is about to.
            Err(_) if request.metadata.deletion_timestamp.is_some() => Ok(()),
            Err(error) => Err(Error::request("answer a request")(error)),
        }
    }

    fn requests_in(&self, request: &ResourceRequest) -> Api<ResourceRequest> {
        let namespace = request.namespace().unwrap_or_default();
        Api::namespaced(self.world.client.clone(), &namespace)
    }

    fn offers_in(&self, request: &ResourceRequest) -> Api<ResourceOffer> {
        let namespace = request.namespace().unwrap_or_default();
        Api::namespaced(self.world.client.clone(), &namespace)
    }
}

fn recipient(request: &ResourceRequest, consumer: &Cluster) -> Recipient {
    Recipient {
        consumer: consumer.id.clone(),
        namespace: request.namespace().unwrap_or_default(),
        request: controller(request),
    }
}
