//! The network manager on a real API server, with the rights that the chart grants it.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "parts/cluster.rs"]
mod cluster;
#[path = "parts/component.rs"]
mod component;

use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::keys::{annotation, finalizer, label};
use liqo_api::net::{IpamStorage, NatMapping, NetworkConfig, TunnelEndpoint};
use liqo_testkit::ControlPlane;
use liqo_wire::ipam::ipam_client::IpamClient;
use liqo_wire::ipam::{BelongsRequest, GetHomePodIpRequest, MapRequest, UnmapRequest};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::transport::Channel;

use self::component::{Component, LIMIT, grant};

const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";
const TURIN: &str = "5a1f6e5e-9f3b-4a3e-8d8e-6d1c0b9a7f10";
const KEY: &str = "D8tOMWNnxEFYMz5L0srUWqg3OvN5Rbnoq11g2mtoxHY=";
const THEIR_KEY: &str = "VZf6Eewxd9Ry+fFHCjErLMnNr+4ujfkekK7B3O6CiCg=";

/// Where Rome keeps what is for Milan.
const OF_MILAN: &str = "liqo-tenant-milan-ee0b4a";
/// Where Rome keeps what is for Turin.
const OF_TURIN: &str = "liqo-tenant-turin";

#[tokio::test]
async fn networks_of_peers_are_told_heard_connected_and_let_go() {
    let rome = Rome::found().await;
    let manager = rome.start(&[]).await;
    a_peer_is_told_of_our_network(&rome).await;
    a_peer_is_heard_and_its_networks_are_placed(&rome).await;
    a_tunnel_follows_when_both_have_answered(&rome).await;
    addresses_are_translated(&rome, &manager.address).await;
    a_gateway_that_moves_is_told_at_once(&rome).await;
    what_collides_gets_another_prefix(&rome).await;
    what_makes_no_sense_is_refused_for_all_to_see(&rome).await;
    let manager = a_restart_changes_nothing(&rome, manager).await;
    in_the_end_everything_is_free_again(&rome, &manager.address).await;
    manager.end().await;
}

#[tokio::test]
async fn a_ledger_that_cannot_be_kept_is_said_and_nothing_is_done() {
    let rome = Rome::found().await;
    rome.start(&[]).await.end().await;
    let wrong = rome.component(&["--manager.pod-cidr=10.199.0.0/16"]);
    wrong.says("the pod network was 10.200.0.0/16 and is now to be 10.199.0.0/16").await.unwrap();
    let ledgers: Api<IpamStorage> = Api::all(rome.client());
    let second = json!({
        "metadata": {"name": "second", "labels": {label::IPAM_STORAGE: "true"}},
        "spec": rome.ledger().await.spec,
    });
    ledgers.create(&PostParams::default(), &read(second)).await.unwrap();
    let twice = rome.component(&[]);
    twice.says("there are 2 IpamStorages").await.unwrap();
    ledgers.delete("second", &DeleteParams::default()).await.unwrap();
    // A pool that is there already is no reason not to start.
    let pool = "--manager.additional-pools=100.64.0.0/10";
    rome.start(&[pool]).await.end().await;
    rome.start(&[pool]).await.end().await;
    assert_eq!(rome.ledger().await.spec.pools.len(), 4);
}

async fn a_peer_is_told_of_our_network(rome: &Rome) {
    let told = wait(rome.configs(OF_MILAN), "milan-ee0b4a", is_there).await;
    assert_eq!(
        serde_json::to_value(&told.spec).unwrap(),
        json!({
            "backend_config": {"port": rome.port, "publicKey": KEY},
            "backendType": "wireguard",
            "cluster": {"clusterID": MILAN, "clusterName": "milan"},
            "endpointIP": "172.30.0.2",
            "externalCIDR": "10.95.0.0/16",
            "podCIDR": "10.200.0.0/16",
        })
    );
    let labels = [
        (label::OWNERSHIP, "netcfgCreator"),
        (label::REMOTE_ID, MILAN),
        (label::REPLICATION, "true"),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(*told.labels(), labels.into());
    let owner = &told.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("ForeignCluster", Some(true)));
}

