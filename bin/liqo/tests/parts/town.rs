//! A cluster with the components that peerings need, as the chart installs them.

use std::fmt::Debug;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, Resource, ResourceExt as _};
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus as Status, PeeringConditionType as Kind,
};
use liqo_api::keys::object;
use liqo_identity::secret;
use liqo_testkit::ControlPlane;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use super::cluster;
use super::component::{Component, LIMIT, grant};

/// How long the end of a peering waits for who is out of reach.
const PATIENCE: &str = "--unreachable-peer-patience=3s";

/// The place of the controller manager among the components.
const MANAGER: usize = 1;

/// A cluster of the test.
pub struct Town {
    plane: ControlPlane,
    auth_url: String,
    webhook_port: u16,
    /// How the controller manager was started.
    manager: Vec<String>,
    components: Vec<Component>,
    _folder: TempDir,
}

impl Town {
    /// Makes a cluster, and starts the components in it.
    pub async fn found(id: &str, name: &str) -> Self {
        Self::built(id, name, "1h", &[]).await
    }

    /// Makes one whose certificates last as long as the text says.
    pub async fn signing(id: &str, name: &str, lifetime: &str) -> Self {
        Self::built(id, name, lifetime, &[]).await
    }

    /// Makes one whose controller manager has more flags.
    pub async fn managed(id: &str, name: &str, flags: &[&str]) -> Self {
        Self::built(id, name, "1h", flags).await
    }

    async fn built(id: &str, name: &str, lifetime: &str, flags: &[&str]) -> Self {
        let controllers = [
            "certificatesigningrequest-signing-controller",
            "garbage-collector-controller",
            "namespace-controller",
        ];
        let lifetime = format!("--cluster-signing-duration={lifetime}");
        let plane = cluster::start(&controllers, &[&lifetime]).await;
        install(&plane.client()).await;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, key) = (file("cert.pem"), file("key.pem"));
        let certificate = format!("--cert-path={certificate}");
        let key = format!("--key-path={key}");
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_liqo"))
            .args(["cert-creator", &key, &certificate])
            .status();
        assert!(made.unwrap().success());

        let identity = [format!("--cluster-id={id}"), format!("--cluster-name={name}")];
        let server = format!("--advertise-api-server-address={}", server(&plane));
        let words = ["auth", "--namespace=liqo", "--address=127.0.0.1:0", "--enable-tls"];
        let more = [&identity[0], &identity[1], &certificate, &key, &server].map(String::as_str);
        let auth = Component::start(&plane, "auth", &[&words[..], &more].concat()).unwrap();
        let line = auth.says("Listening for peers").await.unwrap();
        let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        announce(&plane.client(), host, port).await;

