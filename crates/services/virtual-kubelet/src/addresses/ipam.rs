//! Asks the network manager what addresses are called on the other side.
//!
//! It is asked over a connection that is made when it is needed, and again when it broke. While it
//! does not answer, most questions fail at once: whoever asks has more to do than to wait.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use liqo_api::names::ClusterId;
use liqo_wire::ipam::ipam_client::IpamClient;
use liqo_wire::ipam::{GetHomePodIpRequest, MapRequest, UnmapRequest};
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::Error;

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(5);
/// How often an idle connection is tried.
const ALIVE: Duration = Duration::from_secs(20);
/// How long nobody is asked who did not answer.
const SILENCE: Duration = Duration::from_secs(1);

/// The text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address of a server that translates addresses; it reads like HOST:PORT")]
pub struct NoServer(String);

/// Who knows what addresses are called, in the eyes of one peer.
#[derive(Clone, Debug)]
pub struct Ipam {
    client: IpamClient<Channel>,
    peer: ClusterId,
    /// Until when it is not asked.
    silent: Arc<Mutex<Option<Instant>>>,
}

impl Ipam {
    /// The server at an address; it is reached with the first question.
    pub fn at(server: &str, peer: ClusterId) -> Result<Self, NoServer> {
        let endpoint = Endpoint::from_shared(format!("http://{server}"))
            .map_err(|_| NoServer(server.to_owned()))?
            .connect_timeout(CONNECTING)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ANSWERING)
            .keep_alive_while_idle(true);
        let client = IpamClient::new(endpoint.connect_lazy());
        Ok(Self { client, peer, silent: Arc::default() })
    }

    /// What an endpoint reachable from here is called there.
    pub(super) async fn map_endpoint(&self, address: IpAddr) -> Result<IpAddr, Error> {
        let mut client = self.client.clone();
        let question = MapRequest { cluster_id: self.peer.to_string(), ip: address.to_string() };
        let answer = self.ask(address, client.map_endpoint_ip(question)).await?;
        read(address, &answer.ip)
    }

    /// Gives back what an endpoint was called there.
    pub(super) async fn unmap_endpoint(&self, address: IpAddr) -> Result<(), Error> {
        let mut client = self.client.clone();
        let question = UnmapRequest { cluster_id: self.peer.to_string(), ip: address.to_string() };
        self.ask(address, client.unmap_endpoint_ip(question)).await.map(drop)
    }

    /// What a pod of the other cluster is called here.
    pub(super) async fn home_pod(&self, address: IpAddr) -> Result<IpAddr, Error> {
        let mut client = self.client.clone();
        let question =
            GetHomePodIpRequest { cluster_id: self.peer.to_string(), ip: address.to_string() };
        let answer = self.ask(address, client.get_home_pod_ip(question)).await?;
        read(address, &answer.home_ip)
    }

    async fn ask<A>(
        &self,
        address: IpAddr,
        question: impl Future<Output = Result<Response<A>, Status>>,
    ) -> Result<A, Error> {
        if self.is_silent() {
            let text = "it did not answer a moment ago";
            return Err(Error::new(address, Status::unavailable(text)));
        }
        let late = |_| Status::unavailable(format!("no answer within {} s", ANSWERING.as_secs()));
        let answer = timeout(ANSWERING, question).await.map_err(late).and_then(|answer| answer);
        // Who refuses has answered.
        let is_silent = answer.as_ref().is_err_and(|status| status.code() == Code::Unavailable);
        *self.silence() = is_silent.then(|| Instant::now() + SILENCE);
        answer.map(Response::into_inner).map_err(|status| Error::new(address, status))
    }

    fn is_silent(&self) -> bool {
        self.silence().is_some_and(|until| Instant::now() < until)
    }

    fn silence(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(asked: IpAddr, answer: &str) -> Result<IpAddr, Error> {
    answer.parse().map_err(|error| Error::new(asked, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_is_not_asked_all_the_time() {
        // Nobody listens there: the port was free, and is ours until now.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        drop(listener);
        let ipam = Ipam::at(&server, peer()).unwrap();
        let pod = "10.201.0.7".parse().unwrap();
        let first = ipam.home_pod(pod).await.unwrap_err();
        assert_eq!(first.to_string(), "cannot translate the address 10.201.0.7");
        let second = liqo_kit::keyed::chain(&ipam.home_pod(pod).await.unwrap_err());
        assert!(second.contains("it did not answer a moment ago"), "{second}");
    }

    #[tokio::test]
    async fn a_server_has_an_address() {
        let error = Ipam::at("no server", peer()).unwrap_err();
        assert!(error.to_string().starts_with("'no server' is no address"), "{error}");
    }

    fn peer() -> ClusterId {
        "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap()
    }
}