async fn a_peer_is_heard_and_its_networks_are_placed(rome: &Rome) {
    rome.hear(OF_MILAN, MILAN, "10.201.0.0/16", "10.94.0.0/16").await;
    let heard = wait(rome.configs(OF_MILAN), "rome-2f55ef", is_processed).await;
    let status = heard.status.unwrap();
    assert_eq!(status.pod_cidr_nat.as_deref(), Some("None"));
    assert_eq!(status.external_cidr_nat.as_deref(), Some("10.92.0.0/16"));
    assert_eq!(heard.metadata.finalizers.unwrap(), [finalizer::TUNNEL_ENDPOINT_CREATOR]);
    // Who wrote what would go back to the peer whenever something changes here.
    let writers = heard.metadata.managed_fields.unwrap_or_default();
    assert!(writers.is_empty(), "{writers:?}");
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    assert!(tunnels.list(&ListParams::default()).await.unwrap().items.is_empty(), "not yet");
}

async fn a_tunnel_follows_when_both_have_answered(rome: &Rome) {
    rome.answer(OF_MILAN, "milan-ee0b4a", "None", "10.92.0.0/16").await;
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    let tunnel = wait(tunnels, "milan-ee0b4a", is_there).await;
    assert_eq!(
        serde_json::to_value(&tunnel.spec).unwrap(),
        json!({
            "backend_config": {"port": "30160", "publicKey": THEIR_KEY},
            "backendType": "wireguard",
            "clusterIdentity": {"clusterID": MILAN, "clusterName": "milan"},
            "endpointIP": "172.30.0.3",
            "localExternalCIDR": "10.95.0.0/16",
            "localNATExternalCIDR": "10.92.0.0/16",
            "localNATPodCIDR": "None",
            "localPodCIDR": "10.200.0.0/16",
            "remoteExternalCIDR": "10.94.0.0/16",
            "remoteNATExternalCIDR": "10.92.0.0/16",
            "remoteNATPodCIDR": "None",
            "remotePodCIDR": "10.201.0.0/16",
        })
    );
    assert_eq!(tunnel.labels()[label::PEER_ID], MILAN);
    let owners: Vec<_> =
        tunnel.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["NetworkConfig", "ForeignCluster"]);
    let mapping = rome.mapping(MILAN, |mapping| mapping.is_some()).await;
    assert!(mapping.name_any().starts_with("natmapping-"));
    assert_eq!(mapping.labels()[label::NAT_MAPPING], "true");
    assert_eq!(
        serde_json::to_value(&mapping.spec).unwrap(),
        json!({
            "clusterID": MILAN,
            "clusterMappings": {"169.254.0.1": "10.92.0.1"},
            "externalCIDR": "10.92.0.0/16",
            "podCIDR": "10.201.0.0/16",
        })
    );
}

async fn addresses_are_translated(rome: &Rome, address: &str) {
    let mut ipam = connect(address).await;
    // The API server of this cluster, and a pod.
    assert_eq!(map(&mut ipam, MILAN, "10.94.0.1").await.unwrap(), "10.92.0.2");
    assert_eq!(map(&mut ipam, MILAN, "10.94.0.1").await.unwrap(), "10.92.0.2");
    assert_eq!(map(&mut ipam, MILAN, "10.200.3.4").await.unwrap(), "10.200.3.4");
    let exports = |mapping: Option<&NatMapping>, count: usize| {
        mapping.is_some_and(|mapping| mapping.spec.cluster_mappings.len() == count)
    };
    let mapping = rome.mapping(MILAN, |mapping| exports(mapping, 2)).await;
    assert_eq!(mapping.spec.cluster_mappings["10.94.0.1"], "10.92.0.2");
    let question =
        GetHomePodIpRequest { cluster_id: MILAN.to_owned(), ip: "10.201.7.8".to_owned() };
    let home = ipam.get_home_pod_ip(question).await.unwrap().into_inner();
    assert_eq!(home.home_ip, "10.201.7.8");
    for (ip, want) in [("10.200.7.8", true), ("10.201.7.8", false)] {
        let question = BelongsRequest { ip: ip.to_owned() };
        assert_eq!(ipam.belongs_to_pod_cidr(question).await.unwrap().into_inner().belongs, want);
    }
    let refused = map(&mut ipam, TURIN, "10.94.0.1").await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unknown);
    let refused = unmap(&mut ipam, TURIN, "10.94.0.1").await.unwrap_err();
    assert!(refused.message().contains("must be initialized first"), "{refused}");
    // Many at once, as virtual kubelets do, and each has an address of its own.
    let all = (0..20).map(|host| {
        let mut ipam = ipam.clone();
        async move { map(&mut ipam, MILAN, &format!("192.0.2.{host}")).await.unwrap() }
    });
    let all = futures::future::join_all(all).await;
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 20);
    for host in 0..20 {
        unmap(&mut ipam, MILAN, &format!("192.0.2.{host}")).await.unwrap();
    }
    unmap(&mut ipam, MILAN, "192.0.2.99").await.unwrap();
    rome.mapping(MILAN, |mapping| exports(mapping, 2)).await;
}

