//! The commands against a real API server; what a cluster's controllers do, the test does.
#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "cluster/hands.rs"]
mod hands;

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio::process::Command;

use self::hands::Hands;

const NETWORKS: [&str; 4] = ["--pod-cidr", "10.200.0.0/16", "--service-cidr", "10.96.0.0/16"];
/// Its API is served by nobody here.
const NO_AGENT: [&str; 2] = ["--set", "metricAgent.enable=false"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_comes_changes_and_goes() {
    let plane = ControlPlane::start().await.unwrap();
    let lab = Lab { client: plane.client(), kubeconfig: plane.kubeconfig() };
    let client = plane.client();

    lab.what_cannot_work_is_refused_in_words().await;
    lab.a_dry_run_writes_nothing().await;
    lab.values_can_be_had_alone().await;
    lab.an_object_of_somebody_else_is_left_alone().await;
    lab.what_is_not_ready_in_time_leaves_nothing().await;
    let hands = Hands::light(&client);
    lab.an_interruption_leaves_nothing().await;
    drop(hands);
    let _hands = Hands::full(&client);
    lab.an_interrupted_installation_goes_on().await;
    lab.an_installation_is_on_record_and_repeats_without_a_change().await;
    lab.the_status_tells_how_it_does().await;
    lab.an_upgrade_changes_what_was_asked_for().await;
    lab.what_others_wrote_survives_an_upgrade().await;
    lab.an_upgrade_that_fails_is_taken_back().await;
    lab.what_is_in_the_way_is_listed().await;
    lab.an_uninstallation_leaves_definitions_alone().await;
    lab.a_purge_leaves_nothing().await;
}

/// The words of an installation.
fn install<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = ["install", "--cluster-name", "rome"];
    [&words[..], &NETWORKS, &NO_AGENT, more].concat()
}

struct Lab {
    client: Client,
    kubeconfig: std::path::PathBuf,
}

impl Lab {
    async fn what_cannot_work_is_refused_in_words(&self) {
        let text = self.fails(&["install"]).await;
        assert!(text.contains("the networks of the cluster are not known"), "{text}");
        let text = self.fails(&["install", "kubeadm"]).await;
        assert!(text.contains("component=kube-controller-manager"), "{text}");
        let text = self.fails(&["version"]).await;
        assert!(text.contains("Liqo is not installed in namespace liqo"), "{text}");
        let text = self.fails(&["status"]).await;
        assert!(text.contains("✖ there is no namespace liqo"), "{text}");
        let text = self.fails(&["version", "--server", "https://127.0.0.1:1"]).await;
        assert!(text.contains("cannot talk to the API server https://127.0.0.1:1"), "{text}");
        assert!(text.contains("refused"), "{text}");
        let text = self.fails(&["version", "--context", "nowhere"]).await;
        assert!(text.contains("It has these: "), "{text}");
        let text = self.fails(&["install", "k3s", "--cluster-name", "Rome"]).await;
        assert!(text.contains("'Rome' is not a cluster name"), "{text}");
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        let is_there = |one: Option<&Service>| one.is_some();
        kube::runtime::wait::await_condition(services, "kubernetes", is_there).await.unwrap();
        let wrong = ["install", "--pod-cidr", "10.200.0.0/16", "--service-cidr", "10.1.0.0/16"];
        let text = self.fails(&wrong).await;
        assert!(text.contains("default/kubernetes has 10.96.0.1"), "{text}");
        let text = self.fails(&[&["install", "--as", "nobody"], &NETWORKS[..]].concat()).await;
        assert!(text.contains("you cannot create namespaces"), "{text}");
        assert!(text.contains("create deployments.apps in namespace liqo"), "{text}");
        let text = self.fails(&install(&["--enable-metrics"])).await;
        assert!(text.contains("knows no PodMonitor of monitoring.coreos.com/v1"), "{text}");
        let set = ["install", "--set", "gatway.replicas=2"];
        let text = self.fails(&[&set, &NETWORKS[..]].concat()).await;
        assert!(text.contains("did you mean gateway?"), "{text}");
    }

    async fn a_dry_run_writes_nothing(&self) {
        let text = self.works(&[&["install", "--dry-run"], &NETWORKS[..]].concat()).await;

        let head = "# Revision 1 of release liqo in namespace liqo; nothing has been written.";
        assert!(text.contains(head), "{text}");
        assert!(text.contains("name: liqo-controller-manager"));
        assert_eq!(self.left().await, [""; 0]);
    }

