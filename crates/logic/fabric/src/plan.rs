//! The steps from what a namespace holds to what it has to hold: ordered, and no more than needed.
//!
//! What leads packets somewhere goes first and comes last, so that none leaves untranslated:
//! rules and routes are removed, interfaces change, the filter is replaced, routes and rules are
//! added. What can be replaced in place is, so that traffic is not interrupted.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::owned::Scope;
use crate::state::{Filter, Hop, Kind, Link, MAIN_TABLE, Mac, Rule, State};

/// One change of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the state")]
pub enum Step {
    /// Leads packets past the table.
    RemoveRule(Rule),
    /// Forgets the way to a network.
    RemoveRoute { table: u32, to: Ipv4Net, hop: Hop },
    /// Forgets where a hardware address is.
    RemoveForward { link: String, mac: Mac, node: Ipv4Addr },
    /// Forgets a neighbour.
    RemoveNeighbour { link: String, address: Ipv4Addr },
    /// Takes an address from an interface.
    RemoveAddress { link: String, address: Ipv4Net },
    /// Removes an interface and all that is on it.
    RemoveLink(String),
    /// Makes an interface.
    AddLink { name: String, link: Link },
    /// Changes an interface in place.
    ChangeLink { name: String, link: Link },
    /// Changes a setting of the kernel.
    Set { path: String, value: String },
    /// Gives an interface an address.
    AddAddress { link: String, address: Ipv4Net },
    /// Tells where a neighbour is.
    SetNeighbour { link: String, address: Ipv4Addr, mac: Mac },
    /// Tells where a hardware address is.
    AddForward { link: String, mac: Mac, node: Ipv4Addr },
    /// Replaces the table of the packet filter at once.
    LoadFilter(Filter),
    /// Removes the table of the packet filter.
    RemoveFilter,
    /// Forgets connections of a mark, which were translated as nobody wants any more.
    ForgetFlows(u32),
    /// Shows the way to a network that had none; somebody else's is not replaced.
    AddRoute { table: u32, to: Ipv4Net, hop: Hop },
    /// Shows another way to a network, without a moment between.
    ChangeRoute { table: u32, to: Ipv4Net, hop: Hop },
    /// Leads packets to the table.
    AddRule(Rule),
}

/// The steps from what is there to what has to be, within a scope.
///
/// What is on an interface that is neither there nor to be made has to wait for it.
pub fn plan(scope: &Scope, want: &State, have: &State) -> Vec<Step> {
    let mut have = scope.of(have);
    let want = &attainable(want, &have);
    let mut steps = Vec::new();
    let doomed: Vec<String> =
        have.links.iter().filter(|(name, link)| is_doomed(want, name, link)).map(name_of).collect();
    let mut remaining = have.clone();
    for name in &doomed {
        remaining.forget_link(name);
    }
    remove(want, &remaining, &mut steps);
    for name in doomed {
        have.forget_link(&name);
        steps.push(Step::RemoveLink(name));
    }
    links(want, &have, &mut steps);
    add(want, &have, &mut steps);
    steps
}

/// What can be there now: nothing is on an interface that somebody else has yet to make.
fn attainable(want: &State, have: &State) -> State {
    let mut attainable = want.clone();
    for (name, link) in &want.links {
        if link.kind == Kind::Given && !have.links.contains_key(name) {
            attainable.forget_link(name);
        }
    }
    attainable
}

fn name_of((name, _): (&String, &Link)) -> String {
    name.clone()
}

/// Whether an interface has to go, because nobody wants it, or wants something else of its name.
fn is_doomed(want: &State, name: &str, have: &Link) -> bool {
    match want.links.get(name).map(|want| &want.kind) {
        None => have.kind != Kind::Given,
        Some(Kind::Given) => false,
        Some(kind) => *kind != have.kind,
    }
}

fn remove(want: &State, have: &State, steps: &mut Vec<Step>) {
    for rule in have.rules.difference(&want.rules) {
        steps.push(Step::RemoveRule(*rule));
    }
    for ((table, to), hop) in &have.routes {
        if !want.routes.contains_key(&(*table, *to)) {
            steps.push(Step::RemoveRoute { table: *table, to: *to, hop: hop.clone() });
        }
    }
    for (link, mac, node) in have.forwards.difference(&want.forwards) {
        steps.push(Step::RemoveForward { link: link.clone(), mac: *mac, node: *node });
    }
    for (link, address) in have.neighbours.keys() {
        if !want.neighbours.contains_key(&(link.clone(), *address)) {
            steps.push(Step::RemoveNeighbour { link: link.clone(), address: *address });
        }
    }
    for (link, address) in have.addresses.difference(&want.addresses) {
        steps.push(Step::RemoveAddress { link: link.clone(), address: *address });
    }
}

fn links(want: &State, have: &State, steps: &mut Vec<Step>) {
    for (name, link) in &want.links {
        let (name, link) = (name.clone(), link.clone());
        match have.links.get(&name) {
            None => steps.push(Step::AddLink { name, link }),
            Some(have) if !fits(&link, have) => steps.push(Step::ChangeLink { name, link }),
            Some(_) => {}
        }
    }
}

/// Whether an interface is as wanted; nobody changes what a given one asks for.
fn fits(want: &Link, have: &Link) -> bool {
    let arp = want.kind == Kind::Given || want.arp == have.arp;
    arp && want.mtu == have.mtu && want.up == have.up
}

