//! How much memory the components take, as the kernel counts it.

use std::fmt;
use std::fs;

use anyhow::{Context as _, Result, ensure};

/// Memory of the components of one cluster, in kB.
pub struct Memory {
    components: Vec<(String, u64)>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.components.iter().map(|(_, size)| size).sum();
        let each: Vec<String> = self
            .components
            .iter()
            .map(|(name, size)| format!("{name} {}", tenths(*size)))
            .collect();
        write!(f, "{:>8} MB PSS ({})", tenths(total), each.join(", "))
    }
}

fn tenths(kilobytes: u64) -> String {
    format!("{}.{}", kilobytes / 1000, kilobytes % 1000 / 100)
}

/// What shared pages cost is split among those who share them.
pub fn of_liqo(prefix: &str, cluster: &str) -> Result<Memory> {
    let mut components = vec![];
    for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
        let folder = entry.path();
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let Some(line) = read("cmdline") else { continue };
        let mut words = line.split('\0');
        if words.next() != Some("/usr/bin/liqo") {
            continue;
        }
        let name = words.next().unwrap_or_default().to_owned();
        let node = read("cgroup").unwrap_or_default();
        let here = format!("-{prefix}/{cluster}-");
        if !node.contains(&here) {
            continue;
        }
        let rollup = read("smaps_rollup").unwrap_or_default();
        let size = rollup.lines().find_map(|line| {
            line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse().ok()
        });
        components.extend(size.map(|size| (name, size)));
    }
    ensure!(!components.is_empty(), "no component of {cluster} is running");
    components.sort();
    Ok(Memory { components })
}
