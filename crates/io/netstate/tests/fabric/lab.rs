//! Clusters in network namespaces: a pod, a node and a gateway each, gateways joined by a cable that
//! stands for the tunnel.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use liqo_api::net::{NatMapping, TunnelEndpoint};
use liqo_fabric::gateway::{self, Ends, Settings, Widths};
use liqo_fabric::owned::Scope;
use liqo_fabric::peer::Ground;
use liqo_fabric::{node, state::State};
use liqo_netstate::{Kernel, Namespace};
use nix::sched::{CloneFlags, setns};
use serde_json::json;

const FOLDER: &str = "/run/netns";

/// Namespaces of one test, removed at its end.
pub struct Lab {
    prefix: String,
}

impl Lab {
    pub fn new(name: &str) -> Self {
        Self { prefix: format!("fab-{}-{name}", std::process::id()) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(FOLDER).join(format!("{}-{name}", self.prefix))
    }

    pub fn namespace(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let name = path.file_name().unwrap().to_str().unwrap();
        let status = Command::new("ip").args(["netns", "add", name]).status().unwrap();
        assert!(status.success());
        self.ip(&path, "link set lo up");
        path
    }

    pub fn ip(&self, at: &Path, words: &str) {
        self.run(at, &format!("ip {words}"));
    }

    pub fn nft(&self, at: &Path, script: &str) {
        let _ = self.words(at, &["nft", script]);
    }

    pub fn run(&self, at: &Path, line: &str) -> String {
        self.words(at, &line.split(' ').collect::<Vec<_>>())
    }

    fn words(&self, at: &Path, words: &[&str]) -> String {
        let output = Command::new("nsenter")
            .arg(format!("--net={}", at.display()))
            .args(words)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?} of {}: {errors}", self.prefix);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs something that reads a text; what it says if it is not content.
    pub fn feed(&self, at: &Path, line: &str, text: &str) -> Result<(), String> {
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", at.display()))
            .args(line.split(' '))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that has read enough to say no reads no more.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = || format!("{line} of {}: {said}", self.prefix);
        if output.status.success() { Ok(()) } else { Err(refused()) }
    }

    /// How many packets the rules of a chain have counted.
    pub fn counted(&self, at: &Path, chain: &str) -> u64 {
        let listing = self.run(at, &format!("nft list chain {chain}"));
        let counts = listing.split("counter packets ").skip(1);
        counts.map(|text| text.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// All that a namespace holds, without counters and times.
    pub fn dump(&self, at: &Path) -> String {
        let commands = [
            "ip -br link",
            "ip -br addr",
            "ip rule",
            "ip route show table all",
            "ip neigh show nud permanent",
            "nft -s list ruleset",
        ];
        commands.map(|command| format!("# {command}\n{}", self.run(at, command))).concat()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(&format!("{}-", self.prefix)) {
                let _ = Command::new("ip").args(["netns", "del"]).arg(name).status();
            }
        }
    }
}

/// What one cluster is told of another.
#[derive(Clone, Copy)]
pub struct Side {
    pub id: &'static str,
    pub name: &'static str,
    pub pods_here: &'static str,
    pub externals_here: &'static str,
    pub own_pods_there: &'static str,
    pub own_externals_there: &'static str,
}

impl Side {
    pub const MILAN_SEEN_FROM_ROME: Self = Self {
        id: "2cb4110a-c5e6-4a52-851d-d0e0d86c9174",
        name: "milan",
        pods_here: "10.51.0.0/16",
        externals_here: "10.52.0.0/16",
        own_pods_there: "10.61.0.0/16",
        own_externals_there: "10.62.0.0/16",
    };
    pub const OSLO_SEEN_FROM_ROME: Self = Self {
        id: "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10",
        name: "oslo",
        pods_here: "10.71.0.0/16",
        externals_here: "10.72.0.0/16",
        own_pods_there: "10.81.0.0/16",
        own_externals_there: "10.82.0.0/16",
    };
    pub const ROME_SEEN_FROM_MILAN: Self = Self {
        id: "41543714-6e17-4c7b-9bc9-70de7f7ae64f",
        name: "rome",
        pods_here: "10.61.0.0/16",
        externals_here: "10.62.0.0/16",
        own_pods_there: "10.51.0.0/16",
        own_externals_there: "10.52.0.0/16",
    };
}

pub fn endpoint(side: &Side) -> TunnelEndpoint {
    let object = json!({
        "metadata": { "name": side.name, "namespace": format!("liqo-tenant-{}", side.name) },
        "spec": {
            "clusterIdentity": { "clusterID": side.id, "clusterName": side.name },
            "localPodCIDR": "10.200.0.0/16",
            "localNATPodCIDR": side.own_pods_there,
            "localExternalCIDR": "10.95.0.0/16",
            "localNATExternalCIDR": side.own_externals_there,
            "remotePodCIDR": "10.200.0.0/16",
            "remoteNATPodCIDR": side.pods_here,
            "remoteExternalCIDR": "10.95.0.0/16",
            "remoteNATExternalCIDR": side.externals_here,
            "endpointIP": "172.30.0.3",
            "backendType": "wireguard",
            "backend_config": {
                "port": "5871",
                "publicKey": "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
            },
        },
    });
    serde_json::from_value(object).unwrap()
}

/// The service 10.96.0.1 is shown as the second external address.
pub fn mapping(side: &Side) -> NatMapping {
    let host = |last: u8| {
        let network = side.own_externals_there.split('.').take(3).collect::<Vec<_>>().join(".");
        format!("{network}.{last}")
    };
    let object = json!({
        "metadata": { "name": "natmapping-x" },
        "spec": {
            "clusterID": side.id,
            "podCIDR": side.pods_here,
            "externalCIDR": side.own_externals_there,
            "clusterMappings": { "169.254.0.1": host(1), "10.96.0.1": host(2) },
        },
    });
    serde_json::from_value(object).unwrap()
}

pub fn node_settings(address: Ipv4Addr) -> node::Settings {
    node::Settings { address, vni: 18952, port: 4879, mtu: 1340, ground: Ground::default() }
}

/// A gateway, the node it is on, and a pod there.
pub struct Gateway {
    pub pod: Place,
    pub node: Place,
    pub inside: PathBuf,
    /// How large packets to peers may be, where the way is narrow.
    pub widths: Widths,
    kernel_inside: Kernel,
    kernel_outside: Kernel,
}

impl Gateway {
    /// Two clusters with the same networks, joined.
    pub async fn pair(lab: &Lab) -> [Self; 2] {
        let rome = Self::cluster(lab, "rome", 5, "10.51.0.0/16", "10.52.0.0/16").await;
        let milan = Self::cluster(lab, "milan", 9, "10.61.0.0/16", "10.62.0.0/16").await;
        let there = milan.inside.display();
        let cable = format!("link add liqo.tunnel type veth peer name liqo.tunnel netns {there}");
        lab.ip(&rome.inside, &cable);
        for gateway in [&rome, &milan] {
            // A tunnel asks for no hardware addresses.
            lab.ip(&gateway.inside, "link set liqo.tunnel arp off address 02:00:00:00:00:01");
        }
        let [to_milan, to_rome] = [Side::MILAN_SEEN_FROM_ROME, Side::ROME_SEEN_FROM_MILAN];
        rome.settle(&[endpoint(&to_milan)], &[mapping(&to_milan)]).await;
        milan.settle(&[endpoint(&to_rome)], &[mapping(&to_rome)]).await;
        [rome, milan]
    }

    async fn cluster(lab: &Lab, name: &str, pod: u8, pods: &str, externals: &str) -> Self {
        let node = lab.namespace(&format!("{name}-node"));
        let inside = lab.namespace(&format!("{name}-pod"));
        let pod_at = inside.display();
        lab.ip(&node, &format!("link add cni0 type veth peer name eth0 netns {pod_at}"));
        lab.ip(&node, "addr add 10.200.0.1/16 dev cni0");
        lab.ip(&node, "addr add 172.30.0.2/32 dev lo");
        lab.ip(&node, "addr add 10.96.0.1/32 dev lo");
        lab.ip(&node, "link set cni0 up");
        lab.ip(&inside, &format!("addr add 10.200.0.{pod}/16 dev eth0"));
        lab.ip(&inside, "link set eth0 up");
        lab.ip(&inside, "route add default via 10.200.0.1");
        lab.run(&node, "sysctl -qw net.ipv4.ip_forward=1");
        let mut gateway = Self::new(lab, name, &node).await;
        gateway.pod = Place(inside);
        gateway.settle(&[], &[]).await;
        for network in [pods, externals] {
            gateway.node.lead_to(lab, network);
        }
        gateway
    }

    /// A gateway without peers on a node.
    pub async fn new(lab: &Lab, name: &str, node: &Path) -> Self {
        let inside = lab.path(&format!("{name}-gateway"));
        let outer = Namespace::open(node).unwrap();
        let inner = Namespace::create(&inside).await.unwrap();
        Self {
            pod: Place(node.to_owned()),
            node: Place(node.to_owned()),
            inside,
            widths: Widths::new(),
            kernel_outside: Kernel::open(outer.clone(), Some(inner.clone())).await.unwrap(),
            kernel_inside: Kernel::open(inner, Some(outer)).await.unwrap(),
        }
    }

    /// Makes it hold what it has to; how many changes that took.
    pub async fn settle(&self, endpoints: &[TunnelEndpoint], mappings: &[NatMapping]) -> usize {
        let settings = Settings { mtu: 1340, ground: Ground::default() };
        let [outer, inner] = [Scope::gateway_outside(), Scope::gateway_inside()];
        let mut taken = 0;
        for _ in 0..2 {
            let empty = std::collections::BTreeMap::new();
            let outside = self.kernel_outside.observe(&outer, &empty).await.unwrap();
            let inside = self.kernel_inside.observe(&inner, &empty).await.unwrap();
            let ends = Ends {
                node: outside.macs.get("liqo.host").copied(),
                gateway: inside.macs.get("liqo.gateway").copied(),
            };
            let want = gateway::desired(endpoints, mappings, &settings, &self.widths, ends);
            assert!(want.refused.is_empty(), "{:?}", want.refused);
            taken += self.kernel_outside.settle(&outer, |_| want.outside.clone()).await.unwrap();
            taken += self.kernel_inside.settle(&inner, |_| want.inside.clone()).await.unwrap();
        }
        taken
    }

    pub async fn remove(self) {
        let scope = Scope::gateway_outside();
        self.kernel_outside.settle(&scope, |_| State::default()).await.unwrap();
        assert!(Namespace::remove(&self.inside).unwrap());
        assert!(!Namespace::remove(&self.inside).unwrap());
    }
}

/// Somewhere to send packets from and to.
pub struct Place(pub PathBuf);

/// A socket there.
pub struct Socket(UdpSocket);

/// A connection to one who sends everything back.
pub struct Connection(TcpStream);

impl Connection {
    /// Sends so many bytes, and waits until they are back.
    pub fn exchange(&self, size: usize) {
        let mut writer = self.0.try_clone().unwrap();
        let writing = thread::spawn(move || writer.write_all(&vec![7; size]).unwrap());
        let mut bytes = vec![0; size];
        (&self.0).read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
        writing.join().unwrap();
    }
}

/// Answers with the address that it is asked from, until it is dropped.
pub struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Place {
    /// Leads packets for a network into the gateway, as a node does.
    pub fn lead_to(&self, lab: &Lab, network: &str) {
        let way = "via 169.254.100.1 dev liqo.host src 172.30.0.2 table 18952";
        lab.ip(&self.0, &format!("route add {network} {way}"));
        lab.ip(&self.0, &format!("rule add to {network} lookup 18952"));
    }

    pub fn ask(&self, to: &str) -> Option<String> {
        self.socket(0).ask(to)
    }

    pub fn socket(&self, port: u16) -> Socket {
        Socket(self.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
    }

    pub fn echo(&self, address: Ipv4Addr, port: u16) -> Echo {
        let socket = self.bind(SocketAddr::from((address, port)));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 64];
            while !stopped.load(Ordering::Relaxed) {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => {
                        let word = String::from_utf8_lossy(&buffer[..length]).into_owned();
                        let answer = format!("{} {word}", from.ip());
                        let _ = socket.send_to(answer.as_bytes(), from);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => panic!("echo: {error}"),
                }
            }
        });
        Echo { stop, thread: Some(thread) }
    }

