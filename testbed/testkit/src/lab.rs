//! A playground that belongs to one test: its names are its own, and it ends with the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::serde::Serialize;
use kube::Client;
use liqo_playground::plan::Plan;
use liqo_playground::playground::{Places, Playground};
use liqo_playground::progress::Line;
use liqo_playground::report;
use liqo_playground::store::Store;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::machine::places;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A playground for a test.
pub struct Lab {
    places: Places,
    playground: Playground,
    plan: Plan,
    runtime: Runtime,
    prefix: String,
}

impl Lab {
    /// Brings a preset or topology file up under a prefix of its own.
    pub fn up(topology: &str) -> Result<Self> {
        let places = places()?;
        sweep(&places);
        let prefix = own_prefix();
        let playground = Playground::new(places.clone(), &prefix, Line::silent());
        let runtime = Runtime::new().context("start a runtime")?;
        match runtime.block_on(playground.up(topology)) {
            Ok(plan) => Ok(Self { places, playground, plan, runtime, prefix }),
            Err(error) => {
                let folder = artifacts(&places, &format!("lab-{prefix}"));
                let _ = report::collect(&playground, &folder);
                playground.down().context("clean up")?;
                Err(error.context(format!("bring {topology} up; evidence: {}", folder.display())))
            }
        }
    }

    /// What is up.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What its names start with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A client of a cluster.
    pub fn client(&self, cluster: &str) -> Result<Client> {
        let path = self.kubeconfig(cluster);
        let client = self.runtime.block_on(liqo_playground::cluster::client(&path));
        client.map_err(|error| anyhow::anyhow!("make a client of {cluster}: {error}"))
    }

    /// Runs something asynchronous to its end.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The kubeconfig of a cluster.
    pub fn kubeconfig(&self, cluster: &str) -> PathBuf {
        self.playground.store().kubeconfig(cluster)
    }

    /// Runs kubectl as a user would, and returns what it printed; fails when it fails.
    pub fn kubectl(&self, cluster: &str, words: &str) -> Result<String> {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.kubectl_words(cluster, &words)
    }

    /// The same, with words that contain spaces.
    pub fn kubectl_words(&self, cluster: &str, words: &[&str]) -> Result<String> {
        let output =
            self.playground.kubectl(cluster)?.args(words).output().context("run kubectl")?;
        told(&output, &format!("kubectl {}", words.join(" ")))
    }

    /// A kubectl that is still to be started.
    pub fn kubectl_command(&self, cluster: &str) -> Result<Command> {
        self.playground.kubectl(cluster)
    }

    /// Applies objects.
    pub fn apply<K: Serialize>(&self, cluster: &str, objects: &[K]) -> Result<()> {
        for object in objects {
            let file = tempfile::NamedTempFile::new().context("make a file")?;
            fs::write(file.path(), serde_json::to_vec(object)?)?;
            let path = file.path().display().to_string();
            self.kubectl_words(cluster, &["apply", "--server-side", "-f", &path])?;
        }
        Ok(())
    }

    /// Waits until pods of the namespace `default` are Ready.
    pub fn ready(&self, cluster: &str, pods: &[&str]) -> Result<()> {
        for pod in pods {
            self.kubectl(cluster, &format!("wait --for=condition=Ready pod/{pod} --timeout=60s"))?;
        }
        Ok(())
    }

    /// The network namespace of a pod that runs.
    pub fn namespace_of_pod(&self, cluster: &str, namespace: &str, pod: &str) -> Result<File> {
        let words = format!("get pod -n {namespace} {pod} -o jsonpath={{.metadata.uid}}");
        let uid = self.kubectl(cluster, &words)?;
        let is_its = |process: &Path| {
            let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
            groups.replace('_', "-").contains(uid.trim())
        };
        let processes = fs::read_dir("/proc").context("list processes")?.flatten();
        let process = processes.map(|entry| entry.path()).find(|process| is_its(process));
        let process = process.with_context(|| format!("no process of pod {pod} runs"))?;
        File::open(process.join("ns/net")).context("open the namespace of a pod")
    }

    /// What a demo server says of itself and of who asks, asked by another pod.
    pub fn ask(&self, cluster: &str, pod: &str, url: &str) -> Result<Value> {
        let said =
            self.kubectl(cluster, &format!("exec {pod} -- curl -s -f --max-time 3 {url}"))?;
        serde_json::from_str(&said).with_context(|| format!("{url} said {said:?}"))
    }

