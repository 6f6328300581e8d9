//! How an installation does.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Container, Node, Pod, Service};
use liqo_api::keys::{component, object};
use liqo_api::net::IpamStorageSpec;
use liqo_identity::address;
use liqo_network_exchange::gateway;
use serde::Serialize;
use serde_json::Value;

use crate::ready::pod_trouble;

/// What has been seen of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Namespace of the installation.
    pub namespace: String,
    /// Whether it is there.
    pub exists: bool,
    /// All values of the installation.
    pub values: Value,
    /// Deployments in the namespace, by name.
    pub deployments: BTreeMap<String, Deployment>,
    /// What runs on every node, by name.
    pub daemon_sets: BTreeMap<String, DaemonSet>,
    /// Pods in the namespace.
    pub pods: Vec<Pod>,
    /// Identity and name of the cluster.
    pub identity: Option<(String, String)>,
    /// Networks that are given away.
    pub ipam: Option<IpamStorageSpec>,
    /// Service of the authentication.
    pub auth: Option<Service>,
    /// Service of the gateway.
    pub gateway: Option<Service>,
    /// Nodes.
    pub nodes: Vec<Node>,
}

/// How an installation does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether all is well.
    pub healthy: bool,
    /// Namespace of the installation.
    pub namespace: Place,
    /// The components; none when there is no namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The cluster; none when its components do not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub exists: bool,
}

/// A component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Kind of the object that runs it.
    pub kind: &'static str,
    /// Name of that object.
    pub name: String,
    /// How many pods there should be.
    pub desired: i32,
    /// How many are ready.
    pub ready: i32,
    /// How many have been ready for long enough.
    pub available: i32,
    /// Images that it runs.
    pub images: Vec<String>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The cluster, as its peers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Its identity.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Its name.
    pub cluster_name: String,
    /// Its labels.
    pub cluster_labels: BTreeMap<String, String>,
    /// Its networks; none when something else connects clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Where it is reached.
    pub endpoints: Endpoints,
}

/// Networks of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Of the pods.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// Of the services.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: String,
    /// Of what is exposed to peers; empty as long as nobody has chosen one.
    #[serde(rename = "externalCIDR")]
    pub external_cidr: String,
    /// Never given away.
    #[serde(rename = "reservedSubnets")]
    pub reserved_subnets: Vec<String>,
}

/// Where a cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The tunnel; none when something else connects clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_gateway: Option<Endpoint>,
    /// The authentication service.
    #[serde(rename = "authenticationURL")]
    pub authentication: Endpoint,
    /// The API server.
    #[serde(rename = "kubernetesAPIServerURL")]
    pub api_server: Endpoint,
}

/// A place that others reach, or why they do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Endpoint {
    /// They do.
    Url(String),
    /// They do not.
    Problem(String),
}

impl Endpoint {
    fn of(result: Result<String, String>) -> Self {
        result.map_or_else(Self::Problem, Self::Url)
    }
}

/// How the installation does.
pub fn report(seen: &Seen) -> Report {
    let namespace = Place { name: seen.namespace.clone(), exists: seen.exists };
    let mut report = Report { healthy: false, namespace, components: vec![], cluster: None };
    if !seen.exists {
        return report;
    }
    report.components = seen.components();
    if report.components.iter().any(|one| !one.problems.is_empty()) {
        return report;
    }
    let cluster = seen.cluster();
    let endpoints = &cluster.endpoints;
    let all = [Some(&endpoints.authentication), Some(&endpoints.api_server)];
    let all = all.into_iter().chain([endpoints.network_gateway.as_ref()]).flatten();
    report.healthy = all.into_iter().all(|one| matches!(one, Endpoint::Url(_)));
    report.cluster = Some(cluster);
    report
}

impl Seen {
    fn setting(&self, path: &str) -> Option<&Value> {
        self.values.pointer(path)
    }

    fn is_on(&self, path: &str, default: bool) -> bool {
        self.setting(path).and_then(Value::as_bool).unwrap_or(default)
    }

    fn networking(&self) -> bool {
        let manager = self.deployments.get(&self.object(component::CONTROLLER_MANAGER));
        let template = manager.and_then(|manager| manager.spec.template.spec.as_ref());
        // What was installed counts more than what was asked for.
        let off = template.into_iter().flat_map(|spec| &spec.containers).any(|container| {
            let off = ["--disable-internal-network", "--disable-internal-network=true"];
            container.args.iter().flatten().any(|argument| off.contains(&argument.as_str()))
        });
        !off && self.is_on("/networking/internal", true)
    }

    /// What should run, as the installation was asked for.
    fn components(&self) -> Vec<Component> {
        let discovery = self.is_on("/discovery/config/enableDiscovery", false)
            || self.is_on("/discovery/config/enableAdvertisement", false);
        let deployments = [
            (component::CONTROLLER_MANAGER, true),
            (component::CRD_REPLICATOR, true),
            (component::METRIC_AGENT, self.is_on("/metricAgent/enable", true)),
            (component::AUTH, true),
            (component::PROXY, true),
            (component::DISCOVERY, discovery),
            (component::NETWORK_MANAGER, self.networking()),
            (component::GATEWAY, self.networking()),
        ];
        let deployments = deployments.iter().filter(|(_, wanted)| *wanted);
        let mut all: Vec<Component> =
            deployments.map(|(name, _)| self.deployment(self.object(name))).collect();
        if self.networking() {
            all.push(self.daemon_set(self.object(component::ROUTE)));
        }
        all
    }

