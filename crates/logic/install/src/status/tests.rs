//! How an installation does, for all that can be seen of it.

use serde_json::json;

use super::*;
use crate::screen::Style;

#[test]
fn a_healthy_installation_is_told_in_three_boxes() {
    let report = report(&healthy());

    assert!(report.healthy);
    insta::assert_snapshot!(report.text(false, Style::Plain), @"
    ┌─ Namespace existence check ──────────────────────────────────────────────────┐
    │ ✔ namespace liqo exists                                                      │
    └──────────────────────────────────────────────────────────────────────────────┘
    ┌─ Control plane check ────────────────────────────────────────────────────────┐
    │ ✔ control plane is fine                                                      │
    │ Deployment                                                                   │
    │     liqo-controller-manager: Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-crd-replicator:     Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-metric-agent:       Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-auth:               Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-proxy:              Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-network-manager:    Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-gateway:            Desired: 1, Ready: 1/1, Available: 1/1          │
    │ DaemonSet                                                                    │
    │     liqo-route: Desired: 2, Ready: 2/2, Available: 2/2                       │
    └──────────────────────────────────────────────────────────────────────────────┘
    ┌─ Local cluster information ──────────────────────────────────────────────────┐
    │ Cluster identity                                                             │
    │     Cluster ID:   41543714-6e17-4c7b-9bc9-70de7f7ae64f                       │
    │     Cluster name: rome                                                       │
    │     Cluster labels                                                           │
    │         liqo.io/provider: kind                                               │
    │ Network                                                                      │
    │     Pod CIDR:      10.200.0.0/16                                             │
    │     Service CIDR:  10.80.0.0/16                                              │
    │     External CIDR: 10.201.0.0/16                                             │
    │     Reserved Subnets                                                         │
    │         - 192.168.0.0/24                                                     │
    │ Endpoints                                                                    │
    │     Network gateway:           udp://192.0.2.1:30871                         │
    │     Authentication URL:        https://192.0.2.1:30443                       │
    │     Kubernetes API server URL: https://192.0.2.1:6443                        │
    └──────────────────────────────────────────────────────────────────────────────┘
    ");
}

#[test]
fn the_curious_see_images() {
    let text = report(&healthy()).text(true, Style::Plain);

    assert_eq!(text.matches("Images").count(), 8);
    assert!(text.contains("- localhost/liqo/liqo:v0.8.3"));
}

#[test]
fn without_a_namespace_nothing_else_is_looked_at() {
    let report = report(&Seen { namespace: "liqo".to_owned(), ..Seen::default() });

    assert!(!report.healthy);
    insta::assert_snapshot!(report.text(false, Style::Plain), @"
    ┌─ Namespace existence check ──────────────────────────────────────────────────┐
    │ ✖ there is no namespace liqo; install Liqo, or give --namespace              │
    └──────────────────────────────────────────────────────────────────────────────┘
    ");
}

#[test]
fn a_component_that_does_not_work_is_told_with_its_pods() {
    let mut seen = healthy();
    seen.deployments.remove("liqo-proxy");
    seen.deployments.insert("liqo-auth".to_owned(), deployment("liqo-auth", 0));
    seen.pods = vec![read(json!({
        "metadata": {"name": "liqo-auth-1", "labels": {"app": "liqo-auth"}},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]},
    }))];

    let report = report(&seen);

    assert!(!report.healthy && report.cluster.is_none());
    insta::assert_snapshot!(report.text(false, Style::Plain), @"
    ┌─ Namespace existence check ──────────────────────────────────────────────────┐
    │ ✔ namespace liqo exists                                                      │
    └──────────────────────────────────────────────────────────────────────────────┘
    ┌─ Control plane check ────────────────────────────────────────────────────────┐
    │ ✖ control plane has problems                                                 │
    │ Deployment                                                                   │
    │     liqo-controller-manager: Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-crd-replicator:     Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-metric-agent:       Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-auth:               Desired: 1, Ready: 0/1, Available: 0/1          │
    │     ✖ liqo-auth-1: not scheduled: 0/1 nodes are available                    │
    │     liqo-proxy:              Desired: 1, Ready: 0/1, Available: 0/1          │
    │     ✖ it is not there                                                        │
    │     liqo-network-manager:    Desired: 1, Ready: 1/1, Available: 1/1          │
    │     liqo-gateway:            Desired: 1, Ready: 1/1, Available: 1/1          │
    │ DaemonSet                                                                    │
    │     liqo-route: Desired: 2, Ready: 2/2, Available: 2/2                       │
    └──────────────────────────────────────────────────────────────────────────────┘
    ");
}

#[test]
fn what_was_not_asked_for_is_not_missed() {
    let mut seen = healthy();
    seen.values["metricAgent"] = json!({"enable": false});
    seen.values["networking"] = json!({"internal": false});
    for name in ["liqo-metric-agent", "liqo-gateway", "liqo-network-manager"] {
        seen.deployments.remove(name);
    }
    (seen.daemon_sets, seen.ipam, seen.gateway) = (BTreeMap::new(), None, None);

    let report = report(&seen);

    assert!(report.healthy);
    let text = report.text(false, Style::Plain);
    assert!(text.contains("Status: External") && !text.contains("gateway"), "{text}");
}

#[test]
fn an_address_that_is_not_there_yet_is_a_failure() {
    let mut seen = healthy();
    let waiting = json!({"metadata": {"name": "liqo-auth"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]}});
    seen.auth = Some(read(waiting));

    let report = report(&seen);

    assert!(!report.healthy);
    assert!(report.text(false, Style::Plain).contains("✖ the load balancer"));
}

