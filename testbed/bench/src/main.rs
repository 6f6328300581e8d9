//! How fast and how small Liqo is: installs it on two clusters, peers them again and again, and
//! prints what that took; with the word `external`, without Liqo's own network. With `hub`, the same
//! for one cluster that uses many others; with `offloading`, pods that run in another cluster
//! against the same pods asked for there; with `floor`, what no such program can be faster than;
//! with `failover`, how long a gateway that is killed is missed;
//! with `gateway`, what sixteen peers cost a gateway; with `tunnel`, our WireGuard beside another. Nothing here fails because it is slow.

mod economy;
mod failover;
mod floor;
mod gateway;
mod hub;
mod offloading;
mod peering;
mod pods;
mod processes;
mod tunnel;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use liqo_testkit::{Lab, eventually, places};
use serde_json::Value;

use self::processes::Processes;

/// How often things are measured that vary.
const ROUNDS: usize = 10;
/// How long a control plane is left alone before its memory is looked at.
const SETTLED: Duration = Duration::from_secs(15);

#[expect(clippy::print_stdout, reason = "the figures are this program's result")]
fn main() -> Result<()> {
    let lines = match std::env::args().nth(1).as_deref() {
        None => figures("")?,
        Some("external") => figures("--set networking.internal=false")?,
        Some("failover") => failover::figures()?,
        Some("floor") => floor::figures(count(1000)?)?,
        Some("gateway") => gateway::figures(count(16)?)?,
        Some("hub") => hub::figures(count(8)?)?,
        Some("offloading") => offloading::real()?,
        Some("scale") => offloading::fake(count(1000)?)?,
        Some("tunnel") => tunnel::figures()?,
        Some(other) => {
            bail!(
                "there is no benchmark {other}; there are external, failover, floor, gateway, hub, \
                 offloading, scale and tunnel"
            )
        }
    };
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

/// How many there are to be of what is measured.
fn count(usual: usize) -> Result<usize> {
    let Some(word) = std::env::args().nth(2) else { return Ok(usual) };
    word.parse().with_context(|| format!("{word} is not a number, such as {usual}"))
}

/// Size, start, installation with more words, memory, peerings.
fn figures(more: &str) -> Result<Vec<String>> {
    let places = places()?;
    let lab = Lab::up("pair")?;
    lab.load_liqo(&["rome", "milan"])?;
    let liqoctl = places.target.join("release/liqoctl");
    let mut lines = vec![
        format!("liqoctl                    {:>8.1} MB", megabytes(&liqoctl)?),
        format!(
            "liqo                       {:>8.1} MB",
            megabytes(&places.target.join("release/liqo"))?
        ),
        format!("image of liqo              {:>8.1} MB", image(&places.cache)?),
        format!("liqoctl version --client   {}", spread(&start_up(&liqoctl)?)),
    ];
    let mut installs = vec![];
    for cluster in ["rome", "milan"] {
        let words =
            format!("install kubeadm --cluster-name {cluster} --service-type NodePort {more}");
        installs.push(timed(|| lab.liqoctl(cluster, &words))?);
    }
    lines.push(format!("install until all is ready {}", spread(&installs)));
    settle()?;
    for cluster in ["rome", "milan"] {
        let idle = Processes::of(lab.prefix(), cluster)?;
        lines.push(format!("control plane idle, {cluster:<7}{idle}"));
    }
    lines.extend(peering::figures(&lab)?);
    settle()?;
    for (cluster, role) in [("rome", "consumer"), ("milan", "provider")] {
        let peered = Processes::of(lab.prefix(), cluster)?;
        lines.push(format!("peered, {role:<19}{peered}"));
    }
    Ok(lines)
}

fn start_up(liqoctl: &Path) -> Result<Vec<Duration>> {
    let once = || -> Result<Duration> {
        timed(|| {
            let output = Command::new(liqoctl).args(["version", "--client"]).output()?;
            ensure!(output.status.success(), "{output:?}");
            Ok(())
        })
    };
    (0..ROUNDS).map(|_| once()).collect()
}

/// Clusters that no preset describes.
fn clusters(topology: &str) -> Result<Lab> {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().context("make a file")?;
    file.write_all(topology.as_bytes()).context("write the topology")?;
    Lab::up(file.path().to_str().context("its name is text")?)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Lets time pass.
fn settle() -> Result<()> {
    let end = Instant::now() + SETTLED;
    eventually(SETTLED * 2, "time passes", || {
        ensure!(Instant::now() >= end, "not yet");
        Ok::<_, anyhow::Error>(())
    })
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The middle, the best and the worst.
fn spread(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort();
    let seconds = |time: Option<&Duration>| time.copied().unwrap_or_default().as_secs_f64();
    format!(
        "{:>8.3} s   (best {:.3}, worst {:.3}, of {})",
        seconds(times.get(times.len() / 2)),
        seconds(times.first()),
        seconds(times.last()),
        times.len()
    )
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn megabytes(path: &Path) -> Result<f64> {
    let size = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    Ok(size as f64 / 1e6)
}

/// The newest archive of the image.
fn image(cache: &Path) -> Result<f64> {
    let archives = std::fs::read_dir(cache.join("images"))?.flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("liqo-")
    });
    let newest =
        archives.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    megabytes(&newest.context("the image was loaded")?.path())
}

/// The bytes that have passed between the two clusters, either way.
///
/// Whoever measures talks to both as well: what passes this machine's own link went in or out of one of
/// their networks, and everything else of the one and out of the other.
fn crossed(lab: &Lab) -> Result<u64> {
    let mut passed = 0;
    for cluster in ["rome", "milan"] {
        let lan = &lab.plan().cluster(cluster).context("it is up")?.lan;
        let namespace = &lab.plan().lan(lan).context("it stands in a network")?.namespace;
        passed += carried(&["-n", namespace], "wan0")?;
    }
    Ok(passed.saturating_sub(carried(&[], &lab.plan().host_interface())?) / 2)
}

/// The bytes that an interface has carried, either way.
fn carried(place: &[&str], interface: &str) -> Result<u64> {
    let words = ["-s", "-j", "link", "show", interface];
    let output = Command::new("ip").args(place).args(words).output()?;
    let links: Value = serde_json::from_slice(&output.stdout).context("ip counts bytes")?;
    let count = |way: &str| links[0]["stats64"][way]["bytes"].as_u64();
    count("rx").zip(count("tx")).map(|(rx, tx)| rx + tx).context("both ways are counted")
}
