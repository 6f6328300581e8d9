//! A cluster that has what the chart installs, as far as a component needs it.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use liqo_testkit::ControlPlane;

/// Starts a control plane with our definitions and Liqo's namespace, and with some controllers of
/// Kubernetes and flags for them.
pub async fn start(controllers: &[&str], flags: &[&str]) -> ControlPlane {
    let plane = match controllers {
        [] => ControlPlane::start().await,
        some => ControlPlane::with_controllers(some, flags).await,
    };
    let plane = plane.unwrap();
    plane.define(liqo_api::all_crds()).await.unwrap();
    namespace(&plane.client(), "liqo").await;
    plane
}

/// Makes a namespace.
pub async fn namespace(client: &Client, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}
