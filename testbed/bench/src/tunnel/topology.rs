//! Two network namespaces, a wire between them, and a tunnel over the wire.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::eventually;
use liqo_tunnel::{PrivateKey, PublicKey};
use nix::sched::{CloneFlags, setns};

/// Addresses inside the tunnel.
pub const INNER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Addresses on the wire.
const OUTER: [&str; 2] = ["198.18.250.1", "198.18.250.2"];
const PORT: u16 = 5871;
const MTU: u16 = 1340;
const LIMIT: Duration = Duration::from_secs(10);

/// What runs at one end, and where its program is.
pub enum End<'a> {
    Ours(&'a Path),
    WireguardGo(&'a Path),
}

/// Both ends of a tunnel. Everything goes when it is dropped.
pub struct Pair {
    name: String,
    processes: Vec<Child>,
}

impl Pair {
    /// Makes the namespaces, the wire and the tunnel.
    pub fn up(name: &str, ends: &[End<'_>; 2]) -> Result<Self> {
        let mut pair = Self { name: format!("lqb{}{name}", std::process::id()), processes: vec![] };
        let namespaces = [pair.namespace(0), pair.namespace(1)];
        for namespace in &namespaces {
            ip(&format!("netns add {namespace}"))?;
        }
        let [a, b] = &namespaces;
        ip(&format!("link add wire netns {a} type veth peer name wire netns {b}"))?;
        for (namespace, outer) in namespaces.iter().zip(OUTER) {
            ip(&format!("-n {namespace} address add {outer}/24 dev wire"))?;
            ip(&format!("-n {namespace} link set wire up"))?;
        }
        let keys = [PrivateKey::generate(), PrivateKey::generate()];
        for (end, kind) in ends.iter().enumerate() {
            let process = pair.start(end, kind, &keys)?;
            pair.processes.push(process);
            pair.configure(end, kind, &keys)?;
        }
        Ok(pair)
    }

    /// Does work in the namespace of an end.
    pub fn within<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = format!("/run/netns/{}", self.namespace(end));
        let file = File::open(&path).context(path)?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| -> Result<T> {
                setns(file, CloneFlags::CLONE_NEWNET).context("enter the namespace")?;
                Ok(work())
            });
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the benchmark ended early"))?
        })
    }

    /// The CPU time that both ends have used.
    pub fn cpu(&self) -> Result<Duration> {
        let mut ticks = 0;
        for process in &self.processes {
            let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
            let fields = stat.rsplit_once(')').context("the state of a process")?.1;
            let times = fields.split_whitespace().skip(11).take(2);
            ticks += times.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        }
        Ok(Duration::from_millis(ticks * 10))
    }

    /// RSS and PSS of the larger end, in MB.
    pub fn memory(&self) -> Result<(f64, f64)> {
        let mut largest = (0.0f64, 0.0f64);
        for process in &self.processes {
            let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.id()))?;
            let field = |name: &str| -> Option<f64> {
                let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
                let kilobytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
                Some(kilobytes / 1000.0)
            };
            let rss = field("Rss:").context("the memory of a process")?;
            let pss = field("Pss:").context("the memory of a process")?;
            largest = (largest.0.max(rss), largest.1.max(pss));
        }
        Ok(largest)
    }

    fn namespace(&self, end: usize) -> String {
        format!("{}-{end}", self.name)
    }

    fn device(&self, end: usize) -> String {
        format!("{}t{end}", self.name)
    }

    fn start(&self, end: usize, kind: &End<'_>, keys: &[PrivateKey; 2]) -> Result<Child> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace(end)));
        match kind {
            End::Ours(program) => {
                command.arg(program).args([
                    self.device(end),
                    PORT.to_string(),
                    MTU.to_string(),
                    keys[end].to_base64(),
                    keys[1 - end].public().to_string(),
                    format!("{}:{PORT}", OUTER[1 - end]),
                    format!("{}/32", INNER[1 - end]),
                ]);
            }
            End::WireguardGo(program) => {
                command.arg(program).args(["-f", &self.device(end)]).env("LOG_LEVEL", "error");
            }
        }
        // wireguard-go greets at length.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("start an end of the tunnel")
    }

    fn configure(&self, end: usize, kind: &End<'_>, keys: &[PrivateKey; 2]) -> Result<()> {
        let (namespace, device) = (self.namespace(end), self.device(end));
        eventually(LIMIT, "the tunnel's device", || {
            ip(&format!("-n {namespace} link show {device}"))
        })?;
        if let End::WireguardGo(_) = kind {
            let path = format!("/var/run/wireguard/{device}.sock");
            let mut socket = eventually(LIMIT, "wireguard-go listens", || {
                UnixStream::connect(&path).with_context(|| path.clone())
            })?;
            let private = keys[end].to_base64().parse::<PublicKey>().context("a key is a key")?;
            let lines = format!(
                "set=1\nprivate_key={}\nlisten_port={PORT}\npublic_key={}\nendpoint={}:{PORT}\n\
                 allowed_ip={}/32\n\n",
                hex(private.0),
                hex(keys[1 - end].public().0),
                OUTER[1 - end],
                INNER[1 - end],
            );
            socket.write_all(lines.as_bytes())?;
            socket.set_read_timeout(Some(LIMIT))?;
            let mut answer = [0; 64];
            let length = socket.read(&mut answer)?;
            ensure!(answer[..length].starts_with(b"errno=0"), "wireguard-go refused its settings");
        }
        ip(&format!("-n {namespace} address add {}/32 dev {device}", INNER[end]))?;
        ip(&format!("-n {namespace} link set {device} mtu {MTU} up"))?;
        ip(&format!("-n {namespace} route add {}/32 dev {device}", INNER[1 - end]))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        for end in 0..2 {
            let _ = ip(&format!("netns delete {}", self.namespace(end)));
            let _ = fs::remove_file(format!("/var/run/wireguard/{}.sock", self.device(end)));
        }
    }
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output().context("run ip")?;
    ensure!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn hex(key: [u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
