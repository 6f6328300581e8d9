//! Two clusters, a namespace of one that extends to the other, and a virtual kubelet between them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::{NamespaceResourceScope, api::events::v1::Event};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource};
use liqo_api::keys::{label, secret};
use liqo_api::virtualkubelet::{NamespaceMap, ShadowPod};
use liqo_kit::client::Manners;
use liqo_kit::metrics::Metrics;
use liqo_kit::tasks::Tasks;
use liqo_testkit::{ControlPlane, Line};
use liqo_virtual_kubelet::{Args, Process, serve};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The cluster at home.
pub const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
/// The other one.
pub const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
/// The namespace here.
pub const HOME: &str = "shop";
/// The namespace there.
pub const REMOTE: &str = "shop-rome-2f55ef";
/// The node that stands for the other cluster.
pub const NODE: &str = "liqo-milan";
/// The namespace here of what is exchanged with the other cluster.
pub const TENANT: &str = "liqo-tenant-milan-ee0b4a";
/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(1);
const MAP: &str = "milan-ee0b4a";
/// Who the virtual kubelet is at home.
const KUBELET: &str = "virtual-kubelet";

/// Two clusters, and the way from one to the other.
pub struct World {
    /// The cluster at home.
    pub home: ControlPlane,
    remote: ControlPlane,
    /// The way to the other cluster.
    pub line: Line,
    /// The cluster at home, as a virtual kubelet sees it.
    kubelet: Client,
}

/// A virtual kubelet; it is killed with the value.
pub struct Kubelet {
    task: JoinHandle<Result<(), liqo_virtual_kubelet::Error>>,
    /// What it measures.
    pub metrics: Metrics,
}

impl Kubelet {
    /// Kills it, and waits until it is dead.
    pub async fn kill(mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "it was alive until now");
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

impl World {
    /// Makes the clusters, with the namespaces that belong together.
    pub fn make() -> BoxFuture<'static, Self> {
        Box::pin(Self::found())
    }

    async fn found() -> Self {
        let (home, remote) = tokio::join!(ControlPlane::start(), ControlPlane::start());
        let (home, remote) = (home.unwrap(), remote.unwrap());
        let (one, other) =
            tokio::join!(home.define(liqo_api::all_crds()), remote.define(liqo_api::all_crds()));
        one.unwrap();
        other.unwrap();
        let line = Line::to(&remote).await.unwrap();
        let kubelet = home.as_user(KUBELET).await.unwrap();
        let world = Self { home, remote, line, kubelet };
        for name in [TENANT, HOME] {
            make(&Api::<Namespace>::all(world.home.client()), json!({"metadata": {"name": name}}))
                .await;
        }
        let there = Api::<Namespace>::all(world.remote.client());
        make(&there, json!({"metadata": {"name": REMOTE}})).await;
        world.grant().await;
        world.write_identity().await;
        let maps = world.maps();
        let labels = json!({ label::REMOTE_CLUSTER_ID: MILAN });
        make(&maps, json!({"metadata": {"name": MAP, "labels": labels}, "spec": {}})).await;
        world.map(true).await;
        world
    }

    /// Starts a virtual kubelet, which may do what the chart allows it to.
    pub fn kubelet(&self, more: &[&str]) -> Kubelet {
        let words = [
            "virtual-kubelet",
            &format!("--nodename={NODE}"),
            "--node-ip=10.200.0.9",
            "--node-check-network=false",
            &format!("--foreign-cluster-id={MILAN}"),
            "--foreign-cluster-name=milan",
            &format!("--home-cluster-id={ROME}"),
            "--home-cluster-name=rome",
            &format!("--tenant-namespace={TENANT}"),
        ];
        let args = CommandLine::parse_from(words.iter().chain(more)).args;
        let metrics = Metrics::default();
        let process = Process {
            client: self.kubelet.clone(),
            manners: Manners { component: "virtual-kubelet", limits: args.client },
            metrics: metrics.clone(),
            tasks: Arc::new(Tasks::default()),
            stop: CancellationToken::new(),
        };
        let task = tokio::spawn(async move { serve(process, &args).await });
        Kubelet { task, metrics }
    }

