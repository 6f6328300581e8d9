//! Gateways of two clusters on real API servers, with real tunnels between real namespaces.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::Parser;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace as Space, Pod, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::finalizer;
use liqo_api::net::{ConnectionStatus, NatMapping, TunnelEndpoint};
use liqo_gateway::{Args, Error, Process, preview, serve};
use liqo_kit::metrics::Metrics;
use liqo_netstate::Namespace;
use liqo_testkit::{ControlPlane, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_connect_tell_how_it_goes_and_leave_nothing_behind() {
    let (one, other) = (Lab::new("rome"), Lab::new("milan"));
    let (rome, milan) = (plane().await, plane().await);
    let rome_gateway = Running::start(&rome, &one, "gateway-a", 7, 35871).await;
    let milan_gateway = Running::start(&milan, &other, "gateway-a", 8, 35872).await;
    let (rome_key, milan_key) = (key(&rome.client()).await, key(&milan.client()).await);

    // Both have the same networks.
    peer(&rome.client(), MILAN, "milan", &milan_key, 35872, ["10.51", "10.52", "10.61", "10.62"])
        .await;
    peer(&milan.client(), ROME, "rome", &rome_key, 35871, ["10.61", "10.62", "10.51", "10.52"])
        .await;
    for (client, name) in [(rome.client(), "milan"), (milan.client(), "rome")] {
        let tunnels = tunnels(&client, name);
        let tunnel = until("the tunnel connects", &tunnels, name, is_connected).await;
        let tunnel = tunnel.unwrap().unwrap();
        assert_eq!(tunnel.finalizers(), [finalizer::GATEWAY]);
        let connection = tunnel.status.unwrap().connection.unwrap();
        assert_eq!(connection.peer_configuration["endpointIP"], "127.0.0.1");
        let latency = connection.latency.unwrap().value.unwrap();
        assert!(latency.ends_with("\u{3bc}s") || latency.ends_with("ms"), "{latency}");
    }
    let pods: Api<Pod> = Api::namespaced(rome.client(), "liqo");
    until("it is active", &pods, "gateway-a", |pod| role(pod) == Some("active")).await.unwrap();
    let services: Api<Service> = Api::namespaced(rome.client(), "liqo");
    let annotated = |service: Option<&Service>| {
        let node = service.and_then(|one| one.annotations().get("net.liqo.io/gatewayNodeIP"));
        node.is_some_and(|node| node == "127.88.0.7")
    };
    until("the Service says where it is", &services, "liqo-gateway", annotated).await.unwrap();
    rome_gateway.measures(MILAN, "milan").await;
    let args = one.args("gateway-a", 7, 35871);
    let text = preview(&rome.client(), &one.node(), &args).await.unwrap();
    assert_eq!(text, "on the node:\nnothing to do\nin the gateway:\nnothing to do\n");

    // What somebody removes comes back, tunnels included.
    one.inside("ip link del liqo.tunnel").unwrap();
    liqo_testkit::eventually(std::time::Duration::from_secs(30), "the tunnel is back", || {
        let routes = one.inside("ip route")?;
        if routes.contains("10.51.0.0/16 dev liqo.tunnel") { Ok(()) } else { Err(routes) }
    })
    .unwrap();

    // A peer that asks for what it must not have is refused, and the others stay.
    peer(
        &rome.client(),
        "3cb4110a-c5e6-4a52-851d-d0e0d86c9174",
        "oslo",
        &rome_key,
        1,
        ["127.0", "10.72", "10.81", "10.82"],
    )
    .await;
    let refused = |tunnel: Option<&TunnelEndpoint>| {
        message(tunnel).is_some_and(|message| message.contains("which is loopback"))
    };
    let oslo = until("it is refused", &tunnels(&rome.client(), "oslo"), "oslo", refused).await;
    assert_eq!(oslo.unwrap().unwrap().status.unwrap().gateway_ip, None);

    // A gateway that listens elsewhere is followed by what is told of it: it calls nobody itself.
    milan_gateway.stop().await.unwrap();
    move_to(&tunnels(&milan.client(), "rome"), "rome", 9).await;
    let milan_gateway = Running::again(&milan, &other, "gateway-a", 8, 35873).await;
    move_to(&tunnels(&rome.client(), "milan"), "milan", 35873).await;
    let is_there = |tunnel: Option<&TunnelEndpoint>| {
        let connection = tunnel.and_then(|tunnel| tunnel.status.as_ref()?.connection.as_ref());
        let port = connection.and_then(|one| one.peer_configuration.get("port"));
        port.is_some_and(|port| port == "35873") && is_connected(tunnel)
    };
    let tunnel = tunnels(&rome.client(), "milan");
    until("the peer is followed", &tunnel, "milan", is_there).await.unwrap();

    // A peer that goes is gone on both sides, whoever else waited for nodes that are no more.
    let tunnels = tunnels(&rome.client(), "milan");
    let stale = json!({ "metadata": { "finalizers": [finalizer::GATEWAY, finalizer::route(Ipv4Addr::new(172, 30, 0, 9))] } });
    tunnels.patch("milan", &PatchParams::default(), &Patch::Merge(stale)).await.unwrap();
    tunnels.delete("milan", &DeleteParams::default()).await.unwrap();
    until("the tunnel is gone", &tunnels, "milan", |tunnel| tunnel.is_none()).await.unwrap();
    assert!(!one.dump().contains("10.51."), "{}", one.dump());
    let measured = rome_gateway.metrics.text().unwrap();
    assert!(!measured.contains("cluster_name=\"milan\""), "{measured}");

    rome_gateway.stop().await.unwrap();
    milan_gateway.stop().await.unwrap();
    assert_eq!(one.dump(), one.before);
    assert_eq!(other.dump(), other.before);
    assert!(!one.netns.exists());
}

#[tokio::test]
async fn one_that_stands_by_takes_over_from_one_that_is_gone() {
    let (first, mut second) = (Lab::new("first"), Lab::new("second"));
    second.is_shared();
    let plane = plane().await;
    let client = plane.client();
    let one = Running::start(&plane, &first, "gateway-a", 17, 35881).await;
    let tunnels = tunnels(&client, "milan");
    let key = key(&client).await;
    peer(&client, MILAN, "milan", &key, 9, ["10.51", "10.52", "10.61", "10.62"]).await;
    until("the first is active", &tunnels, "milan", |tunnel| {
        gateway(tunnel) == Some("127.88.0.17")
    })
    .await
    .unwrap();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "liqo");
    let other = Running::start(&plane, &second, "gateway-b", 18, 35882).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "liqo");
    until("the second stands by", &pods, "gateway-b", |pod| role(pod) == Some("standby"))
        .await
        .unwrap();
    let is_active =
        |gateway: &Running| gateway.metrics.text().unwrap().contains("liqo_gateway_is_active 1\n");
    assert!(is_active(&one) && !is_active(&other));
    // Time for it to notice the first one.
    other.watches().await;

    one.kill().await;
    until("the second is active", &tunnels, "milan", |tunnel| {
        gateway(tunnel) == Some("127.88.0.18")
    })
    .await
    .unwrap();
    until("it says so", &pods, "gateway-b", |pod| role(pod) == Some("active")).await.unwrap();
    assert!(is_active(&other));
    until("of the other, too", &pods, "gateway-a", |pod| role(pod) == Some("standby"))
        .await
        .unwrap();

    let held = leases.get("1d5hml1.gateway.net.liqo.io").await.unwrap();
    let before = held.spec.unwrap().holder_identity.unwrap();
    // One that is started again in its pod does not wait for its forerunner, and removes what that
    // left, and nothing else.
    other.kill().await;
    assert!(second.netns.exists() && second.dump().contains("liqo.host"), "{}", second.dump());
    let again = Running::again(&plane, &second, "gateway-b", 18, 35882).await;
    until("it leads again", &leases, "1d5hml1.gateway.net.liqo.io", |lease| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
        holder.is_some_and(|holder| holder.starts_with("gateway-b_") && holder != before)
    })
    .await
    .unwrap();
    again.stop().await.unwrap();
    assert_eq!(second.dump(), second.before);
    assert!(!second.netns.exists());
}

