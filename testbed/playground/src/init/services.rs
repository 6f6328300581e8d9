//! Keeps a node's services running, and takes leave of every process that ends on the node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Boot, Gate, Service, ServiceState};

/// The least time between two starts of a service: one that cannot start must not eat the machine.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a gate is tried.
const KNOCK: Duration = Duration::from_millis(50);

const MANIFESTS: &str = "/etc/kubernetes/manifests";
const STOPPED_MANIFESTS: &str = "/etc/kubernetes/stopped";
const WAITING_MANIFESTS: &str = "/etc/kubernetes/waiting";

/// The services of a node and their processes.
pub struct Supervisor {
    state: Mutex<State>,
    /// Rings when a wish changes or a process is started.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Who waits for the end of which process.
    processes: HashMap<i32, SyncSender<()>>,
    services: BTreeMap<String, Wish>,
}

struct Wish {
    wanted: bool,
    process: Option<i32>,
    restarts: u32,
}

impl Supervisor {
    /// Knows the services and has started none.
    pub fn new(boot: &Boot) -> Self {
        let wish = || Wish { wanted: true, process: None, restarts: 0 };
        let services = boot.services.iter().map(|service| (service.name.clone(), wish())).collect();
        let state = State { services, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Starts everything and reaps for ever.
    pub fn run(self: &Arc<Self>, boot: Boot) -> io::Result<()> {
        for service in boot.services {
            let this = Arc::clone(self);
            let archives = if service.name == "kubelet" { boot.preload.clone() } else { vec![] };
            thread::spawn(move || this.keep(&service, &archives));
        }
        if let Some(api) = boot.api {
            let this = Arc::clone(self);
            thread::spawn(move || this.greet(&api));
        }
        loop {
            match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                    // Spawning holds the lock, so a process that ends at once is known here.
                    let waiting = self.lock().processes.remove(&pid.as_raw());
                    if let Some(waiting) = waiting {
                        let _ = waiting.send(());
                    }
                }
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(nix::Error::ECHILD) => drop(self.wait(self.lock(), KNOCK)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How every service and every control plane pod is.
    pub fn status(&self) -> Vec<ServiceState> {
        let mut list: Vec<ServiceState> = self
            .lock()
            .services
            .iter()
            .map(|(name, wish)| ServiceState {
                name: name.clone(),
                wanted: wish.wanted,
                running: wish.process.is_some(),
                restarts: wish.restarts,
            })
            .collect();
        for (folder, wanted) in [(MANIFESTS, true), (STOPPED_MANIFESTS, false)] {
            list.extend(pods_in(folder).into_iter().map(|name| {
                let running = program_runs(&name);
                ServiceState { name, wanted, running, restarts: 0 }
            }));
        }
        list
    }

    /// Changes what is wished of a service or of a control plane pod.
    pub fn want(&self, name: &str, wanted: bool) -> Result<(), String> {
        let mut state = self.lock();
        if let Some(wish) = state.services.get_mut(name) {
            wish.wanted = wanted;
            if let (false, Some(process)) = (wanted, wish.process) {
                let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
            }
            self.changed.notify_all();
            return Ok(());
        }
        drop(state);
        let (from, to) =
            if wanted { (STOPPED_MANIFESTS, MANIFESTS) } else { (MANIFESTS, STOPPED_MANIFESTS) };
        if pods_in(to).contains(name) {
            return Ok(());
        }
        if !pods_in(from).contains(name) {
            let known: Vec<String> = self.status().into_iter().map(|state| state.name).collect();
            return Err(format!(
                "there is no component {name:?} here; there are: {}",
                known.join(", ")
            ));
        }
        move_manifest(name, from, to)
            .map_err(|error| format!("cannot move the manifest of {name}: {error}"))
    }

    /// Keeps one service running for as long as it is wanted.
    fn keep(&self, service: &Service, archives: &[String]) {
        let mut imported = false;
        loop {
            let mut state = self.lock();
            while !state.services.get(&service.name).is_some_and(|wish| wish.wanted) {
                state = self.wait(state, Duration::MAX);
            }
            drop(state);
            service.gates.iter().for_each(Gate::wait);
            if !imported {
                self.import(archives);
                imported = true;
            }
            let started = Instant::now();
            if let Some(end) = self.start(service) {
                let _ = end.recv();
            }
            let mut state = self.lock();
            if let Some(wish) = state.services.get_mut(&service.name) {
                wish.process = None;
                wish.restarts += u32::from(wish.wanted);
            }
            drop(state);
            thread::sleep(PAUSE.saturating_sub(started.elapsed()));
        }
    }

    /// Starts a service; what comes back tells its end.
    fn start(&self, service: &Service) -> Option<Receiver<()>> {
        let mut state = self.lock();
        if !state.services.get(&service.name).is_some_and(|wish| wish.wanted) {
            return None;
        }
        let (pid, end) = spawn(&mut state, &service.name, &service.command)?;
        if let Some(wish) = state.services.get_mut(&service.name) {
            wish.process = Some(pid);
        }
        self.changed.notify_all();
        Some(end)
    }

    /// Once the API server answers, starts what waits for it, and starts the kubelet anew: by now
    /// it would wait for many seconds before it tries again.
    fn greet(&self, api: &Gate) {
        api.wait();
        for name in pods_in(WAITING_MANIFESTS) {
            let _ = move_manifest(&name, WAITING_MANIFESTS, MANIFESTS);
        }
        let kubelet = self.lock().services.get("kubelet").and_then(|wish| wish.process);
        if let Some(kubelet) = kubelet {
            let _ = kill(Pid::from_raw(kubelet), Signal::SIGKILL);
        }
    }

    fn import(&self, archives: &[String]) {
        for archive in archives {
            let path = format!("{}/{archive}", crate::node_files::IMAGES);
            let command = ["ctr", "-n", "k8s.io", "images", "import", &path].map(str::to_owned);
            let started = spawn(&mut self.lock(), "import", &command);
            self.changed.notify_all();
            if let Some((_, end)) = started {
                let _ = end.recv();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Gate {
    fn wait(&self) {
        while !self.is_open() {
            thread::sleep(KNOCK);
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Socket(path) => UnixStream::connect(path).is_ok(),
            Self::Tcp(address) => address.parse().is_ok_and(|address| {
                TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            }),
        }
    }
}

fn spawn(state: &mut State, name: &str, command: &[String]) -> Option<(i32, Receiver<()>)> {
    let (program, arguments) = command.split_first()?;
    let log = log_file(name).ok()?;
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/")
        .env("GOGC", "30")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().ok()?)
        .stderr(log)
        .spawn();
    let pid = match child {
        Ok(child) => i32::try_from(child.id()).ok()?,
        Err(error) => {
            let _ = fs::write(format!("logs/{name}.error"), format!("{program}: {error}\n"));
            return None;
        }
    };
    let (sender, end) = sync_channel(1);
    state.processes.insert(pid, sender);
    Some((pid, end))
}

fn log_file(name: &str) -> io::Result<File> {
    fs::create_dir_all("logs")?;
    OpenOptions::new().create(true).append(true).open(format!("logs/{name}.log"))
}

fn pods_in(folder: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let pods = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    pods.filter_map(|path: PathBuf| path.file_stem()?.to_str().map(str::to_owned)).collect()
}

fn move_manifest(name: &str, from: &str, to: &str) -> io::Result<()> {
    let file = format!("{name}.json");
    fs::create_dir_all(to)?;
    fs::rename(Path::new(from).join(&file), Path::new(to).join(&file))
}

/// Whether a process of this node runs the engine's program of that name.
fn program_runs(name: &str) -> bool {
    let wanted = format!("/engine/{name}\0");
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(wanted.as_bytes()))
    })
}
