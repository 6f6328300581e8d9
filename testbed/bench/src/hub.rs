//! One cluster that uses many others: what each of them costs it.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use liqo_testkit::Lab;

use crate::processes::Processes;
use crate::{settle, timed};

/// Sums are shown for so many peers at a time.
const GROUP: usize = 4;

/// What the hub had spent when it had so many peers.
struct Point {
    cpu: u64,
    memory: u64,
    took: Duration,
}

/// The figures, as lines.
pub fn figures(peers: usize) -> Result<Vec<String>> {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().context("make a file")?;
    file.write_all(topology(peers).as_bytes()).context("write the topology")?;
    let lab = Lab::up(&file.path().display().to_string())?;
    let spokes: Vec<String> = (1..=peers).map(|index| format!("spoke{index}")).collect();
    let all: Vec<&str> = ["hub"].into_iter().chain(spokes.iter().map(String::as_str)).collect();
    lab.load_liqo(&all)?;
    for cluster in all {
        let words = format!("install kubeadm --cluster-name {cluster} --service-type NodePort");
        lab.liqoctl(cluster, &words)?;
    }
    settle()?;
    let point = |took| -> Result<Point> {
        let processes = Processes::of(lab.prefix(), "hub")?;
        Ok(Point { cpu: processes.cpu(), memory: processes.memory(), took })
    };
    let mut points = vec![point(Duration::ZERO)?];
    let mut group = Duration::ZERO;
    for (index, spoke) in (1..).zip(&spokes) {
        let command = lab.peer_command(spoke)?;
        group += timed(|| lab.liqoctl("hub", &command))?;
        if index % GROUP == 0 {
            points.push(point(group)?);
            group = Duration::ZERO;
        }
    }
    let lines = points.windows(2).zip(1..).filter_map(|(pair, index)| {
        let [before, after] = pair else { return None };
        let count = u64::try_from(GROUP).ok()?;
        Some(format!(
            "peers {:>2} to {:>2} of a hub       {:>6.3} s, {:>4} ms of CPU and {:>5} kB PSS each",
            (index - 1) * GROUP + 1,
            index * GROUP,
            after.took.as_secs_f64() / f64::from(u32::try_from(GROUP).ok()?),
            after.cpu.saturating_sub(before.cpu) / count,
            after.memory.saturating_sub(before.memory) / count,
        ))
    });
    Ok(lines.collect())
}

/// Small clusters, eight to a network.
fn topology(peers: usize) -> String {
    let cluster = |name: &str, number: usize| {
        format!(
            "  - name: {name}\n    podCIDR: 10.{}.0.0/16\n    serviceCIDR: 10.{}.0.0/16\n    \
             lan: lan{}\n    addons: {{dns: false, metrics: false, storage: false}}\n",
            100 + number,
            150 + number,
            number.div_ceil(8),
        )
    };
    let spokes: String =
        (1..=peers).map(|number| cluster(&format!("spoke{number}"), number)).collect();
    format!("clusters:\n{}{spokes}", cluster("hub", 0))
}
