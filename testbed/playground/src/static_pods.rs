//! The control plane as static pods, with the names, labels and flags kubeadm gives them.
//!
//! Installers find a cluster's networks by reading the flags of these pods. The image is empty: the
//! programs are the engine's, mounted from the node, so that nothing large is ever copied.

use serde_json::{Value, json};

use crate::node_files::ENGINE;
use crate::plan::{API_PORT, ClusterPlan, NodePlan};

/// The image that all control plane pods are made of.
pub const IMAGE: &str = "localhost/playground/kube:v1.34.4";

/// Those that the others cannot do without.
pub const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];

/// Every control plane pod of a cluster, by name.
pub fn all(cluster: &ClusterPlan, node: &NodePlan) -> Vec<(&'static str, Value)> {
    let mut pods = vec![
        ("etcd", etcd(node)),
        ("kube-apiserver", api_server(cluster, node)),
        ("kube-controller-manager", controller_manager(cluster)),
        ("kube-scheduler", scheduler(cluster)),
    ];
    for (name, pod) in &mut pods {
        pod["spec"]["containers"][0]["resources"] = json!({"requests": requests(name)});
    }
    if !is_for_comparison(cluster) {
        for (_, pod) in &mut pods {
            // Smaller heaps for more work: many clusters share one machine.
            pod["spec"]["containers"][0]["env"] = json!([{"name": "GOGC", "value": "30"}]);
        }
    }
    pods
}

/// What kubeadm asks for. Whoever asks for nothing gets nothing of a busy machine, and the more pods
/// start, the less would be left for those that start them.
fn requests(component: &str) -> Value {
    match component {
        "etcd" => json!({"cpu": "100m", "memory": "100Mi"}),
        "kube-apiserver" => json!({"cpu": "250m"}),
        "kube-controller-manager" => json!({"cpu": "200m"}),
        _ => json!({"cpu": "100m"}),
    }
}

/// Whether the cluster itself must not be what limits its clients.
fn is_for_comparison(cluster: &ClusterPlan) -> bool {
    cluster.cluster.qps.is_some()
}

