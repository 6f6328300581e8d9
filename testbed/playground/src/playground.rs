//! A playground as a whole: brought up, looked at, taken down.
//!
//! The plan is written before anything is made, and whatever exists is found by the plan's names,
//! so a process that is killed at any moment leaves nothing that `up` or `down` cannot handle.

mod boot;
mod preflight;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::cluster::Cluster;
use crate::host::{cgroup, network, process};
use crate::images::{self, Image, Workshop};
use crate::plan::{ClusterPlan, NodePlan, Plan};
use crate::progress::Line;
use crate::store::Store;
use crate::topology::Topology;
use crate::{engine, node_files};

/// How many clusters start at the same time.
const AT_ONCE: usize = 4;

/// Where things are on this machine.
#[derive(Clone, Debug)]
pub struct Places {
    /// The project.
    pub home: PathBuf,
    /// What clones share.
    pub cache: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// This program, which also is every node's first process.
    pub program: PathBuf,
}

/// A playground, whether it is up or not.
pub struct Playground {
    places: Places,
    prefix: String,
    store: Store,
    line: Line,
    patience: Duration,
}

impl Playground {
    /// The playground with that prefix.
    pub fn new(places: Places, prefix: &str, line: Line) -> Self {
        let store = Store::new(&places.home, prefix);
        Self { places, prefix: prefix.to_owned(), store, line, patience: Duration::from_mins(3) }
    }

    /// The same playground, which gives a cluster that long for each step of its way up.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Its folder.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What was planned.
    pub fn plan(&self) -> Result<Plan> {
        let plan = self.store.plan().context("read the plan")?;
        plan.with_context(|| {
            format!("there is no playground {:?}; run `./playground up`", self.prefix)
        })
    }

    /// Builds the parts of the engine.
    pub fn ensure_engine(&self, parts: &[engine::Part]) -> Result<PathBuf> {
        Ok(engine::ensure(&self.places.home, &self.places.cache, parts, &self.line)?)
    }

    /// Packs images, and returns the names of their archives.
    pub fn ensure_images(&self, wanted: &[Image]) -> Result<Vec<String>> {
        let engine = engine::folder(&self.places.home, &self.places.cache)?;
        let Places { home, cache, target, .. } = &self.places;
        Ok(Workshop { home, cache, engine: &engine, target }.ensure(wanted, &self.line)?)
    }

    /// The path of an archive in the cache.
    pub fn archive(&self, name: &str) -> PathBuf {
        images::folder(&self.places.cache).join(name)
    }

    /// Makes everything that `origin`, a preset or a file, describes; does nothing where it is there.
    pub async fn up(&self, origin: &str) -> Result<Plan> {
        let topology = Topology::load(origin)?;
        preflight::machine(&self.places.home)?;
        let (engine, archives) = self.materials(&topology)?;

        let _lock = self.store.lock().context("lock the playground")?;
        let plan = {
            // Two playgrounds that start at once must not choose the same addresses.
            let _turn = preflight::turn()?;
            let plan = self.settle(origin, &topology)?;
            self.wire(&plan)?;
            plan
        };
        preflight::watches(plan.clusters.iter().map(|cluster| cluster.nodes.len()).sum())?;
        let clusters =
            plan.clusters.iter().map(|cluster| self.raise(&plan, cluster, &engine, &archives));
        // Many that start at once keep each other from starting in time.
        futures::stream::iter(clusters).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(plan)
    }

    /// Builds and packs everything that `origin` needs, without making anything.
    pub fn provide(&self, origin: &str) -> Result<()> {
        self.materials(&Topology::load(origin)?).map(drop)
    }

    /// Removes everything the playground made; says so when there was nothing.
    pub fn down(&self) -> Result<bool> {
        let Some(plan) = self.store.plan().context("read the plan")? else {
            let there = self.store.root().exists();
            self.store.remove().context("remove the folder")?;
            return Ok(there);
        };
        let lock = self.store.lock().context("lock the playground")?;
        self.line.say("down: ending processes");
        let left = process::end_all(&plan.namespaces(), Duration::from_secs(15));
        ensure!(left.is_empty(), "processes {left:?} do not end; they may hang in the kernel");
        let mut failures: Vec<String> =
            network::remove_all(&plan).iter().map(ToString::to_string).collect();
        failures.extend(remove_cgroup(&plan).err().map(|error| format!("{error:#}")));
        ensure!(failures.is_empty(), "could not remove everything: {}", failures.join("; "));
        drop(lock);
        self.store.remove().context("remove the folder")?;
        Ok(true)
    }