    /// A connection to one elsewhere who sends everything back.
    pub fn connect(&self, other: &Self, listen: (Ipv4Addr, u16), to: &str) -> Connection {
        let listener = other.within(move || TcpListener::bind(listen).unwrap());
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // It ends with the connection.
            let _ = std::io::copy(&mut &stream, &mut &stream);
        });
        let to: SocketAddr = to.parse().unwrap();
        let limit = Duration::from_secs(10);
        let stream = self.within(move || TcpStream::connect_timeout(&to, limit).unwrap());
        stream.set_read_timeout(Some(limit)).unwrap();
        Connection(stream)
    }

    fn bind(&self, address: SocketAddr) -> UdpSocket {
        self.within(move || {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            socket
        })
    }

    fn within<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let path = self.0.clone();
        let thread = thread::spawn(move || {
            let file = std::fs::File::open(path).unwrap();
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().unwrap()
    }
}

impl Socket {
    /// Asks until there is an answer, or it is clear that there is none.
    pub fn ask(&self, to: &str) -> Option<String> {
        self.ask_with(to, b"hello")
    }

    /// The same with words of one's own.
    pub fn ask_with(&self, to: &str, words: &[u8]) -> Option<String> {
        let deadline = Instant::now() + Duration::from_millis(800);
        let mut buffer = [0; 64];
        while Instant::now() < deadline {
            // A node may refuse by itself what leads nowhere.
            let _ = self.0.send_to(words, to);
            if let Ok((length, _)) = self.0.recv_from(&mut buffer) {
                return Some(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        }
        None
    }
}
