//! The replicator between two clusters, with the rights that the chart grants it.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;

use std::collections::BTreeMap;
use std::fmt::Debug;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use liqo_api::discovery::{
    ClusterIdentity, ForeignCluster, ForeignClusterSpec, OfferState, ResourceRequest,
    ResourceRequestSpec,
};
use liqo_api::keys::{finalizer, label, object, secret as field};
use liqo_api::names::Cluster;
use liqo_api::virtualkubelet::{NamespaceMap, NamespaceMapSpec};
use liqo_handshake::{Peer, Trust};
use liqo_identity::signing::Application;
use liqo_identity::wire::CertificateRequest;
use liqo_identity::{secret, tenant};
use liqo_testkit::ControlPlane;
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::component::{Component, LIMIT, grant};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const TURIN: &str = "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10";
/// Where Rome keeps what is for Milan.
const HERE: &str = "liqo-tenant-milan-ee0b4a";
/// Where Milan keeps what is for Rome.
const THERE: &str = "liqo-tenant-rome-2f55ef";

#[tokio::test]
async fn specs_go_there_and_status_comes_back() {
    let (rome, milan) = tokio::join!(home(), cluster::start(&[], &[]));
    cluster::namespace(&milan.client(), THERE).await;
    know(&rome, "milan", MILAN, HERE, &identity(&milan)).await;
    // A peer that is dead, and holds up nobody.
    cluster::namespace(&rome.client(), "dead").await;
    know(&rome, "turin", TURIN, "dead", &dead_identity(&milan)).await;
    let replicator = start(&rome, &[]).await;
    phase(&rome, "turin", "AuthenticationStatus", "Established").await;
    phase(&rome, "milan", "AuthenticationStatus", "Established").await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    until(&clusters, "milan", |cluster| cluster.is_some_and(is_held)).await;

    a_request_is_copied(&rome, &milan).await;
    a_map_is_copied_once_the_phase_allows_it(&rome, &milan).await;
    what_somebody_deletes_is_made_again(&milan).await;
    a_deletion_reaches_the_peer(&rome, &milan).await;
    a_mended_identity_is_picked_up(&rome, &milan).await;

    let (status, log) = replicator.stop().await.unwrap();
    assert!(status.success(), "{log}");
}

#[tokio::test]
async fn a_peer_is_left_in_order_and_one_out_of_reach_is_left_in_time() {
    let (rome, milan) = tokio::join!(home(), cluster::start(&[], &[]));
    cluster::namespace(&milan.client(), THERE).await;
    know(&rome, "milan", MILAN, HERE, &identity(&milan)).await;
    let _replicator = start(&rome, &["--unreachable-peer-patience=2s"]).await;
    phase(&rome, "milan", "AuthenticationStatus", "Established").await;
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let [sources, replicas] = requests(&rome, &milan);

    sources.create(&PostParams::default(), &request("rome", MILAN)).await.unwrap();
    until(&replicas, "rome", |replica| replica.is_some()).await;
    clusters.delete("milan", &DeleteParams::default()).await.unwrap();
    until(&clusters, "milan", |cluster| cluster.is_none()).await;
    until(&replicas, "rome", |replica| replica.is_none()).await;
    until(&sources, "rome", |source| source.is_some_and(|source| !is_held(source))).await;

    // Once more, and now the peer dies first.
    know(&rome, "milan", MILAN, HERE, &identity(&milan)).await;
    phase(&rome, "milan", "AuthenticationStatus", "Established").await;
    until(&replicas, "rome", |replica| replica.is_some()).await;
    let orphan = replicas.get("rome").await.unwrap();
    assert_eq!(orphan.labels()[label::ORIGIN_ID], ROME);
    drop(milan);
    sources.delete("rome", &DeleteParams::default()).await.unwrap();
    clusters.delete("milan", &DeleteParams::default()).await.unwrap();
    until(&clusters, "milan", |cluster| cluster.is_none()).await;
    until(&sources, "rome", |source| source.is_none()).await;
}