#[test]
fn programs_read_the_same() {
    let mut report = report(&healthy());
    report.components.truncate(1);

    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
    {
      "healthy": true,
      "namespace": {
        "name": "liqo",
        "exists": true
      },
      "components": [
        {
          "kind": "Deployment",
          "name": "liqo-controller-manager",
          "desired": 1,
          "ready": 1,
          "available": 1,
          "images": [
            "localhost/liqo/liqo:v0.8.3"
          ]
        }
      ],
      "cluster": {
        "clusterID": "41543714-6e17-4c7b-9bc9-70de7f7ae64f",
        "clusterName": "rome",
        "clusterLabels": {
          "liqo.io/provider": "kind"
        },
        "network": {
          "podCIDR": "10.200.0.0/16",
          "serviceCIDR": "10.80.0.0/16",
          "externalCIDR": "10.201.0.0/16",
          "reservedSubnets": [
            "192.168.0.0/24"
          ]
        },
        "endpoints": {
          "networkGateway": {
            "url": "udp://192.0.2.1:30871"
          },
          "authenticationURL": {
            "url": "https://192.0.2.1:30443"
          },
          "kubernetesAPIServerURL": {
            "url": "https://192.0.2.1:6443"
          }
        }
      }
    }
    "#);
}

fn healthy() -> Seen {
    let names = [
        "liqo-controller-manager",
        "liqo-crd-replicator",
        "liqo-metric-agent",
        "liqo-auth",
        "liqo-proxy",
        "liqo-network-manager",
        "liqo-gateway",
    ];
    let service = |name: &str, port: u16| -> Service {
        let active = json!({"net.liqo.io/gatewayNodeIP": "192.0.2.1"});
        read(json!({"metadata": {"name": name, "annotations": active}, "spec": {"type": "NodePort",
            "ports": [{"name": "wireguard", "port": 443, "nodePort": port}]}}))
    };
    let ipam = json!({"prefixes": {}, "pools": [], "reservedSubnets": ["192.168.0.0/24"],
        "clusterSubnets": {}, "externalCIDR": "10.201.0.0/16", "podCIDR": "10.200.0.0/16",
        "serviceCIDR": "10.80.0.0/16", "endpointMappings": {}, "natMappingsConfigured": {}});
    Seen {
        namespace: "liqo".to_owned(),
        exists: true,
        values: json!({"discovery": {"config": {"clusterLabels": {"liqo.io/provider": "kind"}}}}),
        deployments: names.iter().map(|name| ((*name).to_owned(), deployment(name, 1))).collect(),
        daemon_sets: [(
            "liqo-route".to_owned(),
            read(json!({
                "metadata": {}, "spec": {"selector": {}, "template": {"spec": {"containers": [
                    {"name": "a", "image": "localhost/liqo/liqo:v0.8.3"}]}}},
                "status": {"desiredNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2,
                    "currentNumberScheduled": 2, "numberMisscheduled": 0},
            })),
        )]
        .into(),
        pods: vec![],
        identity: Some(("41543714-6e17-4c7b-9bc9-70de7f7ae64f".to_owned(), "rome".to_owned())),
        ipam: Some(read(ipam)),
        auth: Some(service("liqo-auth", 30443)),
        gateway: Some(service("liqo-gateway", 30871)),
        nodes: vec![read(json!({
            "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        }))],
    }
}

fn deployment(name: &str, ready: i32) -> Deployment {
    read(json!({
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "spec": {"containers": [{"name": "a", "image": "localhost/liqo/liqo:v0.8.3"}]}}},
        "status": {"readyReplicas": ready, "availableReplicas": ready},
    }))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