    async fn values_can_be_had_alone(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let manager = json!({
            "metadata": {"name": "kube-controller-manager-a",
                "labels": {"component": "kube-controller-manager", "tier": "control-plane"}},
            "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a", "command": [
                "kube-controller-manager", "--cluster-cidr=10.244.0.0/16",
                "--service-cluster-ip-range=10.96.0.0/16"]}]},
        });
        let manager = serde_json::from_value(manager).unwrap();
        pods.create(&PostParams::default(), &manager).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.yaml");
        let shown = path.display().to_string();

        let words = ["install", "kind", "--cluster-name", "rome", "--only-output-values"];
        self.works(&[&words[..], &["--dump-values-path", &shown]].concat()).await;

        let text = std::fs::read_to_string(&path).unwrap();
        for line in ["podCIDR: \"10.244.0.0/16\"", "type: NodePort", "clusterName: rome"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(self.left().await, [""; 0]);
    }

    async fn an_object_of_somebody_else_is_left_alone(&self) {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let role: ClusterRole =
            serde_json::from_value(json!({"metadata": {"name": "liqo-auth"}})).unwrap();
        roles.create(&PostParams::default(), &role).await.unwrap();

        let text = self.fails(&install(&[])).await;

        assert!(
            text.contains("do not belong to this installation: ClusterRole liqo-auth;"),
            "{text}"
        );
        assert!(roles.get("liqo-auth").await.is_ok());
        roles.delete("liqo-auth", &kube::api::DeleteParams::default()).await.unwrap();
        assert_eq!(self.left().await, [""; 0]);
    }

    async fn what_is_not_ready_in_time_leaves_nothing(&self) {
        let text = self.fails(&install(&["--timeout", "8s"])).await;

        assert!(text.contains("liqo-auth: nobody has seen it yet"), "{text}");
        assert!(text.contains("has been removed again"), "{text}");
        assert!(text.contains("--timeout"), "{text}");
        self.gone("the first attempt").await;
    }

    async fn an_interruption_leaves_nothing(&self) {
        let mut command = self.command(&install(&[]));
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        self.deployed("liqo-auth").await;
        let id = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());

        let output = child.wait_with_output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.contains("Liqo is not installed: interrupted"), "{text}");
        assert!(text.contains("has been removed again"), "{text}");
        self.gone("the second attempt").await;
    }

    /// Waits until a Deployment is there.
    async fn deployed(&self, name: &str) {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "liqo");
        let is_there = |one: Option<&Deployment>| one.is_some();
        kube::runtime::wait::await_condition(deployments, name, is_there).await.unwrap();
    }

    async fn an_interrupted_installation_goes_on(&self) {
        // Nothing runs these containers, so it waits for ever, until it is killed.
        let mut command = self.command(&install(&["--set", "metricAgent.enable=true"]));
        let mut child = command.spawn().unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "liqo");
        self.deployed("liqo-auth").await;
        child.kill().await.unwrap();
        let record = secrets.get("sh.helm.release.v1.liqo.v1").await.unwrap();
        assert_eq!(record.labels()["status"], "pending-install");

        let text = self.works(&install(&[])).await;

        assert!(text.contains("Liqo v0.8.3 installed: this cluster is called rome"), "{text}");
    }

    async fn an_installation_is_on_record_and_repeats_without_a_change(&self) {
        let statuses = self.statuses().await;
        assert_eq!(statuses, [("1".to_owned(), "deployed".to_owned())]);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "liqo");
        let identity = maps.get("liqo-clusterid-configmap").await.unwrap();
        let spaces: Api<Namespace> = Api::all(self.client.clone());
        let system = spaces.get("kube-system").await.unwrap().uid().unwrap();
        assert_eq!(identity.data.as_ref().unwrap()["CLUSTER_ID"], system);
        assert_eq!(identity.annotations()["meta.helm.sh/release-name"], "liqo");
        let text = self.works(&["version"]).await;
        assert_eq!(text, "Client version: v0.8.3\nServer version: v0.8.3\n");

        let before = self.versions().await;
        let words = install(&[]);
        // The name is known by now.
        let words: Vec<&str> =
            words.into_iter().filter(|word| !["--cluster-name", "rome"].contains(word)).collect();
        let text = self.works(&words).await;

        assert!(text.contains("Already up to date"), "{text}");
        assert_eq!(self.versions().await, before);
    }

    async fn the_status_tells_how_it_does(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let text = self.fails(&["status"]).await;
        assert!(text.contains("✔ control plane is fine"), "{text}");
        assert!(text.contains("✖ the load balancer"), "{text}");
        let services: Api<Service> = Api::namespaced(self.client.clone(), "liqo");
        let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(ingress));
        services.patch_status("liqo-auth", &params, &patch).await.unwrap();
        let text = self.fails(&["status"]).await;
        assert!(text.contains("✖ the load balancer of the gateway"), "{text}");
        services.patch_status("liqo-gateway", &params, &patch).await.unwrap();

        let text = self.works(&["status"]).await;
        for line in ["https://192.0.2.9 ", "udp://192.0.2.9:5871", "https://192.0.2.1:6443"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("liqo-metric-agent"), "{text}");
        let text = self.works(&["status", "-o", "json"]).await;
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["healthy"], true);
        assert_eq!(report["cluster"]["clusterName"], "rome");
        let text = self.works(&["status", "-o", "yaml"]).await;
        assert!(text.contains("clusterName: rome"), "{text}");
    }

    async fn an_upgrade_changes_what_was_asked_for(&self) {
        let more = ["--enable-ha", "--set", "metricAgent.enable=false,proxy.service.type=NodePort"];
        let text = self.works(&install(&more)).await;

        assert!(text.contains("upgraded"), "{text}");
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "liqo");
        let manager = deployments.get("liqo-controller-manager").await.unwrap();
        assert_eq!(manager.spec.replicas, Some(2));
        let statuses = self.statuses().await;
        let statuses: Vec<&str> = statuses.iter().map(|(_, status)| status.as_str()).collect();
        assert_eq!(statuses, ["superseded", "deployed"]);
    }

    async fn what_others_wrote_survives_an_upgrade(&self) {
        let kind = kube::core::GroupVersionKind::gvk(
            "admissionregistration.k8s.io",
            "v1",
            "MutatingWebhookConfiguration",
        );
        let resource = kube::core::ApiResource::from_gvk(&kind);
        let hooks: Api<kube::core::DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let bundle =
            json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "YQ=="}]);
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(bundle).unwrap());
        hooks.patch("liqo-webhook", &PatchParams::default(), &patch).await.unwrap();
        let services: Api<Service> = Api::namespaced(self.client.clone(), "liqo");
        let port =
            |service: &Service| service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port;
        let before = services.get("liqo-proxy").await.unwrap();

        let more = ["--set", "proxy.service.type=NodePort,networking.reflectIPs=false"];
        self.works(&install(&more)).await;

        let hook = hooks.get("liqo-webhook").await.unwrap();
        assert_eq!(hook.data["webhooks"][0]["clientConfig"]["caBundle"], "YQ==");
        assert_eq!(port(&services.get("liqo-proxy").await.unwrap()), port(&before));
    }

    async fn an_upgrade_that_fails_is_taken_back(&self) {
        // Nobody makes the metric agent's API available.
        let more =
            ["--set", "metricAgent.enable=true,controllerManager.replicas=3", "--timeout", "12s"];
        let text = self.fails(&install(&more)).await;

        assert!(text.contains("v1alpha1.metrics.liqo.io"), "{text}");
        assert!(text.contains("Everything is as it was in revision 3."), "{text}");
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "liqo");
        let manager = deployments.get("liqo-controller-manager").await.unwrap();
        assert_eq!(manager.spec.replicas, Some(1));
        assert!(deployments.get_opt("liqo-metric-agent").await.unwrap().is_none());
        let statuses = self.statuses().await;
        let statuses: Vec<&str> = statuses.iter().map(|(_, status)| status.as_str()).collect();
        assert_eq!(statuses, ["superseded", "superseded", "superseded", "failed", "deployed"]);
    }

    async fn what_is_in_the_way_is_listed(&self) {
        let kind =
            kube::core::GroupVersionKind::gvk("discovery.liqo.io", "v1alpha1", "ForeignCluster");
        let resource = kube::core::ApiResource::from_gvk(&kind);
        let clusters: Api<kube::core::DynamicObject> =
            Api::all_with(self.client.clone(), &resource);
        let spec =
            json!({"foreignAuthUrl": "https://auth.milan.org", "outgoingPeeringEnabled": "Yes"});
        let milan = kube::core::DynamicObject::new("milan", &resource).data(json!({"spec": spec}));
        // Nobody answers the webhooks here.
        self.without_webhooks().await;
        clusters.create(&PostParams::default(), &milan).await.unwrap();

        let text = self.fails(&["uninstall"]).await;

        assert!(text.contains("- cluster milan is still peered with (outgoing peering)"), "{text}");
        clusters.delete("milan", &kube::api::DeleteParams::default()).await.unwrap();
    }

    async fn an_uninstallation_leaves_definitions_alone(&self) {
        let text = self.works(&["uninstall"]).await;

        assert!(text.contains("Liqo correctly uninstalled"), "{text}");
        let left = self.left().await;
        assert!(
            left.iter().all(|one| one.starts_with("definition") || one == "namespace"),
            "{left:?}"
        );
        assert_eq!(left.len(), 12);
        let text = self.works(&["uninstall"]).await;
        assert!(text.contains("Liqo is not installed in namespace liqo"), "{text}");
    }

    async fn a_purge_leaves_nothing(&self) {
        self.works(&["uninstall", "--purge"]).await;

        assert_eq!(self.left().await, [""; 0]);
    }

    async fn works(&self, words: &[&str]) -> String {
        let (ok, text) = self.run(words).await.unwrap();
        assert!(ok, "{words:?}: {text}");
        text
    }

    async fn fails(&self, words: &[&str]) -> String {
        let (ok, text) = self.run(words).await.unwrap();
        assert!(!ok, "{words:?}: {text}");
        text
    }

    async fn run(&self, words: &[&str]) -> Result<(bool, String)> {
        let Output { status, stdout, stderr } = self.command(words).output().await?;
        let text = String::from_utf8(stdout)? + &String::from_utf8(stderr)?;
        let code = status.code().context("it was killed")?;
        anyhow::ensure!(code < 2, "{words:?} ended with {code}: {text}");
        Ok((code == 0, text))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_liqoctl")));
        command.args(words).env("KUBECONFIG", &self.kubeconfig).kill_on_drop(true);
        command
    }

    /// Revisions on record.
    async fn statuses(&self) -> Vec<(String, String)> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "liqo");
        let list = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
        let label = |one: &Secret, key: &str| one.labels()[key].clone();
        list.iter().map(|one| (label(one, "version"), label(one, "status"))).collect()
    }

    /// Versions of objects, which change with every write.
    async fn versions(&self) -> Vec<(String, Option<String>)> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "liqo");
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "liqo");
        let all = ListParams::default();
        let secrets = secrets.list(&all).await.unwrap().items;
        let deployments = deployments.list(&all).await.unwrap().items;
        let of = |name: String, version| (name, version);
        secrets
            .iter()
            .map(|one| of(one.name_any(), one.resource_version()))
            .chain(deployments.iter().map(|one| of(one.name_any(), one.resource_version())))
            .collect()
    }

    /// Everything of Liqo in the cluster.
    async fn left(&self) -> Vec<String> {
        let all = ListParams::default();
        let ours = ListParams::default().labels("app.kubernetes.io/part-of=liqo");
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let spaces: Api<Namespace> = Api::all(self.client.clone());
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let secrets: Api<Secret> = Api::all(self.client.clone());
        let mut left: Vec<String> = vec![];
        let list = definitions.list_metadata(&all).await.unwrap();
        left.extend(list.iter().map(|one| format!("definition {}", one.name_any())));
        let list = roles.list_metadata(&ours).await.unwrap();
        left.extend(list.iter().map(|one| format!("role {}", one.name_any())));
        let list = deployments.list_metadata(&ours).await.unwrap();
        left.extend(list.iter().map(|one| format!("deployment {}", one.name_any())));
        let list = secrets.list_metadata(&all).await.unwrap();
        left.extend(list.iter().map(|one| format!("secret {}", one.name_any())));
        let space = spaces.get_opt("liqo").await.unwrap();
        if space.is_some_and(|space| space.metadata.deletion_timestamp.is_none()) {
            left.push("namespace".to_owned());
        }
        left
    }

    async fn gone(&self, what: &str) {
        assert_eq!(self.left().await, [""; 0], "after {what}");
    }

    async fn without_webhooks(&self) {
        let params = kube::api::DeleteParams::default();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let kind =
                kube::core::GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
            let resource = kube::core::ApiResource::from_gvk(&kind);
            let api: Api<kube::core::DynamicObject> = Api::all_with(self.client.clone(), &resource);
            api.delete("liqo-webhook", &params).await.unwrap();
        }
    }
}
