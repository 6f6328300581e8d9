//! This machine, as tests see it: where things are, and what is left on it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use liqo_playground::playground::Places;

/// Where the project, its cache and its programs are.
pub fn places() -> Result<Places> {
    let exe = env::current_exe().context("find this test")?;
    let profile = exe.ancestors().find(|folder| folder.ends_with("debug"));
    let target = profile.and_then(Path::parent).context("find the build folder")?.to_owned();
    let program = target.join("debug/playground");
    ensure!(program.exists(), "{} is not built; run `make e2e`", program.display());
    Ok(Places { home: home()?, cache: cache()?, target, program })
}

/// The workspace.
pub fn home() -> Result<PathBuf> {
    let folder = env::var("CARGO_MANIFEST_DIR").context("tests are run by cargo")?;
    let mut folders = Path::new(&folder).ancestors();
    folders
        .find(|folder| folder.join("Cargo.lock").exists())
        .map(Path::to_owned)
        .context("find the workspace")
}

/// What clones share.
pub fn cache() -> Result<PathBuf> {
    match env::var("LIQO_CACHE") {
        Ok(cache) => Ok(PathBuf::from(cache)),
        Err(_) => Ok(PathBuf::from(env::var("HOME").context("read HOME")?).join(".cache/liqo")),
    }
}

/// What a playground could leave on a machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    namespaces: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    mounts: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    routes: BTreeSet<String>,
    processes: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Traces {
    /// Looks around. Other playgrounds may come and go, so only what carries `prefix` is counted
    /// where names tell; everything is counted where they do not.
    pub fn of(prefix: &str, home: &Path) -> Result<Self> {
        let names = |folder: &str| -> BTreeSet<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        let ours = |name: &String| name.starts_with(prefix);
        let lines = |text: String, with: &str| -> BTreeSet<String> {
            text.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
        };
        let routes = Command::new("ip").args(["route", "show", "table", "all"]).output()?;
        let group = format!("liqo-playground-{prefix}");
        let hierarchies =
            names("/sys/fs/cgroup").into_iter().map(|name| format!("/sys/fs/cgroup/{name}"));
        let cgroups = hierarchies
            .chain(["/sys/fs/cgroup".to_owned()])
            .flat_map(|folder| {
                names(&folder).into_iter().map(move |name| format!("{folder}/{name}"))
            })
            .filter(|path| path.contains(&group))
            .collect();
        let folder = home.join(".playground").join(prefix).display().to_string();
        Ok(Self {
            namespaces: names("/run/netns").into_iter().filter(ours).collect(),
            interfaces: names("/sys/class/net").into_iter().filter(ours).collect(),
            mounts: lines(fs::read_to_string("/proc/self/mountinfo")?, &folder),
            cgroups,
            routes: lines(
                String::from_utf8_lossy(&routes.stdout).into_owned(),
                &format!("{prefix}-host"),
            ),
            processes: processes_with(&folder),
            files: if Path::new(&folder).exists() { [folder].into() } else { BTreeSet::new() },
        })
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        let Self { namespaces, interfaces, mounts, cgroups, routes, processes, files } = self;
        [namespaces, interfaces, mounts, cgroups, routes, processes, files]
            .iter()
            .all(|set| set.is_empty())
    }
}

/// Processes that name a folder on their command line or hold a file open below it.
fn processes_with(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter_map(|entry| {
            let command = fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let opened = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
            let holds = opened
                .filter_map(|file| fs::read_link(file.path()).ok())
                .any(|file| file.display().to_string().starts_with(folder));
            (command.contains(folder) || holds).then(|| command.chars().take(120).collect())
        })
        .collect()
}
