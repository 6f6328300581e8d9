//! The program itself, as a component of a cluster with the rights that the chart grants.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use liqo_api::keys::label;
use liqo_testkit::ControlPlane;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A running component; it is killed with the value.
pub struct Component {
    child: Child,
    log: Receiver<Vec<String>>,
    reading: JoinHandle<()>,
    _folder: TempDir,
}

impl Component {
    /// Starts a component as a user of a cluster.
    pub fn start(plane: &ControlPlane, user: &str, words: &[&str]) -> Result<Self> {
        let ports = ["--metrics-address=127.0.0.1:0", "--health-probe-address=127.0.0.1:0"];
        Self::launch(plane, user, &[words, &ports].concat())
    }

    /// The same with no other words than these.
    pub fn launch(plane: &ControlPlane, user: &str, words: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut file = Kubeconfig::read_from(plane.kubeconfig())?;
        for named in &mut file.auth_infos {
            named.auth_info.get_or_insert_default().impersonate = Some(user.to_owned());
        }
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_saphyr::to_string(&file)?)?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_liqo"))
            .args(words)
            .env("KUBECONFIG", kubeconfig)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stderr.take().context("it is piped")?).lines();
        let (send, log) = channel(Vec::new());
        let reading = tokio::spawn(read(lines, send));
        Ok(Self { child, log, reading, _folder: folder })
    }

    /// Waits for a line of the log with a text in it, and returns it.
    pub async fn says(&self, text: &str) -> Result<String> {
        let mut log = self.log.clone();
        let found = |log: &Vec<String>| log.iter().find(|line| line.contains(text)).cloned();
        let log = timeout(LIMIT, log.wait_for(|log| found(log).is_some())).await;
        let log = log.context("too late")?.context("the log ended")?;
        found(&log).with_context(|| format!("said '{text}'"))
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(mut self) -> Result<(ExitStatus, String)> {
        let pid = self.child.id().context("it runs")?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        let status = timeout(LIMIT, self.child.wait()).await??;
        timeout(LIMIT, self.reading).await??;
        let log = self.log.borrow().join("\n");
        Ok((status, log))
    }
}

/// Keeps what a component says, and shows it when the test fails.
#[expect(clippy::print_stderr, reason = "the harness shows it when the test fails")]
async fn read(mut lines: Lines<BufReader<ChildStderr>>, send: Sender<Vec<String>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        eprintln!("{line}");
        send.send_modify(|log| log.push(line));
    }
}

/// The rules of one of the chart's files.
#[derive(Deserialize)]
struct Rules {
    #[serde(default)]
    cluster: Vec<PolicyRule>,
    #[serde(default)]
    namespace: Vec<PolicyRule>,
}

/// Grants a user what a file of the chart says, and nothing else; the ClusterRole has a label if
/// the chart gives it one.
pub async fn grant(client: &Client, name: &str, user: &str, namespace: &str) -> Result<()> {
    let rules = rules(name)?;
    let name = &format!("liqo-{name}");
    let new = PostParams::default();
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let permission = name.strip_prefix("liqo-remote-peering-");
    let labels = permission.map(|permission| {
        let label = (label::REMOTE_PEERING_PERMISSIONS.to_owned(), permission.to_owned());
        BTreeMap::from([label])
    });
    let subjects = Some(vec![Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: "User".to_owned(),
        name: user.to_owned(),
        namespace: None,
    }]);
    let reference = |kind: &str| RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let role = ClusterRole {
        metadata: ObjectMeta { labels, ..named(name) },
        rules: Some(rules.cluster),
        ..ClusterRole::default()
    };
    // Several components may have the same one.
    match Api::<ClusterRole>::all(client.clone()).create(&new, &role).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made?),
    }
    let binding = ClusterRoleBinding {
        metadata: named(&format!("{name}-{user}")),
        role_ref: reference("ClusterRole"),
        subjects: subjects.clone(),
    };
    Api::<ClusterRoleBinding>::all(client.clone()).create(&new, &binding).await?;
    if rules.namespace.is_empty() {
        return Ok(());
    }
    let role = Role { metadata: named(name), rules: Some(rules.namespace) };
    Api::<Role>::namespaced(client.clone(), namespace).create(&new, &role).await?;
    let binding = RoleBinding { metadata: named(name), role_ref: reference("Role"), subjects };
    Api::<RoleBinding>::namespaced(client.clone(), namespace).create(&new, &binding).await?;
    Ok(())
}

fn rules(name: &str) -> Result<Rules> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/liqo/files/rbac");
    let text = std::fs::read_to_string(folder.join(format!("{name}.yaml")))?;
    Ok(serde_saphyr::from_str(&text)?)
}
