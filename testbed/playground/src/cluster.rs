//! What a cluster holds besides nodes: what kubeadm leaves behind, and the add-ons.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use crate::engine::KUBERNETES;
use crate::plan::ClusterPlan;
use crate::static_pods;

const DNS: &str = include_str!("../manifests/dns.yaml");
const METRICS: &str = include_str!("../manifests/metrics.yaml");
const STORAGE: &str = include_str!("../manifests/storage.yaml");

/// Who wrote what the playground writes.
const MANAGER: &str = "playground";

/// Why a cluster does not become usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to talk to it.
    #[error("cannot use the kubeconfig of {cluster}")]
    Config {
        /// The cluster.
        cluster: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its API server does not answer.
    #[error(
        "the API server of {cluster} did not answer at {url} within {seconds} s (last: {last})"
    )]
    NoAnswer {
        /// The cluster.
        cluster: String,
        /// Where it should be.
        url: String,
        /// How long was waited.
        seconds: u64,
        /// What the last attempt said.
        last: String,
    },
    /// It refuses an object.
    #[error("cannot apply {object} in {cluster}")]
    Apply {
        /// The cluster.
        cluster: String,
        /// Kind and name.
        object: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Something did not come about in time.
    #[error("{what} of {cluster} did not become ready within {seconds} s")]
    Late {
        /// The cluster.
        cluster: String,
        /// What was waited for.
        what: String,
        /// How long was waited.
        seconds: u64,
    },
    /// A manifest of ours is not YAML.
    #[error("a manifest cannot be read")]
    Manifest(#[source] Box<serde_saphyr::Error>),
}

/// A cluster that can be talked to.
#[derive(Clone)]
pub struct Cluster<'a> {
    plan: &'a ClusterPlan,
    client: Client,
}

/// A client from a kubeconfig file.
pub async fn client(path: &Path) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    // Another part of the process may have chosen it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = Kubeconfig::read_from(path)?;
    let mut config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(Duration::from_secs(2));
    Ok(Client::try_from(config)?)
}

impl<'a> Cluster<'a> {
    /// Prepares to talk to a cluster.
    pub async fn new(plan: &'a ClusterPlan, kubeconfig: &Path) -> Result<Self, Error> {
        let cluster = plan.cluster.name.clone();
        let client =
            client(kubeconfig).await.map_err(|source| Error::Config { cluster, source })?;
        Ok(Self { plan, client })
    }

