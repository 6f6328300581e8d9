//! A cluster that has what the chart installs, as far as a component needs it.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use liqo_testkit::ControlPlane;

/// Starts a control plane with our definitions and Liqo's namespace.
pub async fn start(controllers: &[&str]) -> ControlPlane {
    let plane = match controllers {
        [] => ControlPlane::start().await,
        some => ControlPlane::with_controllers(some, &[]).await,
    };
    furnish(plane.unwrap()).await
}

/// Gives a control plane our definitions and Liqo's namespace.
pub async fn furnish(plane: ControlPlane) -> ControlPlane {
    let client = plane.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in liqo_api::all_crds() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    for definition in liqo_api::all_crds() {
        let established = conditions::is_crd_established();
        await_condition(definitions.clone(), &definition.name_any(), established).await.unwrap();
    }
    namespace(&client, "liqo").await;
    plane
}

/// Makes a namespace.
pub async fn namespace(client: &Client, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}