fn add(want: &State, have: &State, steps: &mut Vec<Step>) {
    for (path, value) in &want.settings {
        if have.settings.get(path) != Some(value) {
            steps.push(Step::Set { path: path.clone(), value: value.clone() });
        }
    }
    for (link, address) in want.addresses.difference(&have.addresses) {
        steps.push(Step::AddAddress { link: link.clone(), address: *address });
    }
    for ((link, address), mac) in &want.neighbours {
        if have.neighbours.get(&(link.clone(), *address)) != Some(mac) {
            steps.push(Step::SetNeighbour { link: link.clone(), address: *address, mac: *mac });
        }
    }
    for (link, mac, node) in want.forwards.difference(&have.forwards) {
        steps.push(Step::AddForward { link: link.clone(), mac: *mac, node: *node });
    }
    // A machine has to be reachable before a route leads through it.
    let (near, far): (Vec<_>, Vec<_>) = want.routes.iter().partition(|(_, hop)| hop.via.is_none());
    for ((table, to), hop) in near.into_iter().chain(far) {
        let (table, to, hop) = (*table, *to, hop.clone());
        match have.routes.get(&(table, to)) {
            None => steps.push(Step::AddRoute { table, to, hop }),
            Some(have) if *have != hop => steps.push(Step::ChangeRoute { table, to, hop }),
            Some(_) => {}
        }
    }
    // Connections that a filter marks have to go where they are translated, so it comes after routes.
    filter(want, have, steps);
    for rule in want.rules.difference(&have.rules) {
        steps.push(Step::AddRule(*rule));
    }
}

/// The mark of connections that nobody marked.
const UNMARKED: u32 = 0;

fn filter(want: &State, have: &State, steps: &mut Vec<Step>) {
    match (&want.filter, &have.filter) {
        (Some(want), Some(have)) if want.digest == have.digest => {}
        (Some(want), have) => {
            steps.push(Step::LoadFilter(want.clone()));
            let stale = have.iter().flat_map(|have| have.flows.difference(&want.flows));
            steps.extend(stale.map(|mark| Step::ForgetFlows(*mark)));
            if !want.flows.is_empty() {
                // They began while nothing translated them, and would go on like that.
                steps.push(Step::ForgetFlows(UNMARKED));
            }
        }
        (None, Some(_)) => steps.push(Step::RemoveFilter),
        (None, None) => {}
    }
}

impl Step {
    /// Whether it only takes something away.
    pub fn removes(&self) -> bool {
        match self {
            Self::RemoveRule(_)
            | Self::RemoveRoute { .. }
            | Self::RemoveForward { .. }
            | Self::RemoveNeighbour { .. }
            | Self::RemoveAddress { .. }
            | Self::RemoveLink(_)
            | Self::RemoveFilter
            | Self::ForgetFlows(_) => true,
            Self::AddLink { .. }
            | Self::ChangeLink { .. }
            | Self::Set { .. }
            | Self::AddAddress { .. }
            | Self::SetNeighbour { .. }
            | Self::AddForward { .. }
            | Self::LoadFilter(_)
            | Self::AddRoute { .. }
            | Self::ChangeRoute { .. }
            | Self::AddRule(_) => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoveRule(rule) => write!(f, "- rule {rule}"),
            Self::RemoveRoute { table, to, hop } => {
                write!(f, "- route {to} {hop}{}", Table(*table))
            }
            Self::RemoveForward { link, mac, node } => write!(f, "- {mac} at {node} dev {link}"),
            Self::RemoveNeighbour { link, address } => {
                write!(f, "- neighbour {address} dev {link}")
            }
            Self::RemoveAddress { link, address } => write!(f, "- address {address} dev {link}"),
            Self::RemoveLink(name) => write!(f, "- link {name}"),
            Self::AddLink { name, link } => write!(f, "+ link {name}: {link}"),
            Self::ChangeLink { name, link } => write!(f, "~ link {name}: {link}"),
            Self::Set { path, value } => write!(f, "~ {} = {value}", path.replace('/', ".")),
            Self::AddAddress { link, address } => write!(f, "+ address {address} dev {link}"),
            Self::SetNeighbour { link, address, mac } => {
                write!(f, "+ neighbour {address} is {mac} dev {link}")
            }
            Self::AddForward { link, mac, node } => write!(f, "+ {mac} at {node} dev {link}"),
            Self::LoadFilter(filter) => {
                f.write_str("~ packet filter")?;
                filter.script.lines().try_for_each(|line| write!(f, "\n    {line}"))
            }
            Self::RemoveFilter => f.write_str("- packet filter"),
            Self::ForgetFlows(mark) => write!(f, "- connections marked {mark:#010x}"),
            Self::AddRoute { table, to, hop } => write!(f, "+ route {to} {hop}{}", Table(*table)),
            Self::ChangeRoute { table, to, hop } => {
                write!(f, "~ route {to} {hop}{}", Table(*table))
            }
            Self::AddRule(rule) => write!(f, "+ rule {rule}"),
        }
    }
}

struct Table(u32);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == MAIN_TABLE { Ok(()) } else { write!(f, " table {}", self.0) }
    }
}

/// Steps, one a line; what nobody has to do is said, too.
pub struct Shown<'a>(pub &'a [Step]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing to do\n");
        }
        self.0.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

#[cfg(test)]
mod tests;
