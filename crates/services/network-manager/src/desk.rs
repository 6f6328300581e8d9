//! Answers questions about addresses, over gRPC.
//!
//! Callers do not say who they are: virtual kubelets and command lines of other versions cannot. What
//! they can do is bounded by the ledger, and the chart lets only virtual kubelets reach the port.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use liqo_api::names::ClusterId;
use liqo_ipam::Refusal;
use liqo_kit::keyed::chain;
use liqo_wire::ipam::ipam_server::Ipam;
use liqo_wire::ipam::{
    BelongsRequest, BelongsResponse, GetHomePodIpRequest, GetHomePodIpResponse, MapRequest,
    MapResponse, UnmapRequest, UnmapResponse,
};
use tonic::{Request, Response, Status};
use tracing::debug;

use crate::book::Book;

/// Answers from the ledger.
pub struct Desk {
    book: Arc<Book>,
}

impl Desk {
    /// Answers from this ledger.
    pub fn new(book: Arc<Book>) -> Self {
        Self { book }
    }
}

#[tonic::async_trait]
impl Ipam for Desk {
    async fn map_endpoint_ip(
        &self,
        request: Request<MapRequest>,
    ) -> Result<Response<MapResponse>, Status> {
        let MapRequest { cluster_id, ip } = request.into_inner();
        let (peer, address) = (peer(&cluster_id)?, address(&ip)?);
        let called = self.book.change(&peer, |ledger| ledger.map_endpoint(&peer, address)).await;
        let called = called.map_err(|error| refuse(&error))?;
        debug!(cluster = %peer, %address, %called, "Mapped");
        Ok(Response::new(MapResponse { ip: called.to_string() }))
    }

    async fn unmap_endpoint_ip(
        &self,
        request: Request<UnmapRequest>,
    ) -> Result<Response<UnmapResponse>, Status> {
        let UnmapRequest { cluster_id, ip } = request.into_inner();
        let (peer, address) = (peer(&cluster_id)?, address(&ip)?);
        let done = self.book.change(&peer, |ledger| ledger.unmap_endpoint(&peer, address)).await;
        done.map_err(|error| refuse(&error))?;
        debug!(cluster = %peer, %address, "Not mapped any more");
        Ok(Response::new(UnmapResponse {}))
    }

    async fn get_home_pod_ip(
        &self,
        request: Request<GetHomePodIpRequest>,
    ) -> Result<Response<GetHomePodIpResponse>, Status> {
        let GetHomePodIpRequest { cluster_id, ip } = request.into_inner();
        let (peer, address) = (peer(&cluster_id)?, address(&ip)?);
        let called = self.book.ledger().home_pod(&peer, address).map_err(|error| refuse(&error))?;
        Ok(Response::new(GetHomePodIpResponse { home_ip: called.to_string() }))
    }

    async fn belongs_to_pod_cidr(
        &self,
        request: Request<BelongsRequest>,
    ) -> Result<Response<BelongsResponse>, Status> {
        let address = address(&request.into_inner().ip)?;
        let belongs = self.book.ledger().is_own_pod(address);
        Ok(Response::new(BelongsResponse { belongs }))
    }
}

fn peer(text: &str) -> Result<ClusterId, Status> {
    text.parse().map_err(|error| refuse(&error))
}

fn address(text: &str) -> Result<Ipv4Addr, Status> {
    match text.parse() {
        Ok(IpAddr::V4(address)) => Ok(address),
        Ok(other @ IpAddr::V6(_)) => Err(refuse(&Refusal::WrongFamily(other))),
        Err(_) => Err(Status::unknown(format!("'{text}' is not an IPv4 address"))),
    }
}

/// Callers of all versions expect this code, and look at the text.
fn refuse(error: &dyn std::error::Error) -> Status {
    Status::unknown(chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        let text = |text: &str| address(text).unwrap_err().message().to_owned();
        assert_eq!(text("here"), "'here' is not an IPv4 address");
        assert!(text("fd00::1").contains("over IPv4 only"));
        assert_eq!(address("10.0.0.1").unwrap(), Ipv4Addr::new(10, 0, 0, 1));
    }

    #[test]
    fn who_is_not_initialized_is_told_in_the_words_that_callers_look_for() {
        let peer = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174".parse().unwrap();
        let status = refuse(&Refusal::NotInitialized(peer));
        assert_eq!(status.code(), tonic::Code::Unknown);
        assert!(status.message().contains("must be initialized first"));
    }
}
