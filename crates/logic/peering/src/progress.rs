//! How far a peering has come, for whoever waits for it.

use k8s_openapi::api::core::v1::Node;
use liqo_api::Time;
use liqo_api::discovery::{
    ForeignCluster, PeeringCondition, PeeringConditionStatus as Status,
    PeeringConditionType as Kind, PeeringType,
};
use liqo_api::keys::reason;

/// What a cluster that wants resources of another one goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is given an identity.
    Authentication,
    /// It is offered resources, and a virtual kubelet starts.
    Resources,
    /// The networks are connected.
    Network,
    /// The virtual node is ready.
    Node,
}

/// The phases in the order in which they come: what is talked through has to be there first.
pub fn order(peering: PeeringType) -> [Phase; 4] {
    match peering {
        PeeringType::OutOfBand => {
            [Phase::Authentication, Phase::Resources, Phase::Network, Phase::Node]
        }
        PeeringType::InBand => {
            [Phase::Network, Phase::Authentication, Phase::Resources, Phase::Node]
        }
    }
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is in a phase; what is known of why it takes time.
    Waiting(Phase, Option<String>),
    /// It was refused, and waiting does not help.
    Refused(String),
    /// It goes on as soon as somebody changes something here, and not before.
    Held(String),
    /// The cluster can be used.
    Done,
}

