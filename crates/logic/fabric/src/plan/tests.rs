//! Plans, taken in a model of the kernel.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::take;

proptest! {
    #[test]
    fn a_plan_reaches_what_is_wanted_and_leaves_nothing_to_do(want in wanted(), have in any_state()) {
        let scope = scope();
        let mut state = without_conflicts(have, &want);
        for step in plan(&scope, &want, &state) {
            take(&mut state, &step);
        }
        let rest = plan(&scope, &want, &state);
        prop_assert!(rest.is_empty(), "{}", Shown(&rest));
        let owned = scope.of(&state);
        prop_assert_eq!(&owned.rules, &want.rules);
        prop_assert_eq!(&owned.addresses, &attainable(&want, &state).addresses);
        prop_assert_eq!(&owned.routes, &attainable(&want, &state).routes);
        prop_assert_eq!(owned.filter.map(|filter| filter.digest), want.filter.map(|filter| filter.digest));
    }

    #[test]
    fn what_is_not_ours_stays_as_it_was(want in wanted(), have in any_state()) {
        let scope = scope();
        let have = without_conflicts(have, &want);
        let mut state = have.clone();
        for step in plan(&scope, &want, &state) {
            take(&mut state, &step);
        }
        prop_assert_eq!(others(&scope, &state), others(&scope, &have));
    }

    #[test]
    fn what_is_as_wanted_is_left_alone(want in wanted()) {
        let mut state = State::default();
        for step in plan(&scope(), &want, &state) {
            take(&mut state, &step);
        }
        prop_assert_eq!(plan(&scope(), &want, &state), []);
    }
}

#[test]
fn connections_that_were_translated_in_another_way_are_forgotten() {
    let filter = |digest: &str, flows: &[u32]| {
        let flows = flows.iter().copied().collect();
        Some(Filter { digest: digest.to_owned(), flows, script: String::new() })
    };
    let state = |filter| State { filter, ..State::default() };
    let steps = plan(&scope(), &state(filter("b", &[2, 3])), &state(filter("a", &[1, 2])));
    assert_eq!(steps[1..], [Step::ForgetFlows(1), Step::ForgetFlows(UNMARKED)]);
    // A node marks none: its connections are nobody's business here.
    let steps = plan(&scope(), &state(filter("b", &[])), &state(filter("a", &[])));
    assert_eq!(steps.len(), 1, "{}", Shown(&steps));
}

#[test]
fn a_route_that_changes_is_never_missing() {
    let route = |link: &str| {
        let mut state = State::default();
        let hop = Hop::out_of(link);
        state.routes.insert((18952, "10.201.0.0/16".parse().unwrap()), hop);
        state
    };
    let steps = plan(&scope(), &route("liqo.host"), &route("eth0"));
    assert_eq!(Shown(&steps).to_string(), "~ route 10.201.0.0/16 dev liqo.host table 18952\n");
    assert_eq!(Shown(&[]).to_string(), "nothing to do\n");
}

/// Others have no routes where ours have to be; the kernel would refuse.
fn without_conflicts(mut have: State, want: &State) -> State {
    have.routes.retain(|key @ (table, _), hop| {
        scope().has_route(*table, hop) || !want.routes.contains_key(key)
    });
    have
}

/// What is outside of a scope.
fn others(scope: &Scope, state: &State) -> State {
    let (owned, mut others) = (scope.of(state), state.clone());
    others.links.retain(|name, _| !owned.links.contains_key(name));
    others.addresses.retain(|address| !owned.addresses.contains(address));
    others.neighbours.retain(|key, _| !owned.neighbours.contains_key(key));
    others.forwards.retain(|forward| !owned.forwards.contains(forward));
    // Routes of others over our interfaces go with those.
    others.routes.retain(|key, hop| !owned.routes.contains_key(key) && !scope.has_link(&hop.link));
    others.rules.retain(|rule| !owned.rules.contains(rule));
    others.settings.clear();
    others.filter = None;
    others
}

