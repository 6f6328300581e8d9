//! The authentication service, with the rights that the chart grants it and a real signer.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ResourceRequest;
use liqo_api::keys::object;
use liqo_api::names::Cluster;
use liqo_handshake::{Error, Peer, Trust};
use liqo_identity::secret;
use liqo_identity::signing::Application;
use liqo_identity::wire::{CertificateReply, CertificateRequest};
use liqo_kit::client::Identity;
use liqo_kit::retry::{Failure as _, Retry};
use liqo_testkit::ControlPlane;
use tokio::time::timeout;

use self::component::{Component, LIMIT, grant};

const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const TENANT: &str = "liqo-tenant-rome-2f55ef";

#[tokio::test]
async fn peers_are_given_identities_and_strangers_leave_no_trace() {
    let plane = installed().await;
    let client = plane.client();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let [cert_flag, key_flag] = [("cert", &certificate), ("key", &key)]
        .map(|(name, path)| format!("--{name}-path={}", path.display()));
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_liqo"))
        .args(["cert-creator", &key_flag, &cert_flag])
        .status();
    assert!(made.unwrap().success());

    let (auth, peer) = start(&plane, &["--enable-tls", &cert_flag, &key_flag]).await;
    assert_eq!(peer.ids().await.unwrap().cluster_id, MILAN);
    let token = token(&client).await;

    let application = Application::new(&rome().id).unwrap();
    strangers_leave_no_trace(&client, &peer, &token, &application).await;
    let first = an_identity_opens_the_tenant_namespace(&client, &peer, &token, &application).await;
    let again = peer.certificate(&request(&application.request, &token)).await.unwrap();
    assert_eq!(again, first, "who asks again is told the same");
    a_lost_key_is_replaced_and_told(&client, &peer, &token, &first).await;
    a_token_that_is_deleted_is_made_again(&client, &peer, &token, &application).await;

    let (status, log) = auth.stop().await.unwrap();
    assert!(status.success(), "{log}");
    assert!(!log.contains(&token), "{log}");
}

#[tokio::test]
async fn without_tokens_only_the_first_key_of_a_peer_counts() {
    let plane = installed().await;
    let (_auth, peer) = start(&plane, &["--enable-authentication=false"]).await;
    let (one, other) =
        (Application::new(&rome().id).unwrap(), Application::new(&rome().id).unwrap());
    let first = peer.certificate(&request(&one.request, "")).await.unwrap();
    let error = peer.certificate(&request(&other.request, "")).await.unwrap_err();
    assert!(matches!(error, Error::AlreadyIssued { .. }), "{error}");
    assert_eq!(peer.certificate(&request(&one.request, "")).await.unwrap(), first);

    let secrets: Api<Secret> = Api::namespaced(plane.client(), TENANT);
    let gone = DeleteParams::default();
    secrets.delete(object::REMOTE_CERTIFICATE_SECRET, &gone).await.unwrap();
    let reset = peer.certificate(&request(&other.request, "")).await.unwrap();
    assert_ne!(reset.certificate, first.certificate, "the refusal said what would help");

    // Nobody finishes the deletion in this cluster.
    let namespaces: Api<Namespace> = Api::all(plane.client());
    namespaces.delete(TENANT, &gone).await.unwrap();
    // What the API server has at hand shows that in a moment.
    let again = request(&other.request, "");
    let refused = async {
        loop {
            if let Err(error) = peer.certificate(&again).await {
                break error;
            }
        }
    };
    let error = timeout(LIMIT, refused).await.unwrap();
    assert!(matches!(&error, Error::Failed { reason, .. } if reason.contains("being deleted")));
    assert_eq!(error.retry(), Retry::Soon, "who peers again at once does not wait for long");
}

async fn strangers_leave_no_trace(
    client: &Client,
    peer: &Peer,
    token: &str,
    application: &Application,
) {
    let error = peer.certificate(&request(&application.request, "wrong")).await.unwrap_err();
    assert!(matches!(error, Error::WrongToken { empty: false, .. }), "{error}");
    let error = peer.certificate(&request(&application.request, "")).await.unwrap_err();
    assert!(matches!(error, Error::WrongToken { empty: true, .. }), "{error}");
    let other = Application::new(&MILAN.replace('2', "3").parse().unwrap()).unwrap();
    let error = peer.certificate(&request(&other.request, token)).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { reason, .. } if reason.contains("common name")));
    let error = peer.certificate(&request("hello", token)).await.unwrap_err();
    assert!(matches!(error, Error::Failed { status: 400, .. }), "{error}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert!(namespaces.get_opt(TENANT).await.unwrap().is_none());
}

