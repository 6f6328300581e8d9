//! What the components of a cluster cost, as the kernel counts it.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Ticks of the kernel's clock of CPU time, in one second: the same on every Linux.
const TICKS: u64 = 100;

/// Processes of one cluster.
pub struct Processes(Vec<Process>);

/// One of them.
pub struct Process {
    /// Which component it is.
    name: String,
    /// Its memory in kB; what shared pages cost is split among those who share them.
    pub memory: u64,
    /// The CPU time it has used, in ms.
    pub cpu: u64,
}

impl Processes {
    /// The components of Liqo that run now.
    pub fn of(prefix: &str, cluster: &str) -> Result<Self> {
        Self::called("/usr/bin/liqo", prefix, cluster)
    }

    /// Those whose program is called so.
    pub fn called(program: &str, prefix: &str, cluster: &str) -> Result<Self> {
        let here = format!("-{prefix}/{cluster}-");
        let mut found = vec![];
        for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
            found.extend(process(&entry.path(), program, &here));
        }
        ensure!(!found.is_empty(), "no {program} of {cluster} is running");
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self(found))
    }

    /// The component of that name.
    pub fn one(&self, name: &str) -> Result<&Process> {
        self.0
            .iter()
            .find(|process| process.name == name)
            .with_context(|| format!("no {name} runs"))
    }

    /// The memory of all, in kB.
    pub fn memory(&self) -> u64 {
        self.0.iter().map(|process| process.memory).sum()
    }

    /// The components, and the CPU time that each has used, in ms.
    pub fn each(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|process| (process.name.as_str(), process.cpu))
    }

    /// The CPU time that all have used, in ms.
    pub fn cpu(&self) -> u64 {
        self.0.iter().map(|process| process.cpu).sum()
    }
}

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self
            .0
            .iter()
            .map(|process| format!("{} {}", process.name, tenths(process.memory)))
            .collect();
        write!(f, "{:>8} MB PSS ({})", tenths(self.memory()), each.join(", "))
    }
}

fn tenths(kilobytes: u64) -> String {
    format!("{}.{}", kilobytes / 1000, kilobytes % 1000 / 100)
}

fn process(folder: &Path, program: &str, here: &str) -> Option<Process> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let line = read("cmdline")?;
    let mut words = line.split('\0');
    if words.next() != Some(program) || !read("cgroup")?.contains(here) {
        return None;
    }
    let name = words.next().unwrap_or_default().to_owned();
    let memory = read("smaps_rollup")?.lines().find_map(|line| {
        line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse().ok()
    })?;
    // After the name, which may contain anything: state, ten others, user time, system time.
    let stat = read("stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process { name, memory, cpu: (ticks(11)? + ticks(12)?) * 1000 / TICKS })
}