    /// Waits until the API server says it is ready.
    pub async fn answers(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            let request =
                http::Request::get("/readyz").body(vec![]).expect("a constant path is valid");
            let last = match timeout_at(deadline, self.client.request_text(request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() >= deadline {
                return Err(Error::NoAnswer {
                    cluster: self.plan.cluster.name.clone(),
                    url: self.plan.api_url(),
                    seconds: limit.as_secs(),
                    last,
                });
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Applies what kubeadm leaves in a cluster, and the nodes.
    pub async fn found(&self) -> Result<(), Error> {
        for object in &base_objects(self.plan) {
            self.apply(object).await?;
        }
        for chunk in fake_nodes(self.plan).chunks(16) {
            futures::future::try_join_all(chunk.iter().map(|node| self.apply(node))).await?;
        }
        Ok(())
    }

    /// Applies the add-ons; their images are on the nodes already.
    pub async fn furnish(&self) -> Result<(), Error> {
        let addons = self.plan.cluster.addons;
        for (wanted, manifest) in
            [(addons.dns, DNS), (addons.storage, STORAGE), (addons.metrics, METRICS)]
        {
            let manifest = manifest.replace("${DNS_IP}", &self.plan.dns_ip.to_string());
            for object in parse(&manifest)?.iter().filter(|_| wanted) {
                self.apply(object).await?;
            }
        }
        Ok(())
    }

    /// Waits until all nodes are Ready and pods can be made.
    pub async fn nodes_ready(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in &self.plan.nodes {
            self.until(&nodes, &node.name, is_ready, deadline, limit, "the node").await?;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let there = |account: Option<&ServiceAccount>| account.is_some();
        self.until(&accounts, "default", there, deadline, limit, "the service account").await
    }

    /// Waits until the control plane's pods can be looked up and the add-ons serve.
    pub async fn pods_ready(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let node = self.plan.control_plane();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        for (component, _) in static_pods::all(self.plan, node) {
            let name = format!("{component}-{}", node.name);
            // They run, or nothing here would; the kubelet takes its time to say so.
            let there = |pod: Option<&Pod>| pod.is_some();
            self.until(&pods, &name, there, deadline, limit, "the pod").await?;
        }
        let addons = self.plan.cluster.addons;
        for (wanted, namespace, name) in [
            (addons.dns, "kube-system", "coredns"),
            (addons.storage, "local-path-storage", "local-path-provisioner"),
            (addons.metrics, "kube-system", "metrics-server"),
        ] {
            if wanted {
                let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
                self.until(&api, name, is_available, deadline, limit, "the add-on").await?;
            }
        }
        Ok(())
    }

    /// Nodes, and how many of them are Ready.
    pub async fn count_nodes(&self) -> Result<(usize, usize), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let list = nodes.list(&ListParams::default()).await?;
        let ready = list.iter().filter(|node| is_ready(Some(node))).count();
        Ok((ready, list.items.len()))
    }

    async fn until<K>(
        &self,
        api: &Api<K>,
        name: &str,
        condition: impl Condition<K>,
        deadline: Instant,
        limit: Duration,
        what: &str,
    ) -> Result<(), Error>
    where
        K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
        K::DynamicType: Default,
    {
        let wait = await_condition(api.clone(), name, condition);
        match timeout_at(deadline, wait).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Late {
                cluster: self.plan.cluster.name.clone(),
                what: format!("{what} {name}"),
                seconds: limit.as_secs(),
            }),
        }
    }

    /// Applies one object; what is still starting up is given a few seconds.
    async fn apply(&self, object: &DynamicObject) -> Result<(), Error> {
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types)
            .unwrap_or_else(|_| GroupVersionKind::gvk("", "v1", "Unknown"));
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let name = object.name_any();
        let parameters = PatchParams::apply(MANAGER).force();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match api.patch(&name, &parameters, &Patch::Apply(object)).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline || is_final(&error) => {
                    return Err(Error::Apply {
                        cluster: self.plan.cluster.name.clone(),
                        object: format!("{} {name}", types.kind),
                        source: Box::new(error),
                    });
                }
                Err(_) => sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

/// Whether trying again cannot help.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 400 || status.code == 422)
}

fn is_ready(node: Option<&Node>) -> bool {
    let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_available(deployment: Option<&Deployment>) -> bool {
    let available =
        deployment.and_then(|deployment| deployment.status.as_ref()?.available_replicas);
    available.is_some_and(|count| count > 0)
}

/// What `kubeadm init` leaves in a cluster, and the nodes with their share of the pods' network.
fn base_objects(plan: &ClusterPlan) -> Vec<DynamicObject> {
    let node = plan.control_plane();
    let configuration = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: {}\n\
         controlPlaneEndpoint: {}:6443\nkubernetesVersion: {KUBERNETES}\nnetworking:\n  \
         dnsDomain: cluster.local\n  podSubnet: {}\n  serviceSubnet: {}\n",
        plan.cluster.name, node.address, plan.cluster.pod_cidr, plan.cluster.service_cidr,
    );
    let proxy = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         clusterCIDR: {}\nmode: {}\n",
        plan.cluster.pod_cidr, plan.cluster.proxy_mode
    );
    let kubelet = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         clusterDNS:\n- {}\nclusterDomain: cluster.local\n",
        plan.dns_ip
    );
    let mut values = vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kubeadm:cluster-admins"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "kubeadm:cluster-admins"}],
        }),
        config_map("kubeadm-config", "ClusterConfiguration", &configuration),
        config_map("kube-proxy", "config.conf", &proxy),
        config_map("kubelet-config", "kubelet", &kubelet),
    ];
    for node in &plan.nodes {
        let mut labels = plan.cluster.labels.clone();
        if node.control_plane {
            labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
        }
        values.push(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": labels},
            "spec": {"podCIDR": node.pod_cidr, "podCIDRs": [node.pod_cidr]},
        }));
    }
    values.into_iter().filter_map(dynamic).collect()
}