#[tokio::test]
async fn what_was_left_behind_is_cleaned_up() {
    let (rome, milan) = tokio::join!(home(), cluster::start(&[], &[]));
    cluster::namespace(&milan.client(), THERE).await;
    let [sources, replicas] = requests(&rome, &milan);
    // A source of a peer that nobody knows any more, and a copy whose source is gone.
    let mut stray = request("stray", TURIN);
    stray.metadata.finalizers = Some(vec![finalizer::CRD_REPLICATOR.to_owned()]);
    sources.create(&PostParams::default(), &stray).await.unwrap();
    sources.delete("stray", &DeleteParams::default()).await.unwrap();
    let mut orphan = request("orphan", MILAN);
    orphan.metadata.labels = Some(texts(&[(label::ORIGIN_ID, ROME), (label::REPLICATED, "true")]));
    replicas.create(&PostParams::default(), &orphan).await.unwrap();
    let mut theirs = request("theirs", MILAN);
    theirs.metadata.labels = Some(texts(&[(label::ORIGIN_ID, TURIN), (label::REPLICATED, "true")]));
    replicas.create(&PostParams::default(), &theirs).await.unwrap();

    let _replicator = start(&rome, &[]).await;
    until(&sources, "stray", |source| source.is_none()).await;
    know(&rome, "milan", MILAN, HERE, &identity(&milan)).await;
    phase(&rome, "milan", "AuthenticationStatus", "Established").await;
    until(&replicas, "orphan", |replica| replica.is_none()).await;
    assert!(replicas.get_opt("theirs").await.unwrap().is_some());
}

#[tokio::test]
async fn a_peer_needs_no_more_rights_than_it_is_given_and_uses_those_that_come_late() {
    let signer = ["certificatesigningrequest-signing-controller"];
    let (rome, milan) = tokio::join!(home(), cluster::start(&signer, &[]));
    for (file, user) in
        [("auth", "auth"), ("remote-peering-basic", "auth"), ("remote-peering-incoming", "nobody")]
    {
        grant(&milan.client(), file, user, "liqo").await.unwrap();
    }
    let identity = identity_from(&milan).await;
    know(&rome, "milan", MILAN, HERE, &identity).await;
    let replicator = start(&rome, &[]).await;
    phase(&rome, "milan", "AuthenticationStatus", "Established").await;
    phase(&rome, "milan", "OutgoingPeering", "Pending").await;
    let [sources, replicas] = requests(&rome, &milan);
    sources.create(&PostParams::default(), &request("rome", MILAN)).await.unwrap();
    until(&replicas, "rome", |replica| replica.is_some()).await;

    let [sources, replicas] = maps(&rome, &milan);
    sources.create(&PostParams::default(), &map("map")).await.unwrap();
    replicator.says("Watch interrupted").await.unwrap();
    let roles: Api<ClusterRole> = Api::all(milan.client());
    let incoming = roles.get(object::ROLE_INCOMING).await.unwrap();
    let binding = tenant::binding(THERE, &ROME.parse().unwrap(), &incoming);
    let bindings: Api<RoleBinding> = Api::namespaced(milan.client(), THERE);
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    until(&replicas, "map", |replica| replica.is_some()).await;
    sources.delete("map", &DeleteParams::default()).await.unwrap();
    until(&sources, "map", |source| source.is_none()).await;
    assert!(replicas.get_opt("map").await.unwrap().is_none());
}

/// The identity that the authentication service of a cluster issues.
async fn identity_from(plane: &ControlPlane) -> Secret {
    let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let url = file.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
    let words = [
        "auth",
        &format!("--cluster-id={MILAN}"),
        "--cluster-name=milan",
        "--namespace=liqo",
        "--address=127.0.0.1:0",
        "--enable-authentication=false",
        &format!("--advertise-api-server-address={url}"),
    ];
    let auth = Component::start(plane, "auth", &words).unwrap();
    let line = auth.says("Listening for peers").await.unwrap();
    let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap();
    let peer = Peer::new(&format!("http://{address}"), Trust::Anybody, None).unwrap();
    let rome = Cluster { id: ROME.parse().unwrap(), name: "rome".parse().unwrap() };
    let application = Application::new(&rome.id).unwrap();
    let request = CertificateRequest::new(&rome, &application.request);
    let reply = peer.certificate(&request).await.unwrap();
    assert_eq!(reply.namespace, THERE);
    secret::identity(HERE, &MILAN.parse().unwrap(), &application.key, &reply, None).unwrap()
}

