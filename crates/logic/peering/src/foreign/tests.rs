//! What is done about ForeignClusters.

use liqo_api::discovery::OfferState;
use liqo_api::net::{Connection, ConnectionStatus, TunnelEndpointSpec, TunnelEndpointStatus};
use liqo_api::sharing::VirtualKubeletStatus;
use proptest::prelude::*;

use super::*;
use crate::fixtures::{
    MILAN, ROME, accepted, at, cluster, condition as fixed, foreign, offer, request, time,
};

const TENANT: &str = "liqo-tenant-milan-ee0b4a";
const FAR: Identity<'static> =
    Identity::Usable { namespace: "liqo-tenant-rome-2f55ef", renewal: Some(DAY) };
const DAY: SignedDuration = SignedDuration::from_hours(24);

#[test]
fn a_cluster_of_which_only_the_address_is_known_is_asked() {
    let mut fresh = foreign(PeeringEnabled::Yes);
    fresh.spec.cluster_identity = None;
    assert_eq!(decided(&World::of(&fresh)).actions, [Action::Learn]);
    let attempt = Attempt::Unreachable("connection refused".to_owned());
    let decision = decided(&World { attempt: Some(&attempt), ..World::of(&fresh) });
    assert_eq!(decision.actions, []);
    assert_eq!(
        says(&decision, Kind::AuthenticationStatus),
        (Status::Error, reason::AUTH_NOT_REACHABLE)
    );
}

#[test]
fn a_cluster_does_not_peer_with_itself() {
    let mut own = foreign(PeeringEnabled::Yes);
    own.spec.cluster_identity = Some((&cluster(ROME, "rome")).into());
    let decision = decided(&World::of(&own));
    assert_eq!(
        says(&decision, Kind::ProcessForeignClusterStatus),
        (Status::Error, reason::LOCAL_CLUSTER)
    );
    assert_eq!(decision.actions, []);
}

#[test]
fn the_network_is_as_its_tunnel_says_unless_it_is_refused() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    let network = |world: &World<'_>| {
        let decision = decided(world);
        let (status, reason) = says(&decision, Kind::NetworkStatus);
        (status, reason.to_owned())
    };
    let found = |status, reason: &str| (status, reason.to_owned());
    let none = found(Status::None, reason::TUNNEL_ENDPOINT_NOT_FOUND);
    assert_eq!(network(&World::authenticated(&foreign)), none);
    let mut tunnel = tunnel();
    let refused =
        World { tunnel: Some(&tunnel), refusal: Some("no room"), ..World::authenticated(&foreign) };
    let decision = decided(&refused);
    let want = "The networks are not connected: no room";
    assert_eq!(message(&decision, Kind::NetworkStatus), want);
    assert_eq!(network(&refused), found(Status::Error, reason::NETWORK_CONFIG_REFUSED));
    // The gateway has not looked at the tunnel yet, and nothing is refused any more.
    foreign.status = Some(decision.status);
    let begun = World { tunnel: Some(&tunnel), ..World::authenticated(&foreign) };
    assert_eq!(network(&begun), found(Status::Pending, reason::TUNNEL_ENDPOINT_CONNECTING));
    for (connection, want) in [
        (ConnectionStatus::Connecting, found(Status::Pending, reason::TUNNEL_ENDPOINT_CONNECTING)),
        (
            ConnectionStatus::Connected,
            found(Status::Established, reason::TUNNEL_ENDPOINT_AVAILABLE),
        ),
        (ConnectionStatus::Error, found(Status::Error, reason::TUNNEL_ENDPOINT_ERROR)),
    ] {
        let connection = Connection { status: Some(connection), ..Connection::default() };
        tunnel.status =
            Some(TunnelEndpointStatus { connection: Some(connection), ..Default::default() });
        let world = World { tunnel: Some(&tunnel), ..World::authenticated(&foreign) };
        assert_eq!(network(&world), want);
    }
}

