//! The objects that make a virtual kubelet run: account, rights, Deployment.
//!
//! All of them follow the flags: what a new version or new flags change is changed on the live
//! objects. The selector of the Deployment, which cannot change, has none of the labels that can.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, DownwardAPIProjection, DownwardAPIVolumeFile, EnvVar, EnvVarSource,
    ObjectFieldSelector, PodSpec, PodTemplateSpec, ProjectedVolumeSource, ResourceRequirements,
    SecurityContext, ServiceAccount, ServiceAccountTokenProjection, Volume, VolumeMount,
    VolumeProjection,
};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use liqo_api::keys::{annotation, label, object, port};
use liqo_api::names::{Cluster, ClusterId, InvalidName};
use liqo_api::sharing::ResourceOffer;

use crate::grants::cluster_role;

/// The program that all components are.
const PROGRAM: &str = "/usr/bin/liqo";

/// Where programs in pods look for what they need at the API server.
pub const ACCESS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The certificates of those who vouch for the API server, there.
pub const AUTHORITY: &str = "ca.crt";
/// The volume with it.
const ACCESS_VOLUME: &str = "kube-api-access";
/// How long a token is good for: as long as those that Kubernetes itself puts into pods.
const TOKEN_SECONDS: i64 = 3607;

/// How virtual kubelets run, by the flags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The image.
    pub image: String,
    /// Annotations of the Deployment and its pods.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the Deployment and its pods.
    pub labels: BTreeMap<String, String>,
    /// Further arguments.
    pub args: Vec<String>,
    /// What a virtual kubelet requests.
    pub requests: BTreeMap<String, Quantity>,
    /// What a virtual kubelet may use.
    pub limits: BTreeMap<String, Quantity>,
    /// The address and port of its metrics, if it shows any.
    pub metrics: Option<(String, u16)>,
    /// The address manager, if there is one.
    pub ipam: Option<String>,
    /// The class of volumes that follow their pods, where it is not called as usual.
    pub storage_class: Option<String>,
    /// Annotations of virtual nodes.
    pub node_annotations: BTreeMap<String, String>,
    /// Labels of virtual nodes.
    pub node_labels: BTreeMap<String, String>,
    /// The certificates of those who vouch for the API server, if the pod is to bring them along.
    ///
    /// Otherwise it gets them from a ConfigMap, which the node may not be allowed to read before
    /// its API server has heard of the pod: then the pod starts a second later.
    pub authority: Option<String>,
}

/// The virtual kubelet for an offer, or for one that is expected.
///
/// Nothing in its pod follows from the offer: it can start before the offer is there, and reads
/// what is offered from the offer itself.
#[derive(Clone, Copy, Debug)]
pub struct Kubelet<'a> {
    /// This cluster.
    pub home: &'a Cluster,
    /// The cluster that made the offer.
    pub provider: &'a Cluster,
    /// The tenant namespace.
    pub tenant: &'a str,
    /// The offer, once there is one.
    pub offer: Option<&'a ResourceOffer>,
    /// How virtual kubelets run.
    pub settings: &'a Settings,
}

