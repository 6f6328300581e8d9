//! Removes what outlives a release: definitions, their objects, and namespaces.

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use liqo_api::keys::{label, object};
use serde_json::{Value, json};

use crate::objects::uid;
use crate::{Engine, Error};

const GROUPS: [&str; 5] = [
    object::GROUP_DISCOVERY,
    object::GROUP_NET,
    object::GROUP_OFFLOADING,
    object::GROUP_SHARING,
    object::GROUP_VIRTUAL_KUBELET,
];

impl Engine<'_> {
    /// Deletes all definitions of ours with their objects, and all namespaces of ours.
    pub async fn purge(&self, storage_namespace: &str) -> Result<(), Error> {
        self.report.step("deleting the custom resources");
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let list = api.list(&ListParams::default()).await;
        let list = list.map_err(Error::request("list definitions of custom resources"))?;
        let ours = list.items.into_iter().filter(|one| GROUPS.contains(&one.spec.group.as_str()));
        self.drop_definitions(ours.collect()).await?;

        let tenants = format!("{}={}", label::TENANT_NAMESPACE, label::TRUE);
        let list = self.namespaces().list_metadata(&ListParams::default().labels(&tenants)).await;
        let list = list.map_err(Error::request("list tenant namespaces"))?;
        let mut names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
        names.extend([storage_namespace.to_owned(), self.namespace.clone()]);
        self.report.step("deleting the namespaces");
        try_join_all(names.iter().map(|name| self.drop_namespace_and_wait(name))).await.map(drop)
    }

    /// Deletes definitions that were just made.
    pub(crate) async fn undefine(&self, definitions: &[Value]) -> Result<(), Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut found = vec![];
        for name in definitions.iter().filter_map(|one| one.pointer("/metadata/name")?.as_str()) {
            let one = api.get_opt(name).await.map_err(Error::request(format!("look at {name}")))?;
            found.extend(one);
        }
        self.drop_definitions(found).await
    }

    async fn drop_definitions(
        &self,
        definitions: Vec<CustomResourceDefinition>,
    ) -> Result<(), Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let drops = definitions.iter().map(|definition| {
            let api = api.clone();
            async move {
                self.release_all(definition).await?;
                let name = definition.name_any();
                let what = format!("CustomResourceDefinition {name}");
                self.delete_and_wait(&api, &name, &uid(definition), &what).await
            }
        });
        try_join_all(drops).await.map(drop)
    }

    /// Lets the objects of a definition go: nobody is left who would take their finalizers off.
    async fn release_all(&self, definition: &CustomResourceDefinition) -> Result<(), Error> {
        let spec = &definition.spec;
        let Some(version) = spec.versions.iter().find(|version| version.served) else {
            return Ok(());
        };
        let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let list = match all.list_metadata(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            other => other.map_err(Error::request(format!("list {}", spec.names.plural)))?,
        };
        for one in list.items.iter().filter(|one| !one.finalizers().is_empty()) {
            let name = one.name_any();
            let api = match one.namespace() {
                Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            let free: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            match api.patch_metadata(&name, &PatchParams::default(), &free).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => {
                    let what = format!("release {} {name}", spec.names.kind);
                    other.map(drop).map_err(Error::request(what))?;
                }
            }
        }
        Ok(())
    }

    async fn drop_namespace_and_wait(&self, name: &str) -> Result<(), Error> {
        let api = self.namespaces();
        let found = api.get_metadata_opt(name).await;
        let found = found.map_err(Error::request(format!("look at namespace {name}")))?;
        match found {
            Some(space) => {
                self.delete_and_wait(&api, name, &uid(&space), &format!("Namespace {name}")).await
            }
            None => Ok(()),
        }
    }
}
