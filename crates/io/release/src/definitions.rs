//! The namespace of a release, and definitions of custom resources.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::wait::{await_condition, conditions};
use liqo_install::object::Id;
use serde_json::Value;

use crate::objects::uid;
use crate::{Engine, Error};

impl Engine<'_> {
    /// Makes the namespace; true when it was not there.
    pub(crate) async fn make_namespace(&self) -> Result<bool, Error> {
        let (api, name) = (self.namespaces(), self.namespace.as_str());
        let found = api.get_opt(name).await;
        let found = found.map_err(Error::request(format!("look at namespace {name}")))?;
        match found {
            Some(space) if space.metadata.deletion_timestamp.is_none() => return Ok(false),
            Some(space) => {
                self.report.step(&format!("waiting until the old namespace {name} is gone"));
                let uid = uid(&space);
                let gone = conditions::is_deleted(&uid);
                await_condition(api.clone(), name, gone).await.map_err(|source| Error::Wait {
                    what: format!("namespace {name} to go"),
                    source: Box::new(source),
                })?;
            }
            None => {}
        }
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let space = Namespace { metadata, ..Namespace::default() };
        match api.create(&PostParams::default(), &space).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            other => {
                other.map(|_| true).map_err(Error::request(format!("create namespace {name}")))
            }
        }
    }

    /// Makes the definitions, and waits until the API server serves them.
    pub(crate) async fn define(&self, definitions: &[Value]) -> Result<(), Error> {
        self.apply(definitions).await?;
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let served = definitions.iter().filter_map(|one| Id::of(one, "")).map(|id| {
            let api = api.clone();
            async move {
                let served = conditions::is_crd_established();
                await_condition(api, &id.name, served).await.map(drop).map_err(|source| {
                    Error::Wait { what: id.to_string(), source: Box::new(source) }
                })
            }
        });
        try_join_all(served).await.map(drop)
    }

    /// Asks for a namespace to go, and does not wait.
    pub(crate) async fn drop_namespace(&self, name: &str) -> Result<(), Error> {
        match self.namespaces().delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            other => other.map(drop).map_err(Error::request(format!("delete namespace {name}"))),
        }
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }
}