fn scope() -> Scope {
    Scope { links: BTreeSet::from(["liqo.a", "liqo.given"]), table: Some(18952), filter: true }
}

fn wanted() -> impl Strategy<Value = State> {
    any_state().prop_map(|state| {
        let mut state = scope().of(&state);
        // Nothing is wanted on interfaces that nobody wants.
        let names = ["liqo.a", "liqo.given"];
        for name in
            names.into_iter().filter(|name| !state.links.contains_key(*name)).collect::<Vec<_>>()
        {
            state.forget_link(name);
        }
        if let Some(link) = state.links.get_mut("liqo.given") {
            link.kind = Kind::Given;
        }
        state
    })
}

fn any_state() -> impl Strategy<Value = State> {
    let rules = prop::collection::btree_set(any_rule(), 0..4);
    let routes = prop::collection::btree_map((table(), net()), hop(), 0..4);
    let links = prop::collection::btree_map(link_name(), link(), 0..4);
    let addresses = prop::collection::btree_set((link_name(), net()), 0..4);
    let neighbours = prop::collection::btree_map((link_name(), address()), mac(), 0..4);
    let forwards = prop::collection::btree_set((link_name(), mac(), address()), 0..4);
    let settings = prop::collection::btree_map(
        select(vec!["net/ipv4/ip_forward".to_owned(), State::setting_of("liqo.a", "rp_filter")]),
        select(vec!["0".to_owned(), "2".to_owned()]),
        0..2,
    );
    let filter = prop::option::of(select(vec!["a", "b"]).prop_map(|digest| Filter {
        digest: digest.to_owned(),
        flows: BTreeSet::new(),
        script: String::new(),
    }));
    (rules, routes, links, addresses, neighbours, forwards, settings, filter).prop_map(
        |(rules, routes, links, addresses, neighbours, forwards, settings, filter)| {
            let mut state =
                State { links, addresses, neighbours, forwards, routes, rules, settings, filter };
            // In no kernel is something on an interface that is not there.
            for name in ["eth0", "liqo.a", "liqo.given", "liqo.other"] {
                if !state.links.contains_key(name) {
                    state.forget_link(name);
                }
            }
            state
        },
    )
}

fn link_name() -> impl Strategy<Value = String> {
    select(vec!["eth0", "liqo.a", "liqo.given", "liqo.other"]).prop_map(str::to_owned)
}

fn link() -> impl Strategy<Value = Link> {
    let kind = select(vec![
        Kind::Cable { peer: "other".to_owned() },
        Kind::Overlay { vni: 1, port: 2, local: Ipv4Addr::LOCALHOST },
        Kind::Given,
    ]);
    (kind, select(vec![1340, 1500]), any::<bool>(), any::<bool>())
        .prop_map(|(kind, mtu, arp, up)| Link { kind, mtu, arp, up })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let side = select(vec![crate::state::Side::From, crate::state::Side::To]);
    (side, net(), table()).prop_map(|(side, net, table)| Rule { side, net, table })
}

fn hop() -> impl Strategy<Value = Hop> {
    let mtu = prop::option::of(select(vec![1232, 1284]));
    (prop::option::of(address()), link_name(), mtu).prop_map(|(via, link, mtu)| Hop {
        via,
        link,
        mtu,
    })
}

fn table() -> impl Strategy<Value = u32> {
    select(vec![MAIN_TABLE, 18952, 7])
}

fn net() -> impl Strategy<Value = Ipv4Net> {
    select(vec!["10.1.0.0/16", "10.2.0.0/16", "0.0.0.0/0"]).prop_map(|net| net.parse().unwrap())
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    select(vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)])
}

fn mac() -> impl Strategy<Value = Mac> {
    select(vec![Mac::default(), Mac([2, 0, 0, 0, 0, 1])])
}
