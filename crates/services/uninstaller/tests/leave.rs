//! Leaving peers of a cluster with a real API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use liqo_api::discovery::{ForeignCluster, ForeignClusterSpec};
use liqo_api::keys::label;
use liqo_testkit::ControlPlane;
use liqo_uninstaller::leave;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn peers_are_left_and_what_blocks_is_named() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    leave(&client, "liqo", LIMIT).await.expect("without our definitions there is nothing to leave");

    plane.define(liqo_api::all_crds()).await.unwrap();
    let clusters: Api<ForeignCluster> = Api::all(client.clone());
    let spec = ForeignClusterSpec::reached_at("https://198.18.0.1:30443");
    clusters.create(&PostParams::default(), &ForeignCluster::new("milan", spec)).await.unwrap();
    leave(&client, "liqo", LIMIT).await.unwrap();
    assert!(clusters.get_opt("milan").await.unwrap().is_none(), "milan is gone");

    let nodes: Api<Node> = Api::all(client.clone());
    let labels = [(label::TYPE.to_owned(), label::TYPE_VIRTUAL_NODE.to_owned())];
    let metadata = ObjectMeta {
        name: Some("liqo-milan".to_owned()),
        labels: Some(labels.into()),
        ..ObjectMeta::default()
    };
    let node = Node { metadata, ..Node::default() };
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let error = leave(&client, "liqo", Duration::from_millis(500)).await.unwrap_err();
    assert_eq!(error.to_string(), "the time is over, and these are still there: Node liqo-milan");
}
