//! What to do about a ForeignCluster: whether objects are copied, and when it may go.
//!
//! ```text
//!            phase is not None                   deletion asked for
//!  (ignored) ─────────────────> held, copied ──────────────────────> leaving
//!                                                                       │ nothing is held any more,
//!                                                                       │ or the peer is out of reach
//!                                                                       v for too long
//!                                                                    released
//! ```

use jiff::{SignedDuration, Timestamp};
use liqo_api::discovery::{
    ForeignCluster, PeeringConditionStatus, PeeringConditionType, PeeringType, Phase,
};
use liqo_api::keys::finalizer;
use liqo_api::names::ClusterId;

use crate::kind::Kind;
use crate::plan::Stance;

/// What copying needs to know of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer.
    pub id: ClusterId,
    /// The namespace that is kept for it here.
    pub local: String,
    /// The namespace that it keeps for us.
    pub remote: String,
    /// How far the relation has come.
    pub phase: Phase,
    /// How the control planes reach each other.
    pub peering: PeeringType,
    /// Whether the peer is being left.
    pub leaving: bool,
    /// Whether its API server is known not to answer.
    pub is_silent: bool,
    /// Since when.
    pub silent_since: Option<Timestamp>,
}

impl Peer {
    /// What copying needs to know; none while something is unknown.
    pub fn of(cluster: &ForeignCluster) -> Option<Self> {
        let id = cluster.spec.cluster_identity.as_ref()?.cluster_id.parse().ok()?;
        let status = cluster.status.as_ref()?;
        let phase = cluster.phase();
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let silence = status.peering_conditions.iter().find(|condition| {
            condition.kind == PeeringConditionType::ApiServerStatus
                && condition.status == PeeringConditionStatus::Error
        });
        let since = silence.and_then(|silence| silence.last_transition_time.as_ref());
        Some(Self {
            id,
            local: named(&status.tenant_namespace.local)?,
            remote: named(&status.tenant_namespace.remote)?,
            phase,
            peering: cluster.spec.peering_type,
            // As long as somebody offloads, taking that back needs the copies.
            leaving: is_ending(cluster) && !phase.is_incoming() && !phase.is_outgoing(),
            is_silent: silence.is_some(),
            silent_since: since.map(|since| since.0),
        })
    }

    /// Whether it has been silent for too long to be waited for.
    pub fn is_given_up(&self, patience: SignedDuration, now: Timestamp) -> bool {
        self.is_silent
            && self.silent_since.is_none_or(|since| now.duration_since(since) >= patience)
    }

    /// How a kind stands with this peer.
    pub fn stance(&self, kind: Kind) -> Stance {
        if kind == Kind::NetworkConfig && self.peering == PeeringType::InBand {
            // Its end would cut the way by which everything else is taken back.
            Stance::Aside
        } else if self.leaving {
            Stance::Leave
        } else if kind.is_copied(self.phase, self.peering) {
            Stance::Copy
        } else {
            Stance::KeepUp
        }
    }
}

/// What to do about a ForeignCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is copied.
    Ignore,
    /// Put the finalizer on it first if it has none; then copy.
    Copy {
        /// Whether the finalizer is missing.
        hold: bool,
    },
    /// Go on until nothing is held any more.
    Leave,
    /// See whether the peer is within reach; if not, let everything go.
    LeaveUnlessSilent,
    /// Take the finalizer off.
    Release,
}

/// Decides what to do about a ForeignCluster, of which so many sources are still held.
///
/// `patience` is how long one that is to go waits for a peer that is out of reach.
pub fn decide(
    cluster: &ForeignCluster,
    held: usize,
    patience: SignedDuration,
    now: Timestamp,
) -> Decision {
    let is_held = is_held(cluster);
    let Some(end) = &cluster.metadata.deletion_timestamp else {
        let copies = is_held || cluster.phase() != Phase::None;
        return if copies { Decision::Copy { hold: !is_held } } else { Decision::Ignore };
    };
    let waited = now.duration_since(end.0);
    if !is_held {
        Decision::Ignore
    } else if held == 0 {
        Decision::Release
    } else if waited >= patience {
        Decision::LeaveUnlessSilent
    } else {
        Decision::Leave
    }
}

/// Whether it waits for us before it goes.
pub fn is_held(cluster: &ForeignCluster) -> bool {
    let finalizers = cluster.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|name| name == finalizer::CRD_REPLICATOR)
}