async fn a_request_is_copied(rome: &ControlPlane, milan: &ControlPlane) {
    let [sources, replicas] = requests(rome, milan);
    sources.create(&PostParams::default(), &request("rome", MILAN)).await.unwrap();
    let replica = until(&replicas, "rome", |replica| replica.is_some()).await.unwrap();
    let want = texts(&[
        (label::REPLICATION, "false"),
        (label::REPLICATED, "true"),
        (label::ORIGIN_ID, ROME),
        (label::REMOTE_ID, MILAN),
    ]);
    assert_eq!(replica.metadata.labels, Some(want));
    assert_eq!(replica.spec.auth_url, "https://auth.rome");
    assert!(is_held(&sources.get("rome").await.unwrap()));

    let merge = PatchParams::default();
    let created = Patch::Merge(json!({"status": {"offerState": "Created"}}));
    replicas.patch_status("rome", &merge, &created).await.unwrap();
    until(&sources, "rome", |source| {
        let status = source.and_then(|source| source.status.as_ref());
        status.is_some_and(|status| status.offer_state == OfferState::Created)
    })
    .await;

    let has_end = |request: Option<&ResourceRequest>| {
        request.is_some_and(|request| request.spec.withdrawal_timestamp.is_some())
    };
    for end in [json!("2026-11-16T01:00:00Z"), Value::Null] {
        let change = Patch::Merge(json!({"spec": {"withdrawalTimestamp": end}}));
        sources.patch("rome", &merge, &change).await.unwrap();
        until(&replicas, "rome", move |replica| has_end(replica) != end.is_null()).await;
    }
    let before = replicas.get("rome").await.unwrap();
    assert_eq!(before.metadata.generation, Some(3), "each change was written once");
}

async fn a_map_is_copied_once_the_phase_allows_it(rome: &ControlPlane, milan: &ControlPlane) {
    let [sources, replicas] = maps(rome, milan);
    sources.create(&PostParams::default(), &map("map")).await.unwrap();
    // A request made after it has been looked at, so that the map would have been, too.
    let [requests, copies] = requests(rome, milan);
    requests.create(&PostParams::default(), &request("after", MILAN)).await.unwrap();
    until(&copies, "after", |replica| replica.is_some()).await;
    assert!(replicas.get_opt("map").await.unwrap().is_none());
    assert!(!is_held(&sources.get("map").await.unwrap()));

    phase(rome, "milan", "OutgoingPeering", "Pending").await;
    until(&replicas, "map", |replica| replica.is_some()).await;
}

async fn what_somebody_deletes_is_made_again(milan: &ControlPlane) {
    let replicas: Api<ResourceRequest> = Api::namespaced(milan.client(), THERE);
    let uid = replicas.get("rome").await.unwrap().uid();
    replicas.delete("rome", &DeleteParams::default()).await.unwrap();
    until(&replicas, "rome", move |replica| replica.is_some_and(|replica| replica.uid() != uid))
        .await;
}

async fn a_deletion_reaches_the_peer(rome: &ControlPlane, milan: &ControlPlane) {
    let [sources, replicas] = requests(rome, milan);
    // The peer takes its time.
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["liqo.io/test"]}}));
    replicas.patch("rome", &PatchParams::default(), &hold).await.unwrap();
    sources.delete("rome", &DeleteParams::default()).await.unwrap();
    let is_ending = |request: &ResourceRequest| request.metadata.deletion_timestamp.is_some();
    until(&replicas, "rome", move |replica| replica.is_some_and(is_ending)).await;
    assert!(is_held(&sources.get("rome").await.unwrap()), "it waits for its copy");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    replicas.patch("rome", &PatchParams::default(), &release).await.unwrap();
    until(&sources, "rome", |source| source.is_none()).await;
}

async fn a_mended_identity_is_picked_up(rome: &ControlPlane, milan: &ControlPlane) {
    let sources: Api<ResourceRequest> = Api::namespaced(rome.client(), "dead");
    let replicas: Api<ResourceRequest> = Api::namespaced(milan.client(), THERE);
    sources.create(&PostParams::default(), &request("late", TURIN)).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(rome.client(), "dead");
    let mended = Patch::Merge(Secret { data: identity(milan).data, ..Secret::default() });
    secrets.patch("identity", &PatchParams::default(), &mended).await.unwrap();
    until(&replicas, "late", |replica| replica.is_some()).await;
}

/// The cluster that the replicator runs in.
async fn home() -> ControlPlane {
    let plane = cluster::start(&[], &[]).await;
    let client = plane.client();
    cluster::namespace(&client, HERE).await;
    for file in [
        "crd-replicator",
        "remote-peering-basic",
        "remote-peering-incoming",
        "remote-peering-outgoing",
    ] {
        grant(&client, file, "replicator", "liqo").await.unwrap();
    }
    plane
}

async fn start(plane: &ControlPlane, words: &[&str]) -> Component {
    let id = format!("--cluster-id={ROME}");
    let all = [&["crd-replicator", &id, "--cluster-name=rome"], words].concat();
    let replicator = Component::start(plane, "replicator", &all).unwrap();
    replicator.says("Started").await.unwrap();
    replicator
}

