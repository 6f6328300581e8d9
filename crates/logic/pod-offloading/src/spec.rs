//! What becomes of the specification of a pod that is sent away.
//!
//! It is taken over as it is, except for what refers to this cluster: where and how the scheduler
//! places it, whom it runs as, and which parts of a host it uses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::taint;
use liqo_reflection::Place;
use serde_json::{Map, Value, json};

use crate::access::{self, Access};
use crate::affinity;

/// Fields that mean nothing in another cluster, or are not granted there.
const DROPPED: [&str; 21] = [
    "affinity",
    "ephemeralContainers",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "serviceAccount",
    "serviceAccountName",
    "workloadRef",
];

/// The specification that a pod has in the other cluster.
pub fn remote(pod: &ObjectMeta, spec: &Value, place: &Place, access: &Access) -> Value {
    let mut remote: Map<String, Value> = spec.as_object().cloned().unwrap_or_default();
    remote.retain(|field, value| !DROPPED.contains(&field.as_str()) && !value.is_null());
    remote.insert("automountServiceAccountToken".to_owned(), Value::Bool(false));
    if let Some(Value::Array(tolerations)) = remote.get_mut("tolerations") {
        tolerations.retain(|toleration| toleration.get("key") != Some(&json!(taint::KEY)));
    }
    if let Some(affinity) = affinity::remote(pod, spec.get("affinity")) {
        remote.insert("affinity".to_owned(), affinity);
    }
    let name = pod.name.as_deref().unwrap_or_default();
    let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    access::rewrite(&mut remote, name, account, place, access);
    Value::Object(remote)
}

/// The containers that a ShadowPod has to have, given what was added to its pod while it ran and what
/// it has; nothing when it has them all.
///
/// What it has stays as it is: the other cluster takes no change.
pub fn added(spec: &Value, shadow: &Value, place: &Place, access: &Access) -> Option<Value> {
    let list = |spec: &Value| -> Vec<Value> {
        spec.get("ephemeralContainers").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut all = list(shadow);
    let is_new = |one: &Value| !all.iter().any(|other| other.get("name") == one.get("name"));
    let new: Vec<Value> = list(spec).into_iter().filter(is_new).collect();
    if new.is_empty() {
        return None;
    }
    let account = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    all.extend(access::rewrite_containers(new, account, place, access));
    Some(Value::Array(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{golden_home, golden_shadow, metadata, place};

    #[test]
    fn the_reference_makes_the_same_of_the_same_pod() {
        let home = golden_home();
        let access = Access::token_api("10.92.0.2".parse().unwrap(), 443);
        let remote = remote(&metadata(&home), &home["spec"], &place(), &access);
        assert_eq!(remote, golden_shadow()["spec"]["pod"]);
    }

    #[test]
    fn where_the_scheduler_here_puts_a_pod_is_forgotten() {
        let spec = json!({
            "containers": [],
            "nodeName": "liqo-milan", "nodeSelector": {"a": "b"}, "schedulerName": "mine",
            "priority": 7, "priorityClassName": "high", "preemptionPolicy": "Never",
            "runtimeClassName": "gvisor", "overhead": {"cpu": "1"}, "os": {"name": "linux"},
            "affinity": {"nodeAffinity": {}}, "schedulingGates": [{"name": "a"}],
            "serviceAccountName": "me", "serviceAccount": "me",
            "ephemeralContainers": [{"name": "debug"}], "resourceClaims": [{"name": "gpu"}],
        });
        let want = json!({"containers": [], "automountServiceAccountToken": false});
        assert_eq!(disabled(&spec), want);
    }

    #[test]
    fn no_pod_uses_the_host_of_another_cluster() {
        let spec = json!({
            "containers": [], "hostNetwork": true, "hostPID": true, "hostIPC": true,
            "hostUsers": true,
        });
        let want = json!({"containers": [], "automountServiceAccountToken": false});
        assert_eq!(disabled(&spec), want);
    }

    #[test]
    fn everything_else_is_taken_over() {
        let spec = json!({
            "containers": [{"name": "a", "image": "b", "ofTomorrow": {"c": 1}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "activeDeadlineSeconds": 5, "dnsConfig": {"nameservers": ["1.1.1.1"]},
            "dnsPolicy": "None", "enableServiceLinks": false,
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}], "hostname": "h",
            "imagePullSecrets": [{"name": "s"}], "readinessGates": [{"conditionType": "c"}],
            "restartPolicy": "Never", "securityContext": {"runAsUser": 7},
            "setHostnameAsFQDN": true, "shareProcessNamespace": true, "subdomain": "sub",
            "terminationGracePeriodSeconds": 9,
            "topologySpreadConstraints": [{"maxSkew": 1}],
            "resources": {"limits": {"cpu": "1"}}, "ofTomorrow": true,
        });
        let mut want = spec.clone();
        want["automountServiceAccountToken"] = json!(false);
        assert_eq!(disabled(&spec), want);
    }

    #[test]
    fn containers_that_were_added_reach_the_api_server_as_the_others_do() {
        let access = Access::token_api("10.92.0.2".parse().unwrap(), 443);
        let map = json!({"configMapRef": {"name": "kube-root-ca.crt"}});
        let spec = json!({"ephemeralContainers": [
            {"name": "old", "image": "a"},
            {"name": "new", "image": "b", "targetContainerName": "c", "envFrom": [map]},
        ]});
        let has = json!({"ephemeralContainers": [{"name": "old", "image": "as it was"}]});
        let want = added(&spec, &has, &place(), &access).unwrap();
        assert_eq!(want[0], has["ephemeralContainers"][0], "what is there does not change");
        let new = &want[1];
        assert_eq!(new["targetContainerName"], "c");
        assert_eq!(new["envFrom"][0]["configMapRef"]["name"], "kube-root-ca.crt.41543");
        assert_eq!(new["env"][0]["name"], "KUBERNETES_SERVICE_HOST");
        let has = json!({"ephemeralContainers": want});
        assert_eq!(added(&spec, &has, &place(), &access), None);
        assert_eq!(added(&json!({}), &json!({}), &place(), &access), None);
    }

    #[test]
    fn only_the_toleration_of_virtual_nodes_is_taken_off() {
        let spec = json!({
            "containers": [],
            "tolerations": [
                {"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                {"operator": "Exists"},
            ],
        });
        let want = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            {"operator": "Exists"},
        ]);
        assert_eq!(disabled(&spec)["tolerations"], want);
    }

    fn disabled(spec: &Value) -> Value {
        remote(&ObjectMeta::default(), spec, &place(), &Access::default())
    }
}
