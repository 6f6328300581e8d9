//! What is ours in the kernel: what carries one of our names or numbers.
//!
//! The gateway and the routes of a node share a namespace, so each has a scope of its own.

use std::collections::BTreeSet;

use liqo_api::keys::link;

use crate::state::{Hop, MAIN_TABLE, Rule, State};

/// What one component may see and change in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its interfaces, with all that is on them.
    pub links: BTreeSet<&'static str>,
    /// Its routing table, and the rules that lead there.
    pub table: Option<u32>,
    /// Whether the table of the packet filter is its own.
    pub filter: bool,
}

impl Scope {
    /// The gateway, on its node.
    pub fn gateway_outside() -> Self {
        Self { links: BTreeSet::from([link::HOST_VETH]), table: None, filter: false }
    }

    /// The gateway, in its own namespace.
    pub fn gateway_inside() -> Self {
        let links = BTreeSet::from([link::GATEWAY_VETH, link::TUNNEL]);
        Self { links, table: None, filter: true }
    }

    /// The routes of a node.
    pub fn node() -> Self {
        let links = BTreeSet::from([link::OVERLAY]);
        Self { links, table: Some(link::ROUTING_TABLE), filter: true }
    }

    /// Whether an interface is within it.
    pub fn has_link(&self, name: &str) -> bool {
        self.links.contains(name)
    }

    /// Whether a route is within it.
    pub fn has_route(&self, table: u32, hop: &Hop) -> bool {
        Some(table) == self.table || (table == MAIN_TABLE && self.has_link(&hop.link))
    }

    /// Whether a rule is within it.
    pub fn has_rule(&self, rule: &Rule) -> bool {
        Some(rule.table) == self.table
    }

    /// What of a state is within it; settings are those that somebody asked for.
    #[must_use]
    pub fn of(&self, state: &State) -> State {
        let mut state = state.clone();
        state.links.retain(|name, _| self.has_link(name));
        state.addresses.retain(|(link, _)| self.has_link(link));
        state.neighbours.retain(|(link, _), _| self.has_link(link));
        state.forwards.retain(|(link, _, _)| self.has_link(link));
        state.routes.retain(|(table, _), hop| self.has_route(*table, hop));
        state.rules.retain(|rule| self.has_rule(rule));
        if !self.filter {
            state.filter = None;
        }
        state
    }
}