    /// Objects in the namespace here.
    pub fn here<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.home.client(), HOME)
    }

    /// Objects in the namespace there.
    pub fn there<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.remote.client(), REMOTE)
    }

    /// Whether the other cluster accepts the namespace.
    pub async fn map(&self, accepted: bool) {
        let phase = if accepted { "Accepted" } else { "Terminating" };
        let mapping = json!({ HOME: { "remoteNamespace": REMOTE, "phase": phase } });
        let patch = Patch::Merge(json!({ "status": { "currentMapping": mapping } }));
        self.maps().patch_status(MAP, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a reflector says something about an object here.
    pub async fn hears(&self, name: &str, reflector: &str, reason: &str) {
        let said = (format!("liqo-{reflector}-reflection"), reason.to_owned());
        let heard = async { while !self.events(name).await.contains(&said) {} };
        let heard = tokio::time::timeout(LIMIT, heard).await;
        assert!(heard.is_ok(), "{said:?}: {:?}", self.events(name).await);
    }

    /// The Events about an object here: who says what.
    pub async fn events(&self, name: &str) -> Vec<(String, String)> {
        let events: Api<Event> = self.here();
        let all = events.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name)
        };
        let told = all.items.into_iter().filter(about);
        told.map(|event| {
            (event.reporting_controller.unwrap_or_default(), event.reason.unwrap_or_default())
        })
        .collect()
    }

    /// Waits until something is told about an object here.
    pub async fn told(&self, name: &str, reason: &str) {
        let told =
            async { while !self.events(name).await.iter().any(|(_, told)| told == reason) {} };
        let told = tokio::time::timeout(LIMIT, told).await;
        assert!(told.is_ok(), "{reason} about {name}, among {:?}", self.events(name).await);
    }

    /// What the API servers have been asked: verbs and resources, and how often.
    pub async fn requests(&self) -> [BTreeMap<String, usize>; 2] {
        let (home, remote) = tokio::join!(asked(&self.home), asked(&self.remote));
        [home, remote]
    }

    /// Has the other cluster refuse ShadowPods of a name.
    pub async fn forbid_there(&self, name: &str) {
        let policy = json!({
            "metadata": {"name": "quota"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["virtualkubelet.liqo.io"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE"],
                    "resources": ["shadowpods"],
                }]},
                "validations": [{
                    "expression": format!("object.metadata.name != '{name}'"),
                    "message": "no room for you",
                }],
            },
        });
        let client = self.remote.client();
        make(&Api::<ValidatingAdmissionPolicy>::all(client.clone()), policy).await;
        let binding = json!({
            "metadata": {"name": "quota"},
            "spec": {"policyName": "quota", "validationActions": ["Deny"]},
        });
        make(&Api::<ValidatingAdmissionPolicyBinding>::all(client), binding).await;
        let shadows: Api<ShadowPod> = self.there();
        let probe = json!({
            "metadata": {"name": name},
            "spec": {"pod": {"containers": [{"name": "c", "image": "demo"}]}},
        });
        let probe: ShadowPod = serde_json::from_value(probe).unwrap();
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let refused = async { while shadows.create(&params, &probe).await.is_ok() {} };
        tokio::time::timeout(LIMIT, refused).await.unwrap();
    }

    fn maps(&self) -> Api<NamespaceMap> {
        Api::namespaced(self.home.client(), TENANT)
    }

    /// Grants what the chart grants: here to virtual kubelets, there to peers in their namespaces.
    async fn grant(&self) {
        self.home.grant("virtual-kubelet-local", KUBELET, None).await.unwrap();
        self.remote.grant("virtual-kubelet-remote", ROME, Some(REMOTE)).await.unwrap();
    }

    /// Puts down who we are in the other cluster, and how it is reached.
    async fn write_identity(&self) {
        let config = Kubeconfig::read_from(self.remote.kubeconfig()).unwrap();
        let cluster = config.clusters[0].cluster.clone().unwrap();
        let us = self.remote.certify(ROME).unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.home.client(), TENANT);
        let labels = json!({ label::LOCAL_IDENTITY: label::TRUE, label::CLUSTER_ID: MILAN });
        let want = json!({
            "metadata": { "name": "liqo-identity-1", "labels": labels },
            "data": { secret::API_SERVER_CA: cluster.certificate_authority_data },
            "stringData": {
                secret::NAMESPACE: "unused",
                secret::API_SERVER_URL: self.line.url(),
                secret::CERTIFICATE: us.certificate,
                secret::PRIVATE_KEY: us.key,
            },
        });
        make(&secrets, want).await;
    }
}

/// What an API server has been asked, as it counts itself.
async fn asked(plane: &ControlPlane) -> BTreeMap<String, usize> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = plane.client().request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let value = |name: &str| {
            let rest = line.split_once(&format!(",{name}=\"")).map(|(_, rest)| rest);
            rest.and_then(|rest| rest.split('"').next()).unwrap_or_default()
        };
        let part = match value("subresource") {
            "" => String::new(),
            part => format!("/{part}"),
        };
        let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = count as usize;
        let key = format!("{} {}{part}", value("verb"), value("resource"));
        *counts.entry(key).or_default() += count;
    }
    counts
}

/// Creates an object.
pub async fn make<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// Changes an object by a merge patch.
pub async fn change<K>(api: &Api<K>, name: &str, change: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap()
}

/// The value of a label of an object.
pub fn label_of<'a>(object: &'a impl kube::ResourceExt, key: &str) -> Option<&'a str> {
    object.labels().get(key).map(String::as_str)
}