fn tunnel() -> TunnelEndpoint {
    let text = || String::from("None");
    let spec = TunnelEndpointSpec {
        cluster_identity: (&cluster(MILAN, "milan")).into(),
        local_pod_cidr: "10.200.0.0/16".to_owned(),
        local_nat_pod_cidr: text(),
        local_external_cidr: "10.95.0.0/16".to_owned(),
        local_nat_external_cidr: text(),
        remote_pod_cidr: "10.201.0.0/16".to_owned(),
        remote_nat_pod_cidr: text(),
        remote_external_cidr: "10.94.0.0/16".to_owned(),
        remote_nat_external_cidr: text(),
        endpoint_ip: "172.30.0.3".to_owned(),
        backend_type: "wireguard".to_owned(),
        backend_config: std::collections::BTreeMap::new(),
    };
    TunnelEndpoint::new("milan-ee0b4a", spec)
}

#[test]
fn the_oldest_of_two_is_meant() {
    let foreign = foreign(PeeringEnabled::Yes);
    let decision = decided(&World { elder: Some("first"), ..World::of(&foreign) });
    assert_eq!(
        says(&decision, Kind::ProcessForeignClusterStatus),
        (Status::Error, reason::CLUSTER_ID_REPETITION)
    );
}

#[test]
fn a_proxy_must_be_a_url() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    for (url, is_fine) in
        [("http://10.0.0.1:8118", true), ("", true), ("proxy", false), ("http://", false)]
    {
        foreign.spec.foreign_proxy_url = Some(url.to_owned());
        let decision = decided(&World::of(&foreign));
        let status = says(&decision, Kind::ProcessForeignClusterStatus).0;
        assert_eq!(status == Status::Success, is_fine, "{url}");
    }
}

#[test]
fn a_refusal_or_a_mistake_leaves_nothing_behind_and_says_why() {
    let foreign = foreign(PeeringEnabled::Yes);
    let refused = |had_token| Attempt::Refused { had_token };
    for (attempt, expected) in [
        (refused(true), (Status::Denied, reason::IDENTITY_DENIED)),
        (refused(false), (Status::EmptyDenied, reason::IDENTITY_EMPTY_DENIED)),
        (Attempt::Mistaken("a printer".to_owned()), (Status::Denied, reason::IDENTITY_DENIED)),
    ] {
        let decision = decided(&World { attempt: Some(&attempt), ..World::of(&foreign) });
        assert_eq!(says(&decision, Kind::AuthenticationStatus), expected);
        assert_eq!(decision.actions, [], "no namespace, no request, no grant");
        assert_eq!(decision.status.tenant_namespace.local, None);
    }
}

#[test]
fn conditions_come_in_the_order_users_know() {
    let foreign = foreign(PeeringEnabled::Yes);
    let decision = decided(&World::authenticated(&foreign));
    let kinds: Vec<_> =
        decision.status.peering_conditions.iter().map(|condition| condition.kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::ProcessForeignClusterStatus,
            Kind::NetworkStatus,
            Kind::AuthenticationStatus,
            Kind::OutgoingPeering,
            Kind::IncomingPeering,
        ]
    );
}

#[test]
fn who_is_accepted_asks_for_resources_once_the_answer_would_be_allowed() {
    let foreign = foreign(PeeringEnabled::Yes);
    let decision = decided(&World::authenticated(&foreign));
    let [
        Action::Bind(Grant::Basic),
        Action::Unbind(Grant::Incoming),
        Action::Bind(Grant::Outgoing),
        Action::Hold,
        Action::Request(request),
    ] = decision.actions.as_slice()
    else {
        panic!("{:?}", decision.actions);
    };
    assert_eq!(request.metadata.namespace.as_deref(), Some(TENANT));
    assert_eq!(request.metadata.name.as_deref(), Some("rome"));
    assert_eq!(request.spec.auth_url, "https://rome.example");
    assert_eq!(request.labels()["liqo.io/remoteID"], MILAN);
    assert_eq!(
        says(&decision, Kind::OutgoingPeering),
        (Status::Pending, reason::RESOURCE_REQUEST_PENDING)
    );
    assert_eq!(decision.status.tenant_namespace.remote.as_deref(), Some("liqo-tenant-rome-2f55ef"));
}

