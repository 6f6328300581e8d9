//! Where this program runs, as its pod's environment tells.

use std::net::SocketAddr;

use clap::Args;
use serde::Serialize;

/// Who we are; the downward API sets these variables.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Identity {
    /// Name to answer with as the pod.
    #[arg(long = "name", env = "POD_NAME", value_name = "NAME")]
    pod: Option<String>,
    /// Node to answer with.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node: Option<String>,
    /// Namespace to answer with.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// Cluster to answer with.
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    cluster: Option<String>,
    /// Address of the pod to answer with.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: Option<String>,
}

/// What `GET /` tells.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    pod: Option<&'a str>,
    node: Option<&'a str>,
    namespace: Option<&'a str>,
    cluster: Option<&'a str>,
    #[serde(rename = "podIP")]
    pod_ip: Option<&'a str>,
    hostname: &'a str,
    client: String,
    version: &'static str,
}

impl Identity {
    /// What we tell `client` about ourselves.
    pub(crate) fn answer<'a>(&'a self, hostname: &'a str, client: SocketAddr) -> Answer<'a> {
        let Self { pod, node, namespace, cluster, pod_ip } = self;
        Answer {
            pod: known(pod.as_ref()),
            node: known(node.as_ref()),
            namespace: known(namespace.as_ref()),
            cluster: known(cluster.as_ref()),
            pod_ip: known(pod_ip.as_ref()),
            hostname,
            client: client.to_string(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// A variable that is set but empty tells nothing.
fn known(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

/// The name of this machine, or of the pod whose namespace we are in.
pub(crate) fn hostname() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "localhost".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_environment_does_not_tell_is_null() {
        let identity = Identity {
            pod: Some("web-0".to_owned()),
            node: Some(String::new()),
            pod_ip: Some("10.1.0.7".to_owned()),
            ..Identity::default()
        };
        let answer = identity.answer("web-0", SocketAddr::from(([10, 2, 0, 9], 4711)));
        assert_eq!(
            serde_json::to_value(answer).unwrap(),
            json!({
                "pod": "web-0",
                "node": null,
                "namespace": null,
                "cluster": null,
                "podIP": "10.1.0.7",
                "hostname": "web-0",
                "client": "10.2.0.9:4711",
                "version": env!("CARGO_PKG_VERSION"),
            })
        );
    }
}
