//! Removes a release.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Resource, ResourceExt};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{label, object};
use liqo_api::net::{NetworkConfig, TunnelEndpoint};
use liqo_api::offloading::NamespaceOffloading;
use liqo_chart::{Hook, Release, Status};
use liqo_install::blockers::{self, Blocker};
use serde::de::DeserializeOwned;

use crate::objects::uid;
use crate::{Engine, Error};

/// Something of Liqo that is still there.
pub type Leftover = String;

impl Engine<'_> {
    /// What has to go before Liqo can.
    pub async fn blockers(&self) -> Result<Vec<Blocker>, Error> {
        let clusters: Vec<ForeignCluster> = self.all("ForeignClusters").await?;
        let offloadings: Vec<NamespaceOffloading> = self.all("NamespaceOffloadings").await?;
        Ok(blockers::find(&clusters, &offloadings))
    }

    /// Removes the release; false when there is none.
    pub async fn uninstall(&self) -> Result<bool, Error> {
        let history = self.history().await?;
        let Some(release) = history.last() else {
            self.remove_leftovers().await?;
            return Ok(false);
        };
        self.record_as(release, Status::Uninstalling, "Deletion in progress").await?;
        if self.has_something_to_clean().await? {
            self.report.step("cleaning up what peers left");
            let hooks = release.hooks_of("pre-delete")?;
            self.run_hooks("pre-delete", &hooks.iter().collect::<Vec<&Hook>>()).await?;
        }
        self.report.step("deleting the objects");
        // A revision that failed half-way may have left objects that the last one does not name.
        for release in history.iter().rev().filter(|one| one.info.status != Status::Superseded) {
            self.remove_objects(release).await?;
        }
        self.pods_gone().await?;
        let hooks = release.hooks_of("post-delete")?;
        self.run_hooks("post-delete", &hooks.iter().collect::<Vec<&Hook>>()).await?;
        let revisions: Vec<u32> = history.iter().map(|one: &Release| one.version).collect();
        self.forget(&revisions).await?;
        Ok(true)
    }

    /// Cluster-wide permissions of Liqo that are still there.
    pub async fn left(&self) -> Result<Vec<Leftover>, Error> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let list = roles.list(&ours()).await.map_err(Error::request("list ClusterRoles"))?;
        Ok(list.iter().map(|role| format!("ClusterRole {}", role.name_any())).collect())
    }

    /// Whether there is anything that only a component of Liqo can take back.
    async fn has_something_to_clean(&self) -> Result<bool, Error> {
        let virtual_nodes = format!("{}={}", label::TYPE, label::TYPE_VIRTUAL_NODE);
        let nodes: Api<Node> = Api::all(self.client.clone());
        let one = ListParams::default().labels(&virtual_nodes).limit(1);
        let nodes =
            nodes.list_metadata(&one).await.map_err(Error::request("list virtual nodes"))?;
        let discovery = self.own::<Deployment>().get_metadata_opt(object::DISCOVERY).await;
        let discovery = discovery.map_err(Error::request("look for liqo-discovery"))?;
        Ok(!nodes.items.is_empty()
            || discovery.is_some()
            || !self.all::<ForeignCluster>("ForeignClusters").await?.is_empty()
            || !self.all::<NamespaceOffloading>("NamespaceOffloadings").await?.is_empty()
            || !self.all::<TunnelEndpoint>("TunnelEndpoints").await?.is_empty()
            || !self.all::<NetworkConfig>("NetworkConfigs").await?.is_empty())
    }

    /// Deletes what components made in the namespace of the release.
    pub(crate) async fn remove_leftovers(&self) -> Result<(), Error> {
        let tokens = ListParams::default().labels(label::AUTH_TOKEN);
        let tokens = self.secrets().list_metadata(&tokens).await;
        let tokens = tokens.map_err(Error::request("list tokens of peers"))?;
        let mut secrets: Vec<String> = tokens.iter().map(ResourceExt::name_any).collect();
        let known = [object::WEBHOOK_SECRET, object::AUTH_TOKEN_SECRET, object::WIREGUARD_SECRET];
        secrets.extend(known.map(str::to_owned));
        for name in secrets {
            drop_one::<Secret>(&self.own(), &name, "Secret").await?;
        }
        for name in [object::CONTROLLER_MANAGER_LEASE, object::GATEWAY_LEASE] {
            drop_one::<Lease>(&self.own(), name, "Lease").await?;
        }
        Ok(())
    }

    /// Waits until no pod of Liqo is left.
    async fn pods_gone(&self) -> Result<(), Error> {
        let pods: Api<Pod> = self.own();
        let list = pods.list_metadata(&ours()).await.map_err(Error::request("list pods"))?;
        for pod in list {
            let name = pod.name_any();
            self.report.step(&format!("waiting until pod {name} is gone"));
            await_condition(pods.clone(), &name, conditions::is_deleted(&uid(&pod)))
                .await
                .map_err(|source| Error::Wait { what: name, source: Box::new(source) })?;
        }
        Ok(())
    }

    /// All objects of a kind of ours; none when the kind is not there.
    async fn all<K>(&self, what: &str) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(vec![]),
            Err(error) => Err(Error::request(format!("list {what}"))(error)),
        }
    }
}

fn ours() -> ListParams {
    ListParams::default().labels(&format!("{}={}", label::APP_PART_OF, label::PART_OF_LIQO))
}

async fn drop_one<K>(api: &Api<K>, name: &str, kind: &str) -> Result<(), Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(Error::request(format!("delete {kind} {name}"))),
    }
}