async fn a_gateway_that_moves_is_told_at_once(rome: &Rome) {
    rome.place_gateway("172.30.0.9").await;
    let moved = |told: Option<&NetworkConfig>| {
        told.is_some_and(|told| told.spec.endpoint_ip == "172.30.0.9")
    };
    wait(rome.configs(OF_MILAN), "milan-ee0b4a", moved).await;
    let secrets: Api<Secret> = Api::namespaced(rome.client(), "liqo");
    let key = Patch::Merge(json!({"stringData": {"publicKey": THEIR_KEY}}));
    secrets.patch("wireguard-pubkey", &PatchParams::default(), &key).await.unwrap();
    let renewed = |told: Option<&NetworkConfig>| {
        told.is_some_and(|told| told.spec.backend_config["publicKey"] == THEIR_KEY)
    };
    wait(rome.configs(OF_MILAN), "milan-ee0b4a", renewed).await;
    // A peer's gateway moves, too.
    let change = Patch::Merge(json!({"spec": {"endpointIP": "gw.milan.example"}}));
    let configs = rome.configs(OF_MILAN);
    configs.patch("rome-2f55ef", &PatchParams::default(), &change).await.unwrap();
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    wait(tunnels, "milan-ee0b4a", |tunnel: Option<&TunnelEndpoint>| {
        tunnel.is_some_and(|tunnel| tunnel.spec.endpoint_ip == "gw.milan.example")
    })
    .await;
}

async fn what_collides_gets_another_prefix(rome: &Rome) {
    rome.know("turin", TURIN, OF_TURIN).await;
    // The pods of Turin have the network of Rome's, and its external network that of Milan's pods.
    rome.hear(OF_TURIN, TURIN, "10.200.0.0/16", "10.201.0.0/16").await;
    let heard = wait(rome.configs(OF_TURIN), "rome-2f55ef", is_processed).await;
    let status = heard.status.unwrap();
    assert_eq!(status.pod_cidr_nat.as_deref(), Some("10.93.0.0/16"));
    assert_eq!(status.external_cidr_nat.as_deref(), Some("10.202.0.0/16"));
}

async fn what_makes_no_sense_is_refused_for_all_to_see(rome: &Rome) {
    let configs = rome.configs(OF_MILAN);
    let refusal = |heard: Option<&NetworkConfig>| {
        heard.and_then(|heard| heard.annotations().get(annotation::NETWORK_REFUSED).cloned())
    };
    let change = |network: &str| Patch::Merge(json!({"spec": {"podCIDR": network}}));
    let plain = PatchParams::default();
    configs.patch("rome-2f55ef", &plain, &change("0.0.0.0/0")).await.unwrap();
    let heard = wait(configs.clone(), "rome-2f55ef", |heard| refusal(heard).is_some()).await;
    let reason = refusal(Some(&heard)).unwrap();
    assert!(reason.starts_with("the peer's pod network is refused: 0.0.0.0/0 has"), "{reason}");
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    let tunnel = tunnels.get("milan-ee0b4a").await.unwrap();
    assert_eq!(tunnel.spec.remote_pod_cidr, "10.201.0.0/16", "what was agreed still stands");
    let events: Api<Event> = Api::namespaced(rome.client(), "default");
    let told = events.list(&ListParams::default()).await.unwrap();
    assert!(told.iter().any(|event| event.reason.as_deref() == Some("InvalidNetwork")));
    // One network cannot be within the other.
    configs.patch("rome-2f55ef", &plain, &change("10.0.0.0/8")).await.unwrap();
    let overlaps = |heard: Option<&NetworkConfig>| {
        refusal(heard).is_some_and(|reason| reason.contains("overlaps its external network"))
    };
    wait(configs.clone(), "rome-2f55ef", overlaps).await;
    configs.patch("rome-2f55ef", &plain, &change("10.201.0.0/16")).await.unwrap();
    wait(configs, "rome-2f55ef", |heard| heard.is_some() && refusal(heard).is_none()).await;
    // There is no room for so much.
    let configs = rome.configs(OF_TURIN);
    let change = |pods: &str, externals: &str| {
        Patch::Merge(json!({"spec": {"podCIDR": pods, "externalCIDR": externals}}))
    };
    let large = change("10.0.0.0/8", "100.64.0.0/16");
    configs.patch("rome-2f55ef", &plain, &large).await.unwrap();
    let is_full = |heard: Option<&NetworkConfig>| {
        refusal(heard).is_some_and(|reason| {
            reason.contains("no pool has room for a network of size /8; add one with")
        })
    };
    wait(configs.clone(), "rome-2f55ef", is_full).await;
    let told = events.list(&ListParams::default()).await.unwrap();
    assert!(told.iter().any(|event| event.reason.as_deref() == Some("PoolExhausted")));
    let small = change("10.200.0.0/16", "10.201.0.0/16");
    configs.patch("rome-2f55ef", &plain, &small).await.unwrap();
    wait(configs, "rome-2f55ef", |heard| heard.is_some() && refusal(heard).is_none()).await;
}

