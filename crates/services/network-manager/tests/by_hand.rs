//! Clusters that somebody introduces to each other, against a real API server: they answer before
//! they know each other, and nobody but that somebody takes back what was said.
#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use liqo_api::discovery::ForeignCluster;
use liqo_api::names::Cluster;
use liqo_api::net::{IpamStorage, NatMapping, NetworkConfig, TunnelEndpoint};
use liqo_kit::health::Health;
use liqo_kit::metrics::Metrics;
use liqo_network_exchange::by_hand;
use liqo_network_exchange::gateway::Gateway;
use liqo_network_manager::{Args, Process, manage};
use liqo_testkit::ControlPlane;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);
const TENANT: &str = "liqo-tenant-milan-ee0b4a";
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[tokio::test]
async fn clusters_answer_before_they_know_each_other_and_part_when_told() {
    let plane = ControlPlane::start().await.unwrap();
    plane.define(liqo_api::all_crds()).await.unwrap();
    let client = plane.client();
    let stop = CancellationToken::new();
    let process = Process {
        client: client.clone(),
        health: Health::default(),
        metrics: Metrics::default(),
        tasks: Arc::default(),
        stop: stop.clone(),
    };
    let flags = "nm --manager.pod-cidr=10.200.0.0/16 --manager.service-cidr=10.94.0.0/16 \
                 --ipam-address=127.0.0.1:0";
    let args = Line::parse_from(flags.split_whitespace()).args;
    let running = tokio::spawn(async move { manage(process, &args).await });

    let lab = Lab { configs: Api::namespaced(client.clone(), TENANT), client };
    lab.a_namespace_is_enough_to_be_answered().await;
    lab.addresses_are_translated_once_both_have_answered().await;
    lab.the_tunnel_follows_the_introduction().await;
    lab.what_was_said_by_hand_outlives_the_introduction().await;
    lab.what_is_taken_back_frees_the_networks().await;

    stop.cancel();
    running.await.unwrap().unwrap();
}

struct Lab {
    client: Client,
    configs: Api<NetworkConfig>,
}

impl Lab {
    async fn a_namespace_is_enough_to_be_answered(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let labels = json!({
            "discovery.liqo.io/cluster-id": milan().id.as_str(),
            "discovery.liqo.io/tenant-namespace": "true",
        });
        make(&namespaces, json!({ "metadata": { "name": TENANT, "labels": labels } })).await;
        let said = by_hand::word(&rome(), "there", networks("10.201", "10.95"), &gateway());
        let copy = by_hand::copy(&said, &milan(), TENANT);
        self.configs.create(&PostParams::default(), &copy).await.unwrap();
        let answered = self.until(&copy.name_any(), is_processed).await.unwrap();
        let status = answered.status.unwrap();
        assert_eq!(status.pod_cidr_nat.as_deref(), Some("None"));
    }

    async fn addresses_are_translated_once_both_have_answered(&self) {
        let own = self.ledger().await;
        let networks = by_hand::own(&[own]).unwrap();
        let word = by_hand::word(&milan(), TENANT, networks, &gateway());
        self.configs.create(&PostParams::default(), &word).await.unwrap();
        let answer = json!({ "status": {
            "processed": true, "podCIDRNAT": "None", "externalCIDRNAT": "None",
        } });
        let name = word.name_any();
        let params = PatchParams::default();
        self.configs.patch_status(&name, &params, &Patch::Merge(answer)).await.unwrap();
        let is_held =
            |found: Option<&NetworkConfig>| found.is_some_and(|it| !it.finalizers().is_empty());
        self.until(&name, is_held).await.unwrap();
        let mappings: Api<NatMapping> = Api::all(self.client.clone());
        let of_milan = ListParams::default().labels(&format!("clusterID={}", milan().id));
        let made = async {
            while mappings.list(&of_milan).await.unwrap().items.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, made).await.unwrap();
        let tunnels: Api<TunnelEndpoint> = Api::namespaced(self.client.clone(), TENANT);
        assert!(tunnels.list(&ListParams::default()).await.unwrap().items.is_empty());
    }

