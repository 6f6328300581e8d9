//! Two clusters peer and part: authentication services, controller managers and replicators on real
//! API servers, with the rights that the chart grants them.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;
#[path = "parts/town.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod town;

use std::time::Instant;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus as Status, PeeringConditionType as Kind, ResourceRequest,
};
use liqo_api::keys::{object, secret as field};
use liqo_api::sharing::{OfferPhase, ResourceOffer};
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_identity::secret;
use serde_json::json;
use tokio::time::timeout;

use self::component::LIMIT;
use self::town::{Town, gone, is, is_there, wait};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
/// The namespace that rome keeps for milan.
const AT_ROME: &str = "liqo-tenant-milan-ee0b4a";
/// The namespace that milan keeps for rome.
const AT_MILAN: &str = "liqo-tenant-rome-2f55ef";

#[tokio::test]
async fn two_clusters_peer_and_part() {
    let (rome, milan) = tokio::join!(Town::found(ROME, "rome"), Town::found(MILAN, "milan"));
    milan.add_node("worker", "10", "64Gi").await;

    a_wrong_token_leaves_nothing_behind(&rome, &milan).await;
    the_right_token_is_noticed_at_once(&rome, &milan).await;
    Box::pin(an_offer_is_made_and_taken(&rome, &milan)).await;
    both_api_servers_are_probed(&rome, &milan).await;
    a_lost_identity_is_asked_for_again(&rome).await;
    an_api_server_that_moved_is_found(&rome).await;
    a_virtual_node_gets_its_map(&rome).await;
    certificates_are_for_ones_own_node(&rome).await;
    an_offer_follows_what_is_free(&rome, &milan).await;
    a_provider_may_take_its_resources_back(&rome, &milan).await;
    unpeering_leaves_nothing_behind(&rome, &milan).await;
    peering_again_works_at_once(&rome, &milan).await;
    unpeering_leaves_nothing_behind(&rome, &milan).await;
    a_foreign_cluster_can_be_deleted(&rome).await;
    for town in [rome, milan] {
        town.close().await;
    }
}

