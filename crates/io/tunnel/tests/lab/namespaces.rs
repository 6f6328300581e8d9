//! Network namespaces of these tests, and a wire between two of them.

use std::fs::File;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

/// A namespace that goes when it is dropped.
pub struct Namespace(String);

/// Two namespaces and a wire between them, with an address at each end.
pub struct Wire {
    pub ends: [Namespace; 2],
}

impl Namespace {
    pub fn new(name: &str) -> Self {
        let name = format!("lqt{}-{name}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Self(name);
        namespace.ip("link set lo up");
        namespace
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }

    /// Runs a command of `ip` here.
    pub fn ip(&self, words: &str) {
        let mut all = vec!["-n", self.name()];
        all.extend(words.split(' '));
        ip(&all);
    }

    /// Runs a command here.
    pub fn run(&self, line: &str) {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        let status = self.enter(|| command.args(words).status().unwrap());
        assert!(status.success(), "{line}");
    }

    /// Whether there is a device with this name here.
    pub fn has(&self, device: &str) -> bool {
        let shown = ip(&["-n", self.name(), "-o", "link", "show"]);
        shown.contains(&format!(": {device}:"))
    }

    /// Whether a device goes. It stays for an instant while another test starts a program, which
    /// holds all that this process holds until it runs.
    pub fn loses(&self, device: &str) -> bool {
        (0..200).any(|_| !self.has(device))
    }

    /// Does work here, on a thread of its own.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(self.path()).unwrap();
        let here = || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(here).join().unwrap())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

impl Wire {
    pub fn new(name: &str) -> Self {
        let wire = Self {
            ends: [Namespace::new(&format!("{name}-a")), Namespace::new(&format!("{name}-b"))],
        };
        let [a, b] = wire.ends.each_ref().map(Namespace::name);
        ip(&[
            "link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire", "netns", b,
        ]);
        for (end, namespace) in wire.ends.iter().enumerate() {
            namespace.ip(&format!("address add {}/24 dev wire", outer(end)));
            namespace.ip("link set wire up");
        }
        wire
    }
}

/// Two namespaces with a router between them that takes shorter packets on its far side, and says
/// nothing to those who send longer ones, as firewalls have it.
pub struct Narrows {
    pub ends: [Namespace; 2],
    router: Namespace,
}

impl Narrows {
    pub fn new(name: &str, mtu: u16) -> Self {
        let narrows = Self {
            ends: [Namespace::new(&format!("{name}-a")), Namespace::new(&format!("{name}-b"))],
            router: Namespace::new(&format!("{name}-r")),
        };
        let router = &narrows.router;
        for (end, namespace) in narrows.ends.iter().enumerate() {
            let (side, at) = (format!("to{end}"), namespace.name());
            router.ip(&format!("link add {side} type veth peer name wire netns {at}"));
            namespace.ip(&format!("address add {}/32 dev wire", outer(end)));
            namespace.ip("link set wire up");
            router.ip(&format!("link set {side} up"));
            router.ip(&format!("route add {}/32 dev {side}", outer(end)));
            namespace.ip("route add 198.18.251.254/32 dev wire");
            namespace.ip("route add default via 198.18.251.254");
        }
        router.ip("address add 198.18.251.254/32 dev lo");
        router.ip(&format!("link set to1 mtu {mtu}"));
        narrows.ends[1].ip(&format!("link set wire mtu {mtu}"));
        router.run("sysctl -qw net.ipv4.ip_forward=1");
        router.run("nft add table ip quiet");
        router.run("nft add chain ip quiet c { type filter hook output priority 0 ; }");
        router.run("nft add rule ip quiet c icmp type destination-unreachable drop");
        narrows
    }

    /// Has the router say what is too long for it.
    pub fn speak(&self) {
        self.router.run("nft delete table ip quiet");
    }

    /// How many fragments the router cut packets into.
    pub fn cut(&self) -> u64 {
        fragments(&self.router)
    }
}

/// The address at one end of every wire.
pub fn outer(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 251, u8::try_from(end).unwrap() + 1)
}

pub fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().expect("ip is installed");
    assert!(output.status.success(), "ip {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// How many fragments packets were cut into on their way out of a namespace.
pub fn fragments(namespace: &Namespace) -> u64 {
    let table = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let column = names.split(' ').position(|name| name == "FragCreates").unwrap();
    values.split(' ').nth(column).unwrap().parse().unwrap()
}

/// The memory of this process, in kB.
pub fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
