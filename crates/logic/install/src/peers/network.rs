//! How the networks of two clusters are connected.

use liqo_api::keys::{label, secret};
use liqo_api::net::{ConnectionStatus, NetworkConfig, TunnelEndpoint};
use serde::Serialize;

use crate::screen::Part;

/// What a network that keeps its addresses is remapped to.
const UNCHANGED: &str = "None";
/// What is shown for it.
const NOT_NECESSARY: &str = "remapping not necessary";

/// What there is to see of the networks of all peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks<'a> {
    /// What clusters tell each other.
    pub configs: &'a [NetworkConfig],
    /// The tunnels.
    pub tunnels: &'a [TunnelEndpoint],
    /// Where peers reach our gateway, if that is known.
    pub gateway: Option<&'a str>,
}

/// How the networks of two clusters are connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkReport {
    /// The networks of this cluster, and what they are called there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Cidrs>,
    /// The networks of the other cluster, and what they are called here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<Cidrs>,
    /// The tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
}

/// The networks of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cidrs {
    /// That of its pods.
    pub pod: String,
    /// That under which it exposes other addresses.
    pub external: String,
    /// What the former is called at the other cluster, once that has answered; `None` if the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_remapped: Option<String>,
    /// What the latter is called there, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_remapped: Option<String>,
}

/// The tunnel between two clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Where the other cluster reaches our gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_gateway: Option<String>,
    /// Where its gateway is.
    pub remote_gateway: String,
    /// One word on how it does.
    pub status: String,
    /// A sentence, when not all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long an answer takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// What the tunnel is made with.
    pub driver: String,
    /// Who carries the packets, the kernel or a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// The largest packet that passes whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<String>,
}

/// How the networks of this cluster and of a peer are connected.
pub(super) fn report(peer: &str, seen: Networks<'_>) -> NetworkReport {
    let has = |labels: &Option<std::collections::BTreeMap<String, String>>, name: &str, value| {
        labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str) == Some(value)
    };
    let is_copy =
        |config: &NetworkConfig| has(&config.metadata.labels, label::REPLICATED, label::TRUE);
    let told = seen
        .configs
        .iter()
        .find(|config| !is_copy(config) && has(&config.metadata.labels, label::REMOTE_ID, peer));
    let heard = seen
        .configs
        .iter()
        .find(|config| is_copy(config) && has(&config.metadata.labels, label::ORIGIN_ID, peer));
    let tunnel =
        seen.tunnels.iter().find(|tunnel| has(&tunnel.metadata.labels, label::PEER_ID, peer));
    NetworkReport {
        local: told.map(cidrs),
        remote: heard.map(cidrs),
        connection: tunnel.map(|tunnel| connection(tunnel, seen.gateway)),
    }
}

fn cidrs(config: &NetworkConfig) -> Cidrs {
    let status = config.status.as_ref().filter(|status| status.processed);
    let known = |text: Option<&String>| {
        status.map(|_| text.map_or_else(|| UNCHANGED.to_owned(), Clone::clone))
    };
    Cidrs {
        pod: config.spec.pod_cidr.clone(),
        external: config.spec.external_cidr.clone(),
        pod_remapped: known(status.and_then(|status| status.pod_cidr_nat.as_ref())),
        external_remapped: known(status.and_then(|status| status.external_cidr_nat.as_ref())),
    }
}

fn connection(tunnel: &TunnelEndpoint, gateway: Option<&str>) -> Connection {
    let found = tunnel.status.as_ref().and_then(|status| status.connection.as_ref());
    let status = found.and_then(|found| found.status);
    let message = found.and_then(|found| found.status_message.clone());
    let used = |key: &str| found.and_then(|found| found.peer_configuration.get(key).cloned());
    Connection {
        local_gateway: gateway.map(str::to_owned),
        remote_gateway: tunnel.spec.endpoint_ip.clone(),
        status: status.map_or_else(|| "Unknown".to_owned(), |status| format!("{status:?}")),
        message: message.filter(|_| status != Some(ConnectionStatus::Connected)),
        latency: found.and_then(|found| found.latency.as_ref()?.value.clone()),
        driver: tunnel.spec.backend_type.clone(),
        implementation: used(secret::TUNNEL_IMPLEMENTATION),
        mtu: used(secret::TUNNEL_MTU),
    }
}

/// The parts that show it.
pub(super) fn parts(report: &NetworkReport, name: &str, verbose: bool) -> Vec<Part> {
    let mut parts = vec![];
    if verbose {
        let here = format!("Remapped - how {name} calls the networks of this cluster");
        parts.push(networks("Local CIDRs", report.local.as_ref(), &here));
        let there = format!("Remapped - how this cluster calls the networks of {name}");
        parts.push(networks("Remote CIDRs", report.remote.as_ref(), &there));
    }
    let Some(connection) = &report.connection else {
        parts.push(Part::section("Network connection - TunnelEndpoint Not Found", vec![]));
        return parts;
    };
    let Connection { local_gateway, remote_gateway, status, message, latency, .. } = connection;
    let gateways = [("Local", local_gateway.as_ref()), ("Remote", Some(remote_gateway))];
    let gateways = gateways.into_iter().filter_map(|(key, place)| Some(Part::entry(key, place?)));
    let status =
        message.as_ref().map_or_else(|| status.clone(), |text| format!("{status}: {text}"));
    let mut shown =
        vec![Part::section("Gateway IPs", gateways.collect()), Part::entry("Status", status)];
    shown.extend(latency.as_ref().map(|latency| Part::entry("Latency", latency)));
    let Connection { driver, implementation, mtu, .. } = connection;
    let by = implementation.as_ref().map(|by| format!("{driver} ({by})"));
    shown.push(Part::entry("Driver", by.as_ref().unwrap_or(driver)));
    shown.extend(mtu.as_ref().map(|mtu| Part::entry("MTU", mtu)));
    parts.push(Part::section("Network connection", shown));
    parts
}

fn networks(title: &str, cidrs: Option<&Cidrs>, remapped: &str) -> Part {
    let Some(cidrs) = cidrs else {
        return Part::section(&format!("{title} - NetworkConfig Not Found"), vec![]);
    };
    let both = |pod: &str, external: &str| {
        vec![Part::entry("Pod CIDR", pod), Part::entry("External CIDR", external)]
    };
    let shown = |text: &Option<String>| match text.as_deref() {
        Some(UNCHANGED | "") => NOT_NECESSARY.to_owned(),
        Some(other) => other.to_owned(),
        None => "not known yet".to_owned(),
    };
    let renamed = both(&shown(&cidrs.pod_remapped), &shown(&cidrs.external_remapped));
    Part::section(
        title,
        vec![
            Part::section("Original", both(&cidrs.pod, &cidrs.external)),
            Part::section(remapped, renamed),
        ],
    )
}
