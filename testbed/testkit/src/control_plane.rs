//! etcd and an API server on loopback: the smallest thing that is a real Kubernetes API.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use liqo_playground::engine;
use liqo_playground::pki::Pki;
use liqo_playground::plan::{API_PORT, Plan};
use liqo_playground::progress::Line;
use liqo_playground::topology::Topology;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::machine::{cache, home};

/// How long the API server may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Where etcd listens to API servers; it talks to its own kind on the next port.
const ETCD_PORT: u16 = 2379;

/// The port whose listener marks an address as taken.
const RESERVATION_PORT: u16 = 7777;

/// An API server of one's own. It ends with the value, or with the process that made it.
pub struct ControlPlane {
    client: Client,
    folder: TempDir,
    processes: Vec<Leashed>,
    /// Holds the address until the processes on it have ended.
    _address: TcpListener,
}

impl ControlPlane {
    /// Starts etcd and an API server, and waits until it is ready.
    pub async fn start() -> Result<Self> {
        let engine = engine::ensure(&home()?, &cache()?, &[engine::CORE], &Line::silent())?;
        let folder = tempfile::tempdir().context("make a folder")?;
        let root = folder.path();
        let (reservation, address) = own_address()?;

        let topology = Topology::load("one")?;
        let mut plan = Plan::new("cp", 0, "one", &topology)?;
        let cluster = plan.clusters.first_mut().context("the preset has a cluster")?;
        cluster.nodes.truncate(1);
        for node in &mut cluster.nodes {
            node.address = address;
        }
        let pki = Pki::new(cluster)?;
        for (path, bytes) in pki.files_for(cluster.control_plane())? {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(path, bytes)?;
        }
        fs::write(root.join("kubeconfig"), pki.admin())?;

        let processes = vec![
            leash(root, "etcd", &engine.join("etcd"), &etcd_flags(root, address))?,
            leash(
                root,
                "kube-apiserver",
                &engine.join("kube-apiserver"),
                &api_flags(root, address),
            )?,
        ];
        let client = liqo_playground::cluster::client(&root.join("kubeconfig"))
            .await
            .map_err(|error| anyhow::anyhow!("make a client: {error}"))?;
        let this = Self { client, folder, processes, _address: reservation };
        this.wait_until_ready().await?;
        Ok(this)
    }

    /// Starts the same with controllers of Kubernetes, by the names that `--controllers` takes, and
    /// with more flags of theirs.
    pub async fn with_controllers(controllers: &[&str], more: &[&str]) -> Result<Self> {
        let mut this = Self::start().await?;
        let engine = engine::ensure(&home()?, &cache()?, &[engine::CORE], &Line::silent())?;
        let root = this.folder.path();
        let mut flags = controller_flags(root, controllers);
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        let name = "kube-controller-manager";
        let process = leash(root, name, &engine.join(name), &flags)?;
        this.processes.push(process);
        Ok(this)
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The kubeconfig of that client.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Makes custom resources known, and waits until they are served.
    pub async fn define(&self, definitions: Vec<CustomResourceDefinition>) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for definition in &definitions {
            api.create(&PostParams::default(), definition).await?;
        }
        for definition in definitions {
            let name = definition.name_any();
            let served = await_condition(api.clone(), &name, is_crd_established());
            timeout(LIMIT, served).await.with_context(|| format!("{name} is not served"))??;
        }
        Ok(())
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            // Objects in namespaces can be made once the default one is there.
            let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
            if spaces.get("default").await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log =
            fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        bail!("the API server is not ready after {} s; it said: {tail:#?}", LIMIT.as_secs())
    }
}

/// A process that ends when its leash is let go, even by a crash.
struct Leashed(Child);

impl Drop for Leashed {
    fn drop(&mut self) {
        // Closing the pipe ends it; waiting makes sure that its port is free again.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn leash(root: &Path, name: &str, program: &Path, flags: &[String]) -> Result<Leashed> {
    let log = fs::File::create(root.join(format!("{name}.log")))?;
    let child = Command::new("sh")
        .args(["-c", "\"$@\" </dev/null & cat >/dev/null; kill -9 $!; wait", "sh"])
        .arg(program)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {name}"))?;
    Ok(Leashed(child))
}

fn etcd_flags(root: &Path, address: Ipv4Addr) -> Vec<String> {
    let [client, peer] = [ETCD_PORT, ETCD_PORT + 1].map(|port| format!("http://{address}:{port}"));
    vec![
        format!("--data-dir={}", root.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_flags(root: &Path, address: Ipv4Addr) -> Vec<String> {
    let pki = root.join("pki");
    let file = |name: &str| pki.join(name).display().to_string();
    vec![
        format!("--bind-address={address}"),
        format!("--advertise-address={address}"),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={API_PORT}"),
        format!("--etcd-servers=http://{address}:{ETCD_PORT}"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        // Nobody makes service accounts here, and pods are only written down.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--kubelet-client-certificate={}", file("apiserver-kubelet-client.crt")),
        format!("--kubelet-client-key={}", file("apiserver-kubelet-client.key")),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
    ]
}

fn controller_flags(root: &Path, controllers: &[&str]) -> Vec<String> {
    let file = |name: &str| root.join(name).display().to_string();
    vec![
        format!("--controllers={}", controllers.join(",")),
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--cluster-signing-cert-file={}", file("pki/ca.crt")),
        format!("--cluster-signing-key-file={}", file("pki/ca.key")),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}

/// An address that nobody else has as long as the listener lives. A free port of a shared address
/// may be somebody else's by the time it is used, and an API server on another one's etcd works.
fn own_address() -> Result<(TcpListener, Ipv4Addr)> {
    let start = std::process::id();
    for offset in 0..u32::from(u16::MAX) {
        let [_, _, third, fourth] = start.wrapping_add(offset).to_be_bytes();
        let address = Ipv4Addr::new(127, 77, third, fourth);
        match TcpListener::bind((address, RESERVATION_PORT)) {
            Ok(listener) => return Ok((listener, address)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("reserve a loopback address"),
        }
    }
    bail!("all of 127.77.0.0/16 is taken")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_once_at_a_time() {
        let (_one, first) = own_address().unwrap();
        let (other, second) = own_address().unwrap();
        assert_ne!(first, second);
        drop(other);
        assert_eq!(own_address().unwrap().1, second);
    }
}