/// How far a peering has come that was asked for at some time.
///
/// A refusal from before that time may be about what was asked for then, so it only counts when
/// `patient` is over.
pub fn of(foreign: &ForeignCluster, node: Option<&Node>, asked: &Time, patient: bool) -> Progress {
    let status = foreign.status.as_ref();
    let conditions = status.map(|status| &*status.peering_conditions).unwrap_or_default();
    let find =
        |kind| conditions.iter().find(|condition: &&PeeringCondition| condition.kind == kind);
    let counts = |condition: &PeeringCondition| {
        !patient || condition.last_transition_time.as_ref().is_none_or(|time| time >= asked)
    };
    let why = |kind| {
        let condition: Option<&PeeringCondition> = find(kind);
        condition.and_then(|condition| condition.message.clone()).filter(|text| !text.is_empty())
    };
    if let Some(condition) = find(Kind::ProcessForeignClusterStatus)
        && condition.status == Status::Error
        && counts(condition)
    {
        return Progress::Refused(condition.message.clone().unwrap_or_default());
    }
    if let Some(condition) = find(Kind::NetworkStatus)
        && condition.reason.as_deref() == Some(reason::NETWORK_CONFIG_REFUSED)
        && counts(condition)
    {
        return Progress::Held(condition.message.clone().unwrap_or_default());
    }
    let is =
        |kind, wanted: &[Status]| find(kind).is_some_and(|found| wanted.contains(&found.status));
    for phase in order(foreign.spec.peering_type) {
        let aspect = match phase {
            Phase::Authentication if is(Kind::AuthenticationStatus, &[Status::Established]) => {
                continue;
            }
            Phase::Authentication => {
                let denied = is(Kind::AuthenticationStatus, &[Status::Denied, Status::EmptyDenied]);
                let found = find(Kind::AuthenticationStatus);
                if let Some(found) = found.filter(|found| denied && counts(found)) {
                    return Progress::Refused(found.message.clone().unwrap_or_default());
                }
                Kind::AuthenticationStatus
            }
            Phase::Resources if is(Kind::OutgoingPeering, &[Status::Established]) => continue,
            Phase::Resources => Kind::OutgoingPeering,
            Phase::Network if is(Kind::NetworkStatus, &[Status::Established, Status::External]) => {
                continue;
            }
            Phase::Network => Kind::NetworkStatus,
            Phase::Node => break,
        };
        return Progress::Waiting(phase, why(aspect));
    }
    let ready = node.and_then(|node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == "Ready")
    });
    match ready {
        Some(condition) if condition.status == "True" => Progress::Done,
        condition => {
            Progress::Waiting(Phase::Node, condition.and_then(|found| found.message.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use liqo_api::discovery::{ForeignClusterStatus, PeeringEnabled};

    use super::*;
    use crate::fixtures::{condition, foreign, time};

    #[test]
    fn phases_come_in_order() {
        let phase = |conditions: &[(Kind, Status)]| of(&with(conditions), None, &time(1), true);
        let auth = (Kind::AuthenticationStatus, Status::Established);
        let offer = (Kind::OutgoingPeering, Status::Established);
        let network = (Kind::NetworkStatus, Status::External);
        assert!(matches!(phase(&[]), Progress::Waiting(Phase::Authentication, _)));
        assert!(matches!(phase(&[auth]), Progress::Waiting(Phase::Resources, _)));
        assert!(matches!(phase(&[auth, offer]), Progress::Waiting(Phase::Network, _)));
        assert!(matches!(phase(&[auth, offer, network]), Progress::Waiting(Phase::Node, _)));
        let node = serde_json::json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let node: Node = serde_json::from_value(node).unwrap();
        let foreign = with(&[auth, offer, network]);
        assert_eq!(of(&foreign, Some(&node), &time(1), true), Progress::Done);
    }

    #[test]
    fn behind_a_tunnel_the_network_comes_first() {
        let auth = (Kind::AuthenticationStatus, Status::Established);
        let network = (Kind::NetworkStatus, Status::Established);
        let phase = |conditions: &[(Kind, Status)]| {
            let mut foreign = with(conditions);
            foreign.spec.peering_type = PeeringType::InBand;
            of(&foreign, None, &time(1), true)
        };
        assert!(matches!(phase(&[auth]), Progress::Waiting(Phase::Network, _)));
        assert!(matches!(phase(&[network]), Progress::Waiting(Phase::Authentication, _)));
        assert!(matches!(phase(&[network, auth]), Progress::Waiting(Phase::Resources, _)));
    }

    #[test]
    fn a_refusal_from_before_is_given_the_benefit_of_the_doubt_for_a_while() {
        let mut foreign = with(&[(Kind::AuthenticationStatus, Status::Denied)]);
        let at = |foreign: &mut ForeignCluster, second| {
            let status = foreign.status.as_mut().unwrap();
            status.peering_conditions[0].last_transition_time = Some(time(second));
        };
        at(&mut foreign, 5);
        assert!(matches!(of(&foreign, None, &time(9), true), Progress::Waiting(..)));
        assert!(matches!(of(&foreign, None, &time(9), false), Progress::Refused(_)));
        at(&mut foreign, 9);
        assert!(matches!(of(&foreign, None, &time(9), true), Progress::Refused(_)));
    }

    #[test]
    fn a_network_that_is_refused_holds_everything_until_somebody_acts() {
        let mut foreign = with(&[(Kind::NetworkStatus, Status::Error)]);
        let condition = &mut foreign.status.as_mut().unwrap().peering_conditions[0];
        condition.message = Some("no pool has room".to_owned());
        assert!(matches!(of(&foreign, None, &time(0), true), Progress::Waiting(..)));
        let condition = &mut foreign.status.as_mut().unwrap().peering_conditions[0];
        condition.reason = Some(reason::NETWORK_CONFIG_REFUSED.to_owned());
        let held = Progress::Held("no pool has room".to_owned());
        assert_eq!(of(&foreign, None, &time(0), true), held);
        // It may have been about what the other cluster said before.
        assert!(matches!(of(&foreign, None, &time(9), true), Progress::Waiting(..)));
        assert_eq!(of(&foreign, None, &time(9), false), held);
    }

    fn with(conditions: &[(Kind, Status)]) -> ForeignCluster {
        let mut foreign = foreign(PeeringEnabled::Yes);
        let conditions = conditions.iter().map(|(kind, status)| condition(*kind, *status));
        foreign.status = Some(ForeignClusterStatus {
            peering_conditions: conditions.collect(),
            ..ForeignClusterStatus::default()
        });
        foreign
    }
}
