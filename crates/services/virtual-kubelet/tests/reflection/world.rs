//! Two clusters, a namespace of one that extends to the other, and a virtual kubelet between them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::{NamespaceResourceScope, api::events::v1::Event};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource};
use liqo_api::keys::{label, secret};
use liqo_api::virtualkubelet::NamespaceMap;
use liqo_kit::args::ClientArgs;
use liqo_kit::client::Manners;
use liqo_kit::metrics::Metrics;
use liqo_kit::tasks::Tasks;
use liqo_testkit::{ControlPlane, Line};
use liqo_virtual_kubelet::{Args, Process, serve};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
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
/// What it may do there.
const LOCAL_ROLE: &str = "virtual-kubelet-local";

/// What keeps the other cluster busy.
pub struct Busy {
    task: JoinHandle<()>,
    _silent: TcpListener,
}

/// Two clusters, and the way from one to the other.
pub struct World {
    /// The cluster at home.
    pub home: ControlPlane,
    remote: ControlPlane,
    /// The way to the other cluster.
    pub line: Line,
    /// The cluster at home, as a virtual kubelet sees it.
    kubelet: Client,
    /// The other cluster, as it sees us.
    us_there: Client,
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
        let kubelet = kubelet_of(&home).await;
        let mut us_there = remote.config().await.unwrap();
        us_there.auth_info.impersonate = Some(ROME.to_owned());
        us_there.default_retry = false;
        let us_there = Client::try_from(us_there).unwrap();
        let world = Self { home, remote, line, kubelet, us_there };
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

