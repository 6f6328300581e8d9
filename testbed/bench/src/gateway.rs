//! What many peers cost a gateway: a real one on a real API server, with a real tunnel to each peer.
//! What its peers' clusters would do is done by this program: they answer, and some of them talk.

mod spokes;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource};
use liqo_api::net::{ConnectionStatus, NatMapping, TunnelEndpoint};
use liqo_testkit::{ControlPlane, Line, places, until};
use liqo_tunnel::PublicKey;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::spokes::{HUB, PORT, Spoke, Spokes};
use crate::settle;

/// The figures, as lines.
pub fn figures(peers: usize) -> Result<Vec<String>> {
    let count = u8::try_from(peers).ok().filter(|count| (1..=60).contains(count));
    let count = count.context("from 1 to 60 peers")?;
    let program = program()?;
    let runtime = Runtime::new().context("start a runtime")?;
    let plane = runtime.block_on(ControlPlane::start())?;
    let hub = Hub::open(&runtime, &plane, &program)?;
    let alone = hub.memory()?;
    let mut lines = vec![format!("gateway without peers      {alone:>8.1} MB PSS")];

    let mut spokes = Spokes::open(hub.key)?;
    let mut slowest = Duration::ZERO;
    for number in 1..=count {
        slowest = slowest.max(hub.join(spokes.add(number)?)?);
    }
    settle()?;
    let peered = hub.memory()?;
    let each = (peered - alone) * 1000.0 / f64::from(count);
    lines.push(format!(
        "gateway with {count:>2} peers      {peered:>8.1} MB PSS ({each:.0} kB each)"
    ));
    lines.push(format!("  slowest until connected  {:>8.3} s", slowest.as_secs_f64()));
    spokes.talk()?;
    lines.push(format!("  after all have talked    {:>8.1} MB PSS", hub.memory()?));
    let before = hub.cpu()?;
    settle()?;
    lines.push(format!("  idle                     {:>8.2} % of a core", hub.cpu()? - before));

    // One more comes and goes, while the first one knocks all the time.
    let knocking = spokes.knock(1)?;
    let kernel = Monitor::of(&hub.inside)?;
    let came = hub.join(spokes.add(count + 1)?)?;
    let gone = hub.part(count + 1)?;
    let (messages, knocks) = (kernel.end()?, knocking.end()?);
    lines.push(format!("one more until connected   {:>8.3} s", came.as_secs_f64()));
    lines.push(format!("  until it is gone         {:>8.3} s", gone.as_secs_f64()));
    let about = messages.iter().filter(|line| spokes::is_about(line, count + 1)).count();
    lines.push(format!(
        "  changes in the kernel    {:>8}     ({} of them about others)",
        messages.len(),
        messages.len() - about
    ));
    lines.push(format!("  knocks of another lost   {:>8}     (of {})", knocks.lost, knocks.count));
    Ok(lines)
}

/// The program as it is shipped; the quick build where that is asked for, which is larger.
fn program() -> Result<PathBuf> {
    let quick = std::env::var("LIQO_PROFILE").is_ok_and(|profile| profile == "dev");
    let program = places()?.target.join(if quick { "debug" } else { "release" }).join("liqo");
    ensure!(program.exists(), "{} is not there; run `./playground images`", program.display());
    Ok(program)
}

/// The gateway, and the node that it is on. Everything goes when it is dropped.
struct Hub<'a> {
    runtime: &'a Runtime,
    client: Client,
    process: Child,
    inside: PathBuf,
    key: PublicKey,
    _line: Line,
    _wire: spokes::Wire,
}