/// Whether somebody has asked for its end.
pub fn is_ending(cluster: &ForeignCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use liqo_api::discovery::{
        ClusterIdentity, ForeignClusterSpec, ForeignClusterStatus, PeeringCondition,
        TenantNamespaces,
    };

    use super::*;

    const MINUTE: SignedDuration = SignedDuration::from_mins(1);
    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    #[test]
    fn a_peer_is_known_once_both_namespaces_are() {
        let mut cluster = milan();
        let peer = Peer::of(&cluster).unwrap();
        assert_eq!((peer.local.as_str(), peer.remote.as_str()), ("here", "there"));
        assert_eq!(peer.phase, Phase::Authenticated);
        cluster.status.as_mut().unwrap().tenant_namespace.remote = None;
        assert_eq!(Peer::of(&cluster), None);
    }

    #[test]
    fn copying_begins_with_authentication_and_holds_the_cluster() {
        let mut cluster = milan();
        assert_eq!(decide(&cluster, 0, MINUTE, at(0)), Decision::Copy { hold: true });
        hold(&mut cluster);
        assert_eq!(decide(&cluster, 3, MINUTE, at(0)), Decision::Copy { hold: false });
        cluster.status = None;
        assert_eq!(decide(&cluster, 3, MINUTE, at(0)), Decision::Copy { hold: false });
        cluster.metadata.finalizers = None;
        assert_eq!(decide(&cluster, 0, MINUTE, at(0)), Decision::Ignore);
    }

    #[test]
    fn a_cluster_goes_once_nothing_is_held() {
        let mut cluster = milan();
        hold(&mut cluster);
        cluster.metadata.deletion_timestamp = Some(Time(at(100)));
        assert_eq!(decide(&cluster, 1, MINUTE, at(159)), Decision::Leave);
        assert_eq!(decide(&cluster, 1, MINUTE, at(160)), Decision::LeaveUnlessSilent);
        assert_eq!(decide(&cluster, 0, MINUTE, at(100)), Decision::Release);
        cluster.metadata.finalizers = None;
        assert_eq!(decide(&cluster, 1, MINUTE, at(100)), Decision::Ignore);
    }

    #[test]
    fn a_peering_is_taken_back_before_the_peer_is_left() {
        let mut cluster = milan();
        cluster.metadata.deletion_timestamp = Some(Time(at(100)));
        assert_eq!(Peer::of(&cluster).unwrap().stance(Kind::NetworkConfig), Stance::Leave);
        set(
            &mut cluster,
            PeeringConditionType::OutgoingPeering,
            PeeringConditionStatus::Disconnecting,
        );
        let peer = Peer::of(&cluster).unwrap();
        assert_eq!(peer.stance(Kind::NetworkConfig), Stance::Copy);
        assert_eq!(peer.stance(Kind::ResourceOffer), Stance::KeepUp);
        cluster.spec.peering_type = PeeringType::InBand;
        assert_eq!(Peer::of(&cluster).unwrap().stance(Kind::NetworkConfig), Stance::Aside);
    }

    #[test]
    fn silence_is_what_the_probe_says() {
        let mut cluster = milan();
        assert!(!Peer::of(&cluster).unwrap().is_silent);
        set(&mut cluster, PeeringConditionType::ApiServerStatus, PeeringConditionStatus::Error);
        let peer = Peer::of(&cluster).unwrap();
        assert!(peer.is_silent);
        let since = peer.silent_since.unwrap();
        assert!(!peer.is_given_up(MINUTE, since + SignedDuration::from_secs(59)));
        assert!(peer.is_given_up(MINUTE, since + MINUTE));
    }

    fn milan() -> ForeignCluster {
        let mut spec = ForeignClusterSpec::reached_at("https://milan.it");
        spec.cluster_identity = Some(ClusterIdentity {
            cluster_id: MILAN.to_owned(),
            cluster_name: "milan".to_owned(),
        });
        let tenant_namespace =
            TenantNamespaces { local: Some("here".to_owned()), remote: Some("there".to_owned()) };
        let status = ForeignClusterStatus { tenant_namespace, ..ForeignClusterStatus::default() };
        let mut cluster = ForeignCluster::new("milan", spec);
        cluster.status = Some(status);
        set(
            &mut cluster,
            PeeringConditionType::AuthenticationStatus,
            PeeringConditionStatus::Established,
        );
        cluster
    }

    fn set(
        cluster: &mut ForeignCluster,
        kind: PeeringConditionType,
        status: PeeringConditionStatus,
    ) {
        let condition = PeeringCondition::new(kind, status, "Because", "of that", Time(at(0)));
        liqo_api::condition::set(
            &mut cluster.status.as_mut().unwrap().peering_conditions,
            condition,
        );
    }

    fn hold(cluster: &mut ForeignCluster) {
        cluster.metadata.finalizers = Some(vec![finalizer::CRD_REPLICATOR.to_owned()]);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