fn etcd(node: &NodePlan) -> Value {
    let pki = "/etc/kubernetes/pki/etcd";
    let flags = vec![
        format!("--name={}", node.name),
        "--data-dir=/var/lib/etcd".to_owned(),
        "--listen-client-urls=https://127.0.0.1:2379".to_owned(),
        "--advertise-client-urls=https://127.0.0.1:2379".to_owned(),
        "--listen-peer-urls=https://127.0.0.1:2380".to_owned(),
        "--initial-advertise-peer-urls=https://127.0.0.1:2380".to_owned(),
        format!("--initial-cluster={}=https://127.0.0.1:2380", node.name),
        format!("--cert-file={pki}/server.crt"),
        format!("--key-file={pki}/server.key"),
        format!("--trusted-ca-file={pki}/ca.crt"),
        "--client-cert-auth=true".to_owned(),
        format!("--peer-cert-file={pki}/peer.crt"),
        format!("--peer-key-file={pki}/peer.key"),
        format!("--peer-trusted-ca-file={pki}/ca.crt"),
        "--peer-client-cert-auth=true".to_owned(),
        "--listen-metrics-urls=http://127.0.0.1:2381".to_owned(),
        "--watch-progress-notify-interval=5s".to_owned(),
        // A playground may lose its last writes with the machine's power; it gains much by it.
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    let volumes = [
        ("etcd-certs", pki, "DirectoryOrCreate"),
        ("etcd-data", "/var/lib/etcd", "DirectoryOrCreate"),
    ];
    pod(
        "etcd",
        "etcd",
        flags,
        &volumes,
        &json!({"host": "127.0.0.1", "port": 2381, "path": "/health", "scheme": "HTTP"}),
    )
}

fn api_server(cluster: &ClusterPlan, node: &NodePlan) -> Value {
    let pki = "/etc/kubernetes/pki";
    let mut flags = vec![
        format!("--advertise-address={}", node.address),
        format!("--secure-port={API_PORT}"),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        format!("--client-ca-file={pki}/ca.crt"),
        format!("--tls-cert-file={pki}/apiserver.crt"),
        format!("--tls-private-key-file={pki}/apiserver.key"),
        "--etcd-servers=https://127.0.0.1:2379".to_owned(),
        format!("--etcd-cafile={pki}/etcd/ca.crt"),
        format!("--etcd-certfile={pki}/apiserver-etcd-client.crt"),
        format!("--etcd-keyfile={pki}/apiserver-etcd-client.key"),
        format!("--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt"),
        format!("--kubelet-client-key={pki}/apiserver-kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname".to_owned(),
        format!("--proxy-client-cert-file={pki}/front-proxy-client.crt"),
        format!("--proxy-client-key-file={pki}/front-proxy-client.key"),
        format!("--requestheader-client-ca-file={pki}/front-proxy-ca.crt"),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={pki}/sa.pub"),
        format!("--service-account-signing-key-file={pki}/sa.key"),
        format!("--service-cluster-ip-range={}", cluster.cluster.service_cidr),
    ];
    if is_for_comparison(cluster) {
        flags.push("--max-requests-inflight=4000".to_owned());
        flags.push("--max-mutating-requests-inflight=2000".to_owned());
    }
    flags.extend(gates(cluster));
    let probe =
        json!({"host": node.address, "port": API_PORT, "path": "/readyz", "scheme": "HTTPS"});
    pod(
        "kube-apiserver",
        "kube-apiserver",
        flags,
        &[("k8s-certs", pki, "DirectoryOrCreate")],
        &probe,
    )
}

fn controller_manager(cluster: &ClusterPlan) -> Value {
    let pki = "/etc/kubernetes/pki";
    let config = "/etc/kubernetes/controller-manager.conf";
    let mut flags = vec![
        format!("--kubeconfig={config}"),
        format!("--authentication-kubeconfig={config}"),
        format!("--authorization-kubeconfig={config}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--client-ca-file={pki}/ca.crt"),
        // Nodes get their share of the network from the plan, together with their routes.
        "--allocate-node-cidrs=false".to_owned(),
        format!("--cluster-cidr={}", cluster.cluster.pod_cidr),
        "--cluster-name=kubernetes".to_owned(),
        format!("--cluster-signing-cert-file={pki}/ca.crt"),
        format!("--cluster-signing-key-file={pki}/ca.key"),
        "--controllers=*,bootstrapsigner,tokencleaner".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--requestheader-client-ca-file={pki}/front-proxy-ca.crt"),
        format!("--root-ca-file={pki}/ca.crt"),
        format!("--service-account-private-key-file={pki}/sa.key"),
        // A third of the default: whoever pulls a cable wants to see what happens.
        "--node-monitor-grace-period=16s".to_owned(),
        "--node-monitor-period=2s".to_owned(),
        format!("--service-cluster-ip-range={}", cluster.cluster.service_cidr),
        "--use-service-account-credentials=true".to_owned(),
    ];
    flags.extend(rates(cluster));
    flags.extend(gates(cluster));
    let volumes = [("k8s-certs", pki, "DirectoryOrCreate"), ("kubeconfig", config, "File")];
    let probe = json!({"host": "127.0.0.1", "port": 10257, "path": "/healthz", "scheme": "HTTPS"});
    pod("kube-controller-manager", "kube-controller-manager", flags, &volumes, &probe)
}

fn scheduler(cluster: &ClusterPlan) -> Value {
    let config = "/etc/kubernetes/scheduler.conf";
    let mut flags = vec![
        format!("--kubeconfig={config}"),
        format!("--authentication-kubeconfig={config}"),
        format!("--authorization-kubeconfig={config}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    flags.extend(rates(cluster));
    flags.extend(gates(cluster));
    let probe = json!({"host": "127.0.0.1", "port": 10259, "path": "/healthz", "scheme": "HTTPS"});
    pod("kube-scheduler", "kube-scheduler", flags, &[("kubeconfig", config, "File")], &probe)
}

/// At their defaults these two create twenty pods a second, whatever the machine can do.
fn rates(cluster: &ClusterPlan) -> Vec<String> {
    let qps = cluster.cluster.qps.unwrap_or(100);
    vec![format!("--kube-api-qps={qps}"), format!("--kube-api-burst={}", qps.saturating_mul(2))]
}

fn gates(cluster: &ClusterPlan) -> Option<String> {
    let features = &cluster.cluster.features;
    let list: Vec<String> = features.iter().map(|(name, on)| format!("{name}={on}")).collect();
    (!list.is_empty()).then(|| format!("--feature-gates={}", list.join(",")))
}

fn pod(
    name: &str,
    program: &str,
    flags: Vec<String>,
    volumes: &[(&str, &str, &str)],
    probe: &Value,
) -> Value {
    let command: Vec<String> = std::iter::once(format!("/engine/{program}")).chain(flags).collect();
    let mut mounts = vec![json!({"name": "engine", "mountPath": "/engine", "readOnly": true})];
    let mut sources =
        vec![json!({"name": "engine", "hostPath": {"path": ENGINE, "type": "Directory"}})];
    for (volume, path, kind) in volumes {
        mounts.push(json!({"name": volume, "mountPath": path, "readOnly": *volume != "etcd-data"}));
        sources.push(json!({"name": volume, "hostPath": {"path": path, "type": kind}}));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {"component": name, "tier": "control-plane"},
        },
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": name,
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "volumeMounts": mounts,
                "livenessProbe": {
                    "httpGet": probe,
                    "failureThreshold": 8,
                    "initialDelaySeconds": 20,
                    "periodSeconds": 10,
                    "timeoutSeconds": 15,
                },
            }],
            "volumes": sources,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::topology::Topology;

    fn flags_of(pod: &Value) -> Vec<&str> {
        let command = pod["spec"]["containers"][0]["command"].as_array().unwrap();
        command.iter().filter_map(Value::as_str).collect()
    }

    #[test]
    fn installers_find_the_networks_where_kubeadm_puts_them() {
        let plan = Plan::new("pg", 0, "x", &Topology::load("one").unwrap()).unwrap();
        let cluster = &plan.clusters[0];
        let pods = all(cluster, cluster.control_plane());
        let (_, manager) =
            pods.iter().find(|(name, _)| *name == "kube-controller-manager").unwrap();
        assert_eq!(manager["metadata"]["labels"]["component"], "kube-controller-manager");
        assert_eq!(manager["metadata"]["labels"]["tier"], "control-plane");
        let flags = flags_of(manager);
        assert!(flags.contains(&"--cluster-cidr=10.10.0.0/16"), "{flags:?}");
        assert!(flags.contains(&"--service-cluster-ip-range=10.11.0.0/16"), "{flags:?}");
    }

    #[test]
    fn control_planes_are_small_unless_clusters_are_compared() {
        let mut plan = Plan::new("pg", 0, "x", &Topology::load("one").unwrap()).unwrap();
        let growth = |plan: &Plan| {
            let pods = all(&plan.clusters[0], &plan.clusters[0].nodes[0]);
            pods[1].1["spec"]["containers"][0]["env"][0]["value"].as_str().map(str::to_owned)
        };
        assert_eq!(growth(&plan).as_deref(), Some("30"));
        plan.clusters[0].cluster.qps = Some(500);
        assert_eq!(growth(&plan), None, "as Go has it");
    }

    #[test]
    fn rates_and_features_reach_the_components_that_know_them() {
        let mut plan = Plan::new("pg", 0, "x", &Topology::load("one").unwrap()).unwrap();
        plan.clusters[0].cluster.qps = Some(500);
        plan.clusters[0].cluster.features.insert("WatchList".to_owned(), false);
        let scheduler = scheduler(&plan.clusters[0]);
        let flags = flags_of(&scheduler);
        for flag in
            ["--kube-api-qps=500", "--kube-api-burst=1000", "--feature-gates=WatchList=false"]
        {
            assert!(flags.contains(&flag), "{flag} in {flags:?}");
        }
    }
}
