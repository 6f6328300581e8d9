//! The routes of two nodes on a real API server, with an overlay between real namespaces.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use k8s_openapi::api::core::v1::{Namespace as Space, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use liqo_api::keys::finalizer;
use liqo_api::net::TunnelEndpoint;
use liqo_netstate::Namespace;
use liqo_route::{Args, Error, Process, preview as look, serve};
use liqo_testkit::{ControlPlane, eventually, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_are_led_to_the_gateway_and_back_and_no_trace_is_left() {
    let plane = ControlPlane::start().await.unwrap();
    plane.define(liqo_api::all_crds()).await.unwrap();
    let client = plane.client();
    let spaces: Api<Space> = Api::all(client.clone());
    for name in ["liqo", "liqo-tenant-milan"] {
        make(&spaces, json!({ "metadata": { "name": name } })).await;
    }
    let (gateway, other) = (Lab::new("a", 2), Lab::new("b", 4));
    gateway.join(&other);
    let before = [gateway.dump(), other.dump()];
    // A pod on the other node, and one that runs in another cluster.
    pod(&client, "default", "web", &json!({}), "10.200.1.7", 4).await;
    let shadow = json!({ "liqo.io/shadowPod": "true" });
    pod(&client, "default", "away", &shadow, "10.51.0.3", 4).await;

    let at_gateway = Running::start(&client, &gateway).await;
    let at_other = Running::start(&client, &other).await;
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(client.clone(), "liqo-tenant-milan");
    make(&tunnels, tunnel()).await;
    let status = json!({ "status": { "gatewayIP": gateway.address().to_string() } });
    tunnels.patch_status("milan", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let held = |tunnel: Option<&TunnelEndpoint>| {
        let nodes = [2, 4].map(|host| finalizer::route(Ipv4Addr::new(172, 30, 0, host)));
        tunnel.is_some_and(|tunnel| nodes.iter().all(|node| tunnel.finalizers().contains(node)))
    };
    until("both nodes hold the tunnel", &tunnels, "milan", held).await.unwrap();

    other.eventually_shows("10.51.0.0/16 via 240.30.0.2 dev liqo.vxlan table 18952");
    other.eventually_shows("from all to 10.51.0.0/16 lookup 18952");
    gateway.eventually_shows("from 10.51.0.0/16 lookup 18952");
    gateway.eventually_shows("10.200.1.7 via 240.30.0.4 dev liqo.vxlan table 18952");
    assert!(!gateway.dump().contains("10.51.0.3"), "a pod elsewhere is reached as its cluster is");
    // Routes into the cable come with it.
    assert!(!gateway.dump().contains("169.254.100.1"), "{}", gateway.dump());
    gateway.run("ip link add liqo.host type veth peer name cable");
    gateway.run("ip link set liqo.host up");
    gateway.run("ip link set cable up");
    gateway.eventually_shows("10.51.0.0/16 via 169.254.100.1 dev liqo.host table 18952");

    // The overlay carries packets: nodes know each other by what their pods tell.
    let echo = gateway.bind(Ipv4Addr::new(240, 30, 0, 2));
    let ask = other.bind(Ipv4Addr::new(240, 30, 0, 4));
    let deadline = Instant::now() + LIMIT;
    let mut buffer = [0; 16];
    let from = loop {
        ask.send_to(b"hello", echo.local_addr().unwrap()).unwrap();
        match echo.recv_from(&mut buffer) {
            Ok((_, from)) => break from,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(from, ask.local_addr().unwrap());

    // Whoever looks finds nothing to do, and what would be done on a node that nobody has touched.
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = preview(&client, &other).await;
        if text == "nothing to do\n" {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
    }
    let fresh = Lab::new("c", 6);
    let text = preview(&client, &fresh).await;
    let overlay = "+ link liqo.vxlan: overlay 18952 on 172.30.0.6, port 4879, mtu 1340, up\n";
    assert!(text.starts_with(overlay), "{text}");
    assert!(text.contains("+ rule to 10.51.0.0/16 lookup 18952\n"), "{text}");
    assert!(!fresh.dump().contains("18952"), "{}", fresh.dump());

    // What somebody removes comes back before anybody notices.
    for (damage, shown) in [
        ("ip rule del to 10.51.0.0/16 lookup 18952", "from all to 10.51.0.0/16 lookup 18952"),
        ("ip route flush table 18952", "10.51.0.0/16 via 240.30.0.2 dev liqo.vxlan table 18952"),
        ("nft delete table ip liqo", "chain crossing"),
        ("ip link del liqo.vxlan", "10.51.0.0/16 via 240.30.0.2 dev liqo.vxlan table 18952"),
    ] {
        let begin = Instant::now();
        other.run(damage);
        other.eventually_shows(shown);
        assert!(begin.elapsed() < Duration::from_secs(2), "{damage}: {:?}", begin.elapsed());
    }

    // A node that leaves is forgotten, and nobody waits for it.
    at_other.stop().await.unwrap();
    assert_eq!(other.dump(), before[1]);
    let released = |tunnel: Option<&TunnelEndpoint>| {
        let node = finalizer::route(Ipv4Addr::new(172, 30, 0, 4));
        tunnel.is_some_and(|tunnel| !tunnel.finalizers().contains(&node))
    };
    until("it is not waited for", &tunnels, "milan", released).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "liqo");
    pods.delete("route-b", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually(LIMIT, "it is forgotten", || {
        let known = gateway.run("bridge fdb show dev liqo.vxlan");
        if known.contains("172.30.0.4") { Err(known) } else { Ok(()) }
    })
    .unwrap();

    tunnels.delete("milan", &DeleteParams::default()).await.unwrap();
    until("the tunnel goes", &tunnels, "milan", |tunnel| tunnel.is_none()).await.unwrap();
    gateway.run("ip link del liqo.host");
    at_gateway.stop().await.unwrap();
    assert_eq!(gateway.dump(), before[0]);
}

/// The network namespace of a node, removed at the end.
struct Lab {
    name: &'static str,
    host: u8,
    path: PathBuf,
}

impl Lab {
    fn new(name: &'static str, host: u8) -> Self {
        let full = format!("frt-{}-{name}", std::process::id());
        let status = Command::new("ip").args(["netns", "add", &full]).status().unwrap();
        assert!(status.success());
        let lab = Self { name, host, path: Path::new("/run/netns").join(full) };
        lab.run("ip link set lo up");
        lab
    }

    fn join(&self, other: &Self) {
        let there = other.path.display();
        self.run(&format!("ip link add eth0 type veth peer name eth0 netns {there}"));
        for lab in [self, other] {
            lab.run(&format!("ip addr add {}/24 dev eth0", lab.address()));
            lab.run("ip link set eth0 up");
        }
        for lab in [self, other] {
            let is_up = || {
                let link = lab.run("ip -br link show eth0");
                if link.contains(" UP ") { Ok(()) } else { Err(link) }
            };
            eventually(LIMIT, "the cable is up", is_up).unwrap();
        }
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 30, 0, self.host)
    }

    fn args(&self) -> Args {
        let words = [
            "route",
            "--route.vxlan-mtu=1340",
            &format!("--pod-ip={}", self.address()),
            &format!("--pod-name=route-{}", self.name),
        ];
        Line::parse_from(words).args
    }

    fn run(&self, line: &str) -> String {
        let output = Command::new("nsenter")
            .arg(format!("--net={}", self.path.display()))
            .args(line.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn dump(&self) -> String {
        // IPv6 settles in its own time.
        let commands =
            ["ip -4 -o addr", "ip rule", "ip -4 route show table all", "nft -s list ruleset"];
        commands.map(|line| self.run(line)).concat()
    }

    fn eventually_shows(&self, text: &str) {
        let shown = || {
            let dump = self.dump();
            if dump.contains(text) { Ok(()) } else { Err(dump) }
        };
        eventually(LIMIT, text, shown).unwrap();
    }

    fn bind(&self, address: Ipv4Addr) -> UdpSocket {
        let path = self.path.clone();
        let bound = std::thread::spawn(move || {
            let file = std::fs::File::open(path).unwrap();
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let socket = UdpSocket::bind((address, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        });
        bound.join().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let name = self.path.file_name().unwrap();
        let _ = Command::new("ip").args(["netns", "del"]).arg(name).status();
    }
}

/// The routes of a node, kept.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn start(client: &Client, lab: &Lab) -> Self {
        let name = format!("route-{}", lab.name);
        let labels = json!({
            "app.kubernetes.io/name": "route",
            "app.kubernetes.io/component": "networking",
            "app.kubernetes.io/instance": "another-release-route",
        });
        pod(client, "liqo", &name, &labels, &lab.address().to_string(), lab.host).await;
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(process(client, lab, &stop), lab.args()));
        let pods: Api<Pod> = Api::namespaced(client.clone(), "liqo");
        let told = |pod: Option<&Pod>| {
            pod.is_some_and(|pod| pod.annotations().contains_key("net.liqo.io/vxlan.mac.address"))
        };
        until("the overlay is told", &pods, &name, told).await.unwrap();
        Self { stop, task }
    }

    async fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

fn process(client: &Client, lab: &Lab, stop: &CancellationToken) -> Process {
    let node = Namespace::open(&lab.path).unwrap();
    Process { client: client.clone(), tasks: Arc::default(), stop: stop.clone(), node }
}

/// What would change on a node.
async fn preview(client: &Client, lab: &Lab) -> String {
    let stop = CancellationToken::new();
    look(process(client, lab, &stop), &lab.args()).await.unwrap()
}

async fn pod(client: &Client, space: &str, name: &str, labels: &Value, ip: &str, host: u8) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), space);
    let object = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [{ "name": "a", "image": "a" }] },
    });
    make(&pods, object).await;
    let status = json!({ "status": {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{ "ip": ip }],
        "hostIP": format!("172.30.0.{host}"),
        "hostIPs": [{ "ip": format!("172.30.0.{host}") }],
    } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

fn tunnel() -> Value {
    json!({
        "metadata": { "name": "milan" },
        "spec": {
            "clusterIdentity": {
                "clusterID": "2cb4110a-c5e6-4a52-851d-d0e0d86c9174",
                "clusterName": "milan",
            },
            "localPodCIDR": "10.200.0.0/16",
            "localExternalCIDR": "10.95.0.0/16",
            "remotePodCIDR": "10.200.0.0/16",
            "remoteNATPodCIDR": "10.51.0.0/16",
            "remoteExternalCIDR": "10.52.0.0/16",
            "endpointIP": "127.0.0.1",
            "backendType": "wireguard",
            "backend_config": {
                "port": "5871",
                "publicKey": "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
            },
        },
    })
}

async fn make<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}
