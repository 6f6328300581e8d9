//! Objects in words: a test says only what matters to it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ObjectFieldSelector, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, Pod, PodSpec,
    ResourceRequirements, SecurityContext, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The image that test pods run.
pub const DEMO: &str = "localhost/playground/demo:v1";
/// The port its server listens on.
pub const DEMO_PORT: i32 = 8080;

/// A pod that runs the demo server.
pub fn pod(name: &str) -> PodFixture {
    let field = |path: &str| EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let env = [
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("NODE_NAME", "spec.nodeName"),
        ("POD_IP", "status.podIP"),
    ]
    .map(|(name, path)| EnvVar {
        name: name.to_owned(),
        value_from: Some(field(path)),
        ..Default::default()
    });
    let container = Container {
        name: "demo".to_owned(),
        image: Some(DEMO.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(vec!["serve".to_owned()]),
        env: Some(env.to_vec()),
        ports: Some(vec![ContainerPort { container_port: DEMO_PORT, ..Default::default() }]),
        ..Default::default()
    };
    PodFixture(Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            labels: Some(label(name)),
            ..Default::default()
        },
        spec: Some(PodSpec {
            containers: vec![container],
            termination_grace_period_seconds: Some(2),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// A service in front of the pod of the same name.
pub fn service(name: &str) -> ServiceFixture {
    ServiceFixture(Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..Default::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(label(name)),
            ports: Some(vec![ServicePort {
                port: 80,
                target_port: Some(IntOrString::Int(DEMO_PORT)),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// A claim of a volume of the default class.
pub fn claim(name: &str, size: &str) -> PersistentVolumeClaim {
    let requests = BTreeMap::from([("storage".to_owned(), Quantity(size.to_owned()))]);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..Default::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(requests),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A pod in the making.
pub struct PodFixture(Pod);

impl PodFixture {
    /// Places it in a namespace.
    #[must_use]
    pub fn in_ns(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// Makes it run on a node; the scheduler still decides, so volumes bind.
    #[must_use]
    pub fn on_node(self, node: &str) -> Self {
        self.selecting("kubernetes.io/hostname", node)
    }

    /// Makes it run only where a node has this label.
    #[must_use]
    pub fn selecting(self, key: &str, value: &str) -> Self {
        self.spec(|spec| {
            spec.node_selector.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        })
    }

    /// Asks for processor time.
    #[must_use]
    pub fn requesting(self, cpu: &str) -> Self {
        let requests = BTreeMap::from([("cpu".to_owned(), Quantity(cpu.to_owned()))]);
        self.container(|container| {
            container.resources =
                Some(ResourceRequirements { requests: Some(requests), ..Default::default() });
        })
    }

    /// Puts it into its node's network, with all rights.
    #[must_use]
    pub fn privileged_in_host_network(self) -> Self {
        let pod = self.spec(|spec| spec.host_network = Some(true));
        pod.container(|container| {
            container.security_context =
                Some(SecurityContext { privileged: Some(true), ..Default::default() });
        })
    }

    /// Mounts a claimed volume.
    #[must_use]
    pub fn mounting(self, claim: &str, path: &str) -> Self {
        let volume = Volume {
            name: claim.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mount = VolumeMount {
            name: claim.to_owned(),
            mount_path: path.to_owned(),
            ..Default::default()
        };
        self.spec(|spec| spec.volumes.get_or_insert_default().push(volume))
            .container(|container| container.volume_mounts.get_or_insert_default().push(mount))
    }

    /// Adds words to the command line of its server.
    #[must_use]
    pub fn with_args(self, words: &[&str]) -> Self {
        self.container(|container| {
            container
                .args
                .get_or_insert_default()
                .extend(words.iter().map(|&word| word.to_owned()));
        })
    }

    /// The pod.
    pub fn build(self) -> Pod {
        self.0
    }

    fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(self.0.spec.get_or_insert_default());
        self
    }

    fn container(self, change: impl FnOnce(&mut Container)) -> Self {
        self.spec(|spec| spec.containers.first_mut().map(change).unwrap_or_default())
    }
}

/// A service in the making.
pub struct ServiceFixture(Service);

impl ServiceFixture {
    /// Opens a port of every node.
    #[must_use]
    pub fn on_node_port(mut self, port: i32) -> Self {
        let spec = self.0.spec.get_or_insert_default();
        spec.type_ = Some("NodePort".to_owned());
        if let Some(first) = spec.ports.get_or_insert_default().first_mut() {
            first.node_port = Some(port);
        }
        self
    }

    /// Serves only from the node that was asked, which then sees who asks.
    #[must_use]
    pub fn locally(mut self) -> Self {
        let spec = self.0.spec.get_or_insert_default();
        spec.external_traffic_policy = Some("Local".to_owned());
        self
    }

    /// The service.
    pub fn build(self) -> Service {
        self.0
    }
}

fn label(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), name.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_what_the_words_say() {
        let pod = pod("web").in_ns("shop").requesting("500m").mounting("data", "/data").build();
        assert_eq!(pod.metadata.namespace.as_deref(), Some("shop"));
        let spec = pod.spec.unwrap();
        let requests = spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
        assert_eq!(requests["cpu"].0, "500m");
        assert_eq!(spec.volumes.unwrap()[0].name, "data");
    }

    #[test]
    fn a_service_finds_the_pod_of_its_name() {
        let (pod, service) = (pod("web").build(), service("web").on_node_port(30080).build());
        assert_eq!(service.spec.unwrap().selector, pod.metadata.labels);
    }
}