    fn object(&self, component: &str) -> String {
        let name = self.setting("/nameOverride").and_then(Value::as_str).unwrap_or_default();
        let name = if name.is_empty() { object::NAMESPACE } else { name };
        format!("{name}-{component}")
    }

    fn deployment(&self, name: String) -> Component {
        let Some(deployment) = self.deployments.get(&name) else {
            return missing("Deployment", name);
        };
        let status = deployment.status.clone().unwrap_or_default();
        let spec = &deployment.spec;
        let template = spec.template.spec.as_ref();
        let component = Component {
            kind: "Deployment",
            name,
            desired: spec.replicas.unwrap_or(1),
            ready: status.ready_replicas.unwrap_or_default(),
            available: status.available_replicas.unwrap_or_default(),
            images: images(template.map_or(&[], |spec| &spec.containers)),
            problems: vec![],
        };
        self.judged(component, &spec.selector.match_labels.clone().unwrap_or_default())
    }

    fn daemon_set(&self, name: String) -> Component {
        let Some(set) = self.daemon_sets.get(&name) else {
            return missing("DaemonSet", name);
        };
        let status = set.status.clone().unwrap_or_default();
        let template = set.spec.template.spec.as_ref();
        let component = Component {
            kind: "DaemonSet",
            name,
            desired: status.desired_number_scheduled,
            ready: status.number_ready,
            available: status.number_available.unwrap_or_default(),
            images: images(template.map_or(&[], |spec| &spec.containers)),
            problems: vec![],
        };
        self.judged(component, &set.spec.selector.match_labels.clone().unwrap_or_default())
    }

    /// Says what is wrong with a component.
    fn judged(&self, mut component: Component, labels: &BTreeMap<String, String>) -> Component {
        let Component { desired, ready, available, .. } = component;
        if ready >= desired && available >= desired {
            return component;
        }
        let is_one = |pod: &&Pod| {
            let own = pod.metadata.labels.clone().unwrap_or_default();
            labels.iter().all(|(key, value)| own.get(key) == Some(value))
        };
        let trouble = |pod: &Pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            pod_trouble(pod).map(|trouble| format!("{name}: {trouble}"))
        };
        component.problems = self.pods.iter().filter(is_one).filter_map(trouble).collect();
        if component.problems.is_empty() {
            component.problems.push("not all of its pods are there".to_owned());
        }
        component
    }

    fn cluster(&self) -> Cluster {
        let text =
            |path: &str| self.setting(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (cluster_id, cluster_name) = self.identity.clone().unwrap_or_else(|| {
            let path = |name: &str| text(&format!("/discovery/config/{name}"));
            (path("clusterIDOverride"), path("clusterName"))
        });
        let labels = self.setting("/discovery/config/clusterLabels").cloned();
        let gateway = || {
            let place = gateway::endpoint(self.gateway.as_ref());
            let place = place.map_err(|error| error.to_string());
            Endpoint::of(place.map(|(address, port)| format!("udp://{address}:{port}")))
        };
        let auth = match &self.auth {
            Some(auth) => {
                address::authentication(auth, &self.nodes).map_err(|error| error.to_string())
            }
            None => Err(format!("service {} is not there", object::AUTH)),
        };
        let api_server = address::api_server(Some(&text("/apiServer/address")), &self.nodes)
            .map_err(|error| error.to_string());
        Cluster {
            cluster_id,
            cluster_name,
            cluster_labels: labels
                .and_then(|labels| serde_json::from_value(labels).ok())
                .unwrap_or_default(),
            network: self.networking().then(|| self.network()),
            endpoints: Endpoints {
                network_gateway: self.networking().then(gateway),
                authentication: Endpoint::of(auth),
                api_server: Endpoint::of(api_server),
            },
        }
    }

    fn network(&self) -> Network {
        let config = |name: &str| self.setting(&format!("/networkManager/config/{name}"));
        let text = |name: &str| config(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match &self.ipam {
            Some(ipam) => Network {
                pod_cidr: ipam.pod_cidr.clone(),
                service_cidr: ipam.service_cidr.clone(),
                external_cidr: ipam.external_cidr.clone(),
                reserved_subnets: ipam.reserved_subnets.clone(),
            },
            None => Network {
                pod_cidr: text("podCIDR"),
                service_cidr: text("serviceCIDR"),
                external_cidr: String::new(),
                reserved_subnets: config("reservedSubnets")
                    .and_then(|list| serde_json::from_value(list.clone()).ok())
                    .unwrap_or_default(),
            },
        }
    }
}

fn missing(kind: &'static str, name: String) -> Component {
    let problems = vec!["it is not there".to_owned()];
    Component { kind, name, desired: 1, ready: 0, available: 0, images: vec![], problems }
}

fn images(containers: &[Container]) -> Vec<String> {
    let mut images: Vec<String> = containers.iter().filter_map(|one| one.image.clone()).collect();
    images.dedup();
    images
}
