//! Pods and places that tests are about; the pods are those that the reference was seen with.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::names::Cluster;
use liqo_reflection::{Place, ServiceAccounts};
use serde_json::{Value, json};

use crate::lean::{HomePod, RemotePod};
use crate::shadow;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

/// Two namespaces.
pub(crate) fn place() -> Place {
    let cluster =
        |id: &str, name: &str| Cluster { id: id.parse().unwrap(), name: name.parse().unwrap() };
    Place {
        home: cluster(ROME, "rome"),
        remote: cluster(MILAN, "milan"),
        home_namespace: "shop".to_owned(),
        remote_namespace: "shop-rome".to_owned(),
        node: "liqo-milan".to_owned(),
        service_accounts: ServiceAccounts::TokenApi,
    }
}

/// A pod here, which is about to be sent away.
pub(crate) fn home_pod() -> HomePod {
    let mut pod: HomePod = serde_json::from_value(golden_home()).unwrap();
    pod.trim();
    pod
}

/// Its ShadowPod.
pub(crate) fn shadow_of(pod: &HomePod) -> ObjectMeta {
    ObjectMeta { uid: Some("shadow".to_owned()), ..shadow::metadata(&pod.metadata, &place()) }
}

/// Its pod in the other cluster.
pub(crate) fn remote_pod(status: &Value) -> RemotePod {
    let owner = json!({
        "apiVersion": "virtualkubelet.liqo.io/v1alpha1", "kind": "ShadowPod", "name": "srv",
        "uid": "shadow", "controller": true,
    });
    let metadata = json!({"name": "srv", "uid": "remote", "ownerReferences": [owner]});
    serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
}

/// The metadata of an object.
pub(crate) fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

/// A pod as the API server shows it.
pub(crate) fn golden_home() -> Value {
    json!({
        "metadata": {
            "name": "srv",
            "namespace": "shop",
            "uid": "3ffe3906-a26f-494e-ad21-685f715afc43",
            "resourceVersion": "7",
            "labels": {"app": "srv", "liqo.io/shadowPod": "true"},
        },
        "spec": {
            "containers": [container(&[])],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "nodeName": "liqo-milan",
            "nodeSelector": {"liqo.io/type": "virtual-node"},
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 1,
            "tolerations": [
                toleration("node.kubernetes.io/not-ready"),
                toleration("node.kubernetes.io/unreachable"),
                {"effect": "NoExecute", "key": "virtual-node.liqo.io/not-allowed",
                 "operator": "Exists"},
            ],
            "volumes": [
                volume(
                    &json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}),
                    "kube-root-ca.crt",
                ),
                {"name": "scratch", "emptyDir": {}},
            ],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    })
}

/// What the reference makes of it.
pub(crate) fn golden_shadow() -> Value {
    let item = json!({"key": "kube-api-access-wrcb8-3c469e", "path": "token"});
    json!({
        "metadata": {
            "labels": {
                "app": "srv",
                "virtualkubelet.liqo.io/destination": MILAN,
                "virtualkubelet.liqo.io/origin": ROME,
            },
        },
        "spec": {"pod": {
            "automountServiceAccountToken": false,
            "containers": [container(&[
                ("KUBERNETES_SERVICE_HOST", "kubernetes.default"),
                ("KUBERNETES_SERVICE_PORT", "443"),
                ("KUBERNETES_PORT", "tcp://kubernetes.default:443"),
                ("KUBERNETES_PORT_443_TCP", "tcp://kubernetes.default:443"),
                ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
                ("KUBERNETES_PORT_443_TCP_ADDR", "kubernetes.default"),
                ("KUBERNETES_PORT_443_TCP_PORT", "443"),
            ])],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "hostAliases": [{
                "hostnames": ["kubernetes.default", "kubernetes.default.svc"], "ip": "10.92.0.2",
            }],
            "restartPolicy": "Always",
            "securityContext": {},
            "terminationGracePeriodSeconds": 1,
            "tolerations": [
                toleration("node.kubernetes.io/not-ready"),
                toleration("node.kubernetes.io/unreachable"),
            ],
            "volumes": [
                volume(
                    &json!({"secret": {"items": [item], "name": "srv-token"}}),
                    "kube-root-ca.crt.41543",
                ),
                {"name": "scratch", "emptyDir": {}},
            ],
        }},
    })
}

fn container(variables: &[(&str, &str)]) -> Value {
    let mut container = json!({
        "image": "registry.local/iperf:1",
        "imagePullPolicy": "IfNotPresent",
        "name": "c",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "name": "kube-api-access-wrcb8",
            "readOnly": true,
        }],
    });
    if !variables.is_empty() {
        let variable = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
        container["env"] = variables.iter().map(variable).collect();
    }
    container
}

fn toleration(key: &str) -> Value {
    json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300})
}

fn volume(token: &Value, authority: &str) -> Value {
    json!({
        "name": "kube-api-access-wrcb8",
        "projected": {"defaultMode": 420, "sources": [
            token,
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": authority}},
            {"downwardAPI": {"items": [{
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                "path": "namespace",
            }]}},
        ]},
    })
}
