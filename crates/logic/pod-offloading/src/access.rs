//! How a pod in the other cluster reaches the API server of this one, as itself.

use std::net::IpAddr;

use liqo_api::keys::{label, object};
use liqo_reflection::kinds::remote_config_map;
use liqo_reflection::{Place, ServiceAccounts};
use serde_json::{Map, Value, json};

use crate::tokens;

/// The name of the API server inside a cluster.
const SERVER: &str = "kubernetes.default";
/// Its longer name.
const SERVER_LONG: &str = "kubernetes.default.svc";
/// How volumes begin that API servers add to pods.
const OWN_VOLUME: &str = "kube-api-access-";

/// What a pod is given to reach the API server of this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// How it is given tokens.
    pub tokens: ServiceAccounts,
    /// Where the API server is, unless pods must not know.
    pub server: Option<Server>,
    /// The Secret with the token of its service account, where tokens lie in Secrets.
    pub secret: Option<String>,
}

/// Where the API server of this cluster is, seen from the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The address behind the name, where no DNS knows it.
    pub address: Option<IpAddr>,
}

impl Server {
    /// The API server at an address that pods in the other cluster can reach.
    pub fn at(address: IpAddr, port: u16) -> Self {
        Self { host: SERVER.to_owned(), port, address: Some(address) }
    }
}

impl Access {
    /// Access by tokens that are asked for.
    pub fn token_api(address: IpAddr, port: u16) -> Self {
        let server = Some(Server::at(address, port));
        Self { tokens: ServiceAccounts::TokenApi, server, secret: None }
    }
}

/// Rewrites containers so that they reach the API server of this cluster.
pub fn rewrite_containers(
    mut containers: Vec<Value>,
    account: &str,
    place: &Place,
    access: &Access,
) -> Vec<Value> {
    for container in &mut containers {
        rewrite_container(container, account, place, access);
    }
    containers
}

fn rewrite_container(container: &mut Value, account: &str, place: &Place, access: &Access) {
    rename_config_maps(container, place);
    if access.tokens != ServiceAccounts::Disabled {
        introduce(container, account, access);
    }
}

/// Rewrites a specification so that the pod reaches the API server of this cluster.
pub fn rewrite(
    spec: &mut Map<String, Value>,
    pod: &str,
    account: &str,
    place: &Place,
    access: &Access,
) {
    for list in ["containers", "initContainers"] {
        for container in items(spec.get_mut(list)) {
            rewrite_container(container, account, place, access);
        }
    }
    for volume in items(spec.get_mut("volumes")) {
        rename(volume, "/configMap/name", place);
        let name = volume.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::Array(sources)) = volume.pointer_mut("/projected/sources") {
            let rewritten = sources.drain(..).filter_map(|mut source| {
                rename(&mut source, "/configMap/name", place);
                match source.get("serviceAccountToken") {
                    Some(token) if token.is_object() => token_source(&name, token, pod, access),
                    Some(_) | None => Some(source),
                }
            });
            *sources = rewritten.collect();
        }
    }
    if access.tokens == ServiceAccounts::Disabled {
        return;
    }
    if let Some(address) = access.server.as_ref().and_then(|server| server.address) {
        let alias = json!({ "ip": address, "hostnames": [SERVER, SERVER_LONG] });
        let aliases = spec.entry("hostAliases").or_insert_with(|| json!([]));
        if let Value::Array(aliases) = aliases {
            aliases.push(alias);
        }
    }
}

/// Tells a container where the API server is, and as whom it runs.
fn introduce(container: &mut Value, account: &str, access: &Access) {
    let Value::Object(container) = container else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    let Value::Array(variables) = variables else { return };
    for variable in &mut *variables {
        let field = variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str);
        if field == Some("spec.serviceAccountName") {
            *variable = json!({ "name": variable.get("name"), "value": account });
        }
    }
    let Some(Server { host, port, .. }) = &access.server else { return };
    let url = format!("tcp://{host}:{port}");
    let new = [
        ("KUBERNETES_SERVICE_HOST".to_owned(), host.clone()),
        ("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string()),
        ("KUBERNETES_PORT".to_owned(), url.clone()),
        (format!("KUBERNETES_PORT_{port}_TCP"), url),
        (format!("KUBERNETES_PORT_{port}_TCP_PROTO"), "tcp".to_owned()),
        (format!("KUBERNETES_PORT_{port}_TCP_ADDR"), host.clone()),
        (format!("KUBERNETES_PORT_{port}_TCP_PORT"), port.to_string()),
    ];
    variables.extend(new.map(|(name, value)| json!({ "name": name, "value": value })));
}

/// What takes the place of a token in a volume; nothing when there is no token to be had.
fn token_source(volume: &str, token: &Value, pod: &str, access: &Access) -> Option<Value> {
    let path = token.get("path").and_then(Value::as_str)?;
    let (secret, key) = match access.tokens {
        ServiceAccounts::TokenApi => (object::token_secret(pod), tokens::key(volume, path)),
        ServiceAccounts::Legacy if volume.starts_with(OWN_VOLUME) => {
            (access.secret.clone()?, "token".to_owned())
        }
        ServiceAccounts::Disabled | ServiceAccounts::Legacy => return None,
    };
    Some(json!({ "secret": { "name": secret, "items": [{ "key": key, "path": path }] } }))
}

fn rename_config_maps(container: &mut Value, place: &Place) {
    for variable in items(container.get_mut("env")) {
        rename(variable, "/valueFrom/configMapKeyRef/name", place);
    }
    for source in items(container.get_mut("envFrom")) {
        rename(source, "/configMapRef/name", place);
    }
}

