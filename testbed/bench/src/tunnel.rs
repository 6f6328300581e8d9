//! Our tunnel beside wireguard-go, each between two network namespaces: one TCP flow, round trips,
//! memory and CPU time. Rounds alternate, so that what else the machine does hits both.

mod load;
mod topology;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use liqo_playground::engine;
use liqo_playground::progress::Line;
use liqo_testkit::{cache, home};

use self::topology::{End, Pair};

/// How often each is measured.
const ROUNDS: usize = 7;
/// How long one flow lasts.
const FLOW: Duration = Duration::from_secs(5);
/// How many round trips are timed in one round.
const TRIPS: usize = 2_000;

/// What was measured of one implementation.
#[derive(Default)]
struct Figures {
    /// Bits per nanosecond of one TCP flow, that is Gbit/s.
    rates: Vec<f64>,
    /// Medians of round trips, in microseconds.
    trips: Vec<f64>,
    /// The 99th percentiles.
    slow_trips: Vec<f64>,
    /// CPU time of both ends in seconds, for each gigabyte.
    cpu: Vec<f64>,
    /// Memory of the larger end, in MB.
    rss: f64,
    pss: f64,
}

/// The figures, as lines.
pub fn figures() -> Result<Vec<String>> {
    let wireguard_go = engine::ensure(&home()?, &cache()?, &[engine::WIREGUARD], &Line::new())
        .context("build wireguard-go")?
        .join("wireguard-go");
    let ours = ours()?;
    let theirs =
        Pair::up("go", &[End::WireguardGo(&wireguard_go), End::WireguardGo(&wireguard_go)])?;
    let own = Pair::up("rs", &[End::Ours(&ours), End::Ours(&ours)])?;
    let (mut go, mut rust) = (Figures::default(), Figures::default());
    for round in 0..ROUNDS {
        // Whoever comes second may find the machine warmer.
        if round % 2 == 0 {
            go.measure(&theirs)?;
            rust.measure(&own)?;
        } else {
            rust.measure(&own)?;
            go.measure(&theirs)?;
        }
    }
    drop((theirs, own));
    let mixed = Pair::up("mix", &[End::Ours(&ours), End::WireguardGo(&wireguard_go)])?;
    let mut both = Figures::default();
    both.measure(&mixed)?;
    Ok(report(&go, &rust, &both))
}

impl Figures {
    fn measure(&mut self, pair: &Pair) -> Result<()> {
        let before = pair.cpu()?;
        let flow = load::flow(pair, FLOW)?;
        let spent = pair.cpu()?.saturating_sub(before);
        self.rates.push(flow.rate());
        self.cpu.push(spent.as_secs_f64() / flow.gigabytes());
        let mut trips = load::round_trips(pair, TRIPS)?;
        trips.sort_by(f64::total_cmp);
        self.trips.push(trips[trips.len() / 2]);
        self.slow_trips.push(trips[trips.len() * 99 / 100]);
        let (rss, pss) = pair.memory()?;
        self.rss = self.rss.max(rss);
        self.pss = self.pss.max(pss);
        Ok(())
    }
}

fn report(go: &Figures, rust: &Figures, both: &Figures) -> Vec<String> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let row = |what: &str, unit: &str, ours: f64, theirs: f64| {
        format!("{what:<34}{ours:>9.3} {unit:<6}{theirs:>9.3} {unit:<6}{:>7.2}×", ours / theirs)
    };
    let pairs = |what: &str, unit: &str, ours: &[f64], theirs: &[f64]| {
        row(what, unit, median(ours), median(theirs))
    };
    vec![
        format!("{:<34}{:>16}{:>16}", "", "ours", "wireguard-go"),
        pairs("one TCP flow", "Gbit/s", &rust.rates, &go.rates),
        pairs("CPU time of both ends, per GB", "s", &rust.cpu, &go.cpu),
        pairs("round trip, middle", "µs", &rust.trips, &go.trips),
        pairs("round trip, 99th percentile", "µs", &rust.slow_trips, &go.slow_trips),
        row("memory of an end, RSS", "MB", rust.rss, go.rss),
        row("memory of an end, PSS", "MB", rust.pss, go.pss),
        format!("ours to wireguard-go: one TCP flow {:.3} Gbit/s", median(&both.rates)),
        format!("medians of {ROUNDS} rounds, alternating; load average {}", load.trim()),
    ]
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One end of our tunnel, optimized as it is shipped.
fn ours() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "-p",
            "liqo-tunnel",
            "--example",
            "end",
        ])
        .current_dir(home()?)
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "the example `end` of liqo-tunnel does not build");
    let exe = std::env::current_exe().context("find this program")?;
    let target =
        exe.ancestors().find(|folder| folder.ends_with("debug")).and_then(|it| it.parent());
    Ok(target.context("find the build folder")?.join("release/examples/end"))
}