#[tokio::test]
async fn a_peer_that_is_dead_holds_up_nobody() {
    let (rome, milan) = tokio::join!(Town::found(ROME, "rome"), Town::found(MILAN, "milan"));
    rome.put_token(MILAN, &milan.token().await).await;
    rome.know(&milan, "milan").await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    wait(clusters.clone(), "milan", is(Kind::OutgoingPeering, Status::Established)).await;
    drop(milan);
    wait(clusters.clone(), "milan", is(Kind::ApiServerStatus, Status::Error)).await;

    let start = Instant::now();
    clusters.delete("milan", &DeleteParams::default()).await.unwrap();
    gone(clusters, "milan").await;
    gone(Api::<Deployment>::namespaced(rome.client(), AT_ROME), "virtual-kubelet").await;
    gone(Api::<ResourceOffer>::namespaced(rome.client(), AT_ROME), "milan").await;
    gone(Api::<ResourceRequest>::namespaced(rome.client(), AT_ROME), "rome").await;
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    let events: Api<Event> = Api::namespaced(rome.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.iter().find(|event| event.reason.as_deref() == Some("PeerNotCleaned"));
    let note = told.and_then(|event| event.note.clone()).unwrap();
    assert!(note.contains("milan"), "{note}");
    rome.close().await;
}

#[tokio::test]
async fn an_identity_is_renewed_before_it_ends_and_nothing_notices() {
    let short = Town::signing(MILAN, "milan", "16s");
    let (rome, milan) = tokio::join!(Town::found(ROME, "rome"), short);
    milan.add_node("worker", "10", "64Gi").await;
    rome.put_token(MILAN, &milan.token().await).await;
    rome.know(&milan, "milan").await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    wait(clusters.clone(), "milan", is(Kind::OutgoingPeering, Status::Established)).await;
    let before = clusters.get("milan").await.unwrap().status.unwrap();

    let secrets: Api<Secret> = Api::namespaced(rome.client(), AT_ROME);
    let identities = ListParams::default().labels(&secret::identities_at(MILAN));
    let old = secrets.list(&identities).await.unwrap().items.remove(0);
    let end = secret::validity(&old).unwrap().until;
    for _ in 0..3 {
        let last = secrets.get(&old.name_any()).await.unwrap().data;
        let is_new = move |found: Option<&Secret>| found.is_some_and(|found| found.data != last);
        wait(secrets.clone(), &old.name_any(), is_new).await;
    }
    assert!(Timestamp::now() > end, "the first one has ended");
    milan.run_pod("busy", "4").await;
    let offers: Api<ResourceOffer> = Api::namespaced(rome.client(), AT_ROME);
    wait(offers, "milan", offers_cpu("5400m")).await;
    let after = clusters.get("milan").await.unwrap().status.unwrap();
    assert_eq!(after.peering_conditions, before.peering_conditions, "nothing flickered");
    for town in [rome, milan] {
        town.close().await;
    }
}

async fn a_wrong_token_leaves_nothing_behind(rome: &Town, milan: &Town) {
    rome.put_token(MILAN, "wrong").await;
    let start = Instant::now();
    rome.know(milan, "milan").await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let denied = wait(clusters, "milan", is(Kind::AuthenticationStatus, Status::Denied)).await;
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    let identity = denied.spec.cluster_identity.unwrap();
    assert_eq!((identity.cluster_id.as_str(), identity.cluster_name.as_str()), (MILAN, "milan"));
    let conditions = denied.status.unwrap().peering_conditions;
    let told = conditions.iter().find(|one| one.kind == Kind::AuthenticationStatus).unwrap();
    assert!(told.message.as_ref().unwrap().contains(&format!("remote-token-{MILAN}")));
    for (town, tenant) in [(rome, AT_ROME), (milan, AT_MILAN)] {
        let namespaces: Api<Namespace> = Api::all(town.client());
        assert!(namespaces.get_opt(tenant).await.unwrap().is_none(), "{tenant}");
    }
}

async fn the_right_token_is_noticed_at_once(rome: &Town, milan: &Town) {
    let start = Instant::now();
    rome.put_token(MILAN, &milan.token().await).await;
    let requests: Api<ResourceRequest> = Api::namespaced(rome.client(), AT_ROME);
    let request = wait(requests, "rome", is_there).await;
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    assert_eq!(request.spec.auth_url, rome.auth_url());
    assert_eq!(request.labels()["liqo.io/remoteID"], MILAN);
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let foreign = wait(clusters, "milan", is(Kind::OutgoingPeering, Status::Pending)).await;
    let status = foreign.status.unwrap();
    assert_eq!(status.tenant_namespace.local.as_deref(), Some(AT_ROME));
    assert_eq!(status.tenant_namespace.remote.as_deref(), Some(AT_MILAN));
    let bindings: Api<RoleBinding> = Api::namespaced(rome.client(), AT_ROME);
    for role in [object::ROLE_BASIC, object::ROLE_OUTGOING] {
        wait(bindings.clone(), &object::role_binding(role), is_there).await;
    }
    let incoming = object::role_binding(object::ROLE_INCOMING);
    assert!(bindings.get_opt(&incoming).await.unwrap().is_none());
}

async fn an_offer_is_made_and_taken(rome: &Town, milan: &Town) {
    let start = Instant::now();
    let clusters: Api<ForeignCluster> = Api::all(milan.client());
    let foreign = wait(clusters.clone(), "rome", is_there).await;
    assert_eq!(foreign.labels()["discovery.liqo.io/discovery-type"], "IncomingPeering");

    let offers: Api<ResourceOffer> = Api::namespaced(rome.client(), AT_ROME);
    let is_taken = |offer: Option<&ResourceOffer>| {
        let status = offer.and_then(|offer| offer.status.clone()).unwrap_or_default();
        status.phase == OfferPhase::Accepted
            && status.virtual_kubelet_status == liqo_api::sharing::VirtualKubeletStatus::Created
    };
    let offer = wait(offers, "milan", is_taken).await;
    let hard = offer.spec.resource_quota.unwrap().hard.unwrap();
    assert_eq!((hard["cpu"].0.as_str(), hard["memory"].0.as_str()), ("9", "61848000000"));
    let holds = ["liqo.io/virtualkubelet", "liqo.io/node"];
    assert_eq!(offer.metadata.finalizers.unwrap(), holds);
    // Who wrote what would go back to the peer whenever something changes here.
    let writers = offer.metadata.managed_fields.unwrap_or_default();
    assert!(writers.is_empty(), "{writers:?}");

    let deployments: Api<Deployment> = Api::namespaced(rome.client(), AT_ROME);
    let kubelet = wait(deployments, "virtual-kubelet", is_there).await;
    let pod = kubelet.spec.template.spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    assert!(args.contains(&"--nodename=liqo-milan".to_owned()), "{args:?}");

    let of_rome: Api<ForeignCluster> = Api::all(rome.client());
    wait(of_rome, "milan", is(Kind::OutgoingPeering, Status::Established)).await;
    wait(clusters, "rome", is(Kind::IncomingPeering, Status::Established)).await;
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

async fn both_api_servers_are_probed(rome: &Town, milan: &Town) {
    for (town, name) in [(rome, "milan"), (milan, "rome")] {
        let clusters: Api<ForeignCluster> = Api::all(town.client());
        wait(clusters, name, is(Kind::ApiServerStatus, Status::Established)).await;
    }
}

async fn a_lost_identity_is_asked_for_again(rome: &Town) {
    let secrets: Api<Secret> = Api::namespaced(rome.client(), AT_ROME);
    let identities = ListParams::default().labels(&secret::identities_at(MILAN));
    let watched = WatchParams::default().labels(&secret::identities_at(MILAN));
    let list = secrets.list(&identities).await.unwrap();
    let [old] = list.items.as_slice() else { panic!("one identity: {}", list.items.len()) };
    let since = list.metadata.resource_version.clone().unwrap();
    secrets.delete(&old.name_any(), &DeleteParams::default()).await.unwrap();
    let mut changes = Box::pin(secrets.watch(&watched, &since).await.unwrap());
    let made = async {
        while let Some(change) = changes.next().await {
            if let WatchEvent::Added(new) = change.unwrap() {
                return new;
            }
        }
        panic!("the watch ended")
    };
    let new = timeout(LIMIT, made).await.unwrap();
    assert_ne!(new.uid(), old.uid());
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    wait(clusters, "milan", is(Kind::AuthenticationStatus, Status::Established)).await;
}

/// What is known of the API server is not true any more.
async fn an_api_server_that_moved_is_found(rome: &Town) {
    let secrets: Api<Secret> = Api::namespaced(rome.client(), AT_ROME);
    let identities = ListParams::default().labels(&secret::identities_at(MILAN));
    let identity = secrets.list(&identities).await.unwrap().items.remove(0);
    let url = |identity: &Secret| identity.data.as_ref().unwrap()[field::API_SERVER_URL].clone();
    let right = url(&identity);
    let stale = json!({"stringData": {field::API_SERVER_URL: "https://127.0.0.1:1"}});
    let name = identity.name_any();
    secrets.patch(&name, &PatchParams::default(), &Patch::Merge(stale)).await.unwrap();
    let is_right = move |found: Option<&Secret>| found.is_some_and(|found| url(found) == right);
    wait(secrets, &name, is_right).await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    wait(clusters, "milan", is(Kind::ApiServerStatus, Status::Established)).await;
}

async fn a_virtual_node_gets_its_map(rome: &Town) {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "liqo-milan",
            "labels": {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": MILAN},
        },
    });
    let nodes: Api<Node> = Api::all(rome.client());
    let node = serde_json::from_value(node).unwrap();
    let node = nodes.create(&PostParams::default(), &node).await.unwrap();
    let maps: Api<NamespaceMap> = Api::namespaced(rome.client(), AT_ROME);
    let map = wait(maps.clone(), "milan-ee0b4a", is_there).await;
    assert_eq!(map.owner_references()[0].uid, node.uid().unwrap());
    let delete = DeleteParams::default();
    maps.delete("milan-ee0b4a", &delete).await.unwrap();
    let old = map.uid();
    let is_new = move |map: Option<&NamespaceMap>| map.is_some_and(|map| map.uid() != old);
    wait(maps.clone(), "milan-ee0b4a", is_new).await;
    nodes.delete("liqo-milan", &delete).await.unwrap();
    gone(nodes, "liqo-milan").await;
    gone(maps, "milan-ee0b4a").await;
}

