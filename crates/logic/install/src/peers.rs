//! How the peerings of a cluster do.

mod network;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use liqo_api::condition::peering_status;
use liqo_api::discovery::{
    ForeignCluster, PeeringCondition, PeeringConditionStatus, PeeringConditionType,
};
use liqo_api::keys::label;
use liqo_api::sharing::ResourceOffer;
use serde::Serialize;

pub use self::network::{Cidrs, Connection, NetworkReport, Networks};
use crate::screen::{Part, Style, draw};

/// How one peering does, or that there is none of that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerReport {
    /// Name of the ForeignCluster.
    pub name: String,
    /// Whether there is one.
    pub found: bool,
    /// Identifier of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// How the clusters talk.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Aspects, with their status and what is said about it.
    pub aspects: BTreeMap<&'static str, Aspect>,
    /// URL of the authentication service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub auth_url: String,
    /// URL of the proxy, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// How the networks are connected, unless somebody else takes care of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
    /// What the cluster lends to this one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub acquired: BTreeMap<String, String>,
    /// What this cluster lends to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, String>,
}

/// How one aspect of a peering does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aspect {
    /// One word.
    pub status: String,
    /// A sentence, when not all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

const OUTGOING: &str = "outgoing";
const INCOMING: &str = "incoming";
const AUTHENTICATION: &str = "authentication";
const NETWORK: &str = "network";
const API_SERVER: &str = "apiServer";

/// How the peerings of these names do; of all, without a name.
pub fn report(
    names: &[String],
    clusters: &[ForeignCluster],
    offers: &[ResourceOffer],
    networks: Networks<'_>,
) -> Vec<PeerReport> {
    let called = |cluster: &ForeignCluster| cluster.metadata.name.clone().unwrap_or_default();
    if names.is_empty() {
        return clusters
            .iter()
            .map(|cluster| one(called(cluster), cluster, offers, networks))
            .collect();
    }
    let find = |name: &String| clusters.iter().find(|cluster| called(cluster) == *name);
    let report = |name: &String| match find(name) {
        Some(cluster) => one(name.clone(), cluster, offers, networks),
        None => missing(name.clone()),
    };
    names.iter().map(report).collect()
}

fn missing(name: String) -> PeerReport {
    PeerReport {
        name,
        found: false,
        cluster_id: String::new(),
        kind: String::new(),
        aspects: BTreeMap::new(),
        auth_url: String::new(),
        proxy_url: None,
        network: None,
        acquired: BTreeMap::new(),
        shared: BTreeMap::new(),
    }
}

fn one(
    name: String,
    cluster: &ForeignCluster,
    offers: &[ResourceOffer],
    networks: Networks<'_>,
) -> PeerReport {
    let identity = cluster.spec.cluster_identity.clone().unwrap_or_default();
    let conditions: &[PeeringCondition] =
        cluster.status.as_ref().map_or(&[], |status| &status.peering_conditions);
    let aspect = |kind| aspect(conditions.iter().find(|condition| condition.kind == kind));
    let id = identity.cluster_id;
    let hard = |key: &str| {
        let is_it = |offer: &&ResourceOffer| {
            let labels = offer.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(key)).is_some_and(|value| *value == id)
        };
        let offer = offers.iter().find(is_it);
        let quota = offer.and_then(|offer| offer.spec.resource_quota.as_ref()?.hard.clone());
        quota.unwrap_or_default().iter().map(readable).collect()
    };
    let is_external = peering_status(conditions, PeeringConditionType::NetworkStatus)
        == PeeringConditionStatus::External;
    PeerReport {
        name,
        found: true,
        kind: format!("{:?}", cluster.spec.peering_type),
        aspects: [
            (OUTGOING, aspect(PeeringConditionType::OutgoingPeering)),
            (INCOMING, aspect(PeeringConditionType::IncomingPeering)),
            (AUTHENTICATION, aspect(PeeringConditionType::AuthenticationStatus)),
            (NETWORK, aspect(PeeringConditionType::NetworkStatus)),
            (API_SERVER, aspect(PeeringConditionType::ApiServerStatus)),
        ]
        .into(),
        auth_url: cluster.spec.foreign_auth_url.clone(),
        proxy_url: cluster.spec.foreign_proxy_url.clone().filter(|url| !url.is_empty()),
        network: (!is_external).then(|| network::report(&id, networks)),
        acquired: hard(label::ORIGIN_ID),
        shared: hard(label::REMOTE_ID),
        cluster_id: id,
    }
}

