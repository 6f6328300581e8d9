//! The effects of decisions about ForeignClusters.

use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{ForeignCluster, ResourceRequest};
use liqo_api::keys::{event, finalizer, label, manager};
use liqo_api::names::Cluster;
use liqo_api::sharing::ResourceOffer;
use liqo_identity::tenant;
use liqo_kit::events::Note;
use liqo_kit::retry::or_gone;
use liqo_kit::watch::Key;
use liqo_peering::foreign::Action;
use liqo_peering::grants::Grant;

use super::{ForeignClusters, Found};
use crate::error::Error;
use crate::marks;

impl ForeignClusters {
    /// Does what was decided, in order; the first failure ends it.
    pub(super) async fn act(&self, found: &Found, actions: &[Action]) -> Result<(), Error> {
        let Some(remote) = &found.remote else { return self.act_alone(found, actions).await };
        for action in actions {
            self.act_one(found, remote, action).await?;
        }
        Ok(())
    }

    /// The same for a ForeignCluster of which nothing is known.
    async fn act_alone(&self, found: &Found, actions: &[Action]) -> Result<(), Error> {
        if actions.contains(&Action::Release) {
            self.release(&found.foreign).await?;
        }
        Ok(())
    }

    async fn act_one(&self, found: &Found, remote: &Cluster, action: &Action) -> Result<(), Error> {
        let client = || self.world.client.clone();
        let tenant = found.tenant.as_deref().unwrap_or_default();
        let clusters: Api<ForeignCluster> = Api::all(client());
        match action {
            // Done before everything else, or not to be done now.
            Action::Learn | Action::Authenticate => {}
            Action::Label => self.label(&found.foreign, remote).await?,
            Action::Hold => {
                let name = finalizer::API_SERVER_CHECKER;
                marks::hold(&clusters, &found.foreign, manager::FOREIGN_CLUSTER, &[name]).await?;
            }
            Action::Release => self.release(&found.foreign).await?,
            Action::Bind(grant) => self.bind(*grant, tenant, remote).await?,
            Action::Unbind(grant) => self.unbind(*grant, tenant, remote).await?,
            Action::Request(want) => {
                let api: Api<ResourceRequest> = Api::namespaced(client(), tenant);
                let have = self.world.own_request(tenant);
                self.requests.apply(&api, want, have.as_deref()).await?;
            }
            Action::DeleteRequest => {
                let api: Api<ResourceRequest> = Api::namespaced(client(), tenant);
                if let Some(have) = self.world.own_request(tenant) {
                    self.requests.delete(&api, &*have).await?;
                }
            }
            Action::DeleteOffer => {
                let api: Api<ResourceOffer> = Api::namespaced(client(), tenant);
                if let Some(have) = self.world.received_offer(tenant) {
                    self.requests.delete(&api, &*have).await?;
                }
            }
            Action::TellNotCleaned(message) => {
                let reason = event::PEER_NOT_CLEANED;
                let note = Note { warning: true, reason, action: "Unpeer", message };
                self.events.tell(&*found.foreign, note).await;
            }
            Action::Delete => {
                let preconditions =
                    Preconditions { uid: found.foreign.uid(), resource_version: None };
                let params = DeleteParams {
                    preconditions: Some(preconditions),
                    ..DeleteParams::background()
                };
                or_gone(clusters.delete(&found.foreign.name_any(), &params).await)
                    .map_err(Error::request("delete a ForeignCluster without purpose"))?;
            }
        }
        Ok(())
    }

    async fn release(&self, foreign: &ForeignCluster) -> Result<(), Error> {
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        let name = finalizer::API_SERVER_CHECKER;
        marks::release(&api, foreign, manager::FOREIGN_CLUSTER, &[name]).await
    }

    async fn label(&self, foreign: &ForeignCluster, remote: &Cluster) -> Result<(), Error> {
        let api: Api<ForeignCluster> = Api::all(self.world.client.clone());
        let labels = [(label::CLUSTER_ID.to_owned(), remote.id.to_string())];
        let metadata = ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() };
        let partial: kube::api::PartialObjectMeta<ForeignCluster> =
            kube::api::PartialObjectMetaExt::into_request_partial(metadata);
        let params = PatchParams {
            field_manager: Some(manager::FOREIGN_CLUSTER.to_owned()),
            ..PatchParams::default()
        };
        or_gone(api.patch(&foreign.name_any(), &params, &Patch::Merge(&partial)).await)
            .map_err(Error::request("label a ForeignCluster"))?;
        Ok(())
    }

    /// The roles that a grant consists of.
    fn roles(&self, grant: Grant) -> Vec<ClusterRole> {
        let all = self.world.roles.objects().into_iter();
        let own = all.filter(|role| {
            let mark = role.labels().get(label::REMOTE_PEERING_PERMISSIONS);
            mark.map(String::as_str) == Some(grant.permission())
        });
        own.map(|role| ClusterRole { metadata: role.metadata.clone(), ..ClusterRole::default() })
            .collect()
    }

    async fn bind(&self, grant: Grant, tenant: &str, remote: &Cluster) -> Result<(), Error> {
        let api: Api<RoleBinding> = Api::namespaced(self.world.client.clone(), tenant);
        for role in self.roles(grant) {
            let want = tenant::binding(tenant, &remote.id, &role);
            let have = self.binding(&Key::of(&want));
            self.bindings.apply(&api, &want, have.as_deref()).await?;
        }
        Ok(())
    }

    async fn unbind(&self, grant: Grant, tenant: &str, remote: &Cluster) -> Result<(), Error> {
        let api: Api<RoleBinding> = Api::namespaced(self.world.client.clone(), tenant);
        for role in self.roles(grant) {
            let want = tenant::binding(tenant, &remote.id, &role);
            if let Some(have) = self.binding(&Key::of(&want)) {
                self.bindings.delete(&api, &*have).await?;
            }
        }
        Ok(())
    }

    fn binding(&self, key: &Key) -> Option<std::sync::Arc<RoleBinding>> {
        self.world.bindings.iter().find_map(|store| store.object(key))
    }
}