async fn a_restart_changes_nothing(rome: &Rome, manager: Manager) -> Manager {
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    let before = (rome.ledger().await, tunnels.get("milan-ee0b4a").await.unwrap());
    let mapping = rome.mapping(MILAN, |mapping| mapping.is_some()).await;
    manager.end().await;
    let manager = rome.start(&[]).await;
    let mut ipam = connect(&manager.address).await;
    assert_eq!(map(&mut ipam, MILAN, "10.94.0.1").await.unwrap(), "10.92.0.2");
    // Something that goes through all of it.
    rome.place_gateway("172.30.0.2").await;
    let moved = |told: Option<&NetworkConfig>| {
        told.is_some_and(|told| told.spec.endpoint_ip == "172.30.0.2")
    };
    wait(rome.configs(OF_MILAN), "milan-ee0b4a", moved).await;
    let after = (rome.ledger().await, tunnels.get("milan-ee0b4a").await.unwrap());
    assert_eq!(after.0.spec, before.0.spec);
    assert_eq!((after.1.uid(), after.1.spec), (before.1.uid(), before.1.spec));
    assert_eq!(rome.mapping(MILAN, |mapping| mapping.is_some()).await.uid(), mapping.uid());
    manager
}

async fn in_the_end_everything_is_free_again(rome: &Rome, address: &str) {
    // A gateway that has not let go yet.
    let tunnels: Api<TunnelEndpoint> = Api::namespaced(rome.client(), OF_MILAN);
    hold(&tunnels, "milan-ee0b4a", &[finalizer::GATEWAY]).await;
    rome.set_peering("milan", "Disconnecting").await;
    let configs = rome.configs(OF_MILAN);
    wait(tunnels.clone(), "milan-ee0b4a", is_ending).await;
    configs.delete("rome-2f55ef", &DeleteParams::default()).await.unwrap();
    for name in ["rome-2f55ef", "milan-ee0b4a"] {
        let config = wait(configs.clone(), name, is_ending).await;
        assert_eq!(config.metadata.finalizers.unwrap(), [finalizer::TUNNEL_ENDPOINT_CREATOR]);
    }
    assert!(rome.ledger().await.spec.cluster_subnets.contains_key(MILAN), "somebody may send");
    hold(&tunnels, "milan-ee0b4a", &[]).await;
    for name in ["rome-2f55ef", "milan-ee0b4a"] {
        gone(configs.clone(), name).await;
    }
    rome.mapping(MILAN, |mapping| mapping.is_none()).await;
    let spec = rome.ledger().await.spec;
    assert!(!spec.cluster_subnets.contains_key(MILAN));
    assert!(!spec.nat_mappings_configured.contains_key(MILAN));
    assert!(spec.endpoint_mappings.is_empty());
    assert!(spec.cluster_subnets.contains_key(TURIN), "that is somebody else's");
    let mut ipam = connect(address).await;
    let refused = map(&mut ipam, MILAN, "10.94.0.1").await.unwrap_err();
    assert!(refused.message().contains("not known here"), "{refused}");
}