/// Makes a ForeignCluster, and the identity to reach it with.
async fn know(plane: &ControlPlane, name: &str, id: &str, tenant: &str, identity: &Secret) {
    let secrets: Api<Secret> = Api::namespaced(plane.client(), tenant);
    let mut identity = identity.clone();
    identity.metadata = ObjectMeta {
        name: Some("identity".to_owned()),
        labels: Some(texts(&[(label::LOCAL_IDENTITY, "true"), (label::CLUSTER_ID, id)])),
        ..ObjectMeta::default()
    };
    if secrets.get_opt("identity").await.unwrap().is_none() {
        secrets.create(&PostParams::default(), &identity).await.unwrap();
    }
    let mut spec = ForeignClusterSpec::reached_at("https://auth.example.com");
    spec.cluster_identity =
        Some(ClusterIdentity { cluster_id: id.to_owned(), cluster_name: name.to_owned() });
    let clusters: Api<ForeignCluster> = Api::all(plane.client());
    let cluster = ForeignCluster::new(name, spec);
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    let status = json!({"status": {"tenantNamespace": {"local": tenant, "remote": THERE}}});
    clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Sets a condition of a ForeignCluster, beside those that are there.
async fn phase(plane: &ControlPlane, name: &str, kind: &str, status: &str) {
    let clusters: Api<ForeignCluster> = Api::all(plane.client());
    let apply = PatchParams::apply(&format!("test-{kind}")).force();
    let cluster = json!({
        "apiVersion": "discovery.liqo.io/v1alpha1",
        "kind": "ForeignCluster",
        "status": {"peeringConditions": [{"type": kind, "status": status}]},
    });
    clusters.patch_status(name, &apply, &Patch::Apply(cluster)).await.unwrap();
}

/// An identity with the rights of the control plane's own client.
fn identity(plane: &ControlPlane) -> Secret {
    let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let cluster = file.clusters[0].cluster.as_ref().unwrap();
    let user = file.auth_infos[0].auth_info.as_ref().unwrap();
    let pem = |text: &str| BASE64_STANDARD.decode(text).unwrap();
    let data = [
        (field::NAMESPACE, THERE.into()),
        (field::API_SERVER_URL, cluster.server.clone().unwrap().into()),
        (field::API_SERVER_CA, pem(cluster.certificate_authority_data.as_ref().unwrap())),
        (field::CERTIFICATE, pem(user.client_certificate_data.as_ref().unwrap())),
        (field::PRIVATE_KEY, pem(user.client_key_data.as_ref().unwrap().expose_secret())),
    ];
    let data = data.map(|(key, bytes): (_, Vec<u8>)| (key.to_owned(), ByteString(bytes)));
    Secret { data: Some(data.into()), ..Secret::default() }
}

/// The same, where nobody answers.
fn dead_identity(plane: &ControlPlane) -> Secret {
    let mut identity = identity(plane);
    let nowhere = ByteString(b"https://127.0.0.1:9".to_vec());
    identity.data.as_mut().unwrap().insert(field::API_SERVER_URL.to_owned(), nowhere);
    identity
}

fn requests(rome: &ControlPlane, milan: &ControlPlane) -> [Api<ResourceRequest>; 2] {
    let at = |client: Client, namespace| Api::namespaced(client, namespace);
    [at(rome.client(), HERE), at(milan.client(), THERE)]
}

fn maps(rome: &ControlPlane, milan: &ControlPlane) -> [Api<NamespaceMap>; 2] {
    let at = |client: Client, namespace| Api::namespaced(client, namespace);
    [at(rome.client(), HERE), at(milan.client(), THERE)]
}

fn map(name: &str) -> NamespaceMap {
    let mut map = NamespaceMap::new(name, NamespaceMapSpec::default());
    map.metadata.labels = Some(labels(MILAN));
    map
}

fn request(name: &str, peer: &str) -> ResourceRequest {
    let spec = ResourceRequestSpec {
        cluster_identity: ClusterIdentity {
            cluster_id: ROME.to_owned(),
            cluster_name: "rome".to_owned(),
        },
        auth_url: "https://auth.rome".to_owned(),
        withdrawal_timestamp: None,
    };
    let mut request = ResourceRequest::new(name, spec);
    request.metadata.labels = Some(labels(peer));
    request
}

fn labels(peer: &str) -> BTreeMap<String, String> {
    texts(&[(label::REPLICATION, "true"), (label::REMOTE_ID, peer)])
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn is_held(object: &impl ResourceExt) -> bool {
    object.finalizers().iter().any(|name| name == finalizer::CRD_REPLICATOR)
}

/// Waits until an object is as it should be.
async fn until<K>(
    api: &Api<K>,
    name: &str,
    is_right: impl Fn(Option<&K>) -> bool + Send,
) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let wait = await_condition(api.clone(), name, is_right);
    let found = timeout(LIMIT, wait).await;
    found.unwrap_or_else(|_| panic!("{} {name} did not change in time", K::kind(&()))).unwrap()
}