    /// Runs liqoctl on a cluster as a user would, and returns what it printed; fails when it fails.
    pub fn liqoctl(&self, cluster: &str, words: &str) -> Result<String> {
        let output = self.liqoctl_command(cluster, words).output().context("run liqoctl")?;
        told(&output, &format!("liqoctl {words}"))
    }

    /// A liqoctl that is still to be started.
    pub fn liqoctl_command(&self, cluster: &str, words: &str) -> Command {
        let quick = env::var("LIQO_PROFILE").is_ok_and(|profile| profile == "dev");
        let folder = if quick { "debug" } else { "release" };
        let mut command = Command::new(self.places.target.join(folder).join("liqoctl"));
        command.args(words.split_whitespace()).env("KUBECONFIG", self.kubeconfig(cluster));
        command
    }

    /// The words after `liqoctl` that peer another cluster with this one.
    pub fn peer_command(&self, provider: &str) -> Result<String> {
        let command = self.liqoctl(provider, "generate peer-command --only-command")?;
        Ok(command.trim().strip_prefix("liqoctl ").context("it begins with liqoctl")?.to_owned())
    }

    /// Brings the image of Liqo to clusters, and liqoctl to this machine.
    pub fn load_liqo(&self, clusters: &[&str]) -> Result<()> {
        for cluster in clusters {
            self.playground(&["load", cluster, "liqo"])?;
        }
        Ok(())
    }

    /// A program of the engine, such as helm, for a cluster.
    pub fn engine_command(&self, cluster: &str, program: &str) -> Result<Command> {
        let engine = liqo_playground::engine::folder(&self.places.home, &self.places.cache)?;
        let mut command = Command::new(engine.join(program));
        command.env("KUBECONFIG", self.kubeconfig(cluster));
        Ok(command)
    }

    /// Runs the playground's own command line on this lab.
    pub fn playground(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output().context("run the playground")?;
        told(&output, &format!("playground {}", words.join(" ")))
    }

    /// The playground's command line on this lab, still to be started.
    pub fn command(&self, words: &[&str]) -> Command {
        command(&self.places, &self.prefix, words)
    }

    /// Saves evidence about a failed test.
    pub fn collect(&self, name: &str) -> PathBuf {
        let folder = artifacts(&self.places, name);
        let _ = report::collect(&self.playground, &folder);
        folder
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if thread::panicking() {
            self.collect(thread::current().name().unwrap_or("lab"));
        }
        if let Err(error) = self.playground.down()
            && !thread::panicking()
        {
            panic!("the lab does not go down: {error:#}");
        }
    }
}

/// The playground's command line, on any prefix.
pub fn command(places: &Places, prefix: &str, words: &[&str]) -> Command {
    let mut command = Command::new(&places.program);
    command
        .args(words)
        .env("PLAYGROUND_HOME", &places.home)
        .env("LIQO_CACHE", &places.cache)
        .env("CARGO_TARGET_DIR", &places.target)
        .env("PLAYGROUND_PREFIX", prefix);
    command
}

/// A prefix nobody else has: it names this process.
pub fn own_prefix() -> String {
    format!("t{}x{}", base32(process::id()), COUNT.fetch_add(1, Ordering::Relaxed) % 10)
}

/// Takes down what a killed test left.
fn sweep(places: &Places) {
    for prefix in Store::prefixes(&places.home) {
        let owner = prefix.strip_prefix('t').and_then(|rest| rest.split('x').next());
        let dead = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        if owner.and_then(|text| u32::from_str_radix(text, 32).ok()).is_some_and(dead) {
            let _ = Playground::new(places.clone(), &prefix, Line::silent()).down();
        }
    }
}

fn artifacts(places: &Places, name: &str) -> PathBuf {
    let folder =
        env::var("ARTIFACTS").map_or_else(|_| places.home.join("artifacts"), PathBuf::from);
    folder.join(name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"))
}

fn told(output: &Output, what: &str) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code().is_some(), "{what} was killed");
    if !output.status.success() {
        bail!("{what}: {}{}", text.trim(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(text)
}

fn base32(mut number: u32) -> String {
    let mut letters = vec![];
    while number > 0 || letters.is_empty() {
        letters.push(char::from_digit(number % 32, 32).unwrap_or('0'));
        number /= 32;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_tells_whose_it_is() {
        let prefix = own_prefix();
        assert!(prefix.len() <= 8, "{prefix}");
        // Digits to base 32 end with `v`, so the first `x` ends the number.
        let owner = prefix.strip_prefix('t').and_then(|rest| rest.split('x').next()).unwrap();
        assert_eq!(u32::from_str_radix(owner, 32).unwrap(), process::id());
    }
}
