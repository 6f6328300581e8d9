//! Asks the network manager of a cluster what addresses are called at a peer.
//!
//! It is reached as `kubectl port-forward` does, and no port of this machine is opened.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Portforwarder};
use kube::{Api, Client};
use liqo_api::keys::{component, label, port};
use liqo_api::names::ClusterId;
use liqo_wire::ipam::ipam_client::IpamClient;
use liqo_wire::ipam::{MapRequest, UnmapRequest};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::failure::Failure;

/// How long reaching it may take, and each answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Between questions to who does not know the peer yet: it does within moments, and tells nobody.
const PAUSE: Duration = Duration::from_millis(200);
/// What it says then.
const NOT_YET: &str = "must be initialized first";

/// The network manager of a cluster.
pub struct Ipam {
    client: IpamClient<Channel>,
    pod: String,
    _way: Portforwarder,
}

impl Ipam {
    /// Reaches the one of an installation.
    pub async fn connect(client: &Client, namespace: &str) -> Result<Self, Failure> {
        let what = "cannot reach the network manager";
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let name = component::NETWORK_MANAGER;
        let running = ListParams::default()
            .labels(&format!("{}={name}", label::APP_NAME))
            .fields("status.phase=Running");
        let found = pods.list(&running).await.map_err(|error| Failure::new(what, error))?;
        let pod = found.items.iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
        let pod = pod.map(kube::ResourceExt::name_any).ok_or_else(|| {
            Failure::text(format!("{what}: no pod of it runs in namespace {namespace}"))
                .hint("See with `liqoctl status` how liqo-network-manager does.")
        })?;
        let place = format!("pod {pod}, port {}/tcp", port::IPAM);
        let refused = |why: &dyn std::fmt::Display| {
            Failure::text(format!("{what} ({place}): {why}")).hint(
                "Check that it runs, and that you may `kubectl port-forward` to it: the API server \
                 has to reach the kubelet of its node.",
            )
        };
        let mut way = pods
            .portforward(&pod, &[port::IPAM])
            .await
            .map_err(|error| refused(&crate::failure::chain(&error)))?;
        let stream = way.take_stream(port::IPAM).ok_or_else(|| refused(&"no stream"))?;
        let broken = way.take_error(port::IPAM);
        // There is one stream; a second connection cannot be had.
        let stream = Mutex::new(Some(TokioIo::new(stream)));
        let connector = tower::service_fn(move |_| {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
            std::future::ready(stream.ok_or_else(|| io::Error::other("the connection ended")))
        });
        let endpoint = Endpoint::from_static("http://network-manager");
        let connecting = timeout(LIMIT, endpoint.connect_with_connector(connector));
        let broken = async {
            match broken {
                Some(broken) => broken.await.unwrap_or_else(|| "the connection ended".to_owned()),
                None => std::future::pending().await,
            }
        };
        let channel = tokio::select! {
            channel = connecting => channel,
            why = broken => return Err(refused(&why)),
        };
        let channel = channel.map_err(|_| refused(&"no answer in time"))?;
        let channel = channel.map_err(|error| refused(&crate::failure::chain(&error)))?;
        Ok(Self { client: IpamClient::new(channel), pod, _way: way })
    }

    /// What an address of its cluster is called at a peer; it is exported if need be.
    pub async fn map(&mut self, peer: &ClusterId, address: Ipv4Addr) -> Result<Ipv4Addr, Failure> {
        let end = Instant::now() + LIMIT;
        let status = loop {
            let question = MapRequest { cluster_id: peer.to_string(), ip: address.to_string() };
            match in_time(self.client.map_endpoint_ip(question)).await {
                Ok(answer) => {
                    let text = answer.into_inner().ip;
                    let what = format!("the network manager calls {address} '{text}'");
                    return text.parse().map_err(|error| Failure::new(what, error));
                }
                Err(status) if is_not_yet(&status) && Instant::now() < end => sleep(PAUSE).await,
                Err(status) => break status,
            }
        };
        Err(self.failed(&format!("cannot export {address}"), &status))
    }

    /// Takes an address back from a peer; one that it does not know is no problem.
    pub async fn unmap(&mut self, peer: &ClusterId, address: Ipv4Addr) -> Result<(), Failure> {
        let question = UnmapRequest { cluster_id: peer.to_string(), ip: address.to_string() };
        match in_time(self.client.unmap_endpoint_ip(question)).await {
            Ok(_) => Ok(()),
            Err(status) if is_not_yet(&status) => Ok(()),
            Err(status) => Err(self.failed(&format!("cannot take {address} back"), &status)),
        }
    }

    fn failed(&self, what: &str, status: &Status) -> Failure {
        Failure::text(format!("{what}: the network manager says: {}", status.message())).hint(
            format!("See its log: `kubectl logs -A --field-selector metadata.name={}`.", self.pod),
        )
    }
}

async fn in_time<T>(question: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::unavailable(format!("nothing for {} s", LIMIT.as_secs()));
    timeout(LIMIT, question).await.unwrap_or_else(|over| Err(late(over)))
}

fn is_not_yet(status: &Status) -> bool {
    status.message().contains(NOT_YET)
}