    async fn the_tunnel_follows_the_introduction(&self) {
        let clusters: Api<ForeignCluster> = Api::all(self.client.clone());
        let spec = json!({
            "peeringType": "InBand",
            "clusterIdentity": { "clusterID": milan().id.as_str(), "clusterName": "milan" },
            "foreignAuthUrl": "https://10.95.0.3:443",
            "insecureSkipTLSVerify": true,
        });
        make(&clusters, json!({ "metadata": { "name": "milan" }, "spec": spec })).await;
        let tunnel = self.tunnel(|found| found.is_some()).await.unwrap();
        assert_eq!(tunnel.spec.remote_pod_cidr, "10.201.0.0/16");
        let owners: Vec<_> = tunnel.owner_references().iter().map(|owner| &*owner.kind).collect();
        assert_eq!(owners, ["NetworkConfig", "ForeignCluster"]);
        for config in self.configs.list(&ListParams::default()).await.unwrap() {
            assert!(config.owner_references().is_empty(), "{config:?}");
        }
    }

    async fn what_was_said_by_hand_outlives_the_introduction(&self) {
        let clusters: Api<ForeignCluster> = Api::all(self.client.clone());
        clusters.delete("milan", &DeleteParams::default()).await.unwrap();
        // A new answer shows that the end of the introduction has been seen.
        let said = self.configs.get(rome().unique_name().as_str()).await.unwrap();
        let change = json!({ "status": { "processed": false } });
        let params = PatchParams::default();
        self.configs.patch_status(&said.name_any(), &params, &Patch::Merge(change)).await.unwrap();
        self.until(&said.name_any(), is_processed).await.unwrap();
        assert!(!self.ledger().await.spec.cluster_subnets.is_empty());
    }

    async fn what_is_taken_back_frees_the_networks(&self) {
        for config in self.configs.list(&ListParams::default()).await.unwrap() {
            self.configs.delete(&config.name_any(), &DeleteParams::default()).await.unwrap();
        }
        self.tunnel(|found| found.is_none()).await;
        for name in [milan(), rome()].map(|cluster| cluster.unique_name().to_string()) {
            self.until(&name, |found| found.is_none()).await;
        }
        let freed = async {
            while !self.ledger().await.spec.cluster_subnets.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, freed).await.unwrap();
    }

    async fn until(
        &self,
        name: &str,
        is_so: impl Fn(Option<&NetworkConfig>) -> bool,
    ) -> Option<NetworkConfig> {
        until(&self.configs, name, is_so).await
    }

    async fn tunnel(
        &self,
        is_so: impl Fn(Option<&TunnelEndpoint>) -> bool,
    ) -> Option<TunnelEndpoint> {
        let tunnels: Api<TunnelEndpoint> = Api::namespaced(self.client.clone(), TENANT);
        until(&tunnels, milan().unique_name().as_str(), is_so).await
    }

    async fn ledger(&self) -> IpamStorage {
        let ledgers: Api<IpamStorage> = Api::all(self.client.clone());
        ledgers.list(&ListParams::default()).await.unwrap().items.remove(0)
    }
}

fn is_processed(found: Option<&NetworkConfig>) -> bool {
    let status = found.and_then(|found| found.status.as_ref());
    status.is_some_and(|status| status.processed)
}

async fn until<K>(api: &Api<K>, name: &str, is_so: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: kube::Resource + Clone + Debug + Send + serde::de::DeserializeOwned + 'static,
{
    timeout(LIMIT, await_condition(api.clone(), name, is_so)).await.unwrap().unwrap()
}

async fn make<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn rome() -> Cluster {
    let id = "41543714-6e17-4c7b-9bc9-70de7f7ae64f".parse().unwrap();
    Cluster { id, name: "rome".parse().unwrap() }
}

fn milan() -> Cluster {
    let id = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap();
    Cluster { id, name: "milan".parse().unwrap() }
}

fn networks(pod: &str, external: &str) -> liqo_ipam::Networks {
    let read = |start: &str| format!("{start}.0.0/16").parse().unwrap();
    liqo_ipam::Networks { pod: read(pod), external: read(external) }
}

fn gateway() -> Gateway {
    Gateway { address: "198.18.2.11".to_owned(), port: 30871, public_key: KEY.to_owned() }
}