    /// Imports an image archive on every node of a cluster.
    pub fn load(&self, cluster: &str, archive: &Path) -> Result<()> {
        let plan = self.plan()?;
        let cluster = find_cluster(&plan, cluster)?;
        if let Some(image) = archive.to_str().and_then(Image::named) {
            let archives = self.ensure_images(&[image])?;
            let archives: Vec<PathBuf> = archives.iter().map(|name| self.archive(name)).collect();
            return cluster.nodes.iter().try_for_each(|node| import_missing(node, &archives));
        }
        ensure!(archive.exists(), "there is no file {}", archive.display());
        cluster.nodes.iter().try_for_each(|node| import(node, archive))
    }

    /// A command that runs on a node, in all its namespaces.
    pub fn on_node(&self, name: &str, words: &[String]) -> Result<Command> {
        let plan = self.plan()?;
        let (_, node) = find_node(&plan, name)?;
        let mut command = enter(node)?;
        command.args(words);
        Ok(command)
    }

    /// `kubectl` for a cluster.
    pub fn kubectl(&self, cluster: &str) -> Result<Command> {
        let plan = self.plan()?;
        find_cluster(&plan, cluster)?;
        let engine = engine::folder(&self.places.home, &self.places.cache)?;
        let mut command = Command::new(engine.join("kubectl"));
        command.env("KUBECONFIG", self.store.kubeconfig(cluster));
        Ok(command)
    }

    /// Ends a node as if its power were cut.
    pub fn power_off(&self, name: &str) -> Result<()> {
        let plan = self.plan()?;
        let (_, node) = find_node(&plan, name)?;
        let left = process::end_all(std::slice::from_ref(&node.namespace), Duration::from_secs(15));
        ensure!(left.is_empty(), "processes {left:?} of {name} do not end");
        Ok(network::remove(&node.namespace)?)
    }

    /// Starts a node that is off.
    pub fn power_on(&self, name: &str) -> Result<()> {
        let plan = self.plan()?;
        let (cluster, node) = find_node(&plan, name)?;
        boot::node(&self.places, &self.store, &plan, cluster, node)
    }

    /// The engine and the images that a topology needs.
    fn materials(&self, topology: &Topology) -> Result<(PathBuf, Materials)> {
        let mut parts = vec![engine::CORE];
        let mut extra = vec![];
        for cluster in &topology.clusters {
            let addons = cluster.addons;
            for (wanted, part, image) in [
                (addons.dns, None, Image::CoreDns),
                (addons.metrics, Some(engine::METRICS), Image::MetricsServer),
                (addons.storage, Some(engine::STORAGE), Image::LocalPath),
            ] {
                if wanted && !extra.contains(&image) {
                    parts.extend(part);
                    extra.push(image);
                }
            }
            if cluster.fake_nodes > 0 && !parts.contains(&engine::KWOK) {
                parts.push(engine::KWOK);
            }
        }
        let engine = self.ensure_engine(&parts)?;
        let boot = self.ensure_images(&images::BOOT)?;
        let everywhere = self.ensure_images(&[Image::Demo])?;
        let first = self.ensure_images(&extra)?;
        self.line.done("engine and images are there");
        Ok((engine, Materials { boot, everywhere, first }))
    }

    /// The plan that is there already, or a new one.
    fn settle(&self, origin: &str, topology: &Topology) -> Result<Plan> {
        if let Some(plan) = self.store.plan().context("read the plan")? {
            ensure!(
                plan.topology == *topology,
                "the playground {:?} is up with another topology ({}); \
                 run `./playground down` first, or choose another --prefix",
                self.prefix,
                plan.origin,
            );
            return Ok(plan);
        }
        let taken = network::in_the_way(&self.prefix);
        ensure!(
            taken.is_empty(),
            "{} already exist and this playground did not make them; \
             choose another --prefix, or take down the playground that did",
            taken.join(", "),
        );
        let slot = network::free_slot()?.context("this machine is full: 16 playgrounds are up")?;
        let plan = Plan::new(&self.prefix, slot, origin, topology)?;
        self.store.save(&plan).context("write the plan")?;
        Ok(plan)
    }

    /// Makes the routers, unless they are made.
    fn wire(&self, plan: &Plan) -> Result<()> {
        if self.store.wired().exists() && network::exists(&plan.wan_namespace()) {
            return Ok(());
        }
        // What an interrupted attempt left is not worth mending.
        let left = process::end_all(&plan.namespaces(), Duration::from_secs(15));
        ensure!(left.is_empty(), "processes {left:?} do not end");
        if let Some(error) = network::remove_all(plan).into_iter().next() {
            return Err(error.into());
        }
        network::enact(&crate::plan::network::wan(plan))?;
        for (index, lan) in plan.lans.iter().enumerate() {
            network::enact(&crate::plan::network::lan(plan, lan, index))?;
        }
        fs::write(self.store.wired(), "").context("write the mark")?;
        self.line.done(&format!("network: {} routers and a WAN", plan.lans.len()));
        Ok(())
    }

