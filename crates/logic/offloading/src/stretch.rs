//! A NamespaceOffloading: what every NamespaceMap has to ask for, and what is reported.
//!
//! ```text
//!  selected ──> asked for in the cluster's NamespaceMap ──> its phase comes back as conditions
//!  not selected, or the NamespaceOffloading is to go ──> not asked for any more ──> Terminating
//!                                                                            ──> forgotten
//! ```
//!
//! A NamespaceMap without a virtual node is left as it is: nobody can tell whether its cluster is
//! selected. A NamespaceOffloading that is to go waits until no cluster has the namespace any more,
//! except for clusters that have been silent for too long: they are asked for nothing any more, and
//! find that out when they are back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_core::ResourceExt as _;
use liqo_api::names::{Cluster, InvalidName};
use liqo_api::offloading::{NamespaceOffloading, NamespaceOffloadingStatus, PodOffloadingStrategy};
use liqo_api::virtualkubelet::NamespaceMap;

use crate::names;
use crate::report::{self, Conditions};
use crate::selector::{InvalidSelector, Selector};

/// A cluster that a namespace may extend to.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// What is asked of it, and what it has.
    pub map: &'a NamespaceMap,
    /// Its virtual node, by name and labels.
    pub node: Option<(&'a str, &'a BTreeMap<String, String>)>,
    /// Whether it has not answered for so long that it holds nothing up.
    pub is_given_up: bool,
}

/// What is wrong with a NamespaceOffloading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Its selector makes no sense.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// Its namespace cannot be named in other clusters.
    #[error("the namespace cannot be named in other clusters: {0}")]
    Name(#[from] InvalidName),
}

/// What is to be done about a NamespaceOffloading.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Whether the namespace is to have the label that lets pods leave.
    pub enabled: bool,
    /// What changes in each NamespaceMap, by its place in the list: another name, or nothing.
    pub changes: Vec<(usize, Option<String>)>,
    /// What is reported.
    pub status: NamespaceOffloadingStatus,
    /// Whether nothing is left to wait for.
    pub is_over: bool,
    /// The NamespaceMaps whose clusters were not waited for.
    pub left_behind: Vec<String>,
    /// What a person has to repair; until then, what is asked of clusters stays as it is.
    pub problem: Option<Problem>,
}

/// Decides what to do about a NamespaceOffloading, given all clusters.
pub fn decide(
    offloading: &NamespaceOffloading,
    home: &Cluster,
    places: &[Place<'_>],
    now: Timestamp,
) -> Decision {
    let namespace = offloading.namespace().unwrap_or_default();
    let is_ending = offloading.metadata.deletion_timestamp.is_some();
    let before = offloading.status.clone().unwrap_or_default();
    let wish = wish(offloading, &namespace, home);
    let (mut changes, mut left_behind) = (vec![], vec![]);
    let mut told = Conditions::new();
    for (index, place) in places.iter().enumerate() {
        let name = place.map.name_any();
        let had = place.map.spec.desired_mapping.get(&namespace);
        let wanted =
            if is_ending { None } else { wish.as_ref().map_or(had, |wish| wish.at(place, had)) };
        if wanted != had && place.map.metadata.deletion_timestamp.is_none() {
            changes.push((index, wanted.cloned()));
        }
        let current =
            place.map.status.as_ref().and_then(|status| status.current_mapping.get(&namespace));
        let phase = current.and_then(|current| current.phase);
        if is_ending && current.is_some() && place.is_given_up {
            left_behind.push(name);
        } else if !is_ending || current.is_some() {
            let earlier =
                before.remote_namespaces_conditions.get(&name).map_or(&[][..], |list| list);
            told.insert(name, report::conditions(earlier, wanted.is_some(), phase, now));
        }
    }
    let status = NamespaceOffloadingStatus {
        remote_namespace_name: match &wish {
            Ok(wish) => Some(wish.name.clone()),
            Err(_) => before.remote_namespace_name,
        },
        offloading_phase: Some(report::phase(&told, is_ending)),
        observed_generation: offloading.metadata.generation,
        remote_namespaces_conditions: told,
    };
    Decision {
        enabled: !is_ending
            && offloading.spec.pod_offloading_strategy != PodOffloadingStrategy::Local,
        is_over: is_ending && status.remote_namespaces_conditions.is_empty(),
        problem: wish.err().filter(|_| !is_ending),
        changes,
        status,
        left_behind,
    }
}

/// What a NamespaceOffloading asks for.
struct Wish {
    name: String,
    selector: Selector,
}

impl Wish {
    /// What is to be asked of a cluster of which something was asked before.
    fn at<'a>(&'a self, place: &Place<'_>, had: Option<&'a String>) -> Option<&'a String> {
        let Some((node, labels)) = place.node else { return had };
        self.selector.selects(node, labels).then_some(&self.name)
    }
}

fn wish(
    offloading: &NamespaceOffloading,
    namespace: &str,
    home: &Cluster,
) -> Result<Wish, Problem> {
    let spec = &offloading.spec;
    Ok(Wish {
        name: names::remote(namespace, spec.namespace_mapping_strategy, home)?.into(),
        selector: Selector::read(spec.cluster_selector.as_ref())?,
    })
}

#[cfg(test)]
mod tests;
