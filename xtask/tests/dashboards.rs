//! The dashboards of the manual show metrics that exist, under the names that users know.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use serde_json::Value;

/// Every metric of ours.
const METRICS: [&str; 7] = [
    "liqo_peer_is_connected",
    "liqo_peer_latency_us",
    "liqo_peer_receive_bytes_total",
    "liqo_peer_transmit_bytes_total",
    "liqo_virtual_kubelet_reflection_error_counter",
    "liqo_virtual_kubelet_reflection_item_counter",
    "liqo_wireguard_implementation",
];

/// Columns of a dashboard.
const COLUMNS: u64 = 24;

#[test]
fn the_network_is_shown_as_users_know_it() {
    let dashboard = read("liqo-network");

    assert_eq!(dashboard["uid"], "FRjx_kV4z");
    assert_eq!(dashboard["title"], "Liqo Network");
    assert_eq!(variables(&dashboard), ["datasource", "clusterid"]);
    assert_eq!(
        titles(&dashboard),
        [
            "Global",
            "Connected clusters",
            "Received cross-cluster throughput",
            "Transmitted cross-cluster throughput",
            "Disconnected clusters",
            "Wireguard implementation",
            "Peer: $clusterid",
            "Connectivity",
            "Cross-cluster throughput",
            "Latency (RTT)",
            "Average latency (RTT)",
        ]
    );
}

#[test]
fn virtual_kubelets_are_shown_as_users_know_them() {
    let dashboard = read("liqo-virtual-kubelet");

    assert_eq!(dashboard["uid"], "EdazI-yVy");
    assert_eq!(dashboard["title"], "Liqo Virtual-Kubelet");
    assert_eq!(variables(&dashboard), ["dataSource", "clusterName", "namespace"]);
    assert_eq!(
        titles(&dashboard),
        [
            "Cluster: $clusterName",
            "Total resources reflected",
            "Total transient errors",
            "Reflected resources and transient errors",
            "Reflected resources",
            "Resource errors",
            "Number of reflected resources",
            "Transient errors for resource type",
        ]
    );
}

#[test]
fn every_metric_is_shown_and_no_other() {
    let mut used = BTreeSet::new();
    for dashboard in both() {
        for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
            let shown: Vec<String> = expressions(panel).into_iter().flat_map(metrics).collect();
            assert!(!shown.is_empty(), "{}", panel["title"]);
            used.extend(shown);
        }
        let list = list(&dashboard["templating"]["list"]);
        let queries = list.iter().filter_map(|variable| variable["definition"].as_str());
        used.extend(queries.flat_map(metrics));
    }

    assert_eq!(used, METRICS.map(str::to_owned).into());
}

#[test]
fn every_panel_asks_the_source_that_the_user_chose() {
    for dashboard in both() {
        let source = format!("${{{}}}", variables(&dashboard)[0]);
        let sources =
            panels(&dashboard).iter().filter(|panel| panel["type"] != "row").flat_map(|panel| {
                list(&panel["targets"]).iter().chain([panel]).map(|of| &of["datasource"]["uid"])
            });
        for used in sources {
            assert_eq!(used, &source);
        }
    }
}

#[test]
fn panels_lie_beside_each_other() {
    for dashboard in both() {
        let mut taken = BTreeSet::new();
        for panel in panels(&dashboard) {
            let [x, y, w, h] = ["x", "y", "w", "h"]
                .map(|side| panel["gridPos"][side].as_u64().expect("a panel has its place"));
            assert!(x + w <= COLUMNS, "{}", panel["title"]);
            for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(place), "{} lies on another panel", panel["title"]);
            }
        }
    }
}

fn both() -> [Value; 2] {
    ["liqo-network", "liqo-virtual-kubelet"].map(read)
}

/// Asked at run time: a build result may be shared between clones.
fn read(name: &str) -> Value {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    let path = Path::new(&here).join(format!("../docs/grafana/{name}.json"));
    let text = fs::read_to_string(&path).expect("a dashboard can be read");
    serde_json::from_str(&text).expect("a dashboard is valid JSON")
}

fn variables(dashboard: &Value) -> Vec<&str> {
    let list = list(&dashboard["templating"]["list"]);
    list.iter().filter_map(|variable| variable["name"].as_str()).collect()
}

fn titles(dashboard: &Value) -> Vec<&str> {
    panels(dashboard).iter().filter_map(|panel| panel["title"].as_str()).collect()
}

fn panels(dashboard: &Value) -> &[Value] {
    list(&dashboard["panels"])
}

fn expressions(panel: &Value) -> Vec<&str> {
    list(&panel["targets"]).iter().filter_map(|target| target["expr"].as_str()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a dashboard has lists where they belong")
}

/// Names of ours in an expression.
fn metrics(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("liqo_")).map(str::to_owned).collect()
}