async fn certificates_are_for_ones_own_node(rome: &Town) {
    let account = format!("system:serviceaccount:{AT_ROME}:virtual-kubelet");
    rome.ask_for_certificate(&account, "other", "system:node:worker-1").await;
    rome.ask_for_certificate(&account, "own", "system:node:liqo-milan").await;
    let requests: Api<CertificateSigningRequest> = Api::all(rome.client());
    let is_decided = |request: Option<&CertificateSigningRequest>| {
        let status = request.and_then(|request| request.status.as_ref());
        status.and_then(|status| status.conditions.as_ref()).is_some()
    };
    let own = wait(requests.clone(), "own", is_decided).await;
    let condition = &own.status.unwrap().conditions.unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref()),
        ("Approved", Some("LiqoApproval"))
    );
    let other = requests.get("other").await.unwrap();
    assert!(!is_decided(Some(&other)), "not for the node of somebody else");
}

async fn an_offer_follows_what_is_free(rome: &Town, milan: &Town) {
    milan.run_pod("busy", "4").await;
    let offers: Api<ResourceOffer> = Api::namespaced(rome.client(), AT_ROME);
    wait(offers.clone(), "milan", offers_cpu("5400m")).await;
    milan.end_pod("busy").await;
    wait(offers, "milan", offers_cpu("9")).await;
}