impl Kubelet<'_> {
    /// Its account.
    pub fn service_account(&self) -> ServiceAccount {
        ServiceAccount {
            metadata: self.metadata(BTreeMap::new(), BTreeMap::new()),
            ..ServiceAccount::default()
        }
    }

    /// Its rights in this cluster.
    pub fn binding(&self) -> ClusterRoleBinding {
        let labels = binding_labels(&self.provider.id);
        let name = object::virtual_kubelet_binding(&self.provider.unique_name());
        ClusterRoleBinding {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(owned(&labels)),
                ..ObjectMeta::default()
            },
            role_ref: cluster_role(object::ROLE_VIRTUAL_KUBELET_LOCAL),
            subjects: Some(vec![Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: object::VIRTUAL_KUBELET.to_owned(),
                namespace: Some(self.tenant.to_owned()),
            }]),
        }
    }

    /// Its Deployment.
    pub fn deployment(&self) -> Result<Deployment, InvalidName> {
        let Settings { annotations, labels, .. } = self.settings;
        let selector = selector(&self.provider.id);
        let labels: BTreeMap<_, _> = labels.clone().into_iter().chain(selector.clone()).collect();
        let offer = self.offer.and_then(|offer| offer.metadata.name.clone());
        let mut own = annotations.clone();
        own.extend(offer.map(|offer| (annotation::RESOURCE_OFFER.to_owned(), offer)));
        let mut on_pod = annotations.clone();
        let authority = self.settings.authority.clone();
        let brings_access = authority.is_some();
        on_pod.extend(authority.map(|text| (annotation::API_SERVER_AUTHORITY.to_owned(), text)));
        let pod = ObjectMeta {
            labels: Some(labels.clone()),
            annotations: (!on_pod.is_empty()).then_some(on_pod),
            ..ObjectMeta::default()
        };
        let spec = PodSpec {
            automount_service_account_token: brings_access.then_some(false),
            volumes: brings_access.then(|| vec![access()]),
            containers: vec![self.container()?],
            service_account_name: Some(object::VIRTUAL_KUBELET.to_owned()),
            ..PodSpec::default()
        };
        Ok(Deployment {
            metadata: self.metadata(labels, own),
            spec: DeploymentSpec {
                replicas: Some(1),
                selector: LabelSelector {
                    match_labels: Some(selector),
                    ..LabelSelector::default()
                },
                // Two of them would speak for one node.
                strategy: Some(DeploymentStrategy {
                    type_: Some("Recreate".to_owned()),
                    ..DeploymentStrategy::default()
                }),
                template: PodTemplateSpec { metadata: Some(pod), spec: Some(spec) },
                ..DeploymentSpec::default()
            },
            status: None,
        })
    }

    fn container(&self) -> Result<Container, InvalidName> {
        let Settings { image, requests, limits, metrics, .. } = self.settings;
        let list = |list: &BTreeMap<String, Quantity>| (!list.is_empty()).then(|| list.clone());
        let address = ObjectFieldSelector {
            field_path: "status.podIP".to_owned(),
            ..ObjectFieldSelector::default()
        };
        let resources = ResourceRequirements {
            requests: list(requests),
            limits: list(limits),
            ..ResourceRequirements::default()
        };
        Ok(Container {
            name: object::VIRTUAL_KUBELET.to_owned(),
            image: Some(image.clone()),
            command: Some([PROGRAM, object::VIRTUAL_KUBELET].map(str::to_owned).into()),
            args: Some(self.args()?),
            env: Some(vec![EnvVar {
                name: "POD_IP".to_owned(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(address),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            }]),
            ports: metrics.as_ref().map(|(_, number)| {
                vec![ContainerPort {
                    name: Some(port::NAME_METRICS.to_owned()),
                    container_port: i32::from(*number),
                    protocol: Some("TCP".to_owned()),
                    ..ContainerPort::default()
                }]
            }),
            resources: (resources != ResourceRequirements::default()).then_some(resources),
            volume_mounts: self.settings.authority.as_ref().map(|_| {
                vec![VolumeMount {
                    name: ACCESS_VOLUME.to_owned(),
                    mount_path: ACCESS.to_owned(),
                    read_only: Some(true),
                    ..VolumeMount::default()
                }]
            }),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                ..SecurityContext::default()
            }),
            ..Container::default()
        })
    }

    fn args(&self) -> Result<Vec<String>, InvalidName> {
        let Self { home, provider, tenant, settings, .. } = self;
        let mut args = vec![
            format!("--foreign-cluster-id={}", provider.id),
            format!("--foreign-cluster-name={}", provider.name),
            format!("--nodename={}", provider.virtual_node()?),
            "--node-ip=$(POD_IP)".to_owned(),
            format!("--tenant-namespace={tenant}"),
            format!("--home-cluster-id={}", home.id),
            format!("--home-cluster-name={}", home.name),
        ];
        args.extend(settings.ipam.as_ref().map(|ipam| format!("--ipam-server={ipam}")));
        let class = settings.storage_class.as_ref();
        args.extend(class.map(|class| format!("--virtual-storage-class-name={class}")));
        let pairs = |flag: &str, pairs: &BTreeMap<String, String>| {
            let text: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (!text.is_empty()).then(|| format!("--{flag}={}", text.join(",")))
        };
        args.extend(pairs("node-extra-annotations", &settings.node_annotations));
        args.extend(pairs("node-extra-labels", &settings.node_labels));
        args.extend(settings.args.iter().cloned());
        args.push(format!("--metrics-enabled={}", settings.metrics.is_some()));
        args.extend(
            settings.metrics.as_ref().map(|(address, _)| format!("--metrics-address={address}")),
        );
        Ok(args)
    }

    fn metadata(
        &self,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    ) -> ObjectMeta {
        ObjectMeta {
            name: Some(object::VIRTUAL_KUBELET.to_owned()),
            namespace: Some(self.tenant.to_owned()),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }
    }
}