#[test]
fn only_neighbours_are_joined_without_being_told() {
    let mut foreign = foreign(PeeringEnabled::Auto);
    let asks = |foreign: &ForeignCluster| {
        let actions = decided(&World::authenticated(foreign)).actions;
        actions.iter().any(|action| matches!(action, Action::Request(_)))
    };
    assert!(!asks(&foreign));
    let kind = (label::DISCOVERY_TYPE.to_owned(), label::DISCOVERY_LAN.to_owned());
    foreign.labels_mut().extend([kind]);
    assert!(asks(&foreign));
}

#[test]
fn a_cluster_that_could_not_answer_is_not_asked() {
    let foreign = foreign(PeeringEnabled::Yes);
    let world = World {
        auth_url: Err("the load balancer has no address"),
        ..World::authenticated(&foreign)
    };
    let decision = decided(&world);
    assert_eq!(says(&decision, Kind::OutgoingPeering).0, Status::None);
    let message = message(&decision, Kind::OutgoingPeering);
    assert!(message.contains("the load balancer has no address"), "{message}");
}

#[test]
fn behind_a_tunnel_nobody_has_to_be_reached_from_outside() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    foreign.spec.peering_type = PeeringType::InBand;
    let world = World { auth_url: Err("it is inside"), ..World::authenticated(&foreign) };
    let decision = decided(&world);
    let asks = |action: &Action| matches!(action, Action::Request(_));
    assert!(decision.actions.iter().any(asks), "{:?}", decision.actions);
}

#[test]
fn a_cluster_behind_a_tunnel_is_asked_for_an_identity_once_there_is_one() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    foreign.spec.peering_type = PeeringType::InBand;
    let mut tunnel = tunnel();
    let asks = |tunnel: &TunnelEndpoint| {
        let world = World { tenant: Some(TENANT), tunnel: Some(tunnel), ..World::of(&foreign) };
        let decision = decided(&world);
        assert_eq!(decision.status.tenant_namespace.local.as_deref(), Some(TENANT));
        decision.actions.contains(&Action::Authenticate)
    };
    let mut is = |status| {
        let connection = Connection { status: Some(status), ..Connection::default() };
        let status = TunnelEndpointStatus { connection: Some(connection), ..Default::default() };
        tunnel.status = Some(status);
        asks(&tunnel)
    };
    assert!(!is(ConnectionStatus::Connecting));
    assert!(is(ConnectionStatus::Connected));
}

#[test]
fn the_outgoing_side_follows_request_and_offer() {
    let foreign = foreign(PeeringEnabled::Yes);
    let (waiting, answered) = (request(OfferState::None), request(OfferState::Created));
    let (new, used) = (offer("milan"), accepted(VirtualKubeletStatus::Created));
    for (request, offer, expected) in [
        (&waiting, None, (Status::Pending, reason::RESOURCE_REQUEST_PENDING)),
        (&answered, None, (Status::Pending, reason::RESOURCE_REQUEST_PENDING)),
        (&answered, Some(&new), (Status::Pending, reason::KUBELET_PENDING)),
        (&answered, Some(&used), (Status::Established, reason::RESOURCE_REQUEST_ACCEPTED)),
    ] {
        let outgoing = Exchange { request: Some(request), offer };
        let decision = decided(&World { outgoing, ..World::authenticated(&foreign) });
        assert_eq!(says(&decision, Kind::OutgoingPeering), expected);
    }
}

