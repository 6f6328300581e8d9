//! Objects in words, for the tests of this crate.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::Time;
use liqo_api::discovery::{
    ClusterIdentity, ForeignCluster, ForeignClusterSpec, OfferState, PeeringCondition,
    PeeringConditionStatus, PeeringConditionType, PeeringEnabled, ResourceRequest,
    ResourceRequestSpec, ResourceRequestStatus,
};
use liqo_api::keys::label;
use liqo_api::names::Cluster;
use liqo_api::sharing::{
    OfferPhase, ResourceOffer, ResourceOfferSpec, ResourceOfferStatus, VirtualKubeletStatus,
};

pub const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
pub const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

pub fn cluster(id: &str, name: &str) -> Cluster {
    Cluster { id: id.parse().unwrap(), name: name.parse().unwrap() }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

pub fn time(second: i64) -> Time {
    Time(at(second))
}

pub fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        uid: Some(format!("uid-of-{name}")),
        ..ObjectMeta::default()
    }
}

pub fn condition(kind: PeeringConditionType, status: PeeringConditionStatus) -> PeeringCondition {
    PeeringCondition::new(kind, status, "Reason", "message", time(0))
}

/// The ForeignCluster of milan, as its users leave it.
pub fn foreign(outgoing: PeeringEnabled) -> ForeignCluster {
    let spec = ForeignClusterSpec {
        cluster_identity: Some(ClusterIdentity::from(&cluster(MILAN, "milan"))),
        outgoing_peering_enabled: outgoing,
        ..ForeignClusterSpec::reached_at("https://milan.example")
    };
    let mut metadata = metadata("milan");
    metadata.labels = Some([(label::CLUSTER_ID.to_owned(), MILAN.to_owned())].into());
    ForeignCluster { metadata, spec, status: None }
}

/// A request of rome.
pub fn request(state: OfferState) -> ResourceRequest {
    let spec = ResourceRequestSpec {
        cluster_identity: ClusterIdentity::from(&cluster(ROME, "rome")),
        auth_url: "https://rome.example".to_owned(),
        withdrawal_timestamp: None,
    };
    let status = ResourceRequestStatus { offer_state: state, offer_withdrawal_timestamp: None };
    ResourceRequest { metadata: metadata("rome"), spec, status: Some(status) }
}

/// An offer of milan.
pub fn offer(name: &str) -> ResourceOffer {
    let spec = ResourceOfferSpec { cluster_id: MILAN.to_owned(), ..ResourceOfferSpec::default() };
    ResourceOffer { metadata: metadata(name), spec, status: None }
}

/// The same, with a virtual kubelet in some state.
pub fn accepted(kubelet: VirtualKubeletStatus) -> ResourceOffer {
    let status =
        ResourceOfferStatus { phase: OfferPhase::Accepted, virtual_kubelet_status: kubelet };
    ResourceOffer { status: Some(status), ..offer("milan") }
}