/// What Kubernetes itself would put into the pod, without the ConfigMap.
fn access() -> Volume {
    let token = ServiceAccountTokenProjection {
        path: "token".to_owned(),
        expiration_seconds: Some(TOKEN_SECONDS),
        ..ServiceAccountTokenProjection::default()
    };
    let file = |path: &str, field: String| DownwardAPIVolumeFile {
        path: path.to_owned(),
        field_ref: Some(ObjectFieldSelector { field_path: field, api_version: None }),
        ..DownwardAPIVolumeFile::default()
    };
    let authority = format!("metadata.annotations['{}']", annotation::API_SERVER_AUTHORITY);
    let of_pod = DownwardAPIProjection {
        items: Some(vec![
            file(AUTHORITY, authority),
            file("namespace", "metadata.namespace".to_owned()),
        ]),
    };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection { downward_api: Some(of_pod), ..VolumeProjection::default() },
    ];
    Volume {
        name: ACCESS_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// The selector of the rights of the virtual kubelet for a cluster.
pub fn bindings_for(provider: &ClusterId) -> String {
    binding_labels(provider).map(|(name, value)| format!("{name}={value}")).join(",")
}

fn binding_labels(provider: &ClusterId) -> [(&str, &str); 2] {
    [
        (label::APP_MANAGED_BY, label::MANAGED_BY_ADVERTISEMENT_OPERATOR),
        (label::CLUSTER_ID, provider.as_str()),
    ]
}

/// The labels by which the virtual kubelet for a cluster is found.
pub fn selector(provider: &ClusterId) -> BTreeMap<String, String> {
    owned(&[
        (label::APP_NAME, object::VIRTUAL_KUBELET),
        (label::APP_INSTANCE, object::VIRTUAL_KUBELET),
        (label::APP_COMPONENT, object::VIRTUAL_KUBELET),
        (label::APP_MANAGED_BY, label::MANAGED_BY_ADVERTISEMENT_OPERATOR),
        (label::APP_PART_OF, label::PART_OF_LIQO),
        (label::CLUSTER_ID, provider.as_str()),
    ])
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{MILAN, ROME, cluster, offer};

    #[test]
    fn a_virtual_kubelet_is_told_all_it_has_to_know() {
        let settings = Settings {
            image: "example.org/liqo:v0".to_owned(),
            args: vec!["--enable-apiserver-support=true".to_owned()],
            ipam: Some("liqo-network-manager.liqo:6000".to_owned()),
            ..Settings::default()
        };
        insta::assert_snapshot!(serde_saphyr::to_string(&deployment(&settings)).unwrap());
    }

    #[test]
    fn a_virtual_kubelet_can_bring_along_all_that_it_needs_at_the_api_server() {
        let settings = Settings { authority: Some("PEM".to_owned()), ..Settings::default() };
        let template = deployment(&settings).spec.template;
        insta::assert_snapshot!(serde_saphyr::to_string(&template).unwrap());
    }

    #[test]
    fn everything_that_can_be_set_is_set() {
        let map = |name: &str, value: &str| owned(&[(name, value)]);
        let amount = |text: &str| BTreeMap::from([("cpu".to_owned(), Quantity(text.to_owned()))]);
        let settings = Settings {
            image: "example.org/liqo:v0".to_owned(),
            annotations: map("note", "a"),
            labels: map("team", "b"),
            requests: amount("100m"),
            limits: amount("1"),
            metrics: Some((":5872".to_owned(), 5872)),
            storage_class: Some("far".to_owned()),
            node_annotations: map("c", "d"),
            node_labels: map("e", "f"),
            ..Settings::default()
        };
        let deployment = deployment(&settings);
        assert_eq!(deployment.metadata.labels.as_ref().unwrap()["team"], "b");
        assert_eq!(deployment.metadata.annotations.as_ref().unwrap()["note"], "a");
        let spec = deployment.spec;
        assert!(!spec.selector.match_labels.unwrap().contains_key("team"));
        let pod = spec.template.metadata.unwrap();
        assert_eq!(pod.labels.unwrap()["team"], "b");
        assert_eq!(pod.annotations.unwrap().len(), 1);
        let container = &spec.template.spec.unwrap().containers[0];
        let args = container.args.as_ref().unwrap();
        for arg in [
            "--virtual-storage-class-name=far",
            "--node-extra-annotations=c=d",
            "--node-extra-labels=e=f",
            "--metrics-enabled=true",
            "--metrics-address=:5872",
        ] {
            assert!(args.iter().any(|one| one == arg), "{arg} in {args:?}");
        }
        assert_eq!(container.ports.as_ref().unwrap()[0].container_port, 5872);
        assert!(container.resources.as_ref().unwrap().limits.is_some());
    }

    #[test]
    fn its_rights_are_those_of_its_tenant_namespace() {
        let (home, provider) = (cluster(ROME, "rome"), cluster(MILAN, "milan"));
        let (offer, settings) = (offer("milan"), Settings::default());
        let kubelet = Kubelet {
            home: &home,
            provider: &provider,
            tenant: "tenant",
            offer: Some(&offer),
            settings: &settings,
        };
        insta::assert_snapshot!(serde_saphyr::to_string(&kubelet.binding()).unwrap());
    }

    fn deployment(settings: &Settings) -> Deployment {
        let (home, provider) = (cluster(ROME, "rome"), cluster(MILAN, "milan"));
        let offer = offer("milan");
        let (tenant, offer) = ("liqo-tenant-milan-ee0b4a", Some(&offer));
        let kubelet = Kubelet { home: &home, provider: &provider, tenant, offer, settings };
        kubelet.deployment().unwrap()
    }
}