async fn a_provider_may_take_its_resources_back(rome: &Town, milan: &Town) {
    let of_milan: Api<ForeignCluster> = Api::all(milan.client());
    let of_rome: Api<ForeignCluster> = Api::all(rome.client());
    let allow = async |word: &str| {
        let change = json!({"spec": {"incomingPeeringEnabled": word}});
        of_milan.patch("rome", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    };
    allow("No").await;
    gone(Api::<ResourceOffer>::namespaced(milan.client(), AT_MILAN), "milan").await;
    gone(Api::<Deployment>::namespaced(rome.client(), AT_ROME), "virtual-kubelet").await;
    wait(of_rome.clone(), "milan", is(Kind::OutgoingPeering, Status::Pending)).await;
    let requests: Api<ResourceRequest> = Api::namespaced(rome.client(), AT_ROME);
    let is_answered = |request: Option<&ResourceRequest>| {
        let status = request.and_then(|request| request.status.clone()).unwrap_or_default();
        status.offer_withdrawal_timestamp.is_some()
    };
    wait(requests, "rome", is_answered).await;

    allow("Auto").await;
    wait(of_rome, "milan", is(Kind::OutgoingPeering, Status::Established)).await;
    wait(of_milan, "rome", is(Kind::IncomingPeering, Status::Established)).await;
}

async fn unpeering_leaves_nothing_behind(rome: &Town, milan: &Town) {
    let start = Instant::now();
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let no = json!({"spec": {"outgoingPeeringEnabled": "No"}});
    clusters.patch("milan", &PatchParams::default(), &Patch::Merge(no)).await.unwrap();
    wait(clusters, "milan", is(Kind::OutgoingPeering, Status::None)).await;
    gone(Api::<Deployment>::namespaced(rome.client(), AT_ROME), "virtual-kubelet").await;
    gone(Api::<ResourceRequest>::namespaced(rome.client(), AT_ROME), "rome").await;
    gone(Api::<ResourceOffer>::namespaced(rome.client(), AT_ROME), "milan").await;
    gone(Api::<ResourceOffer>::namespaced(milan.client(), AT_MILAN), "milan").await;
    gone(Api::<ForeignCluster>::all(milan.client()), "rome").await;
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    let secrets: Api<Secret> = Api::namespaced(rome.client(), "liqo");
    assert!(secrets.get_opt(&format!("remote-token-{MILAN}")).await.unwrap().is_some());
}

async fn peering_again_works_at_once(rome: &Town, milan: &Town) {
    let start = Instant::now();
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let yes = json!({"spec": {"outgoingPeeringEnabled": "Yes"}});
    clusters.patch("milan", &PatchParams::default(), &Patch::Merge(yes)).await.unwrap();
    wait(clusters, "milan", is(Kind::OutgoingPeering, Status::Established)).await;
    let of_milan: Api<ForeignCluster> = Api::all(milan.client());
    wait(of_milan, "rome", is(Kind::IncomingPeering, Status::Established)).await;
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

async fn a_foreign_cluster_can_be_deleted(rome: &Town) {
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    clusters.delete("milan", &DeleteParams::default()).await.unwrap();
    gone(clusters, "milan").await;
}

/// Whether that much of the CPUs is offered.
fn offers_cpu(amount: &'static str) -> impl Fn(Option<&ResourceOffer>) -> bool {
    move |offer| {
        let quota = offer.and_then(|offer| offer.spec.resource_quota.as_ref());
        let hard = quota.and_then(|quota| quota.hard.as_ref());
        hard.is_some_and(|hard| hard["cpu"].0 == amount)
    }
}
