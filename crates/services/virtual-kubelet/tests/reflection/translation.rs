//! Addresses that are called something else on the other side, between two real API servers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::DeleteParams;
use liqo_api::net::NatMapping;
use liqo_api::virtualkubelet::{ShadowEndpointSlice, ShadowPod};
use liqo_testkit::until;
use liqo_wire::ipam::ipam_server::{Ipam, IpamServer};
use liqo_wire::ipam::{
    BelongsRequest, BelongsResponse, GetHomePodIpRequest, GetHomePodIpResponse, MapRequest,
    MapResponse, UnmapRequest, UnmapResponse,
};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::pods::{is_running, pod};
use crate::provider;
use crate::world::{MILAN, World, change, make};

/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn addresses_are_what_the_network_manager_says() {
    let world = World::make().await;
    let desk = Desk::open("127.0.0.1:0").await;
    let (here, there) = (world.here::<EndpointSlice>(), world.there::<ShadowEndpointSlice>());
    make(&here, slice("web-1", &["10.200.0.7", "192.0.2.1"])).await;
    let server = format!("--ipam-server={}", desk.address);
    let server_of_pods = "--kubernetes-service-host=10.94.0.1";
    let kubelet = world.kubelet(&[&server, "--enable-apiserver-support", server_of_pods]);

    let told = |want: &'static [&'static str]| {
        move |slice: Option<&ShadowEndpointSlice>| {
            slice.is_some_and(|slice| addresses(slice) == want)
        }
    };
    let both = told(&["10.77.0.7", "10.77.2.1"]);
    until("endpoints are told by their names there", &there, "web-1", both).await.unwrap();
    change(&here, "web-1", json!({"endpoints": [{"addresses": ["192.0.2.1"]}]})).await;
    let one = told(&["10.77.2.1"]);
    until("one endpoint goes", &there, "web-1", one).await.unwrap();
    desk.has_back("10.200.0.7").await;

    make(&world.here::<Pod>(), pod("web")).await;
    let shadow = provider::shadow(&world, "web").await;
    let aliases = shadow.spec.pod.host_aliases.unwrap_or_default();
    assert_eq!(aliases[0].ip, "10.77.0.1", "the API server, by its name there");
    provider::run(&world, "web", "10.201.0.118").await;
    let named = |pod: Option<&Pod>| is_running(pod) && address(pod) == Some("10.88.0.118");
    until("a pod has its name here", &world.here::<Pod>(), "web", named).await.unwrap();

    here.delete("web-1", &DeleteParams::default()).await.unwrap();
    until("the copy goes", &there, "web-1", |slice| slice.is_none()).await.unwrap();
    desk.has_back("192.0.2.1").await;
    drop(kubelet);
}

#[tokio::test]
async fn how_pods_are_does_not_wait_for_a_network_manager_that_is_gone() {
    let world = World::make().await;
    let desk = Desk::open("127.0.0.1:0").await;
    let address_of_desk = desk.address;
    desk.close().await;
    let _kubelet = world.kubelet(&[&format!("--ipam-server={address_of_desk}")]);
    let here = world.here::<Pod>();
    make(&here, pod("web")).await;
    provider::shadow(&world, "web").await;
    provider::run(&world, "web", "10.201.0.118").await;
    let nameless = |pod: Option<&Pod>| is_running(pod) && address(pod).is_none();
    until("it runs, somewhere", &here, "web", nameless).await.unwrap();
    let _desk = Desk::open(&address_of_desk.to_string()).await;
    let named = |pod: Option<&Pod>| address(pod) == Some("10.88.0.118");
    until("it is asked again", &here, "web", named).await.unwrap();
    let shadows = world.there::<ShadowPod>();
    shadows.get("web").await.unwrap();
}