async fn an_identity_opens_the_tenant_namespace(
    client: &Client,
    peer: &Peer,
    token: &str,
    application: &Application,
) -> CertificateReply {
    let mut request = request(&application.request, token);
    request.origin_cluster_token.push_str("the way back");
    let reply = peer.certificate(&request).await.unwrap();
    assert_eq!(reply.namespace, TENANT);
    let identity =
        secret::identity("any", &MILAN.parse().unwrap(), &application.key, &reply, None).unwrap();
    let config = Identity::try_from(&identity).unwrap().config().await.unwrap();
    let rome = Client::try_from(config).unwrap();
    let requests = |namespace| Api::<ResourceRequest>::namespaced(rome.clone(), namespace);
    requests(TENANT).list(&ListParams::default()).await.unwrap();
    let elsewhere = requests("default").list(&ListParams::default()).await;
    assert!(matches!(elsewhere, Err(kube::Error::Api(status)) if status.code == 403));

    let liqo: Api<Secret> = Api::namespaced(client.clone(), "liqo");
    let kept = liqo.get(&format!("remote-token-{ROME}")).await.unwrap();
    assert_eq!(secret::token(&kept).unwrap().reveal(), "the way back");
    reply
}

async fn a_lost_key_is_replaced_and_told(
    client: &Client,
    peer: &Peer,
    token: &str,
    first: &CertificateReply,
) {
    let other = Application::new(&rome().id).unwrap();
    let reply = peer.certificate(&request(&other.request, token)).await.unwrap();
    assert_ne!(reply.certificate, first.certificate);
    let events: Api<Event> = Api::namespaced(client.clone(), TENANT);
    let events = events.list(&ListParams::default()).await.unwrap();
    let reasons: Vec<_> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert_eq!(reasons, ["IdentityReplaced"]);
}

async fn a_token_that_is_deleted_is_made_again(
    client: &Client,
    peer: &Peer,
    old: &str,
    application: &Application,
) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
    let uid = secrets.get(object::AUTH_TOKEN_SECRET).await.unwrap().uid();
    let gone = DeleteParams::default();
    secrets.delete(object::AUTH_TOKEN_SECRET, &gone).await.unwrap();
    let is_new = move |secret: Option<&Secret>| secret.is_some_and(|secret| secret.uid() != uid);
    let wait = await_condition(secrets, object::AUTH_TOKEN_SECRET, is_new);
    timeout(LIMIT, wait).await.unwrap().unwrap();
    let error = peer.certificate(&request(&application.request, old)).await.unwrap_err();
    assert!(matches!(error, Error::WrongToken { .. }), "{error}");
}

/// A cluster with a signer, and with what the chart grants the service.
async fn installed() -> ControlPlane {
    let signer = "certificatesigningrequest-signing-controller";
    let plane = cluster::start(&[signer], &[]).await;
    let client = plane.client();
    grant(&client, "auth", "auth", "liqo").await.unwrap();
    grant(&client, "remote-peering-basic", "auth", "liqo").await.unwrap();
    plane
}

async fn start(plane: &ControlPlane, words: &[&str]) -> (Component, Peer) {
    let file = kube::config::Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let url = file.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
    let url = format!("--advertise-api-server-address={url}");
    let id = format!("--cluster-id={MILAN}");
    let all = [
        &["auth", &id, "--cluster-name=milan", "--namespace=liqo", "--address=127.0.0.1:0", &url],
        words,
    ]
    .concat();
    let auth = Component::start(plane, "auth", &all).unwrap();
    let line = auth.says("Listening for peers").await.unwrap();
    let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap();
    let scheme = if words.contains(&"--enable-tls") { "https" } else { "http" };
    let peer = Peer::new(&format!("{scheme}://{address}"), Trust::Anybody, None).unwrap();
    (auth, peer)
}

async fn token(client: &Client) -> String {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
    let is_there = |secret: Option<&Secret>| secret.is_some();
    let wait = await_condition(secrets, object::AUTH_TOKEN_SECRET, is_there);
    let found = timeout(LIMIT, wait).await.unwrap().unwrap().unwrap();
    let token = secret::token(&found).unwrap().reveal().to_owned();
    assert_eq!(token.len(), 128);
    token
}

fn request(pem: &str, token: &str) -> CertificateRequest {
    CertificateRequest {
        destination_cluster_token: token.to_owned(),
        ..CertificateRequest::new(&rome(), pem)
    }
}

fn rome() -> Cluster {
    Cluster { id: ROME.parse().unwrap(), name: "rome".parse().unwrap() }
}