    /// Has the other cluster refuse objects of a name; the probe is one of them.
    pub async fn forbid_there<K>(&self, name: &str, probe: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + serde::Serialize,
    {
        let policy = json!({
            "metadata": {"name": "quota"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [K::group(&())],
                    "apiVersions": [K::version(&())],
                    "operations": ["CREATE"],
                    "resources": [K::plural(&())],
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
        let probe: K = serde_json::from_value(probe).unwrap();
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let api: Api<K> = self.there();
        let refused = async { while api.create(&params, &probe).await.is_ok() {} };
        tokio::time::timeout(LIMIT, refused).await.unwrap();
    }

    /// Has the other cluster answer us that it is too busy: one request at a time is more than it
    /// takes, and one takes very long.
    pub async fn be_busy_there(&self) -> Busy {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", silent.local_addr().unwrap());
        let rule = json!({
            "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"],
            "resources": ["ingresses"], "operations": ["CREATE"],
        });
        let hook = json!({
            "name": "silent.example.org", "clientConfig": {"url": url}, "rules": [rule],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            "failurePolicy": "Ignore",
        });
        let hooks = json!({"metadata": {"name": "silent"}, "webhooks": [hook]});
        make(&Api::<ValidatingWebhookConfiguration>::all(self.remote.client()), hooks).await;
        let limited = json!({
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        });
        let level = json!({
            "metadata": {"name": "busy"}, "spec": {"type": "Limited", "limited": limited},
        });
        let client = self.remote.client();
        make(&Api::<PriorityLevelConfiguration>::all(client.clone()), level).await;
        let rules = json!({
            "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"],
            "clusterScope": true,
        });
        let subject = json!({"kind": "User", "user": {"name": ROME}});
        let schema = json!({
            "metadata": {"name": "busy"},
            "spec": {
                "matchingPrecedence": 2,
                "priorityLevelConfiguration": {"name": "busy"},
                "rules": [{"subjects": [subject], "resourceRules": [rules]}],
            },
        });
        make(&Api::<FlowSchema>::all(client), schema).await;
        let ingresses: Api<Ingress> = Api::namespaced(self.us_there.clone(), REMOTE);
        let task = tokio::spawn(async move {
            let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
            let slow = json!({"metadata": {"name": "slow"}, "spec": {"defaultBackend": backend}});
            let slow: Ingress = serde_json::from_value(slow).unwrap();
            let params = PostParams { dry_run: true, ..PostParams::default() };
            loop {
                let _ = ingresses.create(&params, &slow).await;
            }
        });
        self.until_busy_there(true).await;
        Busy { task, _silent: silent }
    }

    /// Has it answer again.
    pub async fn be_idle_there(&self, busy: Busy) {
        busy.task.abort();
        let schemas: Api<FlowSchema> = Api::all(self.remote.client());
        schemas.delete("busy", &DeleteParams::default()).await.unwrap();
        self.until_busy_there(false).await;
    }

    async fn until_busy_there(&self, busy: bool) {
        let us: Api<ConfigMap> = Api::namespaced(self.us_there.clone(), REMOTE);
        let noticed = async { while us.get_opt("any").await.is_err() != busy {} };
        tokio::time::timeout(LIMIT, noticed).await.unwrap();
    }

    /// How many requests the other cluster has refused because it was too busy.
    pub async fn refused_there(&self) -> usize {
        let line = "apiserver_flowcontrol_rejected_requests_total";
        let metrics = metrics(&self.remote).await;
        let counts = metrics.lines().filter(|it| it.starts_with(line) && it.contains("busy"));
        counts.map(count).sum()
    }

    /// Waits until it has refused so many.
    pub async fn until_refused_there(&self, number: usize) {
        let refused = async { while self.refused_there().await < number {} };
        tokio::time::timeout(LIMIT, refused).await.unwrap();
    }

    /// Takes from virtual kubelets here the right to read some resources; returns what they had.
    pub async fn hide_here(&self, hidden: &[&str]) -> ClusterRole {
        let roles: Api<ClusterRole> = Api::all(self.home.client());
        let before = roles.get(LOCAL_ROLE).await.unwrap();
        let mut less = before.clone();
        for rule in less.rules.iter_mut().flatten() {
            let resources = rule.resources.get_or_insert_default();
            resources.retain(|resource| !hidden.contains(&resource.as_str()));
        }
        less.rules.get_or_insert_default().retain(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            !resources.is_empty()
        });
        roles.replace(LOCAL_ROLE, &PostParams::default(), &less).await.unwrap();
        self.until_shown_here(false).await;
        before
    }

    /// Gives rights back.
    pub async fn show_here(&self, rights: ClusterRole) {
        let roles: Api<ClusterRole> = Api::all(self.home.client());
        let metadata = ObjectMeta { resource_version: None, ..rights.metadata };
        let rights = ClusterRole { metadata, ..rights };
        roles.replace(LOCAL_ROLE, &PostParams::default(), &rights).await.unwrap();
        self.until_shown_here(true).await;
    }

    async fn until_shown_here(&self, shown: bool) {
        let maps: Api<ConfigMap> = Api::namespaced(self.kubelet.clone(), HOME);
        let noticed = async { while maps.list(&ListParams::default()).await.is_ok() != shown {} };
        tokio::time::timeout(LIMIT, noticed).await.unwrap();
    }

    fn maps(&self) -> Api<NamespaceMap> {
        Api::namespaced(self.home.client(), TENANT)
    }

    /// Grants what the chart grants: here to virtual kubelets, there to peers in their namespaces.
    async fn grant(&self) {
        self.home.grant(LOCAL_ROLE, KUBELET, None).await.unwrap();
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

/// The cluster at home as virtual kubelets reach it, as fast as they like.
async fn kubelet_of(home: &ControlPlane) -> Client {
    let mut config = home.config().await.unwrap();
    config.auth_info.impersonate = Some(KUBELET.to_owned());
    let limits = ClientArgs { qps: NonZeroU32::MAX, burst: NonZeroU32::MAX };
    Manners { component: "virtual-kubelet", limits }.client(config).unwrap()
}

/// What an API server measures.
async fn metrics(plane: &ControlPlane) -> String {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    plane.client().request_text(request).await.unwrap()
}

/// The number at the end of a line.
fn count(line: &str) -> usize {
    let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let count = count as usize;
    count
}

/// What an API server has been asked, as it counts itself.
async fn asked(plane: &ControlPlane) -> BTreeMap<String, usize> {
    let metrics = metrics(plane).await;
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
        let key = format!("{} {}{part}", value("verb"), value("resource"));
        *counts.entry(key).or_default() += count(line);
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
