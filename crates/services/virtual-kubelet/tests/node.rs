//! A virtual node on a real API server, from the first offer to its end.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::{finalizer, label};
use liqo_api::sharing::{ResourceOffer, ResourceOfferSpec};
use liqo_kit::client::Manners;
use liqo_kit::metrics::Metrics;
use liqo_testkit::{ControlPlane, until};
use liqo_virtual_kubelet::{Args, Error, Process, serve};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const PROVIDER: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const TAINT: &str = "virtual-node.liqo.io/not-allowed";
const TENANT: &str = "liqo-tenant-milan-1a2b3c";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[tokio::test]
async fn a_node_follows_its_offer_and_leaves_nothing_behind() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    plane.define(liqo_api::all_crds()).await.unwrap();
    make_namespace(&client).await;
    let offers: Api<ResourceOffer> = Api::namespaced(client.clone(), TENANT);
    let nodes: Api<Node> = Api::all(client.clone());
    offers.create(&PostParams::default(), &offer()).await.unwrap();

    let (stop, kubelet) = start(&client);

    let first = until("the node is there", &nodes, "liqo-milan", |node| node.is_some());
    let first = first.await.unwrap().unwrap();
    assert!(taints(&first).contains(&TAINT.to_owned()), "it is tainted from the first moment");
    assert_eq!(first.finalizers(), [finalizer::VIRTUAL_NODE]);
    let node = until("the node is ready", &nodes, "liqo-milan", is_ready).await.unwrap().unwrap();
    assert_eq!(node.labels()["region"], "south");
    assert!(taints(&node).contains(&TAINT.to_owned()), "{:?}", taints(&node));
    let claimed = offers.get("milan").await.unwrap();
    assert_eq!(claimed.finalizers(), [finalizer::NODE]);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    until("the lease is renewed", &leases, "liqo-milan", |lease| lease.is_some()).await.unwrap();

    let less = json!({ "spec": {
        "labels": { "region": null },
        "resourceQuota": { "hard": { "cpu": "900m", "nvidia.com/gpu": null } },
    } });
    patch(&offers, less).await;
    let node = until("the node shows less", &nodes, "liqo-milan", |node| cpu(node) == "900m");
    let node = node.await.unwrap().unwrap();
    assert!(!node.labels().contains_key("region"), "labels that are not offered any more go");
    let capacity = node.status.unwrap().capacity.unwrap();
    assert!(!capacity.contains_key("nvidia.com/gpu"), "resources that are not offered any more go");

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = json!({
        "metadata": { "name": "stray" },
        "spec": {
            "nodeName": "liqo-milan",
            "containers": [{ "name": "a", "image": "a" }],
            "tolerations": [{ "operator": "Exists" }],
        },
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    patch(&offers, json!({ "spec": { "withdrawalTimestamp": Timestamp::now() } })).await;
    let is_going =
        |node: Option<&Node>| node.is_none_or(|node| node.metadata.deletion_timestamp.is_some());
    until("the node is going", &nodes, "liqo-milan", is_going).await.unwrap();
    // As the controller manager does once what depends on the node is gone.
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    nodes.patch("liqo-milan", &PatchParams::default(), &release).await.unwrap();
    until("the node is gone", &nodes, "liqo-milan", |node| node.is_none()).await.unwrap();
    until("its pod is gone", &pods, "stray", |pod| pod.is_none()).await.unwrap();
    let released =
        |offer: Option<&ResourceOffer>| offer.is_some_and(|offer| offer.finalizers().is_empty());
    until("the offer is released", &offers, "milan", released).await.unwrap();
    stop.cancel();
    kubelet.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_kubelet_that_sees_nothing_yet_ends_when_it_is_told_to() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client();
    make_namespace(&client).await;
    // Nothing is defined, so offers cannot be listed: as for one whose rights do not count yet.
    let (stop, mut kubelet) = start(&client);
    let ended = timeout(Duration::from_secs(2), &mut kubelet).await;
    assert!(ended.is_err(), "it waits for what may come: {ended:?}");
    stop.cancel();
    timeout(Duration::from_secs(10), kubelet).await.unwrap().unwrap().unwrap();
}

/// Starts a virtual kubelet; it ends with the token.
fn start(client: &Client) -> (CancellationToken, JoinHandle<Result<(), Error>>) {
    let args = Line::parse_from([
        "virtual-kubelet",
        "--nodename=liqo-milan",
        "--node-ip=10.200.0.9",
        "--node-check-network=false",
        &format!("--foreign-cluster-id={PROVIDER}"),
        "--foreign-cluster-name=milan",
        &format!("--tenant-namespace={TENANT}"),
    ])
    .args;
    let stop = CancellationToken::new();
    let manners = Manners { component: "virtual-kubelet", limits: args.client };
    let process = Process {
        client: client.clone(),
        manners,
        metrics: Metrics::default(),
        tasks: Arc::default(),
        stop: stop.clone(),
    };
    (stop, tokio::spawn(async move { serve(process, &args).await }))
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| taint.key.clone()).collect()
}

fn is_ready(node: Option<&Node>) -> bool {
    let status = node.and_then(|node| node.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn cpu(node: Option<&Node>) -> String {
    let capacity = node.and_then(|node| node.status.as_ref()?.capacity.as_ref()?.get("cpu"));
    capacity.map(|quantity| quantity.0.clone()).unwrap_or_default()
}

fn offer() -> ResourceOffer {
    let hard = json!({ "hard": { "cpu": "1800m", "memory": "22654M", "nvidia.com/gpu": "1" } });
    let spec = ResourceOfferSpec {
        cluster_id: PROVIDER.to_owned(),
        resource_quota: Some(serde_json::from_value(hard).unwrap()),
        labels: BTreeMap::from([("region".to_owned(), "south".to_owned())]),
        ..ResourceOfferSpec::default()
    };
    let mut offer = ResourceOffer::new("milan", spec);
    offer.labels_mut().insert(label::ORIGIN_ID.to_owned(), PROVIDER.to_owned());
    offer
}

async fn patch(offers: &Api<ResourceOffer>, patch: serde_json::Value) {
    offers.patch("milan", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn make_namespace(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": TENANT } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}