#[test]
fn an_identity_that_is_lost_takes_nothing_back() {
    let foreign = foreign(PeeringEnabled::Yes);
    let (answered, used) = (request(OfferState::Created), accepted(VirtualKubeletStatus::Created));
    let outgoing = Exchange { request: Some(&answered), offer: Some(&used) };
    let attempt = Attempt::Unreachable("it does not answer".to_owned());
    let lost = World {
        attempt: Some(&attempt),
        identity: Identity::Missing,
        outgoing,
        ..World::authenticated(&foreign)
    };
    let decision = decided(&lost);
    assert_eq!(requests(&decision), [] as [&ResourceRequest; 0]);
    assert_eq!(says(&decision, Kind::OutgoingPeering).0, Status::Established);
}

#[test]
fn unpeering_withdraws_waits_and_deletes() {
    let foreign = foreign(PeeringEnabled::No);
    let mut request = request(OfferState::Created);
    let used = accepted(VirtualKubeletStatus::Created);
    let step = |request: &ResourceRequest, offer, now| {
        let outgoing = Exchange { request: Some(request), offer };
        decided(&World { outgoing, now, ..World::authenticated(&foreign) })
    };
    let decision = step(&request, Some(&used), 0);
    let withdrawn = requests(&decision)[0];
    assert_eq!(withdrawn.spec.withdrawal_timestamp, Some(time(0)));
    assert_eq!(says(&decision, Kind::OutgoingPeering).0, Status::Disconnecting);

    request.spec.withdrawal_timestamp = Some(time(0));
    let decision = step(&request, Some(&used), 5);
    assert_eq!(requests(&decision), [] as [&ResourceRequest; 0], "nothing more to write");
    assert!(decision.again.is_some());

    request.status.as_mut().unwrap().offer_withdrawal_timestamp = Some(time(6));
    let decision = step(&request, None, 7);
    assert!(decision.actions.contains(&Action::DeleteRequest));
    assert_eq!(says(&decision, Kind::OutgoingPeering).0, Status::None);
    assert!(decision.actions.contains(&Action::Unbind(Grant::Outgoing)));
}

#[test]
fn peering_again_takes_the_withdrawal_back() {
    let foreign = foreign(PeeringEnabled::Yes);
    let mut request = request(OfferState::Created);
    request.spec.withdrawal_timestamp = Some(time(0));
    let used = accepted(VirtualKubeletStatus::Created);
    let outgoing = Exchange { request: Some(&request), offer: Some(&used) };
    let decision = decided(&World { outgoing, ..World::authenticated(&foreign) });
    assert_eq!(requests(&decision)[0].spec.withdrawal_timestamp, None);
    assert_eq!(says(&decision, Kind::OutgoingPeering).0, Status::Established);
}

#[test]
fn a_provider_that_never_offered_anything_does_not_hold_up_unpeering() {
    let foreign = foreign(PeeringEnabled::No);
    let mut request = request(OfferState::None);
    request.spec.withdrawal_timestamp = Some(time(0));
    let outgoing = Exchange { request: Some(&request), offer: None };
    let at_once = decided(&World { outgoing, now: 1, ..World::authenticated(&foreign) });
    assert_eq!(at_once.again, Some(SignedDuration::from_secs(9)));
    let soon = decided(&World { outgoing, now: 10, ..World::authenticated(&foreign) });
    assert!(soon.actions.contains(&Action::DeleteRequest));
}

#[test]
fn a_provider_that_is_gone_does_not_hold_up_unpeering() {
    let foreign = foreign(PeeringEnabled::No);
    let mut request = request(OfferState::Created);
    request.spec.withdrawal_timestamp = Some(time(0));
    let used = accepted(VirtualKubeletStatus::Created);
    let outgoing = Exchange { request: Some(&request), offer: Some(&used) };
    let early = decided(&World { outgoing, now: 59, ..World::authenticated(&foreign) });
    assert!(!early.actions.contains(&Action::DeleteOffer));
    let late = decided(&World { outgoing, now: 60, ..World::authenticated(&foreign) });
    assert!(late.actions.contains(&Action::DeleteOffer));
    assert!(late.actions.iter().any(|action| matches!(action, Action::TellNotCleaned(_))));

    // Once the offer is gone, so is the request.
    let outgoing = Exchange { request: Some(&request), offer: None };
    let last = decided(&World { outgoing, now: 61, ..World::authenticated(&foreign) });
    assert!(last.actions.contains(&Action::DeleteRequest));
}

