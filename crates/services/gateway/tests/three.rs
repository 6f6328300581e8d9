//! Three clusters with the very same networks: their pods reach each other through real tunnels, and
//! none passes for another.
#![expect(clippy::unwrap_used, reason = "a failure is the test's failure")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use liqo_api::net::{NatMapping, TunnelEndpoint};
use liqo_fabric::gateway::{self, Ends, Settings};
use liqo_fabric::owned::Scope;
use liqo_fabric::peer::Ground;
use liqo_netstate::{Kernel, Namespace};
use liqo_tunnel::{Implementation, Peer, PrivateKey, Tunnel};
use serde_json::json;
use tokio::runtime::Handle;

const NAMES: [&str; 3] = ["rome", "milan", "oslo"];
const PORT: u16 = 5871;
const MTU: u16 = 1340;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clusters_with_the_same_networks_reach_each_other_and_none_passes_for_another() {
    let lab = Lab::new();
    let mut clusters = Vec::new();
    for number in 0..NAMES.len() {
        clusters.push(Cluster::found(&lab, number).await);
    }
    let keys: Vec<PrivateKey> = clusters.iter().map(|cluster| cluster.key.clone()).collect();
    for cluster in &clusters {
        cluster.settle().await;
        cluster.tunnel.set_peers(&cluster.peers(&keys)).await.unwrap();
        cluster.echo().await;
    }
    for asking in &clusters {
        for asked in clusters.iter().filter(|other| other.number != asking.number) {
            let to = host(pods(asking.number, asked.number), 5);
            let known_as = host(pods(asked.number, asking.number), 5);
            let want = format!("{} knows {known_as}", NAMES[asked.number]);
            assert_eq!(asking.ask(to).await, Some(want), "{}", NAMES[asking.number]);
        }
    }

    // Milan gives itself out for oslo, as rome knows it.
    let [rome, milan, oslo] = &clusters[..] else { panic!("three") };
    let to_rome = host(pods(milan.number, rome.number), 5);
    lab.run(&milan.inside, "nft delete table ip liqo");
    lab.run(&milan.inside, "nft add table ip forge");
    let chain = "nft add chain ip forge c { type nat hook postrouting priority 100 ; }";
    lab.run(&milan.inside, chain);
    let forge = |source: Ipv4Addr| {
        lab.run(&milan.inside, "nft flush chain ip forge c");
        lab.run(&milan.inside, "conntrack -F");
        let rule = format!("nft add rule ip forge c oifname liqo.tunnel snat to {source}");
        lab.run(&milan.inside, &rule);
    };
    forge(host(pods(rome.number, oslo.number), 5));
    assert_eq!(milan.ask(to_rome).await, None);
    // As itself it is heard.
    let own = host(pods(rome.number, milan.number), 5);
    forge(own);
    assert_eq!(milan.ask(to_rome).await, Some(format!("rome knows {own}")));
    // What rome calls oslo is nothing to milan, even if it sends it there.
    let oslos = pods(rome.number, oslo.number);
    let mut peers = milan.peers(&keys);
    let way = peers.iter_mut().find(|peer| peer.public_key == rome.key.public()).unwrap();
    way.allowed.push(network(oslos).parse().unwrap());
    milan.tunnel.set_peers(&peers).await.unwrap();
    lab.run(&milan.inside, &format!("ip route add {} dev liqo.tunnel", network(oslos)));
    milan.lead_to(&lab, oslos);
    assert_eq!(milan.ask(host(oslos, 5)).await, None);
    assert_eq!(milan.ask(to_rome).await, Some(format!("rome knows {own}")));
}

/// The second number of the network by which one cluster knows the pods of another.
fn pods(here: usize, there: usize) -> u8 {
    u8::try_from(50 + 10 * here + there).unwrap()
}

/// The same of what else a cluster shows.
fn externals(here: usize, there: usize) -> u8 {
    pods(here, there) + 100
}

fn network(second: u8) -> String {
    format!("10.{second}.0.0/16")
}

fn host(second: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, second, 0, last)
}

/// Where the node of a cluster is.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 252, u8::try_from(number + 1).unwrap())
}

