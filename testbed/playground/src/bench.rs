//! Measures how fast clusters start and what they cost while nothing happens.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::host::process;
use crate::playground::{Places, Playground};
use crate::progress::Line;

/// The prefix of what is measured, so that nobody else's playground is touched.
const PREFIX: &str = "bench";
/// How long a cluster is left alone before its memory is read.
const QUIET: Duration = Duration::from_secs(20);

/// Brings presets up and down once each, and tells the figures.
pub async fn run(places: &Places) -> Result<String> {
    let mut table = format!(
        "{:<12} {:>8} {:>8} {:>14} {:>14} {:>10}\n",
        "preset", "up (s)", "down (s)", "RSS/node (MiB)", "PSS/node (MiB)", "processes"
    );
    let mut largest = String::new();
    for preset in ["one", "quick-start"] {
        let playground = Playground::new(places.clone(), PREFIX, Line::silent());
        playground.down()?;
        // Compiling is not what is measured.
        playground.provide(preset)?;
        let started = Instant::now();
        let plan = match playground.up(preset).await {
            Ok(plan) => plan,
            Err(error) => {
                playground.down()?;
                return Err(error);
            }
        };
        let up = started.elapsed();
        tokio::time::sleep(QUIET).await;
        let nodes: Vec<Vec<process::Process>> =
            plan.nodes().map(|(_, node)| process::of_node(&node.namespace)).collect();
        let all: Vec<&process::Process> = nodes.iter().flatten().collect();
        let count = u64::try_from(nodes.len()).unwrap_or(1).max(1);
        let mean = |field: fn(&process::Process) -> u64| {
            (all.iter().map(|one| field(one)).sum::<u64>() / count) >> 20
        };
        if preset == "one" {
            let mut sorted = all.clone();
            sorted.sort_by_key(|one| std::cmp::Reverse(one.resident));
            for one in sorted.iter().take(8) {
                let _ = writeln!(
                    largest,
                    "  {:<26} {:>5} MiB RSS {:>5} MiB PSS",
                    one.name,
                    one.resident >> 20,
                    one.proportional >> 20
                );
            }
        }
        let processes = all.len();
        let (resident, proportional) = (mean(|one| one.resident), mean(|one| one.proportional));
        let stopping = Instant::now();
        playground.down()?;
        let _ = writeln!(
            table,
            "{preset:<12} {:>8.1} {:>8.1} {resident:>14} {proportional:>14} {processes:>10}",
            up.as_secs_f32(),
            stopping.elapsed().as_secs_f32(),
        );
    }
    Ok(format!("{table}\nlargest processes of preset one:\n{largest}"))
}