/// A cluster, as far as the network manager needs it.
struct Rome {
    plane: ControlPlane,
    port: String,
}

/// A running network manager, and where it answers.
struct Manager {
    component: Component,
    address: String,
}

impl Manager {
    async fn end(self) {
        let (status, log) = self.component.stop().await.unwrap();
        assert!(status.success(), "{log}");
    }
}

impl Rome {
    async fn found() -> Self {
        let plane = cluster::start(&[], &[]).await;
        let client = plane.client();
        grant(&client, "network-manager", "network-manager", "liqo").await.unwrap();
        for namespace in [OF_MILAN, OF_TURIN] {
            cluster::namespace(&client, namespace).await;
        }
        let services: Api<Service> = Api::namespaced(client.clone(), "liqo");
        let service = json!({
            "metadata": {
                "name": "liqo-gateway",
                "labels": {label::GATEWAY: "true"},
                "annotations": {annotation::GATEWAY_NODE_IP: "172.30.0.2"},
            },
            "spec": {"type": "NodePort", "ports": [
                {"name": "wireguard", "port": 5871, "protocol": "UDP"},
            ]},
        });
        let made = services.create(&PostParams::default(), &read(service)).await.unwrap();
        let port = made.spec.unwrap().ports.unwrap()[0].node_port.unwrap().to_string();
        let secrets: Api<Secret> = Api::namespaced(client, "liqo");
        let secret = json!({
            "metadata": {"name": "wireguard-pubkey", "labels": {label::TUNNEL_KEY: "wireguard"}},
            "stringData": {"publicKey": KEY, "privateKey": "secret"},
        });
        secrets.create(&PostParams::default(), &read(secret)).await.unwrap();
        let rome = Self { plane, port };
        rome.know("milan", MILAN, OF_MILAN).await;
        rome
    }

    fn client(&self) -> Client {
        self.plane.client()
    }

    fn component(&self, flags: &[&str]) -> Component {
        let words = [
            "network-manager",
            "--manager.pod-cidr=10.200.0.0/16",
            "--manager.service-cidr=10.94.0.0/16",
            "--manager.reserved-pools=172.30.0.0/24",
            "--ipam-address=127.0.0.1:0",
        ];
        let words = [&words[..], flags].concat();
        Component::start(&self.plane, "network-manager", &words).unwrap()
    }

    async fn start(&self, flags: &[&str]) -> Manager {
        let component = self.component(flags);
        let line = component.says("Answering about addresses").await.unwrap();
        let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        component.says("Following peers").await.unwrap();
        Manager { component, address }
    }

    fn configs(&self, namespace: &str) -> Api<NetworkConfig> {
        Api::namespaced(self.client(), namespace)
    }

    /// Makes a peer whose resources are in use.
    async fn know(&self, name: &str, id: &str, tenant: &str) {
        let clusters: Api<ForeignCluster> = Api::all(self.client());
        let foreign = json!({
            "apiVersion": "discovery.liqo.io/v1alpha1",
            "kind": "ForeignCluster",
            "metadata": {"name": name, "labels": {label::CLUSTER_ID: id}},
            "spec": {
                "clusterIdentity": {"clusterID": id, "clusterName": name},
                "foreignAuthUrl": "https://198.18.0.1",
            },
        });
        clusters.create(&PostParams::default(), &read(foreign)).await.unwrap();
        let status = json!({"status": {"tenantNamespace": {"local": tenant}}});
        let status = Patch::Merge(status);
        clusters.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        self.set_peering(name, "Established").await;
    }

