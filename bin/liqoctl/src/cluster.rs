//! The cluster that is meant: kubectl's flags, and the client that they make.

pub mod remote;

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::SecretString;

use crate::failure::Failure;

/// Header: the UID to act as.
const IMPERSONATE_UID: HeaderName = HeaderName::from_static("impersonate-uid");
/// How long connecting may take, unless the user says it.
const CONNECT: Duration = Duration::from_secs(10);

/// Which cluster is meant, as kubectl takes it
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(test, derive(Default))]
#[command(next_help_heading = "Kubernetes options")]
pub struct ClusterArguments {
    /// Path of the kubeconfig
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// Cluster of the kubeconfig to use
    #[arg(long, value_name = "NAME", global = true)]
    pub cluster: Option<String>,
    /// User of the kubeconfig to use
    #[arg(long, value_name = "NAME", global = true)]
    pub user: Option<String>,
    /// Tell more
    #[arg(short, long, global = true, display_order = 900, help_heading = None::<&'static str>)]
    pub verbose: bool,

    /// Address and port of the API server
    #[arg(long, short, global = true, hide = true)]
    server: Option<String>,
    /// Bearer token
    #[arg(long, global = true, hide = true)]
    token: Option<SecretString>,
    /// User to act as
    #[arg(long = "as", global = true, hide = true)]
    act_as: Option<String>,
    /// Group to act as
    #[arg(long = "as-group", global = true, hide = true)]
    act_as_group: Vec<String>,
    /// UID to act as
    #[arg(long = "as-uid", global = true, hide = true)]
    act_as_uid: Option<String>,
    /// Accept any certificate
    #[arg(long, global = true, hide = true)]
    insecure_skip_tls_verify: bool,
    /// File of the authority that signed the API server's certificate
    #[arg(long, global = true, hide = true)]
    certificate_authority: Option<PathBuf>,
    /// File of the client's certificate
    #[arg(long, global = true, hide = true)]
    client_certificate: Option<PathBuf>,
    /// File of the client's key
    #[arg(long, global = true, hide = true)]
    client_key: Option<PathBuf>,
    /// Name that the API server's certificate has to have
    #[arg(long, global = true, hide = true)]
    tls_server_name: Option<String>,
    /// How long a request may take
    #[arg(long, global = true, hide = true, value_parser = request_timeout)]
    request_timeout: Option<Duration>,
    /// Send and receive without compression
    #[arg(long, global = true, hide = true)]
    disable_compression: bool,
    /// Folder of kubectl's cache, which is not used
    #[arg(long, global = true, hide = true)]
    cache_dir: Option<PathBuf>,
    /// User name, for what stands in front of the API server
    #[arg(long, global = true, hide = true)]
    username: Option<String>,
    /// Password, for what stands in front of the API server
    #[arg(long, global = true, hide = true)]
    password: Option<SecretString>,

    /// What flags of this cluster begin with.
    #[arg(skip = "--")]
    prefix: &'static str,
}

/// A cluster that can be talked to.
#[derive(Clone)]
pub struct Cluster {
    /// Talks to it.
    pub client: Client,
    /// Where its API server is, for this machine.
    pub url: Uri,
    /// Version of Kubernetes, such as `v1.34.4`.
    pub kubernetes: String,
}

impl ClusterArguments {
    /// Makes a client, and makes sure that it gets an answer.
    pub async fn connect(&self) -> Result<Cluster, Failure> {
        let config = self.config().await?;
        let url = config.cluster_url.clone();
        let client = Client::try_from(config)
            .map_err(|error| Failure::new(format!("cannot make a client for {url}"), error))?;
        let version = client.apiserver_version().await.map_err(|error| {
            let failure = Failure::new(format!("cannot talk to the API server {url}"), error);
            let prefix = self.prefix;
            failure.hint(format!(
                "Check {prefix}kubeconfig and {prefix}context, and that the cluster runs."
            ))
        })?;
        Ok(Cluster { client, url, kubernetes: version.git_version })
    }

    async fn config(&self) -> Result<Config, Failure> {
        let mut config = match self.file()? {
            Some(file) => {
                self.names_exist(&file)?;
                let options = KubeConfigOptions {
                    context: self.context.clone(),
                    cluster: self.cluster.clone(),
                    user: self.user.clone(),
                };
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(|error| Failure::new("cannot use the kubeconfig", error))?
            }
            None => match (&self.server, Config::incluster()) {
                (Some(_), _) => Config::new(Uri::default()),
                (None, Ok(config)) => config,
                (None, Err(_)) => {
                    return Err(Failure::text(
                        "there is no kubeconfig that says where the cluster is",
                    )
                    .hint(format!(
                        "Give its path with {}kubeconfig, or in the variable KUBECONFIG.",
                        self.prefix
                    )));
                }
            },
        };
        self.adjust(&mut config)?;
        Ok(config)
    }

