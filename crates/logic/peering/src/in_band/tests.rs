//! How clusters are introduced.

use liqo_api::discovery::ForeignClusterStatus;
use serde_json::json;

use super::*;
use crate::fixtures::{MILAN, ROME, cluster, condition, foreign as foreign_cluster};

#[test]
fn a_cluster_is_not_introduced_to_itself() {
    let (rome, milan) = (cluster(ROME, "rome"), cluster(MILAN, "milan"));
    assert_eq!(are_two(&rome, &milan), Ok(()));
    let namesake = cluster(ROME, "other");
    assert_eq!(are_two(&rome, &namesake), Err(Refusal::Same(rome.clone())));
}

#[test]
fn without_a_network_of_ours_there_is_no_tunnel() {
    let with = |args: &[&str]| {
        let container = json!({"name": "controller-manager", "args": args});
        let spec = json!({"selector": {}, "template": {"spec": {"containers": [container]}}});
        has_tunnels(&serde_json::from_value(json!({ "spec": spec })).unwrap())
    };
    assert_eq!(with(&["--cluster-name=rome"]), Ok(()));
    assert_eq!(with(&["--disable-internal-network=false"]), Ok(()));
    for flag in ["--disable-internal-network", "--disable-internal-network=true"] {
        assert_eq!(with(&["-v", flag]), Err(Refusal::ExternalNetwork), "{flag}");
    }
}

#[test]
fn who_talks_outside_the_tunnel_goes_on_doing_so() {
    let milan = cluster(MILAN, "milan");
    let mut found = foreign_cluster(PeeringEnabled::Yes);
    assert_eq!(known(&milan, &[]), Ok(None));
    let out_of_band = Err(Refusal::OutOfBand("milan".to_owned()));
    assert_eq!(known(&milan, std::slice::from_ref(&found)), out_of_band);
    found.spec.peering_type = PeeringType::InBand;
    assert_eq!(known(&milan, std::slice::from_ref(&found)), Ok(Some(&found)));
    let other = cluster(ROME, "milan");
    let taken = Err(Refusal::Taken("milan".to_owned()));
    assert_eq!(known(&other, std::slice::from_ref(&found)), taken);
}

#[test]
fn a_service_is_at_its_address_in_the_cluster() {
    let service = |spec| serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec}));
    let ports = json!([{"name": "metrics", "port": 1}, {"name": "https", "port": 443}]);
    let found = service(json!({"clusterIPs": ["fd00::1", "10.94.0.7"], "ports": ports})).unwrap();
    assert_eq!(place(&found, "https"), Ok(at("10.94.0.7", 443)));
    assert_eq!(place(&found, "http"), Err(Nowhere::NoPort("x".to_owned(), "http")));
    let headless = service(json!({"clusterIP": "None", "ports": ports})).unwrap();
    assert_eq!(place(&headless, "https"), Err(Nowhere::NoAddress("x".to_owned())));
}

#[test]
fn a_new_cluster_is_reached_inside_the_tunnel_and_not_asked_for_anything_yet() {
    let made = foreign(&cluster(MILAN, "milan"), reached("10.92.0.2"), None);
    let spec = json!({
        "clusterIdentity": {"clusterID": MILAN, "clusterName": "milan"},
        "foreignAuthUrl": "https://10.92.0.3:443",
        "foreignProxyUrl": "http://10.92.0.2:8118",
        "incomingPeeringEnabled": "Auto",
        "insecureSkipTLSVerify": true,
        "outgoingPeeringEnabled": "No",
        "peeringType": "InBand",
    });
    assert_eq!(serde_json::to_value(&made.spec).unwrap(), spec);
    assert_eq!((made.name_any(), &*made.labels()[label::CLUSTER_ID]), ("milan".to_owned(), MILAN));
}

#[test]
fn an_introduction_again_changes_where_a_cluster_is_and_nothing_else() {
    let mut before = foreign(&cluster(MILAN, "milan"), reached("10.92.0.2"), None);
    before.metadata.name = Some("partner".to_owned());
    before.spec.outgoing_peering_enabled = PeeringEnabled::Yes;
    before.spec.insecure_skip_tls_verify = false;
    let same = foreign(&cluster(MILAN, "milan"), reached("10.92.0.2"), Some(&before));
    assert_eq!(same.spec, before.spec);
    let after = foreign(&cluster(MILAN, "renamed"), reached("10.93.0.2"), Some(&before));
    before.spec.foreign_proxy_url = Some("http://10.93.0.2:8118".to_owned());
    assert_eq!((after.name_any(), after.spec), ("partner".to_owned(), before.spec));
}

#[test]
fn nobody_uses_anything_when_both_directions_are_over() {
    let mut found = foreign_cluster(PeeringEnabled::No);
    assert!(is_idle(&found));
    for kind in [Kind::OutgoingPeering, Kind::IncomingPeering] {
        let with = |status| ForeignClusterStatus {
            peering_conditions: vec![condition(kind, status)],
            ..ForeignClusterStatus::default()
        };
        found.status = Some(with(Status::Disconnecting));
        assert!(!is_idle(&found), "{kind:?}");
        found.status = Some(with(Status::None));
        assert!(is_idle(&found), "{kind:?}");
    }
}

#[test]
fn addresses_that_others_may_have_are_told_from_those_that_nobody_else_has() {
    for private in ["10.0.0.1", "172.16.9.9", "192.168.1.1", "169.254.1.1", "100.64.0.1"] {
        assert!(is_private(private), "{private}");
    }
    for public in ["198.51.100.7", "100.128.0.1", "gw.example.org"] {
        assert!(!is_private(public), "{public}");
    }
}

fn at(address: &str, port: u16) -> Place {
    Place { address: address.parse().unwrap(), port }
}

fn reached(proxy: &str) -> Reached {
    Reached { auth: at("10.92.0.3", 443), proxy: at(proxy, 8118) }
}