#[tokio::test]
async fn what_would_change_is_printed_and_nothing_changes() {
    let lab = Lab::new("dry");
    let plane = plane().await;
    let key = "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=";
    peer(&plane.client(), MILAN, "milan", key, 9, ["10.51", "10.52", "10.61", "10.62"]).await;
    let text =
        preview(&plane.client(), &lab.node(), &lab.args("gateway-a", 27, 35891)).await.unwrap();
    assert!(text.contains("+ link liqo.host: cable to liqo.gateway, mtu 1340"), "{text}");
    assert!(
        text.contains("10.51.0.0/16 : goto from-2cb4110a-c5e6-4a52-851d-d0e0d86c9174"),
        "{text}"
    );
    assert_eq!(lab.dump(), lab.before);
}

/// The network namespace of a node, removed at the end.
struct Lab {
    path: PathBuf,
    netns: PathBuf,
    before: String,
}

impl Lab {
    fn new(name: &str) -> Self {
        let name = format!("fgw-{}-{name}", std::process::id());
        let status = Command::new("ip").args(["netns", "add", &name]).status().unwrap();
        assert!(status.success());
        let path = Path::new("/run/netns").join(&name);
        let netns = Path::new("/run/netns").join(format!("{name}-liqo"));
        let mut lab = Self { path, netns, before: String::new() };
        lab.before = lab.dump();
        lab
    }