/// Namespaces of this test, removed at the end; one is a router between all nodes.
struct Lab {
    prefix: String,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { prefix: format!("fg3-{}", std::process::id()) };
        let router = lab.namespace("router");
        lab.run(&router, "sysctl -qw net.ipv4.ip_forward=1");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/run/netns").join(format!("{}-{name}", self.prefix))
    }

    fn namespace(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut add = Command::new("ip");
        add.args(["netns", "add"]).arg(path.file_name().unwrap());
        assert!(add.status().unwrap().success());
        self.run(&path, "ip link set lo up");
        path
    }

    fn run(&self, at: &Path, line: &str) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", at.display())).args(line.split(' '));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line} of {}: {said}", self.prefix);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(&format!("{}-", self.prefix)) {
                let _ = Command::new("ip").args(["netns", "del"]).arg(name).status();
            }
        }
    }
}

/// A node, a pod on it, and a gateway.
struct Cluster {
    number: usize,
    node: PathBuf,
    pod: PathBuf,
    inside: PathBuf,
    key: PrivateKey,
    kernels: [Kernel; 2],
    tunnel: Tunnel,
}

impl Cluster {
    async fn found(lab: &Lab, number: usize) -> Self {
        let name = NAMES[number];
        let [node, pod] = ["node", "pod"].map(|kind| lab.namespace(&format!("{name}-{kind}")));
        let (own, router) = (address(number), lab.path("router"));
        let cable = |to: &Path| format!("type veth peer name eth0 netns {}", to.display());
        lab.run(&router, &format!("ip link add to-{name} {}", cable(&node)));
        lab.run(&router, &format!("ip link set to-{name} up"));
        lab.run(&router, &format!("ip addr add 198.18.252.254/32 dev to-{name}"));
        lab.run(&router, &format!("ip route add {own}/32 dev to-{name}"));
        lab.run(&node, &format!("ip link add cni0 {}", cable(&pod)));
        for line in [
            &format!("ip addr add {own}/32 dev eth0"),
            "ip link set eth0 up",
            "ip route add default via 198.18.252.254 dev eth0 onlink",
            "ip addr add 10.200.0.1/16 dev cni0",
            "ip link set cni0 up",
            "sysctl -qw net.ipv4.ip_forward=1",
        ] {
            lab.run(&node, line);
        }
        for line in [
            "ip addr add 10.200.0.5/16 dev eth0",
            "ip link set eth0 up",
            "ip route add default via 10.200.0.1",
        ] {
            lab.run(&pod, line);
        }
        let inside = lab.path(&format!("{name}-gateway"));
        let outer = Namespace::open(&node).unwrap();
        let inner = Namespace::create(&inside).await.unwrap();
        let kernels = [
            Kernel::open(outer.clone(), Some(inner.clone())).await.unwrap(),
            Kernel::open(inner, Some(outer.clone())).await.unwrap(),
        ];
        let key = PrivateKey::generate();
        let settings = liqo_tunnel::Settings {
            name: "liqo.tunnel".to_owned(),
            private_key: key.clone(),
            port: PORT,
            mtu: MTU,
            probes: None,
            implementation: Implementation::Auto,
        };
        let (at, runtime) = (inside.clone(), Handle::current());
        let open = move || runtime.block_on(Tunnel::open(settings, Some(&at)));
        let tunnel = outer.run(open).await.unwrap().unwrap();
        let cluster = Self { number, node, pod, inside, key, kernels, tunnel };
        cluster.settle().await;
        for other in cluster.others() {
            cluster.lead_to(lab, pods(number, other));
        }
        cluster
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.number;
        (0..NAMES.len()).filter(move |other| *other != own)
    }

    /// Leads packets for a network into the gateway, as a node does.
    fn lead_to(&self, lab: &Lab, second: u8) {
        let network = network(second);
        let way = "via 169.254.100.1 dev liqo.host table 18952";
        lab.run(&self.node, &format!("ip route add {network} {way}"));
        lab.run(&self.node, &format!("ip rule add to {network} lookup 18952"));
    }

    fn peers(&self, keys: &[PrivateKey]) -> Vec<Peer> {
        let peer = |other: usize| Peer {
            public_key: keys[other].public(),
            endpoint: Some(SocketAddr::new(address(other).into(), PORT)),
            allowed: [pods(self.number, other), externals(self.number, other)]
                .map(|second| network(second).parse().unwrap())
                .to_vec(),
            keepalive: None,
        };
        self.others().map(peer).collect()
    }

