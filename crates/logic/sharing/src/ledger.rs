//! What is free in a cluster, kept up to date as nodes and pods come and go.
//!
//! Only sums and a few bytes per pod are kept. Amounts are exact, so that adding and taking away
//! never drifts: after any history, the ledger says what counting anew would say.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Node, Pod};
use liqo_api::keys::label;
use liqo_api::names::ClusterId;

use crate::amounts::Amounts;
use crate::quantity::Quantity;
use crate::requests;

/// What is left of a pod once it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodShare {
    /// The cluster it runs for, if it is not this one.
    origin: Option<Box<str>>,
    requests: Amounts,
}

impl PodShare {
    /// What counts of a pod; nothing of one that does not run here.
    pub fn of(pod: &Pod) -> Option<Self> {
        let phase = pod.status.as_ref()?.phase.as_deref();
        let label = |name| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name));
        let runs_elsewhere = label(label::SHADOW_POD).is_some_and(|value| value == label::TRUE);
        if phase != Some("Running") || runs_elsewhere {
            return None;
        }
        let requests = requests::of_pod(pod.spec.as_ref()?);
        Some(Self { origin: label(label::ORIGIN).map(|origin| origin.as_str().into()), requests })
    }
}

/// What is left of a node once it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeShare(Amounts);

impl NodeShare {
    /// What counts of a node; nothing of one that is virtual or not ready.
    pub fn of(node: &Node) -> Option<Self> {
        let labels = node.metadata.labels.as_ref();
        let kind = labels.and_then(|labels| labels.get(label::TYPE));
        let status = node.status.as_ref()?;
        let is_ready = status.conditions.iter().flatten().any(|condition| {
            condition.type_ == liqo_api::keys::node::READY && condition.status == "True"
        });
        if !is_ready || kind.is_some_and(|kind| kind == label::TYPE_VIRTUAL_NODE) {
            return None;
        }
        Some(Self(Amounts::readable(status.allocatable.as_ref())))
    }
}

/// What is free in a cluster.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: BTreeMap<Box<str>, NodeShare>,
    pods: HashMap<Box<str>, PodShare>,
    total: Amounts,
    used: Amounts,
    /// What pods of each other cluster use of that.
    lent: BTreeMap<Box<str>, Amounts>,
}

impl Ledger {
    /// Notes what has become of a node; nothing when it is gone or does not count.
    pub fn node(&mut self, name: &str, share: Option<NodeShare>) -> bool {
        if self.nodes.get(name) == share.as_ref() {
            return false;
        }
        match share {
            Some(share) => self.nodes.insert(name.into(), share),
            None => self.nodes.remove(name),
        };
        // There are few nodes, and a resource that none of them has is not to be listed.
        self.total = Amounts::default();
        for NodeShare(amounts) in self.nodes.values() {
            self.total.add(amounts);
        }
        true
    }

    /// Notes what has become of a pod, by any name that no other pod has.
    pub fn pod(&mut self, key: &str, share: Option<PodShare>) -> bool {
        if self.pods.get(key) == share.as_ref() {
            return false;
        }
        if let Some(PodShare { origin, requests }) = self.pods.remove(key) {
            self.used.take(&requests);
            if let Some(lent) = origin.and_then(|origin| self.lent.get_mut(&origin)) {
                lent.take(&requests);
            }
        }
        if let Some(share) = share {
            self.used.add(&share.requests);
            if let Some(origin) = &share.origin {
                self.lent.entry(origin.clone()).or_default().add(&share.requests);
            }
            self.pods.insert(key.into(), share);
        }
        true
    }

    /// Forgets every node that is not among these.
    pub fn keep_nodes(&mut self, names: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.nodes.keys().filter(|name| !names(name)).cloned().collect();
        for name in gone {
            self.node(&name, None);
        }
    }

    /// Forgets every pod that is not among these.
    pub fn keep_pods(&mut self, keys: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.pods.keys().filter(|key| !keys(key)).cloned().collect();
        for key in gone {
            self.pod(&key, None);
        }
    }

    /// What is free for another cluster: what its own pods use counts as free.
    ///
    /// A resource of which more is used than there is has nothing left; the others keep theirs.
    pub fn free(&self, consumer: &ClusterId) -> Amounts {
        let lent = self.lent.get(consumer.as_str());
        let free = |name: &str, total: Quantity| {
            let own = lent.map_or(Quantity::ZERO, |lent| lent.of(name));
            total.minus(self.used.of(name).minus(own)).or_nothing()
        };
        self.total.iter().map(|(name, total)| (name, free(name, total))).collect()
    }
}

#[cfg(test)]
mod tests;