#[test]
fn a_provider_that_answers_may_take_its_time() {
    let mut foreign = foreign(PeeringEnabled::No);
    let answers = fixed(Kind::ApiServerStatus, Status::Established);
    foreign.status.get_or_insert_default().peering_conditions.push(answers);
    let mut request = request(OfferState::Created);
    request.spec.withdrawal_timestamp = Some(time(0));
    let used = accepted(VirtualKubeletStatus::Deleting);
    let outgoing = Exchange { request: Some(&request), offer: Some(&used) };
    let late = decided(&World { outgoing, now: 600, ..World::authenticated(&foreign) });
    assert!(!late.actions.contains(&Action::DeleteOffer));
}

#[test]
fn the_end_of_a_foreign_cluster_is_orderly_but_bounded() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    foreign.metadata.deletion_timestamp = Some(time(0));
    foreign.metadata.finalizers = Some(vec![finalizer::API_SERVER_CHECKER.to_owned()]);
    let request = request(OfferState::Created);
    let used = accepted(VirtualKubeletStatus::Created);
    let open = Exchange { request: Some(&request), offer: Some(&used) };
    let early = decided(&World { outgoing: open, now: 0, ..World::authenticated(&foreign) });
    assert_eq!(requests(&early)[0].spec.withdrawal_timestamp, Some(time(0)));
    assert!(!early.actions.contains(&Action::Release));

    let done = decided(&World { now: 3, ..World::authenticated(&foreign) });
    assert!(done.actions.contains(&Action::Release));
    assert!(!done.actions.iter().any(|action| matches!(action, Action::TellNotCleaned(_))));

    let late = decided(&World { outgoing: open, now: 60, ..World::authenticated(&foreign) });
    for action in [Action::DeleteRequest, Action::DeleteOffer, Action::Release] {
        assert!(late.actions.contains(&action), "{action:?}");
    }
    assert!(late.actions.iter().any(|action| matches!(action, Action::TellNotCleaned(_))));
}

#[test]
fn what_nobody_made_by_hand_goes_when_it_has_no_purpose() {
    let mut foreign = foreign(PeeringEnabled::Auto);
    let kind = (label::DISCOVERY_TYPE.to_owned(), label::DISCOVERY_INCOMING_PEERING.to_owned());
    foreign.labels_mut().extend([kind]);
    let request = request(OfferState::None);
    let incoming = Exchange { request: Some(&request), offer: None };
    let asked = decided(&World { incoming, ..World::authenticated(&foreign) });
    assert!(!asked.actions.contains(&Action::Delete));
    assert_eq!(says(&asked, Kind::IncomingPeering).0, Status::Pending);
    assert!(asked.actions.contains(&Action::Bind(Grant::Incoming)));
    let idle = decided(&World::authenticated(&foreign));
    assert!(idle.actions.contains(&Action::Delete));
    foreign.spec.outgoing_peering_enabled = PeeringEnabled::Yes;
    assert!(!decided(&World::authenticated(&foreign)).actions.contains(&Action::Delete));
}

#[test]
fn an_identity_is_renewed_while_it_is_still_good() {
    let foreign = foreign(PeeringEnabled::Yes);
    let identity = Identity::Usable { namespace: "far", renewal: None };
    let decision = decided(&World { identity, ..World::authenticated(&foreign) });
    assert!(decision.actions.contains(&Action::Authenticate));
    assert_eq!(requests(&decision).len(), 1, "peering goes on");
    let attempt = Attempt::Failed("busy".to_owned());
    let world = World { identity, attempt: Some(&attempt), ..World::authenticated(&foreign) };
    let decision = decided(&world);
    assert!(!decision.actions.contains(&Action::Authenticate), "once a round");
    assert_eq!(says(&decision, Kind::AuthenticationStatus).0, Status::Established);
}

