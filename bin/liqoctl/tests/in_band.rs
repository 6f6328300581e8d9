//! Introducing clusters, against real API servers; what network managers answer, the test answers.
#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::fmt::Debug;
use std::process::{Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use liqo_api::names::Cluster;
use liqo_api::net::{IpamStorage, NatMapping, NetworkConfig};
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_mins(1);
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[tokio::test]
async fn two_clusters_are_told_of_each_other() {
    let lab = Lab {
        rome: Site::new("rome", "41543714-6e17-4c7b-9bc9-70de7f7ae64f", 200).await,
        milan: Site::new("milan", "2cb4110a-c5e6-4a52-851d-d0e0d86c9174", 201).await,
    };
    lab.a_cluster_is_not_introduced_to_itself().await;
    lab.who_has_no_tunnels_is_told().await;
    lab.who_does_not_answer_is_named().await;
    lab.what_is_refused_is_told_with_its_reason().await;
    lab.both_are_told_and_carry_the_answer_home().await;
    lab.nothing_is_written_again().await;
    lab.parting_takes_back_what_was_said().await;
}

struct Lab {
    rome: Site,
    milan: Site,
}

impl Lab {
    async fn a_cluster_is_not_introduced_to_itself(&self) {
        let (text, fine) = ended(start(&self.rome, &self.rome, "peer in-band")).await;
        assert!(!fine && text.contains("a cluster cannot peer with itself"), "{text}");
    }

    async fn who_has_no_tunnels_is_told(&self) {
        let external = json!(["--disable-internal-network"]);
        self.milan.controller_manager(external).await;
        let (text, fine) = self.peer("").await;
        assert!(!fine && text.contains("(remote) its network is not Liqo's"), "{text}");
        assert!(self.rome.tenants().await.is_empty());
        self.milan.controller_manager(json!([])).await;
    }

    async fn who_does_not_answer_is_named(&self) {
        let (text, fine) = self.peer("--timeout 2s").await;
        assert!(!fine && text.contains("timed out waiting for the condition"), "{text}");
        let copy = format!("NetworkConfig {}/milan-ee0b4a", self.milan.tenant(&self.rome));
        assert!(text.contains(&copy) && text.contains("liqo-network-manager"), "{text}");
    }

    async fn what_is_refused_is_told_with_its_reason(&self) {
        let copies = self.milan.configs(&self.rome);
        let mark = |why: Value| {
            let annotations = json!({ "net.liqo.io/refused": why });
            Patch::Merge(json!({ "metadata": { "annotations": annotations } }))
        };
        let (name, params) = (self.milan.cluster.unique_name(), PatchParams::default());
        copies.patch(name.as_str(), &params, &mark(json!("no room"))).await.unwrap();
        let (text, fine) = self.peer("").await;
        let want = "(remote) it refuses the network of the other cluster: no room";
        assert!(!fine && text.contains(want), "{text}");
        copies.patch(name.as_str(), &params, &mark(Value::Null)).await.unwrap();
    }

    async fn both_are_told_and_carry_the_answer_home(&self) {
        let running = start(&self.rome, &self.milan, "peer in-band");
        self.milan.answer(&self.rome).await;
        self.rome.answer(&self.milan).await;
        let (text, fine) = ended(running).await;
        assert!(
            text.contains("(remote) The network of rome is known here as 10.99.0.0/16"),
            "{text}"
        );
        // Nobody runs pods here.
        let want = "(local) cannot reach the network manager: no pod of it runs in namespace liqo";
        assert!(!fine && text.contains(want), "{text}");
        for (from, to) in [(&self.rome, &self.milan), (&self.milan, &self.rome)] {
            let name = to.cluster.unique_name();
            let word = from.configs(to).get(name.as_str()).await.unwrap();
            let copy = to.configs(from).get(name.as_str()).await.unwrap();
            assert_eq!((&word.spec, &word.status), (&copy.spec, &copy.status));
            assert_eq!(copy.labels()["liqo.io/originID"], from.cluster.id.as_str());
            assert_eq!(word.labels()["liqo.io/remoteID"], to.cluster.id.as_str());
        }
    }

    async fn nothing_is_written_again(&self) {
        let versions = async |site: &Site, other: &Site| {
            let all = site.configs(other).list(&ListParams::default()).await.unwrap().items;
            all.iter().map(|config| config.resource_version().unwrap()).collect::<Vec<_>>()
        };
        let before =
            (versions(&self.rome, &self.milan).await, versions(&self.milan, &self.rome).await);
        let (text, _) = self.peer("").await;
        assert!(text.contains("no pod of it runs"), "{text}");
        let after =
            (versions(&self.rome, &self.milan).await, versions(&self.milan, &self.rome).await);
        assert_eq!(before, after);
    }

    async fn parting_takes_back_what_was_said(&self) {
        let (text, fine) = ended(start(&self.rome, &self.milan, "unpeer in-band")).await;
        assert!(fine, "{text}");
        assert!(text.contains("(local) The cluster milan is not known here"), "{text}");
        for site in [&self.rome, &self.milan] {
            assert!(site.tenants().await.is_empty(), "{text}");
        }
    }

    async fn peer(&self, flags: &str) -> (String, bool) {
        ended(start(&self.rome, &self.milan, &format!("peer in-band {flags}"))).await
    }
}

/// A cluster with all that Liqo has in it, as far as it is read.
struct Site {
    plane: ControlPlane,
    cluster: Cluster,
}

impl Site {
    async fn new(name: &str, id: &str, network: u8) -> Self {
        let plane = ControlPlane::with_controllers(&["namespace-controller"], &[]).await.unwrap();
        plane.define(liqo_api::all_crds()).await.unwrap();
        let cluster = Cluster { id: id.parse().unwrap(), name: name.parse().unwrap() };
        let site = Self { plane, cluster };
        let client = site.plane.client();
        make(&Api::<Namespace>::all(client.clone()), json!({ "metadata": { "name": "liqo" } }))
            .await;
        let identity = json!({ "CLUSTER_ID": id, "CLUSTER_NAME": name });
        let map = json!({ "metadata": { "name": "liqo-clusterid-configmap" }, "data": identity });
        make(&Api::<ConfigMap>::namespaced(client.clone(), "liqo"), map).await;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
        let token =
            json!({ "metadata": { "name": "auth-token" }, "stringData": { "token": name } });
        make(&secrets, token).await;
        let labels = json!({ "net.liqo.io/key": "wireguard" });
        let key = json!({
            "metadata": { "name": "wireguard-pubkey", "labels": labels },
            "stringData": { "publicKey": KEY },
        });
        make(&secrets, key).await;
        let ledger = json!({ "metadata": { "name": "ipamstorage" }, "spec": {
            "prefixes": {}, "pools": [], "reservedSubnets": [], "clusterSubnets": {},
            "externalCIDR": "10.95.0.0/16", "podCIDR": format!("10.{network}.0.0/16"),
            "serviceCIDR": "10.94.0.0/16", "endpointMappings": {}, "natMappingsConfigured": {},
        } });
        make(&Api::<IpamStorage>::all(client.clone()), ledger).await;
        let services: Api<Service> = Api::namespaced(client.clone(), "liqo");
        let address = json!({ "net.liqo.io/gatewayNodeIP": "198.18.1.11" });
        for (name, port, kind, labels, annotations) in [
            ("auth", "https", "ClusterIP", json!({ "app.kubernetes.io/name": "auth" }), json!({})),
            ("proxy", "http", "ClusterIP", json!({ "app.kubernetes.io/name": "proxy" }), json!({})),
            ("gateway", "wireguard", "NodePort", json!({ "net.liqo.io/gateway": "true" }), address),
        ] {
            let name = format!("liqo-{name}");
            let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
            let ports = json!([{ "name": port, "port": 443 }]);
            let spec = json!({ "type": kind, "ports": ports });
            make(&services, json!({ "metadata": metadata, "spec": spec })).await;
        }
        site.controller_manager(json!([])).await;
        site
    }

    async fn controller_manager(&self, args: Value) {
        let labels = json!({ "app.kubernetes.io/name": "controller-manager" });
        let container = json!({ "name": "main", "image": "liqo", "args": args });
        let template =
            json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "liqo-controller-manager", "labels": labels },
            "spec": { "selector": { "matchLabels": labels }, "template": template },
        });
        let api: Api<Deployment> = Api::namespaced(self.plane.client(), "liqo");
        let params = PatchParams::apply("test");
        api.patch("liqo-controller-manager", &params, &Patch::Apply(deployment)).await.unwrap();
    }

    fn tenant(&self, other: &Self) -> String {
        assert_ne!(self.cluster.id, other.cluster.id);
        other.cluster.tenant_namespace().unwrap().into()
    }

    async fn tenants(&self) -> Vec<Namespace> {
        let marked = ListParams::default().labels("discovery.liqo.io/tenant-namespace");
        Api::<Namespace>::all(self.plane.client()).list(&marked).await.unwrap().items
    }

    fn configs(&self, other: &Self) -> Api<NetworkConfig> {
        Api::namespaced(self.plane.client(), &self.tenant(other))
    }

    /// Answers what it hears of the other's network, as its network manager would.
    async fn answer(&self, other: &Self) {
        let (copies, name) = (self.configs(other), self.cluster.unique_name());
        let is_there = |found: Option<&NetworkConfig>| found.is_some();
        let heard = await_condition(copies.clone(), name.as_str(), is_there);
        timeout(LIMIT, heard).await.unwrap().unwrap();
        let status = json!({ "processed": true, "podCIDRNAT": "10.99.0.0/16" });
        let answer = Patch::Merge(json!({ "status": status }));
        copies.patch_status(name.as_str(), &PatchParams::default(), &answer).await.unwrap();
        let id = other.cluster.id.as_str();
        let mapping = json!({ "metadata": { "name": "nat", "labels": { "clusterID": id } }, "spec": {
            "clusterID": id, "podCIDR": "", "externalCIDR": "", "clusterMappings": {},
        } });
        make(&Api::<NatMapping>::all(self.plane.client()), mapping).await;
    }
}

fn start(local: &Site, remote: &Site, words: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_liqoctl"))
        .args(words.split_whitespace())
        .arg("--remote-kubeconfig")
        .arg(remote.plane.kubeconfig())
        .env_clear()
        .env("KUBECONFIG", local.plane.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What a command said, and whether it ended well.
async fn ended(child: Child) -> (String, bool) {
    let Output { status, stdout, stderr } =
        timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    (String::from_utf8([stdout, stderr].concat()).unwrap(), status.success())
}

async fn make<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}
