//! What a consumer may still have run here, of what it was offered.
//!
//! A pod asks for what it is limited to: that is the most it can take. Pods that are over ask for
//! nothing. What was allowed a moment ago and is not there yet counts as well, for a while.
//!
//! Several replicas may each allow a pod that only one of them should have: what one has just
//! allowed, the others do not see yet. So the same is asked once more when a pod is to start, by the
//! one replica that starts pods, of the pods that have started: there the answer is exact. A pod that
//! has started once may start again, whatever is offered by then.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use liqo_sharing::amounts::{Amounts, CPU, MEMORY};
use liqo_sharing::quantity::Quantity;

use crate::Verdict;

/// How long something that was allowed counts before it is seen.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// The resource of which every pod takes one, whatever its limits.
const PODS: &str = "pods";

/// What a pod asks for at most; a container without a limit has none.
pub fn demand(spec: &PodSpec) -> Result<Amounts, String> {
    let mut together = Amounts::default();
    for container in &spec.containers {
        together.add(&limits(container)?);
    }
    for container in spec.init_containers.iter().flatten() {
        together.raise(&limits(container)?);
    }
    Ok(together)
}

fn limits(container: &Container) -> Result<Amounts, String> {
    let none: BTreeMap<String, Text> = BTreeMap::new();
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limits = limits.unwrap_or(&none);
    for name in [CPU, MEMORY] {
        if !limits.contains_key(name) {
            return Err(format!(
                "container {} has no limit of {name}, and this cluster only runs pods of others \
                 that have one",
                container.name
            ));
        }
    }
    Amounts::read(limits).map_err(|error| format!("container {}: {error}", container.name))
}

/// A ShadowPod, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The consumer.
    pub origin: Box<str>,
    /// What it asks for.
    pub demand: Amounts,
    /// Whether there was ever a pod for it.
    pub has_started: bool,
    /// Whether it is on its way out.
    pub is_ending: bool,
}

/// What consumers take, by what they were allowed and what was seen of it.
#[derive(Debug, Default)]
pub struct Ledger {
    claims: HashMap<Box<str>, Claim>,
    /// What was allowed and not seen yet, since when.
    allowed: HashMap<Box<str>, (Claim, Timestamp)>,
    /// What is about to start and was not seen to have started yet.
    starting: HashMap<Box<str>, Claim>,
    /// What all of these ask for, by consumer.
    starts: BTreeMap<Box<str>, Amounts>,
    /// What all claims of a consumer ask for, and those that have started.
    sums: BTreeMap<Box<str>, [Amounts; 2]>,
}

impl Ledger {
    /// Notes what has become of a ShadowPod; nothing when it is gone or over.
    pub fn see(&mut self, key: &str, claim: Option<Claim>) {
        self.allowed.remove(key);
        if claim.as_ref().is_none_or(|claim| claim.has_started) {
            self.stay(key);
        }
        if self.claims.get(key) == claim.as_ref() {
            return;
        }
        if let Some(old) = self.claims.remove(key) {
            for sum in self.sums_of(&old) {
                sum.take(&old.demand);
            }
        }
        if let Some(new) = claim {
            for sum in self.sums_of(&new) {
                sum.add(&new.demand);
            }
            self.claims.insert(key.into(), new);
        }
    }

    /// Forgets every ShadowPod that is not among these.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.claims.keys().filter(|key| !is_there(key)).cloned().collect();
        for key in gone {
            self.see(&key, None);
        }
    }

    /// Whether a new ShadowPod may be made; from then on it counts, unless it is only a rehearsal.
    pub fn allow(
        &mut self,
        key: &str,
        claim: Claim,
        offered: &Amounts,
        rehearsal: bool,
        now: Timestamp,
    ) -> Verdict {
        if self.claims.get(key).is_some_and(|old| old.is_ending) {
            return Verdict::denied("the ShadowPod of this name is still on its way out");
        }
        self.allowed.retain(|_, (_, since)| now.duration_since(*since) < PATIENCE);
        let mut used = self.sum(&claim.origin, 0);
        let others = self.allowed.iter().filter(|(other, (allowed, _))| {
            other.as_ref() != key && allowed.origin == claim.origin
        });
        for (_, (allowed, _)) in others {
            used.add(&counted(&allowed.demand));
        }
        if let Some(why) = excess(&claim.demand, &used, offered) {
            return Verdict::Denied(why);
        }
        if !rehearsal {
            self.allowed.insert(key.into(), (claim, now));
        }
        Verdict::Allowed
    }

    /// Whether a pod may be started; why not, if it may not.
    pub fn start(&mut self, key: &str, claim: &Claim, offered: &Amounts) -> Result<(), String> {
        if claim.has_started || self.starting.contains_key(key) {
            return Ok(());
        }
        let mut used = self.sum(&claim.origin, 1);
        if let Some(starts) = self.starts.get(&claim.origin) {
            used.add(starts);
        }
        if let Some(why) = excess(&claim.demand, &used, offered) {
            return Err(why);
        }
        Sum(self.starts.entry(claim.origin.clone()).or_default()).add(&claim.demand);
        self.starting.insert(key.into(), claim.clone());
        Ok(())
    }

    /// Takes back that a pod was about to start.
    pub fn stay(&mut self, key: &str) {
        if let Some(claim) = self.starting.remove(key) {
            Sum(self.starts.entry(claim.origin).or_default()).take(&claim.demand);
        }
    }

    fn sum(&self, origin: &str, index: usize) -> Amounts {
        let sums = self.sums.get(origin);
        sums.and_then(|sums| sums.get(index)).cloned().unwrap_or_default()
    }

    /// The sums that a claim counts in.
    fn sums_of(&mut self, claim: &Claim) -> impl Iterator<Item = Sum<'_>> {
        let has_started = claim.has_started;
        let sums = self.sums.entry(claim.origin.clone()).or_default();
        sums.iter_mut()
            .enumerate()
            .filter(move |(index, _)| *index == 0 || has_started)
            .map(|(_, sum)| Sum(sum))
    }
}

/// A sum in which every claim counts as a pod.
struct Sum<'a>(&'a mut Amounts);

impl Sum<'_> {
    fn add(self, demand: &Amounts) {
        self.0.add(&counted(demand));
    }

    fn take(self, demand: &Amounts) {
        self.0.take(&counted(demand));
    }
}

/// What a pod takes: what it asks for, and a pod.
fn counted(demand: &Amounts) -> Amounts {
    let mut counted = demand.clone();
    counted.set(PODS, Quantity::units(1));
    counted
}

/// Which resource does not suffice, if one does not.
fn excess(demand: &Amounts, used: &Amounts, offered: &Amounts) -> Option<String> {
    let is_offered = |name: &str| offered.iter().any(|(other, _)| other == name);
    counted(demand).iter().find_map(|(name, asked)| {
        if !is_offered(name) {
            return (name != PODS).then(|| {
                format!("the pod may use up to {asked} of {name}, of which nothing was offered")
            });
        }
        let total = offered.of(name);
        let free = total.minus(used.of(name)).or_nothing();
        (asked > free).then(|| {
            format!(
                "the pod may use up to {asked} of {name}, and {free} of the {total} that were \
                 offered are free"
            )
        })
    })
}

#[cfg(test)]
mod tests;