    /// Makes the kernel hold what it has to.
    async fn settle(&self) {
        let [outer, inner] = [Scope::gateway_outside(), Scope::gateway_inside()];
        let [outside, inside] = &self.kernels;
        let settings = Settings { mtu: MTU.into(), ground: Ground::default() };
        let tunnels: Vec<_> = self.others().map(|other| self.endpoint(other)).collect();
        let mappings: Vec<_> = self.others().map(|other| self.mapping(other)).collect();
        for _ in 0..2 {
            let none = BTreeMap::new();
            let ends = Ends {
                node: outside.observe(&outer, &none).await.unwrap().macs.get("liqo.host").copied(),
                gateway: inside
                    .observe(&inner, &none)
                    .await
                    .unwrap()
                    .macs
                    .get("liqo.gateway")
                    .copied(),
            };
            let want = gateway::desired(&tunnels, &mappings, &settings, &BTreeMap::new(), ends);
            assert!(want.refused.is_empty(), "{:?}", want.refused);
            outside.settle(&outer, |_| want.outside.clone()).await.unwrap();
            inside.settle(&inner, |_| want.inside.clone()).await.unwrap();
        }
    }

    fn endpoint(&self, other: usize) -> TunnelEndpoint {
        let (own, name) = (self.number, NAMES[other]);
        let object = json!({
            "metadata": { "name": name, "namespace": format!("liqo-tenant-{name}") },
            "spec": {
                "clusterIdentity": { "clusterID": id(other), "clusterName": name },
                "localPodCIDR": "10.200.0.0/16",
                "localNATPodCIDR": network(pods(other, own)),
                "localExternalCIDR": "10.95.0.0/16",
                "localNATExternalCIDR": network(externals(other, own)),
                "remotePodCIDR": "10.200.0.0/16",
                "remoteNATPodCIDR": network(pods(own, other)),
                "remoteExternalCIDR": "10.95.0.0/16",
                "remoteNATExternalCIDR": network(externals(own, other)),
                "endpointIP": address(other),
                "backendType": "wireguard",
                "backend_config": {
                    "port": PORT.to_string(),
                    "publicKey": "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
                },
            },
        });
        serde_json::from_value(object).unwrap()
    }

    fn mapping(&self, other: usize) -> NatMapping {
        let shown = externals(other, self.number);
        let object = json!({
            "metadata": { "name": format!("natmapping-{other}") },
            "spec": {
                "clusterID": id(other),
                "podCIDR": network(pods(self.number, other)),
                "externalCIDR": network(shown),
                "clusterMappings": { "169.254.0.1": host(shown, 1) },
            },
        });
        serde_json::from_value(object).unwrap()
    }

    /// The pod says who it is, and whom it hears, until the test ends.
    async fn echo(&self) {
        let socket = self.socket(7000).await;
        let name = NAMES[self.number];
        std::thread::spawn(move || {
            let mut buffer = [0; 16];
            loop {
                if let Ok((_, from)) = socket.recv_from(&mut buffer) {
                    let answer = format!("{name} knows {}", from.ip());
                    let _ = socket.send_to(answer.as_bytes(), from);
                }
            }
        });
    }

    /// Asks a pod until there is an answer, or it is clear that there is none.
    async fn ask(&self, to: Ipv4Addr) -> Option<String> {
        let socket = self.socket(0).await;
        let ask = move || {
            let deadline = Instant::now() + Duration::from_secs(2);
            let mut buffer = [0; 64];
            while Instant::now() < deadline {
                let _ = socket.send_to(b"hello", (to, 7000));
                if let Ok((length, _)) = socket.recv_from(&mut buffer) {
                    return Some(String::from_utf8_lossy(&buffer[..length]).into_owned());
                }
            }
            None
        };
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    async fn socket(&self, port: u16) -> UdpSocket {
        let bind = move || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
        let socket = Namespace::open(&self.pod).unwrap().run(bind).await.unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    }
}

fn id(number: usize) -> String {
    format!("2cb4110a-c5e6-4a52-851d-d0e0d86c917{number}")
}