fn aspect(condition: Option<&PeeringCondition>) -> Aspect {
    let status = condition.map_or(PeeringConditionStatus::None, |condition| condition.status);
    let well = matches!(
        status,
        PeeringConditionStatus::Established
            | PeeringConditionStatus::External
            | PeeringConditionStatus::None
    );
    let message = condition.and_then(|condition| condition.message.clone()).filter(|_| !well);
    Aspect { status: format!("{status:?}"), message }
}

/// An amount in the unit that people think in.
fn readable((name, quantity): (&String, &Quantity)) -> (String, String) {
    let text = &quantity.0;
    let Ok(amount) = text.parse::<liqo_sharing::quantity::Quantity>() else {
        return (name.clone(), text.clone());
    };
    let shown = match name.as_str() {
        "cpu" => format!("{}m", amount.in_millis()),
        "memory" | "ephemeral-storage" => {
            // A hundredth of a GiB is all that anybody reads.
            let hundredths = amount.in_millis() / 10 / (1 << 30);
            format!("{}.{:02}GiB", hundredths / 100, hundredths % 100)
        }
        _ => text.clone(),
    };
    (name.clone(), shown)
}

/// The box that shows it.
pub fn text(reports: &[PeerReport], verbose: bool, style: Style) -> String {
    let mut parts: Vec<Part> = reports.iter().map(|report| section(report, verbose)).collect();
    if parts.is_empty() {
        parts.push(Part::Item("no cluster is peered with".to_owned()));
    }
    draw("Peered Cluster Information", &parts, style)
}

fn section(report: &PeerReport, verbose: bool) -> Part {
    if !report.found {
        return Part::section(&format!("{} - Peer Not Found", report.name), vec![]);
    }
    let entry = |key: &str, name: &str| {
        let Aspect { status, message } = report.aspects.get(name).cloned().unwrap_or_default();
        Part::entry(key, message.map_or_else(|| status.clone(), |text| format!("{status}: {text}")))
    };
    let mut authentication = vec![entry("Status", AUTHENTICATION)];
    if verbose {
        authentication.push(Part::entry("Auth URL", &report.auth_url));
        if let Some(url) = &report.proxy_url {
            authentication.push(Part::entry("Auth Proxy URL", url));
        }
    }
    let mut network = vec![entry("Status", NETWORK)];
    if let Some(found) = &report.network {
        network.extend(network::parts(found, &report.name, verbose));
    }
    let amounts = |amounts: &BTreeMap<String, String>| -> Vec<Part> {
        let first = ["cpu", "memory", "pods", "ephemeral-storage"];
        let known = first.iter().filter_map(|name| amounts.get_key_value(*name));
        let rest = amounts.iter().filter(|(name, _)| !first.contains(&name.as_str()));
        known.chain(rest).map(|(name, amount)| Part::entry(name, amount)).collect()
    };
    let mut resources = vec![];
    let name = &report.name;
    if !report.acquired.is_empty() {
        let title = format!("Total acquired - resources that {name} lends to this cluster");
        resources.push(Part::section(&title, amounts(&report.acquired)));
    }
    if !report.shared.is_empty() {
        let title = format!("Total shared - resources that this cluster lends to {name}");
        resources.push(Part::section(&title, amounts(&report.shared)));
    }
    let mut parts = vec![
        Part::entry("Type", &report.kind),
        Part::section("Direction", vec![entry("Outgoing", OUTGOING), entry("Incoming", INCOMING)]),
        Part::section("Authentication", authentication),
        Part::section("Network", network),
        Part::section("API Server", vec![entry("Status", API_SERVER)]),
    ];
    if !resources.is_empty() {
        parts.push(Part::section("Resources", resources));
    }
    Part::section(&format!("{name} - {}", report.cluster_id), parts)
}

