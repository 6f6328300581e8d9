//! A control plane is a real API server, and ends with its value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use liqo_testkit::ControlPlane;

#[tokio::test]
async fn an_object_written_to_a_control_plane_is_read_back_from_it() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("greeting".to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("text".to_owned(), "ciao".to_owned())])),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(maps.get("greeting").await.unwrap().data, map.data);
}

#[tokio::test]
async fn two_control_planes_at_once_do_not_share_objects() {
    let (one, other) = tokio::join!(ControlPlane::start(), ControlPlane::start());
    let (one, other) = (one.unwrap(), other.unwrap());
    let spaces = |plane: &ControlPlane| Api::<ConfigMap>::namespaced(plane.client(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("mine".to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    spaces(&one).create(&PostParams::default(), &map).await.unwrap();
    assert!(spaces(&other).get_opt("mine").await.unwrap().is_none());
}

#[tokio::test]
async fn nothing_answers_once_the_value_is_gone() {
    let plane = ControlPlane::start().await.unwrap();
    let (client, folder) = (plane.client(), plane.kubeconfig());
    drop(plane);
    assert!(!folder.exists());
    assert!(client.apiserver_version().await.is_err());
}
