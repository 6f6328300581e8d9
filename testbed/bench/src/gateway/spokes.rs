//! The far ends of a gateway's tunnels, all in one namespace at the other end of a wire.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use liqo_tunnel::{Implementation, Peer, PrivateKey, PublicKey, Settings, Tunnel};
use nix::sched::{CloneFlags, setns};
use serde_json::{Value, json};

/// Addresses on the wire.
pub const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 249, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 249, 2);
/// Where the gateway listens.
pub const PORT: u16 = 5871;
/// Where gateways ask each other.
const CHECK: u16 = 12345;
/// How often somebody knocks.
const PACE: Duration = Duration::from_millis(10);
/// How long to wait for an answer before it counts as lost.
const LATE: Duration = Duration::from_secs(2);
/// What each of them says, when they talk.
const WORDS: usize = 2_000;

/// What a peer is called.
pub fn name(number: u8) -> String {
    format!("spoke-{number}")
}

/// Whether a message of the kernel is about a peer.
pub fn is_about(line: &str, number: u8) -> bool {
    [pods(number), externals(number)].iter().any(|network| line.contains(network.as_str()))
}

/// Its pods and its external network, as the hub knows them.
fn pods(number: u8) -> String {
    format!("10.{number}.0.0/16")
}

fn externals(number: u8) -> String {
    format!("10.{}.0.0/16", 64 + number)
}

/// What the hub's pods and its external network are called there.
fn hub_pods(number: u8) -> String {
    format!("10.{}.0.0/16", 128 + number)
}

fn hub_externals(number: u8) -> String {
    format!("10.{}.0.0/16", 192 + number)
}

fn first(network: &str) -> Result<Ipv4Addr> {
    Ok(network.replace(".0/16", ".1").parse()?)
}

/// Two namespaces and a wire between them. They go when it is dropped.
pub struct Wire(String);

impl Wire {
    pub fn up() -> Result<Self> {
        let wire = Self(format!("lqg{}", std::process::id()));
        let Self(name) = &wire;
        for line in [
            format!("netns add {name}-hub"),
            format!("netns add {name}-far"),
            format!("link add wire netns {name}-hub type veth peer name wire netns {name}-far"),
            format!("-n {name}-hub address add {HUB}/24 dev wire"),
            format!("-n {name}-far address add {FAR}/24 dev wire"),
        ] {
            ip(&line)?;
        }
        for (side, link) in [("hub", "wire"), ("hub", "lo"), ("far", "wire"), ("far", "lo")] {
            ip(&format!("-n {name}-{side} link set {link} up"))?;
        }
        Ok(wire)
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// The namespace of the gateway's node.
    pub fn hub(&self) -> PathBuf {
        Path::new("/run/netns").join(format!("{}-hub", self.0))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for side in ["hub", "far"] {
            let _ = ip(&format!("netns delete {}-{side}", self.0));
        }
    }
}

/// All far ends.
pub struct Spokes {
    hub: PublicKey,
    namespace: String,
    all: Vec<Spoke>,
}

/// One of them.
pub struct Spoke {
    number: u8,
    key: PublicKey,
    _tunnel: Tunnel,
}

impl Spokes {
    /// None yet; the hub is known by its key.
    pub fn open(hub: PublicKey) -> Result<Self> {
        let namespace = format!("lqg{}-far", std::process::id());
        ensure!(Path::new("/run/netns").join(&namespace).exists(), "the wire is there");
        Ok(Self { hub, namespace, all: vec![] })
    }