/// Gives a ConfigMap the name that it has in the other cluster.
fn rename(object: &mut Value, name: &str, place: &Place) {
    if let Some(Value::String(name)) = object.pointer_mut(name) {
        *name = remote_config_map(name, place);
    }
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Selects the Secrets with tokens of a service account, where tokens lie in Secrets.
pub fn legacy_secrets(account: &str) -> String {
    format!("{}={account}", label::LEGACY_SERVICE_ACCOUNT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::place;

    #[test]
    fn without_access_tokens_are_left_out_and_nothing_is_added() {
        let spec = rewritten(&Access::default());
        let variables = &spec["containers"][0]["env"];
        assert_eq!(variables[0], pod()["containers"][0]["env"][0]);
        assert_eq!(variables.as_array().unwrap().len(), 2);
        assert_eq!(spec.get("hostAliases"), None);
        let sources = &spec["volumes"][0]["projected"]["sources"];
        let want = json!([{"configMap": {"name": "kube-root-ca.crt.41543"}}, {"downwardAPI": {}}]);
        assert_eq!(*sources, want);
        assert_eq!(spec["volumes"][1]["projected"]["sources"], json!([]));
    }

    #[test]
    fn tokens_that_are_asked_for_come_from_a_secret_of_the_pod() {
        let spec = rewritten(&Access::token_api("10.92.0.2".parse().unwrap(), 443));
        let secret = |volume: usize| spec["volumes"][volume]["projected"]["sources"][0].clone();
        let item = json!({"key": "kube-api-access-a-3c469e", "path": "token"});
        assert_eq!(secret(0), json!({"secret": {"name": "web-token", "items": [item]}}));
        assert_eq!(secret(1)["secret"]["items"][0]["path"], json!("vault/token"));
    }

    #[test]
    fn every_container_learns_where_the_api_server_is_after_its_own_variables() {
        let spec = rewritten(&Access::token_api("10.92.0.2".parse().unwrap(), 6443));
        for list in ["containers", "initContainers"] {
            let env = spec[list][0]["env"].as_array().unwrap();
            let pairs: Vec<(&str, &str)> = env[env.len() - 7..]
                .iter()
                .map(|it| (it["name"].as_str().unwrap(), it["value"].as_str().unwrap()))
                .collect();
            let want = [
                ("KUBERNETES_SERVICE_HOST", "kubernetes.default"),
                ("KUBERNETES_SERVICE_PORT", "6443"),
                ("KUBERNETES_PORT", "tcp://kubernetes.default:6443"),
                ("KUBERNETES_PORT_6443_TCP", "tcp://kubernetes.default:6443"),
                ("KUBERNETES_PORT_6443_TCP_PROTO", "tcp"),
                ("KUBERNETES_PORT_6443_TCP_ADDR", "kubernetes.default"),
                ("KUBERNETES_PORT_6443_TCP_PORT", "6443"),
            ];
            assert_eq!(pairs, want);
        }
        let own = &spec["containers"][0]["env"][0];
        assert_eq!(*own, json!({"name": "ME", "value": "robot"}), "as whom it runs is told");
        let alias = json!([{
            "ip": "10.92.0.2", "hostnames": ["kubernetes.default", "kubernetes.default.svc"],
        }]);
        assert_eq!(spec["hostAliases"], alias);
    }

    #[test]
    fn an_api_server_with_a_name_of_its_own_needs_no_alias() {
        let server = Server { host: "api.example.org".to_owned(), port: 8443, address: None };
        let access =
            Access { tokens: ServiceAccounts::TokenApi, server: Some(server), secret: None };
        let spec = rewritten(&access);
        assert_eq!(spec.get("hostAliases"), None);
        let host = &spec["containers"][0]["env"][2];
        assert_eq!(*host, json!({"name": "KUBERNETES_SERVICE_HOST", "value": "api.example.org"}));
    }

    #[test]
    fn tokens_of_long_ago_come_from_the_secret_of_the_account() {
        let access = Access {
            tokens: ServiceAccounts::Legacy,
            secret: Some("robot-token-abcde".to_owned()),
            server: None,
        };
        let spec = rewritten(&access);
        let item = json!({"key": "token", "path": "token"});
        let want = json!({"secret": {"name": "robot-token-abcde", "items": [item]}});
        assert_eq!(spec["volumes"][0]["projected"]["sources"][0], want);
        assert_eq!(spec["volumes"][1]["projected"]["sources"], json!([]), "only the usual one");
    }

    #[test]
    fn the_authority_of_this_cluster_is_found_under_its_other_name() {
        let spec = rewritten(&Access::default());
        let name = json!("kube-root-ca.crt.41543");
        assert_eq!(spec["volumes"][2]["configMap"]["name"], name);
        assert_eq!(spec["containers"][0]["env"][1]["valueFrom"]["configMapKeyRef"]["name"], name);
        assert_eq!(spec["containers"][0]["envFrom"][0]["configMapRef"]["name"], json!("settings"));
    }

    fn rewritten(access: &Access) -> Map<String, Value> {
        let mut spec = pod().as_object().unwrap().clone();
        rewrite(&mut spec, "web", "robot", &place(), access);
        spec
    }

    fn pod() -> Value {
        let token = |path: &str| json!({"serviceAccountToken": {"path": path}});
        json!({
            "containers": [{
                "name": "a",
                "env": [
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
                    {"name": "CA", "valueFrom":
                        {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
            }],
            "initContainers": [{"name": "i"}],
            "volumes": [
                {"name": "kube-api-access-a", "projected": {"sources": [
                    token("token"),
                    {"configMap": {"name": "kube-root-ca.crt"}},
                    {"downwardAPI": {}},
                ]}},
                {"name": "vault", "projected": {"sources": [token("vault/token")]}},
                {"name": "ca", "configMap": {"name": "kube-root-ca.crt"}},
            ],
        })
    }
}