    /// The kubeconfig: a given one, those of the environment merged, or that of the home folder.
    fn file(&self) -> Result<Option<Kubeconfig>, Failure> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        match (read, &self.kubeconfig) {
            (Ok(file), _) => Ok(Some(file)),
            (Err(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath), None) => Ok(None),
            (Err(error), Some(path)) => {
                Err(Failure::new(format!("cannot read the kubeconfig {}", path.display()), error))
            }
            (Err(error), None) => Err(Failure::new("cannot read the kubeconfig", error)),
        }
    }

    /// Makes sure that the kubeconfig has what is asked of it.
    fn names_exist(&self, file: &Kubeconfig) -> Result<(), Failure> {
        let contexts = file.contexts.iter().map(|one| &one.name).collect::<Vec<_>>();
        let clusters = file.clusters.iter().map(|one| &one.name).collect();
        let users = file.auth_infos.iter().map(|one| &one.name).collect();
        check("context", self.context.as_ref(), &contexts)?;
        check("cluster", self.cluster.as_ref(), &clusters)?;
        check("user", self.user.as_ref(), &users)?;
        let current = file.current_context.as_ref().filter(|name| !name.is_empty());
        let chosen = self.context.as_ref().or(current);
        check("context", chosen, &contexts)?;
        if chosen.is_none() && (self.cluster.is_none() || self.user.is_none()) {
            let failure = Failure::text("the kubeconfig has no current context");
            let prefix = self.prefix;
            return Err(failure.hint(format!("Give {prefix}context: {}", list(&contexts))));
        }
        Ok(())
    }

    fn adjust(&self, config: &mut Config) -> Result<(), Failure> {
        config.connect_timeout = Some(self.request_timeout.unwrap_or(CONNECT));
        if self.request_timeout.is_some() {
            config.read_timeout = self.request_timeout;
        }
        if let Some(server) = &self.server {
            let full =
                if server.contains("://") { server.clone() } else { format!("https://{server}") };
            config.cluster_url = full
                .parse()
                .map_err(|error| Failure::new(format!("--server {server} is no URL"), error))?;
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        config.disable_compression |= self.disable_compression;
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        if let Some(path) = &self.certificate_authority {
            config.root_cert_file = Some(path.clone());
        }
        if let Some(uid) = &self.act_as_uid {
            let value = HeaderValue::from_str(uid)
                .map_err(|error| Failure::new(format!("--as-uid {uid} cannot be sent"), error))?;
            config.headers.push((IMPERSONATE_UID, value));
        }
        let user = &mut config.auth_info;
        let path = |path: &PathBuf| path.display().to_string();
        if let Some(token) = &self.token {
            user.token = Some(token.clone());
            user.token_file = None;
        }
        if let (Some(name), Some(password)) = (&self.username, &self.password) {
            (user.username, user.password) = (Some(name.clone()), Some(password.clone()));
        }
        if let Some(file) = &self.client_certificate {
            (user.client_certificate, user.client_certificate_data) = (Some(path(file)), None);
        }
        if let Some(file) = &self.client_key {
            (user.client_key, user.client_key_data) = (Some(path(file)), None);
        }
        if let Some(name) = &self.act_as {
            user.impersonate = Some(name.clone());
        }
        if !self.act_as_group.is_empty() {
            user.impersonate_groups = Some(self.act_as_group.clone());
        }
        Ok(())
    }
}

fn check(what: &str, chosen: Option<&String>, known: &Vec<&String>) -> Result<(), Failure> {
    match chosen {
        Some(name) if !known.contains(&name) => {
            let failure = Failure::text(format!("the kubeconfig has no {what} '{name}'"));
            Err(failure.hint(format!("It has these: {}", list(known))))
        }
        Some(_) | None => Ok(()),
    }
}

fn list(names: &[&String]) -> String {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A time as Go writes it, such as `10m`, `1h30m` or `2.5s`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time such as 90s, 10m or 1h30m");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let units = [("ms", 0.001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, scale) =
            units.into_iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(wrong)?;
        seconds += number * scale;
        rest = tail.strip_prefix(unit).unwrap_or_default();
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs_f64(seconds)) }
}

/// Zero means that a request may take as long as it takes.
fn request_timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    Ok(if time.is_zero() { CONNECT } else { time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_go() {
        let millis = |text: &str| duration(text).map(|time| time.as_millis());

        assert_eq!(millis("10m"), Ok(600_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("2.5s"), Ok(2_500));
        assert_eq!(millis("300ms"), Ok(300));
        assert_eq!(millis("45"), Ok(45_000));
        for wrong in ["", "m", "10x", "1m5", "-5s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_context_that_is_not_there_is_answered_with_those_that_are() {
        let file = Kubeconfig::from_yaml(
            "{apiVersion: v1, kind: Config, current-context: a, clusters: [], users: [], \
             contexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {cluster: a, user: a}}]}",
        )
        .unwrap();
        let arguments =
            ClusterArguments { context: Some("c".to_owned()), ..ClusterArguments::default() };

        let (printer, kept) = crate::printer::Printer::memory(false, false);
        arguments.names_exist(&file).unwrap_err().print(&printer);

        let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        insta::assert_snapshot!(text, @r"
         ERRO  the kubeconfig has no context 'c'
         INFO  It has these: a, b
        ");
    }

    #[test]
    fn tokens_are_not_shown() {
        let arguments = ClusterArguments {
            token: Some("hush".to_owned().into()),
            ..ClusterArguments::default()
        };

        assert!(!format!("{arguments:?}").contains("hush"));
    }
}