        let words = [
            "controller-manager",
            "--resource-sharing-percentage=90",
            "--foreign-cluster-ping-interval=1s",
            "--kubelet-image=example.org/liqo:test",
            "--webhook-port=0",
            PATIENCE,
        ];
        let more = [identity[0].as_str(), &identity[1]];
        let words = [&words[..], &more, flags].concat();
        let manager = Component::start(&plane, "controller-manager", &words).unwrap();
        manager.says("Controllers started").await.unwrap();
        let line = manager.says("Serving webhooks").await.unwrap();
        let (_, webhooks) = line.split_once("address=").unwrap();
        let webhooks = webhooks.split(' ').next().unwrap();
        let webhook_port = webhooks.rsplit(':').next().unwrap().parse().unwrap();
        let replicating = [&["crd-replicator", PATIENCE][..], &more].concat();
        let replicator = Component::start(&plane, "crd-replicator", &replicating).unwrap();
        let auth_url = format!("https://{address}");
        let components = vec![auth, manager, replicator];
        let manager = words.iter().map(|word| (*word).to_owned()).collect();
        Self { plane, auth_url, webhook_port, manager, components, _folder: folder }
    }

    /// Gives it a gateway that peers reach at an address, and starts the network manager.
    pub async fn open_network(&mut self, pod: &str, service: &str, gateway: &str, key: &str) {
        let client = self.client();
        grant(&client, "network-manager", "network-manager", "liqo").await.unwrap();
        let services: Api<Service> = Api::namespaced(client.clone(), "liqo");
        let object = json!({
            "metadata": {
                "name": object::GATEWAY,
                "labels": {"net.liqo.io/gateway": "true"},
                "annotations": {"net.liqo.io/gatewayNodeIP": gateway},
            },
            "spec": {"type": "NodePort", "ports": [
                {"name": "wireguard", "port": 5871, "protocol": "UDP"},
            ]},
        });
        services.create(&PostParams::default(), &read(object)).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(client, "liqo");
        let object = json!({
            "metadata": {
                "name": object::WIREGUARD_SECRET, "labels": {"net.liqo.io/key": "wireguard"},
            },
            "stringData": {"publicKey": key},
        });
        secrets.create(&PostParams::default(), &read(object)).await.unwrap();
        let words = [
            "liqonet",
            "--run-as=liqo-network-manager",
            &format!("--manager.pod-cidr={pod}"),
            &format!("--manager.service-cidr={service}"),
            "--ipam-address=127.0.0.1:0",
        ];
        let manager = Component::start(&self.plane, "network-manager", &words).unwrap();
        manager.says("Following peers").await.unwrap();
        self.components.push(manager);
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.plane.client()
    }

    /// Where its authentication service is.
    pub fn auth_url(&self) -> &str {
        &self.auth_url
    }

    /// The port of the webhooks.
    pub fn webhook_port(&self) -> u16 {
        self.webhook_port
    }

    /// The token that peers have to present.
    pub async fn token(&self) -> String {
        let secrets: Api<Secret> = Api::namespaced(self.client(), "liqo");
        let found = wait(secrets, object::AUTH_TOKEN_SECRET, is_there).await;
        secret::token(&found).unwrap().reveal().to_owned()
    }

    /// Peers with another one, whose resources it wants.
    pub async fn peer(&self, other: &Self, id: &str, name: &str) {
        self.put_token(id, &other.token().await).await;
        self.know(other, name).await;
        let clusters: Api<ForeignCluster> = Api::all(self.client());
        wait(clusters, name, is(Kind::OutgoingPeering, Status::Established)).await;
    }

    /// Makes another one known, whose resources it wants.
    pub async fn know(&self, other: &Self, name: &str) {
        let foreign = json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ForeignCluster",
            "metadata": {"name": name},
            "spec": {"foreignAuthUrl": other.auth_url(), "outgoingPeeringEnabled": "Yes"},
        });
        let clusters: Api<ForeignCluster> = Api::all(self.client());
        clusters.create(&PostParams::default(), &read(foreign)).await.unwrap();
    }

    /// Puts down the token to present to another cluster.
    pub async fn put_token(&self, remote: &str, token: &str) {
        let token = liqo_identity::token::Token::known(token).unwrap();
        let want = secret::remote_token("liqo", &remote.parse().unwrap(), &token);
        let secrets: Api<Secret> = Api::namespaced(self.client(), "liqo");
        let params = PatchParams::apply("test").force();
        secrets.patch(&want.name_any(), &params, &Patch::Apply(&want)).await.unwrap();
    }

    /// Adds a node that is ready.
    pub async fn add_node(&self, name: &str, cpu: &str, memory: &str) {
        let nodes: Api<Node> = Api::all(self.client());
        nodes
            .create(&PostParams::default(), &read(json!({"metadata": {"name": name}})))
            .await
            .unwrap();
        let status = json!({"status": {
            "allocatable": {"cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Adds a pod that runs.
    pub async fn run_pod(&self, name: &str, cpu: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client(), "default");
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "worker", "containers": [{
                "name": "main", "image": "example.org/any", "resources": {"requests": {"cpu": cpu}},
            }]},
        });
        pods.create(&PostParams::default(), &read(pod)).await.unwrap();
        let running = json!({"status": {"phase": "Running"}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
    }

    /// Lets a pod come to its end.
    pub async fn end_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client(), "default");
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete(name, &at_once).await.unwrap();
    }

    /// Asks for a serving certificate as somebody.
    pub async fn ask_for_certificate(&self, user: &str, name: &str, common_name: &str) {
        let mut file = Kubeconfig::read_from(self.plane.kubeconfig()).unwrap();
        for named in &mut file.auth_infos {
            named.auth_info.get_or_insert_default().impersonate = Some(user.to_owned());
        }
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let admin: Api<CertificateSigningRequest> = Api::all(self.client());
        let theirs: Api<CertificateSigningRequest> = Api::all(Client::try_from(config).unwrap());
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let mut request: CertificateSigningRequest = read(json!({
            "metadata": {"name": name},
            "spec": {
                "signerName": "kubernetes.io/kubelet-serving",
                "request": "",
                "usages": ["digital signature", "key encipherment", "server auth"],
            },
        }));
        request.spec.request = k8s_openapi::ByteString(pem.into_bytes());
        theirs.create(&PostParams::default(), &request).await.unwrap();
        wait(admin, name, is_there).await;
    }

    /// Starts a program that is not one of the components that are always there, with the rights of a
    /// file of the chart.
    pub async fn launch(&self, rights: &str, words: &[&str]) -> Component {
        grant(&self.client(), rights, rights, "liqo").await.unwrap();
        Component::launch(&self.plane, rights, words).unwrap()
    }

    /// Ends the controller manager.
    pub async fn stop_manager(&mut self) {
        let (status, log) = self.components.remove(MANAGER).stop().await.unwrap();
        assert!(status.success(), "{log}");
    }

    /// Ends the controller manager, and starts another.
    pub async fn restart_manager(&mut self) {
        self.stop_manager().await;
        let words: Vec<&str> = self.manager.iter().map(String::as_str).collect();
        let manager = Component::start(&self.plane, "controller-manager", &words).unwrap();
        manager.says("Controllers started").await.unwrap();
        self.components.insert(MANAGER, manager);
    }

    /// Ends the components, which must end well and in time.
    pub async fn close(self) {
        for component in self.components {
            let (status, log) = component.stop().await.unwrap();
            assert!(status.success(), "{log}");
        }
    }
}

