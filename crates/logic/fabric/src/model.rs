//! What a step means: the kernel as far as plans are concerned.

use crate::plan::Step;
use crate::state::{Filter, Kind, State};

/// Takes a step.
pub(crate) fn take(state: &mut State, step: &Step) {
    match step.clone() {
        Step::RemoveRule(rule) => assert!(state.rules.remove(&rule), "{step}"),
        Step::RemoveRoute { table, to, hop } => {
            assert_eq!(state.routes.remove(&(table, to)), Some(hop), "{step}");
        }
        Step::RemoveForward { link, mac, node } => {
            assert!(state.forwards.remove(&(link, mac, node)), "{step}");
        }
        Step::RemoveNeighbour { link, address } => {
            assert!(state.neighbours.remove(&(link, address)).is_some(), "{step}");
        }
        Step::RemoveAddress { link, address } => {
            assert!(state.addresses.remove(&(link, address)), "{step}");
        }
        Step::RemoveLink(name) => {
            assert!(state.links.contains_key(&name), "{step}");
            state.forget_link(&name);
        }
        Step::AddLink { name, link } => {
            assert_eq!(state.links.insert(name, link), None, "{step}");
        }
        Step::ChangeLink { name, link } => {
            let have = state.links.get_mut(&name).expect("only what is there is changed");
            let given = link.kind == Kind::Given;
            (have.mtu, have.up) = (link.mtu, link.up);
            have.arp = if given { have.arp } else { link.arp };
        }
        Step::Set { path, value } => {
            state.settings.insert(path, value);
        }
        Step::AddAddress { link, address } => {
            assert!(state.links.contains_key(&link), "{step}");
            assert!(state.addresses.insert((link, address)), "{step}");
        }
        Step::SetNeighbour { link, address, mac } => {
            assert!(state.links.contains_key(&link), "{step}");
            state.neighbours.insert((link, address), mac);
        }
        Step::AddForward { link, mac, node } => {
            assert!(state.links.contains_key(&link), "{step}");
            assert!(state.forwards.insert((link, mac, node)), "{step}");
        }
        Step::LoadFilter(filter) => {
            state.filter = Some(Filter { script: String::new(), ..filter });
        }
        Step::RemoveFilter => assert!(state.filter.take().is_some(), "{step}"),
        Step::ForgetFlows(_) => {}
        Step::AddRoute { table, to, hop } => {
            assert_eq!(state.routes.insert((table, to), hop), None, "{step}");
        }
        Step::ChangeRoute { table, to, hop } => {
            assert!(state.routes.insert((table, to), hop).is_some(), "{step}");
        }
        Step::AddRule(rule) => assert!(state.rules.insert(rule), "{step}"),
    }
}