#[tokio::test]
async fn what_was_let_go_while_nobody_looked_is_given_back() {
    let world = World::make().await;
    let desk = Desk::open("127.0.0.1:0").await;
    make(&world.here::<EndpointSlice>(), slice("web-1", &["192.0.2.1"])).await;
    let mappings: Api<NatMapping> = Api::all(world.home.client());
    let mapping = json!({
        "apiVersion": "net.liqo.io/v1alpha1",
        "kind": "NatMapping",
        "metadata": {"name": "natmapping-x", "labels": {"clusterID": MILAN}},
        "spec": {
            "clusterID": MILAN, "podCIDR": "10.201.0.0/16", "externalCIDR": "10.92.0.0/16",
            "clusterMappings": {
                "169.254.0.1": "10.92.0.1", "192.0.2.1": "10.92.0.2", "192.0.2.2": "10.92.0.3",
            },
        },
    });
    make(&mappings, mapping).await;
    let _kubelet = world.kubelet(&[&format!("--ipam-server={}", desk.address)]);
    desk.has_back("192.0.2.2").await;
    assert_eq!(desk.back.borrow().len(), 1, "what somebody has stays");
}

fn slice(name: &str, addresses: &[&str]) -> serde_json::Value {
    let endpoints: Vec<_> = addresses.iter().map(|one| json!({"addresses": [one]})).collect();
    json!({"metadata": {"name": name}, "addressType": "IPv4", "endpoints": endpoints})
}

fn addresses(slice: &ShadowEndpointSlice) -> Vec<&str> {
    let endpoints = slice.spec.template.endpoints.iter().flatten();
    endpoints.flat_map(|endpoint| endpoint.addresses.iter().map(String::as_str)).collect()
}

fn address(pod: Option<&Pod>) -> Option<&str> {
    pod?.status.as_ref()?.pod_ip.as_deref()
}

/// Answers about addresses: those of this cluster become 10.77.x.y, pods of the other 10.88.x.y.
struct Desk {
    address: SocketAddr,
    back: watch::Receiver<BTreeSet<String>>,
    task: JoinHandle<()>,
}

impl Desk {
    async fn open(address: &str) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, back) = watch::channel(BTreeSet::new());
        let answers = Answers { back: Arc::new(Mutex::new(send)) };
        let server = Server::builder().add_service(IpamServer::new(answers));
        let serve = server.serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move { serve.await.unwrap() });
        Self { address, back, task }
    }

    async fn close(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }

    async fn has_back(&self, address: &str) {
        let mut back = self.back.clone();
        let given = back.wait_for(|back| back.contains(address));
        tokio::time::timeout(LIMIT, given).await.unwrap().unwrap();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Answers {
    back: Arc<Mutex<watch::Sender<BTreeSet<String>>>>,
}

#[tonic::async_trait]
impl Ipam for Answers {
    async fn map_endpoint_ip(
        &self,
        request: Request<MapRequest>,
    ) -> Result<Response<MapResponse>, Status> {
        let MapRequest { cluster_id, ip } = request.into_inner();
        assert_eq!(cluster_id, MILAN);
        Ok(Response::new(MapResponse { ip: renamed("10.77", &ip) }))
    }

    async fn unmap_endpoint_ip(
        &self,
        request: Request<UnmapRequest>,
    ) -> Result<Response<UnmapResponse>, Status> {
        let ip = request.into_inner().ip;
        self.back.lock().unwrap().send_modify(|back| {
            back.insert(ip);
        });
        Ok(Response::new(UnmapResponse {}))
    }

    async fn get_home_pod_ip(
        &self,
        request: Request<GetHomePodIpRequest>,
    ) -> Result<Response<GetHomePodIpResponse>, Status> {
        let home_ip = renamed("10.88", &request.into_inner().ip);
        Ok(Response::new(GetHomePodIpResponse { home_ip }))
    }

    async fn belongs_to_pod_cidr(
        &self,
        _: Request<BelongsRequest>,
    ) -> Result<Response<BelongsResponse>, Status> {
        Ok(Response::new(BelongsResponse { belongs: false }))
    }
}

fn renamed(prefix: &str, ip: &str) -> String {
    let host: Vec<&str> = ip.split('.').skip(2).collect();
    format!("{prefix}.{}", host.join("."))
}
