//! What a virtual node says of the cluster behind it.
//!
//! Times change only with what they are about: a node of which there is nothing new to say is not
//! written again, and its lease alone tells that its kubelet lives.

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus,
    NodeSystemInfo,
};
use liqo_api::Time;
use liqo_api::keys::node::{
    DISK_PRESSURE, HAS_DISK_PRESSURE, HAS_MEMORY_PRESSURE, HAS_NO_DISK_PRESSURE,
    HAS_NO_PID_PRESSURE, HAS_PID_PRESSURE, HAS_SUFFICIENT_MEMORY, KUBELET_NOT_READY, KUBELET_READY,
    MEMORY_PRESSURE, NETWORK_UNAVAILABLE, NETWORKING_DOWN, NETWORKING_UP, PID_PRESSURE, READY,
};
use liqo_api::sharing::ResourceOffer;

use crate::{Settings, is_positive, offered};

/// What is known of the other cluster beside its offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Whether its API server answers.
    pub api_server: bool,
    /// Whether the tunnel to it works.
    pub tunnel: bool,
}

/// One condition: what it is called, whether it holds, why, and in words.
struct Verdict {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// The status of a node that shows an offer, or of one that is leaving.
pub fn wanted(
    settings: &Settings,
    offer: Option<&ResourceOffer>,
    links: Links,
    have: &Node,
    now: &Time,
) -> NodeStatus {
    let resources = offer.map(offered).unwrap_or_default();
    let enough = ["cpu", "memory"].iter().all(|name| resources.get(*name).is_some_and(is_positive));
    let had = have.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let verdicts = verdicts(settings, offer.is_some(), enough, links);
    let conditions = verdicts.into_iter().map(|verdict| condition(verdict, &had, now)).collect();
    let images = offer.map(|offer| offer.spec.images.clone()).filter(|images| !images.is_empty());
    NodeStatus {
        allocatable: Some(resources.clone()),
        capacity: Some(resources),
        addresses: Some(vec![NodeAddress {
            type_: "InternalIP".to_owned(),
            address: settings.address.to_string(),
        }]),
        conditions: Some(conditions),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(settings.port) }),
        }),
        images,
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            kubelet_version: settings.version.clone(),
            operating_system: "Linux".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn verdicts(settings: &Settings, offered: bool, enough: bool, links: Links) -> Vec<Verdict> {
    let Settings { provider, checks_network, .. } = settings;
    let network = links.tunnel || !checks_network;
    let obstacle = if !offered {
        Some(format!("Cluster {provider} has taken its resources back"))
    } else if !enough {
        Some(format!("Cluster {provider} offers no CPU or no memory"))
    } else if !links.api_server {
        Some(format!("The API server of cluster {provider} does not answer"))
    } else if !network {
        Some(format!("There is no connection to the pods of cluster {provider}"))
    } else {
        None
    };
    let resources = if enough {
        format!("Cluster {provider} offers resources")
    } else {
        format!("Cluster {provider} offers no resources")
    };
    let pressure = |kind, under, free| Verdict {
        kind,
        holds: !enough,
        reason: if enough { free } else { under },
        message: resources.clone(),
    };
    let ready = Verdict {
        kind: READY,
        holds: obstacle.is_none(),
        reason: if obstacle.is_none() { KUBELET_READY } else { KUBELET_NOT_READY },
        message: obstacle.unwrap_or_else(|| format!("Cluster {provider} takes pods")),
    };
    let mut verdicts = vec![
        ready,
        pressure(MEMORY_PRESSURE, HAS_MEMORY_PRESSURE, HAS_SUFFICIENT_MEMORY),
        pressure(DISK_PRESSURE, HAS_DISK_PRESSURE, HAS_NO_DISK_PRESSURE),
        pressure(PID_PRESSURE, HAS_PID_PRESSURE, HAS_NO_PID_PRESSURE),
    ];
    if *checks_network {
        verdicts.push(Verdict {
            kind: NETWORK_UNAVAILABLE,
            holds: !links.tunnel,
            reason: if links.tunnel { NETWORKING_UP } else { NETWORKING_DOWN },
            message: if links.tunnel {
                "The tunnel is up".to_owned()
            } else {
                "The tunnel is down".to_owned()
            },
        });
    }
    verdicts
}

