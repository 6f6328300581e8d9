//! What the API server here asks of a pod that runs in the other cluster is asked there.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{LogParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use crate::provider;
use crate::world::{NODE, World, make};

#[tokio::test]
async fn logs_of_a_pod_are_asked_of_the_cluster_where_it_runs() {
    let world = World::make().await;
    world.home.let_the_api_server_call_kubelets().await.unwrap();
    let port = free_port();
    place_node(&world.home.client(), port).await;
    let port = format!("--listen-port={port}");
    let _kubelet = world.kubelet(&["--certificate-type=self-signed", &port]);
    let here = world.here::<Pod>();
    let containers = json!([{"name": "main", "image": "demo"}]);
    let spec = json!({"nodeName": NODE, "containers": containers});
    make(&here, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    provider::make_wait(&world, "web").await;

    let asked = async {
        // Until it listens, it is not asked.
        loop {
            if let Ok(text) = here.logs("web", &LogParams::default()).await {
                return text;
            }
        }
    };
    let text = timeout(Duration::from_mins(1), asked).await.expect("an answer");
    assert_eq!(text, "", "the pod there has no node yet, so it has printed nothing");
    let [_, there] = world.requests().await;
    assert!(there.contains_key("CONNECT pods/log"), "{there:?}");
}

/// A port that is free; nobody else takes one that was just given.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap().local_addr().unwrap().port()
}

/// The node, as far as the API server needs it to find its kubelet.
async fn place_node(client: &Client, port: u16) {
    let nodes: Api<Node> = Api::all(client.clone());
    make(&nodes, json!({"metadata": {"name": NODE}})).await;
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