/// Nodes that kwok plays: tainted, so that only pods that ask for them land there.
fn fake_nodes(plan: &ClusterPlan) -> Vec<DynamicObject> {
    (0..plan.cluster.fake_nodes)
        .filter_map(|index| {
            let capacity = json!({"cpu": "32", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"});
            dynamic(json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": format!("{}-fake-{index}", plan.cluster.name),
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {
                        "type": "kwok",
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64",
                        "kubernetes.io/hostname": format!("{}-fake-{index}", plan.cluster.name),
                    },
                },
                "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
                "status": {"allocatable": capacity, "capacity": capacity},
            }))
        })
        .collect()
}

fn config_map(name: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {key: text},
    })
}

fn parse(manifest: &str) -> Result<Vec<DynamicObject>, Error> {
    let values: Vec<Value> =
        serde_saphyr::from_multiple(manifest).map_err(|error| Error::Manifest(Box::new(error)))?;
    Ok(values.into_iter().filter_map(dynamic).collect())
}

fn dynamic(value: Value) -> Option<DynamicObject> {
    let mut object: DynamicObject = serde_json::from_value(value.clone()).ok()?;
    object.types = serde_json::from_value::<TypeMeta>(value).ok();
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::topology::Topology;

    fn plan(preset: &str) -> Plan {
        Plan::new("pg", 0, preset, &Topology::load(preset).unwrap()).unwrap()
    }

    #[test]
    fn every_manifest_of_ours_reads_and_names_its_kind() {
        for (manifest, count) in [(DNS, 6), (METRICS, 9), (STORAGE, 9)] {
            let objects = parse(manifest).unwrap();
            assert_eq!(objects.len(), count);
            assert!(
                objects
                    .iter()
                    .all(|object| object.types.is_some() && !object.name_any().is_empty())
            );
        }
    }

    #[test]
    fn kubeadms_configuration_tells_the_networks() {
        let plan = plan("one");
        let objects = base_objects(&plan.clusters[0]);
        let map = objects.iter().find(|object| object.name_any() == "kubeadm-config").unwrap();
        let text = map.data["data"]["ClusterConfiguration"].as_str().unwrap();
        assert!(text.contains("podSubnet: 10.10.0.0/16"), "{text}");
        assert!(text.contains("serviceSubnet: 10.11.0.0/16"), "{text}");
    }

    #[test]
    fn nodes_carry_their_clusters_labels_and_the_first_its_role() {
        let plan = plan("quick-start");
        let objects = base_objects(&plan.clusters[1]);
        let labels = |name: &str| {
            objects.iter().find(|object| object.name_any() == name).unwrap().labels().clone()
        };
        assert!(labels("milan-1").contains_key("node-role.kubernetes.io/control-plane"));
        assert!(!labels("milan-2").contains_key("node-role.kubernetes.io/control-plane"));
        assert_eq!(labels("milan-2")["topology.kubernetes.io/region"], "europe-milan");
    }

    #[test]
    fn fake_nodes_take_only_pods_that_ask_for_them() {
        let plan = plan("scale");
        let nodes = fake_nodes(&plan.clusters[1]);
        assert_eq!(nodes.len(), 20);
        assert_eq!(nodes[0].data["spec"]["taints"][0]["effect"], "NoSchedule");
    }
}