#[test]
fn what_the_probe_reports_is_left_to_the_probe() {
    let mut foreign = foreign(PeeringEnabled::Yes);
    let probed = fixed(Kind::ApiServerStatus, Status::Established);
    foreign.status.get_or_insert_default().peering_conditions.push(probed);
    let decision = decided(&World::authenticated(&foreign));
    let conditions = &decision.status.peering_conditions;
    assert!(conditions.iter().all(|condition| condition.kind != Kind::ApiServerStatus));
}

proptest! {
    #[test]
    fn nothing_changes_when_nothing_changed(
        outgoing in prop::sample::select(vec![PeeringEnabled::Yes, PeeringEnabled::No]),
        state in prop::sample::select(vec![OfferState::None, OfferState::Created]),
        has_request: bool, has_offer: bool, seconds in 0_i64..5,
    ) {
        let mut foreign = foreign(outgoing);
        let (request, offer) = (request(state), accepted(VirtualKubeletStatus::Created));
        let exchange = Exchange {
            request: has_request.then_some(&request),
            offer: has_offer.then_some(&offer),
        };
        let world = World { outgoing: exchange, ..World::authenticated(&foreign) };
        let first = decided(&world);
        foreign.status = Some(first.status.clone());
        let second = decided(&World { now: seconds, outgoing: exchange, ..World::authenticated(&foreign) });
        prop_assert_eq!(second.status, first.status);
    }
}

/// What a test cares about; the rest is as quiet as possible.
#[derive(Clone)]
struct World<'a> {
    foreign: &'a ForeignCluster,
    elder: Option<&'a str>,
    tenant: Option<&'a str>,
    identity: Identity<'a>,
    tunnel: Option<&'a TunnelEndpoint>,
    refusal: Option<&'a str>,
    attempt: Option<&'a Attempt>,
    auth_url: Result<&'a str, &'a str>,
    outgoing: Exchange<'a>,
    incoming: Exchange<'a>,
    now: i64,
}

impl<'a> World<'a> {
    fn of(foreign: &'a ForeignCluster) -> Self {
        Self {
            foreign,
            elder: None,
            tenant: None,
            identity: Identity::Missing,
            attempt: None,
            tunnel: None,
            refusal: None,
            auth_url: Ok("https://rome.example"),
            outgoing: Exchange::default(),
            incoming: Exchange::default(),
            now: 0,
        }
    }

    fn authenticated(foreign: &'a ForeignCluster) -> Self {
        Self { tenant: Some(TENANT), identity: FAR, ..Self::of(foreign) }
    }
}

fn decided(world: &World<'_>) -> Decision {
    let home = cluster(ROME, "rome");
    let seen = Seen {
        home: &home,
        settings: Settings {
            auto_join: true,
            external_network: false,
            is_probing: true,
            patience: crate::PATIENCE,
        },
        foreign: world.foreign,
        elder: world.elder,
        tenant: world.tenant,
        identity: world.identity,
        attempt: world.attempt,
        tunnel: world.tunnel,
        refusal: world.refusal,
        auth_url: world.auth_url,
        outgoing: world.outgoing,
        incoming: world.incoming,
    };
    decide(&seen, at(world.now))
}

fn says(decision: &Decision, kind: Kind) -> (Status, &str) {
    let found = decision.status.peering_conditions.iter().find(|one| one.kind == kind);
    let condition = found.unwrap_or_else(|| panic!("no {kind:?}"));
    (condition.status, condition.reason.as_deref().unwrap_or_default())
}

fn message(decision: &Decision, kind: Kind) -> String {
    let found = decision.status.peering_conditions.iter().find(|one| one.kind == kind);
    found.and_then(|condition| condition.message.clone()).unwrap_or_default()
}

fn requests(decision: &Decision) -> Vec<&ResourceRequest> {
    let mut requests = vec![];
    for action in &decision.actions {
        if let Action::Request(request) = action {
            requests.push(request.as_ref());
        }
    }
    requests
}
