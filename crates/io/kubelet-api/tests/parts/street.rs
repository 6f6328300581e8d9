//! Two clusters, a pod that runs in the other one, and the kubelet between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config, ResourceExt as _};
use liqo_kit::args::Listen;
use liqo_kubelet_api::{CertificateType, Kubelet, Provider};
use liqo_testkit::{ControlPlane, until};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::stub::Stub;

/// Who we are in the other cluster.
const US: &str = "06ae40b0-be4b-4ed6-9f42-8fa4dfb9a7f6";

/// Everything a test needs.
pub struct Street {
    pub home: ControlPlane,
    pub remote: ControlPlane,
    pub stub: Stub,
    _serving: DropGuard,
}

impl Street {
    /// Builds it; the certificate comes from the cluster's signer.
    pub async fn build() -> Self {
        let controllers = ["certificatesigningrequest-signing-controller"];
        let home = ControlPlane::with_controllers(&controllers, &[]);
        let (home, remote) = tokio::join!(home, ControlPlane::start());
        let (home, remote) = (home.unwrap(), remote.unwrap());
        let (here, there) = (address(&home).await, address(&remote).await);
        let stub = Stub::listen(&there).await;
        populate(&home.client(), "liqo-milan", &here, "shop").await;
        populate(&remote.client(), "worker", &there, "shop-rome").await;
        home.grant("virtual-kubelet-local", "virtual-kubelet", None).await.unwrap();
        remote.grant("virtual-kubelet-remote", US, Some("shop-rome")).await.unwrap();
        home.let_the_api_server_call_kubelets().await.unwrap();
        let stop = CancellationToken::new();
        let kubelet = Kubelet {
            node: "liqo-milan".to_owned(),
            address: here.parse().unwrap(),
            listen: Listen { host: Some(here), port: 10250 },
            certificate: CertificateType::Kubelet,
            consumer: US.parse().unwrap(),
            home: home.as_user("virtual-kubelet").await.unwrap(),
            provider: Arc::new(Milan(remote.as_user(US).await.unwrap())),
        };
        let token = stop.clone();
        tokio::spawn(async move { kubelet.serve(token).await.unwrap() });
        approve(&home.client()).await;
        let street = Self { home, remote, stub, _serving: stop.drop_guard() };
        street.wait_until_served().await;
        street
    }

    /// A client that talks to the port itself, with the identity of an administrator of a cluster.
    pub async fn caller(&self, plane: &ControlPlane) -> Client {
        Client::try_from(self.pointed(plane.config().await.unwrap()).await).unwrap()
    }

    /// A client that talks to the port itself, with a token or with nothing.
    pub async fn bearer(&self, token: Option<&str>) -> Client {
        let mut config = self.pointed(self.home.config().await.unwrap()).await;
        config.auth_info = kube::config::AuthInfo {
            token: token.map(|token| token.to_owned().into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    async fn pointed(&self, mut config: Config) -> Config {
        config.cluster_url =
            format!("https://{}:10250", address(&self.home).await).parse().unwrap();
        config.accept_invalid_certs = true;
        config
    }

    async fn wait_until_served(&self) {
        let client = self.caller(&self.home).await;
        let request = || http::Request::get("/healthz").body(vec![]).unwrap();
        let limit = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            while client.request_text(request()).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        limit.await.expect("the port answers");
    }
}

/// The other cluster, as the test says it is.
struct Milan(Client);

impl Provider for Milan {
    fn client(&self) -> Option<Client> {
        Some(self.0.clone())
    }

    fn namespaces(&self) -> BTreeMap<String, String> {
        [("shop".to_owned(), "shop-rome".to_owned())].into()
    }
}

/// A node with the kubelet at an address, and a pod on it.
async fn populate(client: &Client, node: &str, address: &str, namespace: &str) {
    let new = PostParams::default();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&new, &read(json!({"metadata": {"name": node}}))).await.unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }});
    nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    for name in [namespace, "other"] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&new, &read(json!({"metadata": {"name": name}}))).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(client.clone(), name);
        let containers = ["main", "waiting"].map(|name| json!({"name": name, "image": "any"}));
        let spec = json!({"nodeName": node, "containers": containers});
        let pod = json!({"metadata": {"name": "web"}, "spec": spec});
        pods.create(&new, &read(pod)).await.unwrap();
        let running = json!({"status": {"phase": "Running"}});
        pods.patch_status("web", &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
    }
}

/// Approves the one request for a certificate, as the controller manager does.
async fn approve(client: &Client) {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let list = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        loop {
            let found = requests.list(&ListParams::default()).await.unwrap().items;
            if let [request] = &found[..] {
                return request.clone();
            }
        }
    });
    let request = list.await.expect("a certificate is asked for");
    assert_eq!(request.spec.signer_name, "kubernetes.io/kubelet-serving");
    let approval = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Test", "message": "as the test wants"},
    ]}});
    let patch = Patch::Strategic(approval);
    let name = request.name_any();
    requests.patch_approval(&name, &PatchParams::default(), &patch).await.unwrap();
    let is_signed = |found: Option<&CertificateSigningRequest>| {
        let status = found.and_then(|request| request.status.as_ref());
        status.is_some_and(|status| status.certificate.is_some())
    };
    until("the certificate is signed", &requests, &name, is_signed).await.unwrap();
}

/// The address that a control plane has for itself alone.
async fn address(plane: &ControlPlane) -> String {
    plane.config().await.unwrap().cluster_url.host().unwrap().to_owned()
}

pub fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}
