//! The networks of two clusters meet and part: all components that talk to API servers, and everything
//! but packets.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;
#[path = "parts/town.rs"]
#[expect(dead_code, reason = "each test needs some of it")]
mod town;

use k8s_openapi::api::core::v1::Service;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus as Status, PeeringConditionType as Kind,
};
use liqo_api::net::{IpamStorage, NetworkConfig, TunnelEndpoint};
use serde_json::json;

use self::town::{Town, gone, is, is_there, wait};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
/// The namespace that rome keeps for milan.
const AT_ROME: &str = "liqo-tenant-milan-ee0b4a";
/// The namespace that milan keeps for rome.
const AT_MILAN: &str = "liqo-tenant-rome-2f55ef";
const KEYS: [&str; 2] = [
    "D8tOMWNnxEFYMz5L0srUWqg3OvN5Rbnoq11g2mtoxHY=",
    "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=",
];

#[tokio::test]
async fn networks_of_two_clusters_meet_and_part() {
    let (mut rome, mut milan) =
        tokio::join!(Town::found(ROME, "rome"), Town::found(MILAN, "milan"));
    rome.open_network("10.200.0.0/16", "10.94.0.0/16", "172.30.0.2", KEYS[0]).await;
    milan.open_network("10.201.0.0/16", "10.95.0.0/16", "172.30.0.3", KEYS[1]).await;
    milan.add_node("worker", "10", "64Gi").await;
    rome.peer(&milan, MILAN, "milan").await;

    both_ends_agree(&rome, &milan).await;
    the_network_follows_its_tunnel(&rome).await;
    a_refusal_shows_in_the_foreign_cluster(&rome, &milan).await;
    parting_leaves_nothing_behind(&rome, &milan).await;
    rome.close().await;
    milan.close().await;
}

async fn both_ends_agree(rome: &Town, milan: &Town) {
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), AT_ROME);
    let at_rome = wait(tunnels, "milan-ee0b4a", is_there).await.spec;
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(milan.client(), AT_MILAN);
    let at_milan = wait(tunnels, "rome-2f55ef", is_there).await.spec;
    // Each calls the external network of the other what the reference calls it.
    assert_eq!([&at_rome.remote_pod_cidr, &at_rome.remote_nat_pod_cidr], ["10.201.0.0/16", "None"]);
    assert_eq!(
        [&at_rome.remote_external_cidr, &at_rome.remote_nat_external_cidr],
        ["10.94.0.0/16", "10.92.0.0/16"]
    );
    for (here, there) in [(&at_rome, &at_milan), (&at_milan, &at_rome)] {
        assert_eq!(here.local_pod_cidr, there.remote_pod_cidr);
        assert_eq!(here.local_nat_pod_cidr, there.remote_nat_pod_cidr);
        assert_eq!(here.local_external_cidr, there.remote_external_cidr);
        assert_eq!(here.local_nat_external_cidr, there.remote_nat_external_cidr);
    }
    assert_eq!(at_rome.endpoint_ip, "172.30.0.3");
    assert_eq!(at_rome.backend_config["publicKey"], KEYS[1]);
}

async fn the_network_follows_its_tunnel(rome: &Town) {
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), AT_ROME);
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    for (connection, want) in [
        ("Connecting", Status::Pending),
        ("Connected", Status::Established),
        ("Error", Status::Error),
        ("Connected", Status::Established),
    ] {
        let status = Patch::Merge(json!({"status": {"connection": {"status": connection}}}));
        tunnels.patch_status("milan-ee0b4a", &PatchParams::default(), &status).await.unwrap();
        wait(clusters.clone(), "milan", is(Kind::NetworkStatus, want)).await;
    }
}

async fn a_refusal_shows_in_the_foreign_cluster(rome: &Town, milan: &Town) {
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    place_gateway(milan, "127.0.0.1").await;
    let refused = wait(clusters.clone(), "milan", is(Kind::NetworkStatus, Status::Error)).await;
    let conditions = refused.status.unwrap().peering_conditions;
    let network = conditions.iter().find(|one| one.kind == Kind::NetworkStatus).unwrap();
    assert_eq!(network.reason.as_deref(), Some("NetworkConfigRefused"));
    let message = network.message.as_deref().unwrap();
    assert!(message.contains("gateway cannot be at '127.0.0.1'"), "{message}");
    place_gateway(milan, "172.30.0.4").await;
    wait(clusters, "milan", is(Kind::NetworkStatus, Status::Established)).await;
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), AT_ROME);
    wait(tunnels, "milan-ee0b4a", |tunnel: Option<&TunnelEndpoint>| {
        tunnel.is_some_and(|tunnel| tunnel.spec.endpoint_ip == "172.30.0.4")
    })
    .await;
}

async fn place_gateway(town: &Town, node: &str) {
    let services: Api<Service> = Api::namespaced(town.client(), "liqo");
    let annotations = json!({"net.liqo.io/gatewayNodeIP": node});
    let change = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    services.patch("liqo-gateway", &PatchParams::default(), &change).await.unwrap();
}

async fn parting_leaves_nothing_behind(rome: &Town, milan: &Town) {
    let clusters: Api<ForeignCluster> = Api::all(rome.client());
    let no = Patch::Merge(json!({"spec": {"outgoingPeeringEnabled": "No"}}));
    clusters.patch("milan", &PatchParams::default(), &no).await.unwrap();
    for (town, namespace) in [(rome, AT_ROME), (milan, AT_MILAN)] {
        for name in ["milan-ee0b4a", "rome-2f55ef"] {
            gone(Api::<NetworkConfig>::namespaced(town.client(), namespace), name).await;
            gone(Api::<TunnelEndpoint>::namespaced(town.client(), namespace), name).await;
        }
        let ledgers: Api<IpamStorage> = Api::all(town.client());
        let name = ledgers.list(&ListParams::default()).await.unwrap().items[0].name_any();
        let is_free = |ledger: Option<&IpamStorage>| {
            ledger.is_some_and(|ledger| {
                ledger.spec.cluster_subnets.is_empty()
                    && ledger.spec.nat_mappings_configured.is_empty()
            })
        };
        wait(ledgers, &name, is_free).await;
    }
    wait(clusters, "milan", is(Kind::OutgoingPeering, Status::None)).await;
}