/// Waits until an object is as it should be.
pub async fn wait<K>(api: Api<K>, name: &str, is_so: impl Fn(Option<&K>) -> bool) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let last = api.clone();
    let found = timeout(LIMIT, await_condition(api, name, is_so)).await;
    assert!(found.is_ok(), "not in time: {name} is {:#?}", last.get_opt(name).await);
    found.unwrap().unwrap().unwrap()
}

/// Waits until an object is gone.
pub async fn gone<K>(api: Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let last = api.clone();
    let wait = await_condition(api, name, |found: Option<&K>| found.is_none());
    let is_gone = timeout(LIMIT, wait).await.is_ok();
    assert!(is_gone, "not gone in time: {name} is {:#?}", last.get_opt(name).await);
}

/// Whether an object is there at all.
pub fn is_there<K>(found: Option<&K>) -> bool {
    found.is_some()
}

/// Whether an aspect of a relation is as it should be.
pub fn is(kind: Kind, status: Status) -> impl Fn(Option<&ForeignCluster>) -> bool {
    move |foreign| {
        let conditions = foreign.and_then(|foreign| foreign.status.as_ref());
        conditions.is_some_and(|found| peering_status(&found.peering_conditions, kind) == status)
    }
}

/// Grants the components what the chart grants them.
async fn install(client: &Client) {
    let (auth, manager, replicator) = ("auth", "controller-manager", "crd-replicator");
    let all = [auth, manager, replicator];
    // Who grants a role must hold it.
    for (file, users) in [
        ("remote-peering-basic", &all[..]),
        ("remote-peering-incoming", &all[1..]),
        ("remote-peering-outgoing", &all[1..]),
        ("virtual-kubelet-local", &[manager]),
        ("virtual-kubelet-remote", &[manager]),
        (auth, &[auth]),
        (manager, &[manager]),
        (replicator, &[replicator]),
    ] {
        for user in users {
            grant(client, file, user, "liqo").await.unwrap();
        }
    }
}

/// The Service by which peers are told where the authentication service is.
async fn announce(client: &Client, host: &str, port: &str) {
    let services: Api<Service> = Api::namespaced(client.clone(), "liqo");
    let service = json!({
        "metadata": {
            "name": object::AUTH,
            "annotations": {"liqo.io/override-address": host, "liqo.io/override-port": port},
        },
        "spec": {"ports": [{"port": 443}]},
    });
    services.create(&PostParams::default(), &read(service)).await.unwrap();
    assert_eq!(services.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

fn server(plane: &ControlPlane) -> String {
    let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    file.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap()
}

/// An object from its JSON.
pub fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}