    /// Brings one cluster up.
    async fn raise(
        &self,
        plan: &Plan,
        cluster: &ClusterPlan,
        engine: &Path,
        materials: &Materials,
    ) -> Result<()> {
        let name = &cluster.cluster.name;
        boot::prepare(&self.places, &self.store, plan, cluster, engine, &materials.boot)
            .with_context(|| format!("prepare the nodes of {name}"))?;
        let started = Instant::now();
        for node in &cluster.nodes {
            boot::node(&self.places, &self.store, plan, cluster, node)
                .with_context(|| format!("start the node {}", node.name))?;
        }
        self.line.say(&format!("{name}: waiting for the API server"));
        let talk = Cluster::new(cluster, &self.store.kubeconfig(name)).await?;
        talk.answers(self.patience).await?;
        let folder = images::folder(&self.places.cache);
        let paths =
            |names: &[String]| names.iter().map(|file| folder.join(file)).collect::<Vec<_>>();
        let (everywhere, first) = (paths(&materials.everywhere), paths(&materials.first));
        let nodes = cluster.nodes.clone();
        let imports = tokio::task::spawn_blocking(move || {
            nodes.iter().try_for_each(|node| {
                import_missing(node, if node.control_plane { &first } else { &[] })?;
                import_missing(node, &everywhere)
            })
        });
        talk.found().await?;
        self.line.say(&format!("{name}: waiting for the nodes"));
        talk.nodes_ready(self.patience).await?;
        let seconds = started.elapsed().as_secs_f32();
        self.line
            .done(&format!("{name}: {} nodes Ready after {seconds:.1} s", cluster.nodes.len()));
        imports.await.context("import images")??;
        talk.furnish().await?;
        talk.pods_ready(self.patience).await?;
        self.line.done(&format!("{name}: usable"));
        Ok(())
    }
}

/// Image archives, by where and when they are needed.
struct Materials {
    /// On every node, before its first pod.
    boot: Vec<String>,
    /// On every node.
    everywhere: Vec<String>,
    /// On the node that runs the control plane, which also runs the add-ons.
    first: Vec<String>,
}

/// The cluster of that name, or an error that names those there are.
pub fn find_cluster<'a>(plan: &'a Plan, name: &str) -> Result<&'a ClusterPlan> {
    plan.cluster(name).ok_or_else(|| {
        let names: Vec<&str> = plan.clusters.iter().map(|one| one.cluster.name.as_str()).collect();
        anyhow!("there is no cluster {name:?}; there are: {}", names.join(", "))
    })
}

/// The node of that name, or an error that names those there are.
pub fn find_node<'a>(plan: &'a Plan, name: &str) -> Result<(&'a ClusterPlan, &'a NodePlan)> {
    plan.node(name).ok_or_else(|| {
        let names: Vec<&str> = plan.nodes().map(|(_, node)| node.name.as_str()).collect();
        anyhow!("there is no node {name:?}; there are: {}", names.join(", "))
    })
}

/// A command that enters a node; its program and arguments are still to be added.
fn enter(node: &NodePlan) -> Result<Command> {
    let Some(init) = process::init_of(&node.namespace) else {
        bail!("the node {0} is off; run `./playground start {0}`", node.name);
    };
    let mut command = Command::new("nsenter");
    command.args(process::entrance(init)).arg("--");
    Ok(command)
}

/// Imports archives whose content the node does not have yet.
fn import_missing(node: &NodePlan, archives: &[PathBuf]) -> Result<()> {
    let marks = format!("{}/imported", node_files::STATE);
    for archive in archives {
        let file = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mark = format!("{marks}/{file}");
        if enter(node)?.args(["test", "-e", &mark]).status().is_ok_and(|status| status.success()) {
            continue;
        }
        import(node, archive)?;
        enter(node)?.args(["mkdir", "-p", &mark]).status().context("mark an image as imported")?;
    }
    Ok(())
}

fn import(node: &NodePlan, archive: &Path) -> Result<()> {
    let file = fs::File::open(archive).with_context(|| format!("open {}", archive.display()))?;
    // Through standard input: the node may not see the folder the archive is in.
    let output = enter(node)?
        .args(["ctr", "-n", "k8s.io", "images", "import", "-"])
        .stdin(file)
        .output()
        .context("run ctr")?;
    ensure!(
        output.status.success(),
        "cannot import {} on {}: {}",
        archive.display(),
        node.name,
        String::from_utf8_lossy(&output.stderr).trim(),
    );
    Ok(())
}

fn remove_cgroup(plan: &Plan) -> Result<()> {
    let group = plan.cgroup();
    cgroup::remove(&group).with_context(|| format!("remove the control group {group}"))
}