    async fn set_peering(&self, name: &str, status: &str) {
        let clusters: Api<ForeignCluster> = Api::all(self.client());
        let condition = json!({"type": "OutgoingPeering", "status": status});
        let status = Patch::Merge(json!({"status": {"peeringConditions": [condition]}}));
        clusters.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    /// Has a peer tell of its network, as its replicator does.
    async fn hear(&self, namespace: &str, from: &str, pod: &str, external: &str) {
        let config = json!({
            "apiVersion": "net.liqo.io/v1alpha1",
            "kind": "NetworkConfig",
            "metadata": {"name": "rome-2f55ef", "labels": {
                label::ORIGIN_ID: from,
                label::REMOTE_ID: ROME,
                label::REPLICATED: "true",
                label::REPLICATION: "false",
            }},
            "spec": {
                "backend_config": {"port": "30160", "publicKey": THEIR_KEY},
                "backendType": "wireguard",
                "cluster": {"clusterID": ROME, "clusterName": "rome"},
                "endpointIP": "172.30.0.3",
                "externalCIDR": external,
                "podCIDR": pod,
            },
        });
        let configs = self.configs(namespace);
        configs.create(&PostParams::default(), &read(config)).await.unwrap();
    }

    /// Has a peer answer, as its network manager does.
    async fn answer(&self, namespace: &str, name: &str, pod: &str, external: &str) {
        let status = json!({"processed": true, "podCIDRNAT": pod, "externalCIDRNAT": external});
        let status = Patch::Merge(json!({ "status": status }));
        let configs = self.configs(namespace);
        configs.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    async fn place_gateway(&self, node: &str) {
        let services: Api<Service> = Api::namespaced(self.client(), "liqo");
        let annotations = json!({ annotation::GATEWAY_NODE_IP: node });
        let change = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        services.patch("liqo-gateway", &PatchParams::default(), &change).await.unwrap();
    }

    async fn ledger(&self) -> IpamStorage {
        let ledgers: Api<IpamStorage> = Api::all(self.client());
        let mut found = ledgers.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    /// Waits until the mapping of a peer is as it should be; an empty one stands for none.
    async fn mapping(&self, peer: &str, is_so: impl Fn(Option<&NatMapping>) -> bool) -> NatMapping {
        let all: Api<NatMapping> = Api::all(self.client());
        let own = ListParams::default().labels(&format!("{}={peer}", label::PEER_ID));
        let config = Config::default().labels(&format!("{}={peer}", label::PEER_ID));
        let mut changes = watcher(all.clone(), config).boxed();
        let look = async {
            loop {
                let mut found = all.list(&own).await.unwrap().items;
                assert!(found.len() < 2, "{found:#?}");
                if is_so(found.first()) {
                    return found.pop();
                }
                changes.next().await;
            }
        };
        let found = timeout(LIMIT, look).await.unwrap();
        found.unwrap_or_else(|| NatMapping::new("none", liqo_api::net::NatMappingSpec::default()))
    }
}

async fn connect(address: &str) -> IpamClient<Channel> {
    IpamClient::connect(format!("http://{address}")).await.unwrap()
}

async fn map(
    ipam: &mut IpamClient<Channel>,
    peer: &str,
    ip: &str,
) -> Result<String, tonic::Status> {
    let question = MapRequest { cluster_id: peer.to_owned(), ip: ip.to_owned() };
    Ok(ipam.map_endpoint_ip(question).await?.into_inner().ip)
}

async fn unmap(ipam: &mut IpamClient<Channel>, peer: &str, ip: &str) -> Result<(), tonic::Status> {
    let question = UnmapRequest { cluster_id: peer.to_owned(), ip: ip.to_owned() };
    ipam.unmap_endpoint_ip(question).await.map(drop)
}

async fn hold(tunnels: &Api<TunnelEndpoint>, name: &str, finalizers: &[&str]) {
    let change = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    tunnels.patch(name, &PatchParams::default(), &change).await.unwrap();
}

fn is_there<K>(found: Option<&K>) -> bool {
    found.is_some()
}

fn is_processed(config: Option<&NetworkConfig>) -> bool {
    config.and_then(|config| config.status.as_ref()).is_some_and(|status| status.processed)
}

fn is_ending<K: Resource>(object: Option<&K>) -> bool {
    object.is_some_and(|object| object.meta().deletion_timestamp.is_some())
}

async fn wait<K>(api: Api<K>, name: &str, is_so: impl Fn(Option<&K>) -> bool) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let last = api.clone();
    let found = timeout(LIMIT, await_condition(api, name, is_so)).await;
    assert!(found.is_ok(), "not in time: {name} is {:#?}", last.get_opt(name).await);
    found.unwrap().unwrap().unwrap()
}

async fn gone<K>(api: Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let last = api.clone();
    let is_gone = await_condition(api, name, |found: Option<&K>| found.is_none());
    let is_gone = timeout(LIMIT, is_gone).await.is_ok();
    assert!(is_gone, "not gone in time: {name} is {:#?}", last.get_opt(name).await);
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}