    /// Others have something there, too.
    fn is_shared(&mut self) {
        for line in [
            "ip link add liqo-lookalike type veth peer name eth1",
            "ip route add blackhole 10.99.0.0/16 table 18952",
            "ip rule add to 10.99.0.0/16 lookup 99",
            "nft add table ip other",
            "nft add chain ip other c { type filter hook forward priority 0 ; }",
            "nft add table inet liqo",
        ] {
            self.on_node(line);
        }
        self.before = self.dump();
    }

    fn node(&self) -> Namespace {
        Namespace::open(&self.path).unwrap()
    }

    fn args(&self, pod: &str, host: u8, port: u16) -> Args {
        Line::parse_from([
            "gateway",
            "--gateway.leader-elect=true",
            "--gateway.mtu=1340",
            "--gateway.ping-interval=500ms",
            &format!("--gateway.netns={}", self.netns.display()),
            &format!("--gateway.listening-port={port}"),
            &format!("--pod-ip=127.88.0.{host}"),
            &format!("--pod-name={pod}"),
        ])
        .args
    }

    /// Runs something in the gateway's own namespace.
    fn inside(&self, line: &str) -> Result<String, String> {
        let output = Command::new("nsenter")
            .arg(format!("--net={}", self.netns.display()))
            .args(line.split(' '))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn dump(&self) -> String {
        let commands = [
            "ip -br link",
            "ip rule",
            "ip route show table all",
            "ip neigh show nud permanent",
            "nft list ruleset",
        ];
        commands.map(|line| format!("# {line}\n{}", self.on_node(line))).concat()
    }

    fn on_node(&self, line: &str) -> String {
        let mut words = vec![format!("--net={}", self.path.display())];
        words.extend(line.split(' ').map(str::to_owned));
        let output = Command::new("nsenter").args(words).output().unwrap();
        assert!(output.status.success(), "{line}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = Namespace::remove(&self.netns);
        let _ =
            Command::new("ip").args(["netns", "del"]).arg(self.path.file_name().unwrap()).status();
    }
}

/// A gateway that runs.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
    metrics: Metrics,
    address: String,
    port: u16,
}

impl Running {
    async fn start(plane: &ControlPlane, lab: &Lab, pod: &str, host: u8, port: u16) -> Self {
        let client = plane.client();
        let pods: Api<Pod> = Api::namespaced(client.clone(), "liqo");
        let object = json!({
            "metadata": { "name": pod, "labels": {
                "app.kubernetes.io/name": "gateway",
                "app.kubernetes.io/component": "networking",
            } },
            "spec": { "containers": [{ "name": "gateway", "image": "liqo" }] },
        });
        make(&pods, object).await;
        let status = json!({ "status": { "podIP": format!("127.88.0.{host}"), "podIPs": [{ "ip": format!("127.88.0.{host}") }] } });
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        Self::again(plane, lab, pod, host, port).await
    }