    /// Adds one, which answers whoever asks it.
    pub fn add(&mut self, number: u8) -> Result<&Spoke> {
        let (key, device) = (PrivateKey::generate(), format!("tun{number}"));
        let settings = Settings {
            name: device.clone(),
            private_key: key.clone(),
            port: PORT + u16::from(number),
            mtu: 1340,
            probes: None,
            implementation: Implementation::Auto,
        };
        let peer = Peer {
            public_key: self.hub,
            endpoint: Some(SocketAddr::new(HUB.into(), PORT)),
            allowed: vec![hub_pods(number).parse()?, hub_externals(number).parse()?],
            keepalive: None,
        };
        let tunnel = self.within(move || -> Result<Tunnel> {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(async {
                let tunnel = Tunnel::open(settings, None).await?;
                tunnel.set_peers(&[peer]).await?;
                Ok(tunnel)
            })
        })??;
        let answering = first(&externals(number))?;
        for line in [
            format!("address add {answering}/32 dev {device}"),
            format!("address add {}/32 dev {device}", first(&pods(number))?),
            format!("route add {} dev {device} src {}", hub_pods(number), first(&pods(number))?),
            format!(
                "route add {} dev {device} src {}",
                hub_externals(number),
                first(&pods(number))?
            ),
        ] {
            ip(&format!("-n {} {line}", self.namespace))?;
        }
        let socket = self.within(move || UdpSocket::bind((answering, CHECK)))??;
        // It ends with the program.
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).replace("PING", "PONG");
                let _ = socket.send_to(text.trim_end().as_bytes(), from);
            }
        });
        self.all.push(Spoke { number, key: key.public(), _tunnel: tunnel });
        self.all.last().context("it was just added")
    }

    /// All of them send what fits into a packet, many times.
    pub fn talk(&self) -> Result<()> {
        for Spoke { number, .. } in &self.all {
            let to = SocketAddr::new(first(&hub_pods(*number))?.into(), 9);
            let socket = self.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
            for _ in 0..WORDS {
                // Nobody is there, and that comes back.
                let _ = socket.send_to(&[7; 1200], to);
            }
        }
        Ok(())
    }

    /// One of them asks the gateway something, all the time.
    pub fn knock(&self, number: u8) -> Result<Knocking> {
        let to = SocketAddr::new(first(&hub_externals(number))?.into(), CHECK);
        let socket = self.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
        socket.set_nonblocking(true)?;
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || -> Result<Knocks> {
            let (mut count, mut heard) = (0_usize, 0_usize);
            let mut buffer = [0; 512];
            while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                count += 1;
                let time = count.to_string();
                let question = json!({ "clusterID": "x", "msgType": "PING", "timeStamp": time });
                let _ = socket.send_to(question.to_string().as_bytes(), to);
                while socket.recv(&mut buffer).is_ok() {
                    heard += 1;
                }
            }
            socket.set_nonblocking(false)?;
            socket.set_read_timeout(Some(LATE))?;
            while heard < count && socket.recv(&mut buffer).is_ok() {
                heard += 1;
            }
            Ok(Knocks { count, lost: count.saturating_sub(heard) })
        });
        Ok(Knocking { stop, thread })
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = format!("/run/netns/{}", self.namespace);
        let file = File::open(&path).context(path)?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| -> Result<T> {
                setns(file, CloneFlags::CLONE_NEWNET).context("enter the namespace")?;
                Ok(work())
            });
            thread.join().map_err(|_| anyhow!("a thread of the benchmark ended early"))?
        })
    }
}

/// What came of knocking.
pub struct Knocks {
    pub count: usize,
    pub lost: usize,
}

/// Somebody who knocks.
pub struct Knocking {
    stop: Sender<()>,
    thread: JoinHandle<Result<Knocks>>,
}

impl Knocking {
    /// Ends it; what came of it.
    pub fn end(self) -> Result<Knocks> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("a thread of the benchmark ended early"))?
    }
}

impl Spoke {
    pub fn name(&self) -> String {
        name(self.number)
    }

    fn id(&self) -> String {
        format!("2cb4110a-c5e6-4a52-851d-d0e0d86c91{:02x}", self.number)
    }

    /// What the network manager would write of it.
    pub fn tunnel(&self) -> Value {
        let number = self.number;
        json!({
            "metadata": { "name": self.name() },
            "spec": {
                "clusterIdentity": { "clusterID": self.id(), "clusterName": self.name() },
                "localPodCIDR": "172.20.0.0/16",
                "localNATPodCIDR": hub_pods(number),
                "localExternalCIDR": "172.21.0.0/16",
                "localNATExternalCIDR": hub_externals(number),
                "remotePodCIDR": "172.20.0.0/16",
                "remoteNATPodCIDR": pods(number),
                "remoteExternalCIDR": "172.21.0.0/16",
                "remoteNATExternalCIDR": externals(number),
                "endpointIP": FAR.to_string(),
                "backendType": "wireguard",
                "backend_config": {
                    "port": (PORT + u16::from(number)).to_string(),
                    "publicKey": self.key.to_string(),
                },
            },
        })
    }

    /// The address of the gateway, as it is shown to it.
    pub fn mapping(&self) -> Value {
        let shown = hub_externals(self.number);
        json!({
            "metadata": {
                "name": format!("natmapping-{}", self.name()),
                "labels": { "net.liqo.io/natmapping": "true", "clusterID": self.id() },
            },
            "spec": {
                "clusterID": self.id(),
                "podCIDR": pods(self.number),
                "externalCIDR": shown,
                "clusterMappings": { "169.254.0.1": shown.replace(".0/16", ".1") },
            },
        })
    }
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output().context("run ip")?;
    ensure!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
