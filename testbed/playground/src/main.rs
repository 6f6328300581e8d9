//! The command line of the playground.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use liqo_playground::faults::{self, Connection};
use liqo_playground::init::{self, Request};
use liqo_playground::playground::{Places, Playground, find_cluster, find_node};
use liqo_playground::progress::Line;
use liqo_playground::store::Store;
use liqo_playground::{bench, engine, images, report};

/// Real Kubernetes clusters on this machine, in network namespaces.
#[derive(Parser)]
#[command(name = "playground", version, after_help = EXAMPLES)]
struct Arguments {
    /// What the names of everything it makes start with; another prefix is another playground
    #[arg(long, global = true, default_value = "pg", env = "PLAYGROUND_PREFIX")]
    prefix: String,
    /// The project's folder
    #[arg(long, global = true, default_value = ".", env = "PLAYGROUND_HOME", hide = true)]
    home: PathBuf,
    /// Where what clones share is kept
    #[arg(long, global = true, env = "LIQO_CACHE", hide = true)]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  playground up quick-start                  two clusters, rome and milan, two nodes each
  playground kubectl rome get nodes          any kubectl command
  export KUBECONFIG=$(playground kubeconfig rome)
  playground cut rome..milan                 the clusters no longer reach each other
  playground stop milan-2                    a node loses its power
  playground down                            nothing is left";

#[derive(Subcommand)]
enum Verb {
    /// Brings clusters up, from a preset or a topology file
    Up {
        /// quick-start, one, pair, three, overlap, nat, both-nat, scale, or a file
        #[arg(default_value = "quick-start")]
        topology: String,
        /// Leave everything as it is when something fails
        #[arg(long)]
        keep: bool,
        /// Seconds each step of a cluster's way up may take
        #[arg(long, default_value_t = 180)]
        timeout: u64,
    },
    /// Removes everything that was brought up
    Down {
        /// All playgrounds of this project, not only the one with this prefix
        #[arg(long)]
        all: bool,
    },
    /// Shows clusters, nodes and services; exits with 1 if something is not as it should be
    Status {
        /// How to print it
        #[arg(short, long, default_value = "table")]
        output: Format,
    },
    /// Shows the clusters at work
    Tour,
    /// Prints the path of a cluster's kubeconfig
    Kubeconfig {
        /// The cluster
        cluster: String,
    },
    /// Runs kubectl against a cluster
    Kubectl {
        /// The cluster
        cluster: String,
        /// What kubectl is to do
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Imports an image on all nodes of a cluster
    Load {
        /// The cluster
        cluster: String,
        /// An archive, or `liqo`: the image of Liqo, built from this clone
        archive: PathBuf,
    },
    /// Runs a command on a node
    Exec {
        /// The node
        node: String,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Prints the log of a node's component: containerd, kubelet, kube-proxy, kube-apiserver, …
    Logs {
        /// The node
        node: String,
        /// The component
        component: String,
    },
    /// Saves everything needed to understand a failure
    Collect {
        /// Where to
        folder: PathBuf,
    },
    /// Cuts a connection: a node (rome-2), a cluster (rome), `rome:api` or `rome..milan`
    Cut {
        /// What to cut
        connection: String,
    },
    /// Heals a connection, or all of them
    Heal {
        /// What to heal
        connection: Option<String>,
    },
    /// Stops a node, or a component of it, and keeps it stopped
    Stop {
        /// The node
        node: String,
        /// The component; without it, the node loses its power
        component: Option<String>,
    },
    /// Starts a node, or a component of it
    Start {
        /// The node
        node: String,
        /// The component
        component: Option<String>,
    },
    /// Builds the Go programs that clusters are made of
    Engine {
        /// Also what only tests and benchmarks need
        #[arg(long)]
        all: bool,
    },
    /// Packs the container images, and prints where they are
    Images,
    /// Measures start-up time and memory
    Bench,
    /// Runs as the first process of a node
    #[command(hide = true)]
    NodeInit {
        /// The node's folder
        folder: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Verb::NodeInit { folder } = &arguments.verb {
        let failed = init::run(folder).err();
        say(&format!("init: {failed:?}"));
        return ExitCode::FAILURE;
    }
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<ExitCode> {
    let places = places(&arguments)?;
    let line = Line::new();
    let mut playground = Playground::new(places.clone(), &arguments.prefix, line.clone());
    if let Verb::Up { timeout, .. } = &arguments.verb {
        playground = playground.with_patience(Duration::from_secs(*timeout));
    }
    let outcome = obey(arguments.verb, &playground, &places, &line).await;
    line.finish();
    outcome
}

async fn obey(
    verb: Verb,
    playground: &Playground,
    places: &Places,
    line: &Line,
) -> Result<ExitCode> {
    match verb {
        Verb::Up { topology, keep, timeout: _ } => {
            up(playground, places, line, &topology, keep).await?;
        }
        Verb::Down { all } => down(playground, places, line, all)?,
        Verb::Status { output } => return status(playground, output).await,
        Verb::Tour => tour(playground).await?,
        Verb::Kubeconfig { cluster } => {
            find_cluster(&playground.plan()?, &cluster)?;
            print(&format!("{}\n", playground.store().kubeconfig(&cluster).display()))?;
        }
        Verb::Kubectl { cluster, words } => {
            line.finish();
            return Err(replace(playground.kubectl(&cluster)?.args(words)));
        }
        Verb::Load { cluster, archive } => playground.load(&cluster, &archive)?,
        Verb::Exec { node, words } => {
            line.finish();
            return Err(replace(&mut playground.on_node(&node, &words)?));
        }
        Verb::Logs { node, component } => logs(playground, &node, &component)?,
        Verb::Collect { folder } => report::collect(playground, &folder)?,
        Verb::Cut { connection } => {
            let plan = playground.plan()?;
            faults::set(&plan, &Connection::parse(&plan, &connection)?, true)?;
        }
        Verb::Heal { connection } => heal(playground, connection.as_deref())?,
        Verb::Stop { node, component: None } => playground.power_off(&node)?,
        Verb::Start { node, component: None } => playground.power_on(&node)?,
        Verb::Stop { node, component: Some(name) } => {
            order(playground, &node, &Request::Stop(name))?;
        }
        Verb::Start { node, component: Some(name) } => {
            order(playground, &node, &Request::Start(name))?;
        }
        Verb::Engine { all } => {
            let parts = if all { &engine::ALL[..] } else { &engine::ALL[..3] };
            let folder = playground.ensure_engine(parts)?;
            print(&format!("{}\n", folder.display()))?;
        }
        Verb::Images => {
            playground.ensure_engine(&engine::ALL[..3])?;
            for name in playground.ensure_images(&images::ALL)? {
                let path = playground.archive(&name);
                let size = std::fs::metadata(&path)?.len();
                print(&format!("{:>6} kB  {}\n", size >> 10, path.display()))?;
            }
        }
        Verb::Bench => print(&bench::run(places).await?)?,
        Verb::NodeInit { .. } => bail!("a node's first process runs no other way"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Brings up; if that fails or is interrupted, saves the evidence and leaves nothing behind.
async fn up(
    playground: &Playground,
    places: &Places,
    line: &Line,
    topology: &str,
    keep: bool,
) -> Result<()> {
    let existed = playground.store().plan().is_ok_and(|plan| plan.is_some());
    let failure = tokio::select! {
        outcome = playground.up(topology) => match outcome {
            Ok(plan) => {
                let names: Vec<&str> =
                    plan.clusters.iter().map(|cluster| cluster.cluster.name.as_str()).collect();
                line.done(&format!("{} up", names.join(" and ")));
                return Ok(());
            }
            Err(error) => error,
        },
        _ = tokio::signal::ctrl_c() => anyhow::anyhow!("interrupted"),
    };
    let made_here = !existed && playground.store().plan().is_ok_and(|plan| plan.is_some());
    if keep || existed {
        return Err(failure);
    }
    if made_here {
        let folder = places.home.join("artifacts").join(format!("up-{}", std::process::id()));
        if report::collect(playground, &folder).is_ok() {
            say(&format!("what was going on when it failed is in {}", folder.display()));
        }
    }
    playground.down().context("clean up after the failure; run `./playground down`")?;
    Err(failure)
}

fn down(playground: &Playground, places: &Places, line: &Line, all: bool) -> Result<()> {
    if !all {
        let done = if playground.down()? { "down" } else { "there was nothing to take down" };
        line.done(done);
        return Ok(());
    }
    for prefix in Store::prefixes(&places.home) {
        Playground::new(places.clone(), &prefix, line.clone()).down()?;
        line.done(&format!("{prefix} down"));
    }
    Ok(())
}

async fn status(playground: &Playground, output: Format) -> Result<ExitCode> {
    let status = report::status(playground).await?;
    match output {
        Format::Table => print(&status.table())?,
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&status)?))?,
    }
    Ok(if status.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn tour(playground: &Playground) -> Result<()> {
    let plan = playground.plan()?;
    for cluster in &plan.clusters {
        let name = &cluster.cluster.name;
        for words in ["get nodes -o wide", "get pods -A -o wide"] {
            print(&format!("\n$ ./playground kubectl {name} {words}\n"))?;
            let done = playground.kubectl(name)?.args(words.split_whitespace()).status()?;
            ensure!(done.success(), "kubectl failed on {name}");
        }
    }
    print("\n$ ./playground status\n")?;
    print(&report::status(playground).await?.table())
}

fn logs(playground: &Playground, node: &str, component: &str) -> Result<()> {
    let plan = playground.plan()?;
    find_node(&plan, node)?;
    let folder = playground.store().node(node);
    let mut files = vec![folder.join(format!("logs/{component}.log"))];
    let pods = folder.join("layers/var/log/pods");
    let mut found: Vec<PathBuf> = std::fs::read_dir(pods)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(&format!("kube-system_{component}-{node}_"))
        })
        .flat_map(|entry| {
            std::fs::read_dir(entry.path().join(component)).into_iter().flatten().flatten()
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    files.extend(found);
    let texts: Vec<Vec<u8>> = files.iter().filter_map(|file| std::fs::read(file).ok()).collect();
    ensure!(
        !texts.is_empty(),
        "there is no log of {component:?} on {node}; components: {}",
        init::ask(&folder, &Request::Status).ok().and_then(Result::ok).map_or_else(
            || "unknown, the node is off".to_owned(),
            |states| states.into_iter().map(|state| state.name).collect::<Vec<_>>().join(", "),
        ),
    );
    let mut out = std::io::stdout().lock();
    texts.iter().try_for_each(|text| out.write_all(text)).context("print the log")
}

fn heal(playground: &Playground, connection: Option<&str>) -> Result<()> {
    let plan = playground.plan()?;
    if let Some(text) = connection {
        return faults::set(&plan, &Connection::parse(&plan, text)?, false);
    }
    for connection in faults::all(&plan) {
        // A node that is off has no cable to heal.
        let _ = faults::set(&plan, &connection, false);
    }
    Ok(())
}

fn order(playground: &Playground, node: &str, request: &Request) -> Result<()> {
    let plan = playground.plan()?;
    find_node(&plan, node)?;
    let answer = init::ask(&playground.store().node(node), request)
        .with_context(|| format!("the node {node} is off; run `./playground start {node}`"))?;
    answer.map(drop).map_err(anyhow::Error::msg)
}

fn places(arguments: &Arguments) -> Result<Places> {
    let home = arguments.home.canonicalize().context("find the project's folder")?;
    let cache = match &arguments.cache {
        Some(cache) => cache.clone(),
        None => PathBuf::from(std::env::var("HOME").context("read HOME")?).join(".cache/liqo"),
    };
    let target =
        std::env::var("CARGO_TARGET_DIR").map_or_else(|_| cache.join("target"), PathBuf::from);
    let program = std::env::current_exe().context("find this program")?;
    Ok(Places { home, cache, target, program })
}

/// Becomes another program; returns only if that fails.
fn replace(command: &mut Command) -> anyhow::Error {
    let error = command.exec();
    anyhow::Error::new(error).context(format!("run {}", command.get_program().to_string_lossy()))
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes()).context("print")
}

#[expect(clippy::print_stderr, reason = "errors of a command line go there")]
fn say(text: &str) {
    eprintln!("{text}");
}