    /// Starts it in a pod that is there.
    async fn again(plane: &ControlPlane, lab: &Lab, pod: &str, host: u8, port: u16) -> Self {
        let client = plane.client();
        let args = lab.args(pod, host, port);
        let pods: Api<Pod> = Api::namespaced(client.clone(), "liqo");
        let (stop, metrics) = (CancellationToken::new(), Metrics::default());
        let process = Process {
            client,
            metrics: metrics.clone(),
            tasks: Arc::default(),
            stop: stop.clone(),
            node: lab.node(),
        };
        let presence = |pod: &Pod| pod.annotations().get("net.liqo.io/gateway-presence").cloned();
        let before = presence(&pods.get(pod).await.unwrap());
        let mut task = tokio::spawn(serve(process, args));
        let is_there = |pod: Option<&Pod>| {
            pod.is_some_and(|pod| presence(pod).is_some_and(|now| Some(now) != before))
        };
        tokio::select! {
            there = until("the gateway is there", &pods, pod, is_there) => there.map(drop).unwrap(),
            ended = &mut task => panic!("it ended: {:?}", ended.unwrap()),
        }
        Self { stop, task, metrics, address: format!("127.88.0.{host}"), port }
    }

    /// Waits until it has a connection to the one that is active.
    async fn watches(&self) {
        let connected = async {
            loop {
                let output =
                    Command::new("ss").args(["-Htn", "state", "established"]).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                if text.lines().any(|line| line.contains("127.88.0.17:")) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(30);
        tokio::time::timeout(limit, connected).await.expect(&self.address);
    }

    /// Waits until it shows all that it measures of a peer that answers.
    async fn measures(&self, id: &str, name: &str) {
        let labels = format!(
            "{{driver=\"wireguard\",device=\"liqo.tunnel\",cluster_id=\"{id}\",\
             cluster_name=\"{name}\"}} "
        );
        let shows = |metric: &str| {
            let text = self.metrics.text().unwrap();
            let line =
                text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(&labels));
            line.is_some_and(|value| value.parse::<u64>().is_ok_and(|value| value > 0))
        };
        let metrics = [
            "liqo_peer_is_connected",
            "liqo_peer_latency_us",
            "liqo_peer_receive_bytes_total",
            "liqo_peer_transmit_bytes_total",
        ];
        let measured = async {
            while !metrics.into_iter().all(shows) {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(30);
        let in_time = tokio::time::timeout(limit, measured).await;
        assert!(in_time.is_ok(), "{}", self.metrics.text().unwrap());
        let text = self.metrics.text().unwrap();
        assert!(text.contains("liqo_gateway_connections_limit "), "{text}");
    }

    async fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        self.task.await.unwrap()
    }

    /// Ends it without a word, as the kernel does with a process, of which nothing is left then.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        let freed = async {
            while std::net::UdpSocket::bind(("::", self.port)).is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), freed).await.unwrap();
    }
}