#[cfg(test)]
mod tests {
    use liqo_api::discovery::PeeringType;
    use liqo_api::net::{NetworkConfig, TunnelEndpoint};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peering_is_shown_with_what_is_lent() {
        let text =
            text(&report(&[], &[cluster()], &[offer()], Networks::default()), false, Style::Plain);
        insta::assert_snapshot!(text, @r"
        ┌─ Peered Cluster Information ─────────────────────────────────────────────────┐
        │ milan - some-id                                                              │
        │     Type: OutOfBand                                                          │
        │     Direction                                                                │
        │         Outgoing: Established                                                │
        │         Incoming: None                                                       │
        │     Authentication                                                           │
        │         Status: Established                                                  │
        │     Network                                                                  │
        │         Status: External                                                     │
        │     API Server                                                               │
        │         Status: Error: it does not answer                                    │
        │     Resources                                                                │
        │         Total acquired - resources that milan lends to this cluster          │
        │             cpu:               3555m                                         │
        │             memory:            42.18GiB                                      │
        │             pods:              198                                           │
        │             ephemeral-storage: 453.55GiB                                     │
        │             nvidia.com/gpu:    1                                             │
        └──────────────────────────────────────────────────────────────────────────────┘
        ");
    }

    #[test]
    fn who_is_not_there_is_named() {
        let reports = report(&["nobody".to_owned()], &[cluster()], &[], Networks::default());
        assert!(!reports[0].found);
        assert!(text(&reports, false, Style::Plain).contains("nobody - Peer Not Found"));
        assert!(text(&[], false, Style::Plain).contains("no cluster is peered with"));
    }

    #[test]
    fn a_tunnel_is_shown_with_its_ends() {
        let text = text(&connected(&[config(false), config(true)]), false, Style::Plain);
        insta::assert_snapshot!(text, @r"
        ┌─ Peered Cluster Information ─────────────────────────────────────────────────┐
        │ milan - some-id                                                              │
        │     Type: InBand                                                             │
        │     Direction                                                                │
        │         Outgoing: Established                                                │
        │         Incoming: None                                                       │
        │     Authentication                                                           │
        │         Status: Established                                                  │
        │     Network                                                                  │
        │         Status: Established                                                  │
        │         Network connection                                                   │
        │             Gateway IPs                                                      │
        │                 Local:  198.18.1.11                                          │
        │                 Remote: 198.18.2.11                                          │
        │             Status:  Connected                                               │
        │             Latency: 1ms                                                     │
        │             Driver:  wireguard (userspace)                                   │
        │             MTU:     1340                                                    │
        │     API Server                                                               │
        │         Status: Established                                                  │
        └──────────────────────────────────────────────────────────────────────────────┘
        ");
    }

    #[test]
    fn the_curious_see_networks_and_what_they_are_called() {
        let text = text(&connected(&[config(true)]), true, Style::Plain);
        insta::assert_snapshot!(text, @r"
        ┌─ Peered Cluster Information ─────────────────────────────────────────────────┐
        │ milan - some-id                                                              │
        │     Type: InBand                                                             │
        │     Direction                                                                │
        │         Outgoing: Established                                                │
        │         Incoming: None                                                       │
        │     Authentication                                                           │
        │         Status:         Established                                          │
        │         Auth URL:       https://198.18.2.11:30443                            │
        │         Auth Proxy URL: http://10.92.0.2:8118                                │
        │     Network                                                                  │
        │         Status: Established                                                  │
        │         Local CIDRs - NetworkConfig Not Found                                │
        │         Remote CIDRs                                                         │
        │             Original                                                         │
        │                 Pod CIDR:      10.201.0.0/16                                 │
        │                 External CIDR: 10.94.0.0/16                                  │
        │             Remapped - how this cluster calls the networks of milan          │
        │                 Pod CIDR:      remapping not necessary                       │
        │                 External CIDR: 10.92.0.0/16                                  │
        │         Network connection                                                   │
        │             Gateway IPs                                                      │
        │                 Local:  198.18.1.11                                          │
        │                 Remote: 198.18.2.11                                          │
        │             Status:  Connected                                               │
        │             Latency: 1ms                                                     │
        │             Driver:  wireguard (userspace)                                   │
        │             MTU:     1340                                                    │
        │     API Server                                                               │
        │         Status: Established                                                  │
        └──────────────────────────────────────────────────────────────────────────────┘
        ");
    }

    #[test]
    fn programs_see_the_network_too() {
        let report = connected(&[config(true)]).remove(0).network.unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
        {
          "remote": {
            "pod": "10.201.0.0/16",
            "external": "10.94.0.0/16",
            "podRemapped": "None",
            "externalRemapped": "10.92.0.0/16"
          },
          "connection": {
            "localGateway": "198.18.1.11",
            "remoteGateway": "198.18.2.11",
            "status": "Connected",
            "latency": "1ms",
            "driver": "wireguard",
            "implementation": "userspace",
            "mtu": "1340"
          }
        }
        "#);
        let mut lost = cluster();
        lost.status.as_mut().unwrap().peering_conditions.clear();
        let lost = super::report(&[], &[lost], &[], Networks::default());
        let shown = text(&lost, true, Style::Plain);
        assert!(shown.contains("Network connection - TunnelEndpoint Not Found"), "{shown}");
        assert!(shown.contains("Local CIDRs - NetworkConfig Not Found"), "{shown}");
    }

    fn connected(configs: &[NetworkConfig]) -> Vec<PeerReport> {
        let mut cluster = cluster();
        cluster.spec.peering_type = PeeringType::InBand;
        cluster.spec.foreign_proxy_url = Some("http://10.92.0.2:8118".to_owned());
        for condition in &mut cluster.status.as_mut().unwrap().peering_conditions {
            condition.status = PeeringConditionStatus::Established;
        }
        let tunnels = [tunnel()];
        let networks = Networks { configs, tunnels: &tunnels, gateway: Some("198.18.1.11") };
        report(&[], &[cluster], &[], networks)
    }

    fn config(copy: bool) -> NetworkConfig {
        let labels = if copy {
            json!({ "liqo.io/replicated": "true", "liqo.io/originID": "some-id" })
        } else {
            json!({ "liqo.io/remoteID": "some-id" })
        };
        serde_json::from_value(json!({
            "apiVersion": "net.liqo.io/v1alpha1",
            "kind": "NetworkConfig",
            "metadata": { "name": "milan-ee0b4a", "labels": labels },
            "spec": {
                "cluster": { "clusterID": "some-id", "clusterName": "milan" },
                "podCIDR": "10.201.0.0/16", "externalCIDR": "10.94.0.0/16",
                "endpointIP": "198.18.2.11", "backendType": "wireguard", "backend_config": {},
            },
            "status": {
                "processed": true, "podCIDRNAT": "None", "externalCIDRNAT": "10.92.0.0/16",
            },
        }))
        .unwrap()
    }

    fn tunnel() -> TunnelEndpoint {
        serde_json::from_value(json!({
            "apiVersion": "net.liqo.io/v1alpha1",
            "kind": "TunnelEndpoint",
            "metadata": { "name": "milan-ee0b4a", "labels": { "clusterID": "some-id" } },
            "spec": {
                "clusterIdentity": { "clusterID": "some-id", "clusterName": "milan" },
                "localPodCIDR": "10.200.0.0/16", "localExternalCIDR": "10.95.0.0/16",
                "remotePodCIDR": "10.201.0.0/16", "remoteExternalCIDR": "10.94.0.0/16",
                "endpointIP": "198.18.2.11", "backendType": "wireguard", "backend_config": {},
            },
            "status": { "connection": {
                "status": "Connected", "statusMessage": "fine", "latency": { "value": "1ms" },
                "peerConfiguration": { "mtu": "1340", "implementation": "userspace" },
            } },
        }))
        .unwrap()
    }

    fn cluster() -> ForeignCluster {
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "message": "it does not answer" });
        serde_json::from_value(json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ForeignCluster",
            "metadata": { "name": "milan" },
            "spec": {
                "foreignAuthUrl": "https://198.18.2.11:30443",
                "insecureSkipTLSVerify": true,
                "clusterIdentity": { "clusterID": "some-id", "clusterName": "milan" },
            },
            "status": { "peeringConditions": [
                condition("AuthenticationStatus", "Established"),
                condition("OutgoingPeering", "Established"),
                condition("NetworkStatus", "External"),
                condition("APIServerStatus", "Error"),
            ] },
        }))
        .unwrap()
    }

    fn offer() -> ResourceOffer {
        serde_json::from_value(json!({
            "apiVersion": "sharing.liqo.io/v1alpha1",
            "kind": "ResourceOffer",
            "metadata": { "name": "milan", "labels": { "liqo.io/originID": "some-id" } },
            "spec": { "clusterId": "some-id", "resourceQuota": { "hard": {
                "cpu": "3555m", "memory": "45298M", "pods": "198", "nvidia.com/gpu": "1",
                "ephemeral-storage": "486995713228",
            } } },
        }))
        .unwrap()
    }
}