impl<'a> Hub<'a> {
    fn open(runtime: &'a Runtime, plane: &ControlPlane, program: &Path) -> Result<Self> {
        let wire = spokes::Wire::up()?;
        let node = File::open(wire.hub()).context("open the namespace of the node")?;
        let client = plane.client();
        let line = runtime.block_on(async {
            plane.define(liqo_api::all_crds()).await?;
            let spaces: Api<Namespace> = Api::all(client.clone());
            make(&spaces, json!({ "metadata": { "name": "liqo" } })).await?;
            Line::out_of(&node, plane).await
        })?;
        let inside = wire.hub().with_file_name(format!("{}-in", wire.name()));
        let process = Command::new("nsenter")
            .arg(format!("--net={}", wire.hub().display()))
            .arg(program)
            .args(["gateway", "--gateway.leader-elect=true", "--gateway.mtu=1340"])
            .arg(format!("--gateway.netns={}", inside.display()))
            .arg(format!("--gateway.listening-port={PORT}"))
            .args([format!("--pod-ip={HUB}"), "--pod-name=gateway".to_owned()])
            .env("KUBECONFIG", plane.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the gateway")?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "liqo");
        let secret =
            until("the gateway has keys", &secrets, "wireguard-pubkey", |one| one.is_some());
        let secret = runtime.block_on(secret)?.context("there is a Secret")?;
        let key = secret.data.and_then(|mut data| data.remove("publicKey")).context("a key")?;
        let key = String::from_utf8(key.0)?.parse().context("a key is a key")?;
        Ok(Self { runtime, client, process, inside, key, _line: line, _wire: wire })
    }

    /// Introduces a peer; how long it took until it was connected.
    fn join(&self, spoke: &Spoke) -> Result<Duration> {
        let name = spoke.name();
        self.runtime.block_on(async {
            let spaces: Api<Namespace> = Api::all(self.client.clone());
            make(&spaces, json!({ "metadata": { "name": format!("liqo-tenant-{name}") } })).await?;
            let mappings: Api<NatMapping> = Api::all(self.client.clone());
            make(&mappings, spoke.mapping()).await?;
            let start = Instant::now();
            let tunnels = self.tunnels(&name);
            make(&tunnels, spoke.tunnel()).await?;
            let is_connected = |tunnel: Option<&TunnelEndpoint>| {
                let status =
                    tunnel.and_then(|one| one.status.as_ref()?.connection.as_ref()?.status);
                status == Some(ConnectionStatus::Connected)
            };
            until("the peer is connected", &tunnels, &name, is_connected).await?;
            Ok(start.elapsed())
        })
    }

    /// Parts from a peer; how long it took until nothing was left.
    fn part(&self, number: u8) -> Result<Duration> {
        let name = spokes::name(number);
        self.runtime.block_on(async {
            let start = Instant::now();
            let tunnels = self.tunnels(&name);
            tunnels.delete(&name, &DeleteParams::default()).await?;
            until("the tunnel is gone", &tunnels, &name, |tunnel| tunnel.is_none()).await?;
            Ok(start.elapsed())
        })
    }

    fn tunnels(&self, name: &str) -> Api<TunnelEndpoint> {
        Api::namespaced(self.client.clone(), &format!("liqo-tenant-{name}"))
    }

    /// Its memory in MB, as the kernel counts it; nobody else runs this program.
    fn memory(&self) -> Result<f64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))
            .context("the gateway runs")?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes: Option<f64> =
            line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        Ok(kilobytes.context("the memory of a process")? / 1000.0)
    }

    /// The CPU time that it has used, in hundredths of the time that [`settle`] takes.
    fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let fields = stat.rsplit_once(')').context("the state of a process")?.1;
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: u32 = times.filter_map(|field| field.parse::<u32>().ok()).sum();
        Ok(f64::from(ticks) / crate::SETTLED.as_secs_f64())
    }
}

impl Drop for Hub<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("ip").args(["netns", "del"]).args(self.inside.file_name()).status();
    }
}

/// Somebody who notes what changes in a namespace.
struct Monitor(Child);

impl Monitor {
    fn of(namespace: &Path) -> Result<Self> {
        let child = Command::new("nsenter")
            .arg(format!("--net={}", namespace.display()))
            .args(["ip", "-o", "-4", "monitor", "link", "address", "route", "rule"])
            .stdout(Stdio::piped())
            .spawn();
        Ok(Self(child.context("run ip monitor")?))
    }

    fn end(mut self) -> Result<Vec<String>> {
        self.0.kill()?;
        let output = self.0.wait_with_output().context("what ip monitor said")?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

async fn make<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}