async fn plane() -> ControlPlane {
    let plane = ControlPlane::start().await.unwrap();
    plane.define(liqo_api::all_crds()).await.unwrap();
    let spaces: Api<Space> = Api::all(plane.client());
    for name in ["liqo", "liqo-tenant-rome", "liqo-tenant-milan", "liqo-tenant-oslo"] {
        make(&spaces, json!({ "metadata": { "name": name } })).await;
    }
    let services: Api<Service> = Api::namespaced(plane.client(), "liqo");
    let service = json!({
        "metadata": { "name": "liqo-gateway", "labels": { "net.liqo.io/gateway": "true" } },
        "spec": { "ports": [{ "name": "wireguard", "port": 5871, "protocol": "UDP" }] },
    });
    make(&services, service).await;
    plane
}

async fn make<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Has a peer be looked for at another port.
async fn move_to(tunnels: &Api<TunnelEndpoint>, name: &str, port: u16) {
    let change = json!({ "spec": { "backend_config": { "port": port.to_string() } } });
    tunnels.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

async fn key(client: &Client) -> String {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
    let secret = until("there are keys", &secrets, "wireguard-pubkey", |one| one.is_some()).await;
    let secret = secret.unwrap().unwrap();
    assert_eq!(secret.labels()["net.liqo.io/key"], "wireguard");
    String::from_utf8(secret.data.unwrap()["publicKey"].0.clone()).unwrap()
}

/// Networks: its pods and externals as known here, ours as known there.
async fn peer(client: &Client, id: &str, name: &str, key: &str, port: u16, networks: [&str; 4]) {
    let [pods, externals, own_pods, own_externals] =
        networks.map(|start| format!("{start}.0.0/16"));
    let mappings: Api<NatMapping> = Api::all(client.clone());
    let mapping = json!({
        "metadata": {
            "name": format!("natmapping-{name}"),
            "labels": { "net.liqo.io/natmapping": "true", "clusterID": id },
        },
        "spec": {
            "clusterID": id,
            "podCIDR": pods,
            "externalCIDR": own_externals,
            "clusterMappings": { "169.254.0.1": format!("{}.0.1", networks[3]) },
        },
    });
    make(&mappings, mapping).await;
    let tunnel = json!({
        "metadata": { "name": name },
        "spec": {
            "clusterIdentity": { "clusterID": id, "clusterName": name },
            "localPodCIDR": "10.200.0.0/16",
            "localNATPodCIDR": own_pods,
            "localExternalCIDR": "10.95.0.0/16",
            "localNATExternalCIDR": own_externals,
            "remotePodCIDR": "10.200.0.0/16",
            "remoteNATPodCIDR": pods,
            "remoteExternalCIDR": "10.95.0.0/16",
            "remoteNATExternalCIDR": externals,
            "endpointIP": "127.0.0.1",
            "backendType": "wireguard",
            "backend_config": { "port": port.to_string(), "publicKey": key },
        },
    });
    make(&tunnels(client, name), tunnel).await;
}

fn tunnels(client: &Client, name: &str) -> Api<TunnelEndpoint> {
    Api::namespaced(client.clone(), &format!("liqo-tenant-{name}"))
}

fn is_connected(tunnel: Option<&TunnelEndpoint>) -> bool {
    let status = tunnel.and_then(|tunnel| tunnel.status.as_ref()?.connection.as_ref()?.status);
    status == Some(ConnectionStatus::Connected)
}

fn message(tunnel: Option<&TunnelEndpoint>) -> Option<String> {
    tunnel?.status.as_ref()?.connection.as_ref()?.status_message.clone()
}

fn gateway(tunnel: Option<&TunnelEndpoint>) -> Option<&str> {
    tunnel?.status.as_ref()?.gateway_ip.as_deref()
}

fn role(pod: Option<&Pod>) -> Option<&str> {
    pod?.labels().get("net.liqo.io/gateway").map(String::as_str)
}