fn condition(verdict: Verdict, had: &[NodeCondition], now: &Time) -> NodeCondition {
    let Verdict { kind, holds, reason, message } = verdict;
    let status = if holds { "True" } else { "False" };
    let before = had.iter().find(|condition| condition.type_ == kind);
    let same_status = before.filter(|before| before.status == status);
    let unchanged = same_status.filter(|before| {
        before.reason.as_deref() == Some(reason) && before.message.as_deref() == Some(&*message)
    });
    let moment = |time: Option<&Time>| Some(time.unwrap_or(now).clone());
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_heartbeat_time: moment(unchanged.and_then(|had| had.last_heartbeat_time.as_ref())),
        last_transition_time: moment(same_status.and_then(|had| had.last_transition_time.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::samples::{offer, settings};

    const UP: Links = Links { api_server: true, tunnel: true };

    #[test]
    fn a_node_with_resources_and_a_tunnel_is_ready() {
        let status = status(Some(&offer(&[("cpu", "1800m"), ("memory", "22654M")])), UP);
        assert_eq!(
            brief(&status),
            [
                "Ready True KubeletReady",
                "MemoryPressure False RemoteClusterHasSufficientMemory",
                "DiskPressure False RemoteClusterHasNoDiskPressure",
                "PIDPressure False RemoteClusterHasNoPIDPressure",
                "NetworkUnavailable False LiqoNetworkingUp",
            ]
        );
        assert_eq!(status.capacity, status.allocatable);
        assert_eq!(status.capacity.unwrap()["cpu"].0, "1800m");
    }

    #[test]
    fn a_node_is_not_ready_while_anything_is_missing_and_says_what() {
        let good = offer(&[("cpu", "1"), ("memory", "1Gi")]);
        let poor = offer(&[("cpu", "0"), ("memory", "1Gi")]);
        for (offer, links, word) in [
            (Some(&poor), UP, "offers no CPU"),
            (Some(&good), Links { api_server: false, ..UP }, "API server"),
            (Some(&good), Links { tunnel: false, ..UP }, "no connection"),
            (None, UP, "taken its resources back"),
        ] {
            let conditions = status(offer, links).conditions.unwrap();
            assert_eq!(
                (&*conditions[0].status, conditions[0].reason.as_deref()),
                ("False", Some("KubeletNotReady"))
            );
            let message = conditions[0].message.clone().unwrap();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn the_tunnel_does_not_matter_where_another_network_connects_the_clusters() {
        let mut settings = settings();
        settings.checks_network = false;
        let offer = offer(&[("cpu", "1"), ("memory", "1Gi")]);
        let links = Links { api_server: true, tunnel: false };
        let status = wanted(&settings, Some(&offer), links, &Node::default(), &time(1));
        assert_eq!(brief(&status).len(), 4);
        assert_eq!(brief(&status)[0], "Ready True KubeletReady");
    }

    #[test]
    fn nothing_new_gives_the_same_status_at_any_time() {
        let offer = offer(&[("cpu", "1"), ("memory", "1Gi")]);
        let first = status(Some(&offer), UP);
        let node = Node { status: Some(first.clone()), ..Node::default() };
        let later = wanted(&settings(), Some(&offer), UP, &node, &time(99));
        assert_eq!(later, first);
        let down =
            wanted(&settings(), Some(&offer), Links { tunnel: false, ..UP }, &node, &time(99));
        let conditions = down.conditions.unwrap();
        assert_eq!(conditions[0].last_transition_time, Some(time(99)));
        assert_eq!(conditions[1].last_transition_time, Some(time(1)));
    }

    #[test]
    fn a_leaving_node_has_nothing_to_give() {
        let status = status(None, UP);
        assert_eq!(brief(&status)[1], "MemoryPressure True RemoteClusterHasMemoryPressure");
        assert_eq!(status.capacity, Some(std::collections::BTreeMap::new()));
    }

    fn status(offer: Option<&ResourceOffer>, links: Links) -> NodeStatus {
        wanted(&settings(), offer, links, &Node::default(), &time(1))
    }

    fn brief(status: &NodeStatus) -> Vec<String> {
        let conditions = status.conditions.iter().flatten();
        conditions
            .map(|c| format!("{} {} {}", c.type_, c.status, c.reason.clone().unwrap_or_default()))
            .collect()
    }

    fn time(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }
}
