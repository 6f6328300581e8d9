//! How long two clusters take to peer, phase by phase, and what crosses the wire meanwhile.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use liqo_testkit::Lab;

use crate::{ROUNDS, crossed, spread, timed};

/// The figures, as lines; the clusters are peered when it is over.
pub fn figures(lab: &Lab) -> Result<Vec<String>> {
    let command = lab.peer_command("milan")?;
    let (mut peerings, mut partings) = (vec![], vec![]);
    let (mut phases, mut bytes): (Vec<(String, Vec<Duration>)>, Vec<u64>) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let before = crossed(lab)?;
        let (took, ends) = by_phase(lab, &command)?;
        bytes.push(crossed(lab)? - before);
        peerings.push(took);
        for (index, (name, length)) in ends.into_iter().enumerate() {
            match phases.get_mut(index) {
                Some((_, lengths)) => lengths.push(length),
                None => phases.push((name, vec![length])),
            }
        }
        partings.push(timed(|| lab.liqoctl("rome", "unpeer out-of-band milan"))?);
    }
    lab.liqoctl("rome", &command)?;
    bytes.sort_unstable();
    let mut lines = vec![format!("peer until node ready      {}", spread(&peerings))];
    lines.extend(phases.iter().map(|(name, lengths)| format!("  {name:<24} {}", spread(lengths))));
    lines.push(format!(
        "  across the wire          {:>8} kB  (best {}, worst {}, of {}; both ways, with headers)",
        bytes[bytes.len() / 2] / 1000,
        bytes[0] / 1000,
        bytes[bytes.len() - 1] / 1000,
        bytes.len()
    ));
    lines.push(format!("unpeer until all is gone   {}", spread(&partings)));
    Ok(lines)
}

/// Peers; how long that took, and each phase of it.
fn by_phase(lab: &Lab, command: &str) -> Result<(Duration, Vec<(String, Duration)>)> {
    let start = Instant::now();
    let mut child = lab.liqoctl_command("rome", command).stdout(Stdio::piped()).spawn()?;
    let told = BufReader::new(child.stdout.take().context("it is piped")?);
    let (mut phases, mut last) = (vec![], start);
    for line in told.lines() {
        let now = Instant::now();
        phases.push((phase(&line?), now - last));
        last = now;
    }
    ensure!(child.wait()?.success(), "{command} failed");
    Ok((start.elapsed(), phases))
}

/// What a line tells the end of, in a few words.
fn phase(line: &str) -> String {
    let text = line.trim().trim_start_matches("INFO").trim();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().take(3).copied().collect::<Vec<_>>().join(" ")
}
