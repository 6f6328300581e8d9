//! What stands in a node's `/etc`, as kubeadm and a distribution would have put it there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::Digest as _;

use crate::init::{Boot, Gate, Service};
use crate::pki::{self, Pki};
use crate::plan::{ClusterPlan, NodePlan, Plan};
use crate::static_pods;

/// Files by their path below `/etc`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Where the engine's programs are on a node.
pub const ENGINE: &str = "/run/engine";
/// Where the image archives are on a node.
pub const IMAGES: &str = "/run/images";
/// Where a node remembers what the playground did to it.
pub const STATE: &str = "/var/lib/playground";
/// The image every sandbox is made of.
pub const PAUSE_IMAGE: &str = "localhost/playground/pause:1";

/// All files of a node.
pub fn files(
    plan: &Plan,
    cluster: &ClusterPlan,
    node: &NodePlan,
    pki: &Pki,
) -> Result<Files, pki::Error> {
    let mut files: Files = pki
        .files_for(node)?
        .into_iter()
        .map(|(path, bytes)| (format!("kubernetes/{path}"), bytes))
        .collect();
    let mut put = |path: &str, text: String| files.insert(path.to_owned(), text.into_bytes());
    put("hostname", format!("{}\n", node.name));
    put("hosts", hosts(plan));
    // Nothing outside is reachable, so nothing outside is asked.
    put("resolv.conf", "options timeout:1 attempts:1\n".to_owned());
    put("machine-id", format!("{}\n", machine_id(&node.namespace)));
    put("containerd/config.toml", containerd());
    put("cni/net.d/10-playground.conflist", pretty(&cni(node)));
    put("kubernetes/kubelet.json", pretty(&kubelet(plan, cluster, node)));
    put("kubernetes/kube-proxy.json", pretty(&kube_proxy(cluster, node)));
    if node.control_plane {
        for (name, pod) in static_pods::all(cluster, node) {
            // What needs the API server waits for it: a retry that came too early comes late.
            let folder = if static_pods::SERVERS.contains(&name) { "manifests" } else { "waiting" };
            put(&format!("kubernetes/{folder}/{name}.json"), pretty(&pod));
        }
    } else {
        put("kubernetes/manifests/.keep", String::new());
    }
    Ok(files)
}

/// What a node starts, in order.
pub fn boot(cluster: &ClusterPlan, node: &NodePlan, engine: &Path, images: &Path) -> Boot {
    let api = format!("{}:{}", cluster.control_plane().address, crate::plan::API_PORT);
    let containerd = Gate::Socket("/run/containerd/containerd.sock".into());
    let mut services = vec![
        Service::new(
            "containerd",
            &["/usr/bin/containerd", "--config=/etc/containerd/config.toml"],
        ),
        Service::new(
            "kubelet",
            &[
                &format!("{ENGINE}/kubelet"),
                "--config=/etc/kubernetes/kubelet.json",
                "--kubeconfig=/etc/kubernetes/kubelet.conf",
                &format!("--hostname-override={}", node.name),
                &format!("--node-ip={}", node.address),
            ],
        )
        .after(containerd),
        Service::new(
            "kube-proxy",
            &[&format!("{ENGINE}/kube-proxy"), "--config=/etc/kubernetes/kube-proxy.json"],
        )
        .after(Gate::Tcp(api.clone())),
    ];
    if !node.control_plane {
        services[1] = services[1].clone().after(Gate::Tcp(api.clone()));
    }
    if node.control_plane && cluster.cluster.fake_nodes > 0 {
        services.push(
            Service::new(
                "kwok",
                &[
                    &format!("{ENGINE}/kwok"),
                    "--kubeconfig=/etc/kubernetes/super-admin.conf",
                    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                    "--node-lease-duration-seconds=16",
                    "--v=WARN",
                ],
            )
            .after(Gate::Tcp(api.clone())),
        );
    }
    Boot {
        hostname: node.name.clone(),
        engine: engine.to_owned(),
        images: images.to_owned(),
        preload: vec!["pause.tar".to_owned(), "kube.tar".to_owned()],
        services,
        api: node.control_plane.then_some(Gate::Tcp(api)),
    }
}

fn kubelet(plan: &Plan, cluster: &ClusterPlan, node: &NodePlan) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/etc/kubernetes/pki/kubelet.crt",
        "tlsPrivateKeyFile": "/etc/kubernetes/pki/kubelet.key",
        "cgroupDriver": "cgroupfs",
        // Two kubelets on `/` would kill each other's pods.
        "cgroupRoot": format!("/{}/{}", plan.cgroup(), node.name),
        "clusterDNS": [cluster.dns_ip],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "staticPodPath": "/etc/kubernetes/manifests",
        "resolvConf": "/etc/resolv.conf",
        "failSwapOn": false,
        "featureGates": cluster.cluster.features,
        // The disk is the whole machine's: a playground must not evict because of its neighbours.
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": 16,
        // How soon a static pod is shown once the API server answers.
        "syncFrequency": "2s",
        "fileCheckFrequency": "1s",
        "registerNode": true,
        "serializeImagePulls": false,
        "shutdownGracePeriod": "0s",
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "logging": {"flushFrequency": "1s"},
    })
}

fn kube_proxy(cluster: &ClusterPlan, node: &NodePlan) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"},
        "clusterCIDR": cluster.cluster.pod_cidr,
        "featureGates": cluster.cluster.features,
        "hostnameOverride": node.name,
        "mode": cluster.cluster.proxy_mode,
        // These limits are the whole machine's, not a namespace's.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
        "nftables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    })
}

fn cni(node: &NodePlan) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "playground",
        "plugins": [
            {
                // Point-to-point: replies always pass the node, whatever the bridge module does.
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": node.pod_cidr}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": "/run/cni-ipam",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn hosts(plan: &Plan) -> String {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for (_, node) in plan.nodes() {
        let _ = writeln!(text, "{} {}", node.address, node.name);
    }
    text
}

/// A stable 128-bit identity per namespace.
fn machine_id(namespace: &str) -> String {
    crate::engine::hex(&sha2::Sha256::digest(namespace.as_bytes()), 16)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Where distributions put network plugins.
pub const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

fn containerd() -> String {
    let there = |folder: &&str| Path::new(folder).join("ptp").exists();
    let plugins = PLUGIN_FOLDERS.into_iter().find(there).unwrap_or(PLUGIN_FOLDERS[0]);
    CONTAINERD.replace("PAUSE_IMAGE", PAUSE_IMAGE).replace("PLUGIN_FOLDER", plugins)
}

const CONTAINERD: &str = r#"version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE_IMAGE"
  # Lowering a score needs CAP_SYS_RESOURCE, which not every machine grants.
  restrict_oom_score_adj = true
  # Pod namespaces then vanish with the node.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGIN_FOLDER"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"#;
