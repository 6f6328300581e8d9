//! A NamespaceMap that a consumer sent: the namespaces that are made for it here.
//!
//! ```text
//!  asked for ──> not there ──────────────> made, and opened to the consumer ──> Accepted
//!            ──> there, made for this ───> opened to the consumer ────────────> Accepted
//!            ──> there, not made for this, or a name that is not to be had ───> CreationLoopBackOff
//!  not asked for any more, and made for this ──> deleted ──> Terminating ──> (forgotten)
//! ```
//!
//! What was made for an entry of a NamespaceMap says so in its annotations. Nothing else is touched,
//! whatever a consumer asks for. What the consumer is follows from the tenant namespace that the
//! NamespaceMap lies in, not from what the NamespaceMap says of itself.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use liqo_api::keys::{annotation, label, object};
use liqo_api::names::{ClusterId, NamespaceName};
use liqo_api::virtualkubelet::{MappingPhase, NamespaceMap};
use liqo_peering::grants::{cluster_role, user};

/// Beginnings of names that are not to be had: of Kubernetes, of OpenShift, and of the namespaces
/// that are kept for peers, some of which may still be to come.
const RESERVED: [&str; 3] = ["kube-", "openshift-", "liqo-tenant-"];

/// Who hosts whom.
#[derive(Clone, Debug)]
pub struct Host {
    /// Namespaces of Liqo itself.
    pub own: BTreeSet<String>,
    /// Labels that every namespace made for others gets.
    pub labels: BTreeMap<String, String>,
}

/// What is to be done about a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is to be made.
    Make,
    /// It is there; its marks are to be put right if they are not.
    Keep {
        /// Whether a mark is missing.
        mend: bool,
    },
    /// Somebody deletes it; it is made again once it is gone.
    Await,
    /// It cannot be had, for this reason.
    Refuse(String),
    /// It is to be deleted.
    Remove,
    /// It is on its way out.
    Leave,
}

/// A namespace of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name at the consumer.
    pub local: String,
    /// Its name here.
    pub remote: String,
    /// What is to be done.
    pub step: Step,
}

impl Host {
    /// What is to be done about the namespaces of a NamespaceMap, by their names at the consumer.
    ///
    /// `find` knows all namespaces, `made` are those whose annotation names the NamespaceMap.
    pub fn entries<'a>(
        &self,
        map: &NamespaceMap,
        consumer: &ClusterId,
        made: impl IntoIterator<Item = &'a ObjectMeta>,
        find: impl Fn(&str) -> Option<ObjectMeta>,
    ) -> Vec<Entry> {
        let none = BTreeMap::new();
        let is_ending = map.metadata.deletion_timestamp.is_some();
        let wanted = if is_ending { &none } else { &map.spec.desired_mapping };
        let mut entries: Vec<Entry> = made
            .into_iter()
            .filter_map(|namespace| {
                let local = original(namespace)?;
                let remote = namespace.name.clone()?;
                let step = match namespace.deletion_timestamp {
                    Some(_) => Step::Leave,
                    None => Step::Remove,
                };
                let is_wanted = wanted.get(local) == Some(&remote);
                (!is_wanted).then(|| Entry { local: local.to_owned(), remote, step })
            })
            .collect();
        entries.extend(wanted.iter().map(|(local, remote)| Entry {
            local: local.clone(),
            remote: remote.clone(),
            step: self.step(map, consumer, local, remote, find(remote).as_ref()),
        }));
        entries
    }

    fn step(
        &self,
        map: &NamespaceMap,
        consumer: &ClusterId,
        local: &str,
        remote: &str,
        found: Option<&ObjectMeta>,
    ) -> Step {
        if let Err(error) = remote.parse::<NamespaceName>() {
            return Step::Refuse(error.to_string());
        }
        let is_reserved = RESERVED.iter().any(|prefix| remote.starts_with(prefix));
        if is_reserved || self.own.contains(remote) {
            return Step::Refuse(format!("'{remote}' is a name that others cannot have"));
        }
        let Some(found) = found else { return Step::Make };
        if !is_made_for(found, map) || original(found) != Some(local) {
            return Step::Refuse(format!("there is a namespace '{remote}' already"));
        }
        if found.deletion_timestamp.is_some() {
            return Step::Await;
        }
        let labels = found.labels.as_ref();
        let mark = labels.and_then(|labels| labels.get(label::REMOTE_CLUSTER_ID));
        Step::Keep { mend: mark.map(String::as_str) != Some(consumer.as_str()) }
    }

    /// The namespace of an entry, as it is made.
    pub fn namespace(&self, map: &NamespaceMap, consumer: &ClusterId, entry: &Entry) -> Namespace {
        let mut labels = self.labels.clone();
        labels.insert(label::REMOTE_CLUSTER_ID.to_owned(), consumer.to_string());
        let annotations = [
            (annotation::MANAGED_BY_NAMESPACE_MAP.to_owned(), key(map)),
            (annotation::ORIGINAL_NAME.to_owned(), entry.local.clone()),
        ];
        let metadata = ObjectMeta {
            name: Some(entry.remote.clone()),
            labels: Some(labels),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        };
        Namespace { metadata, ..Namespace::default() }
    }
}

/// What opens a namespace to the consumer's virtual kubelet.
pub fn binding(map: &NamespaceMap, consumer: &ClusterId, namespace: &str) -> RoleBinding {
    let labels = [(label::REMOTE_CLUSTER_ID.to_owned(), consumer.to_string())];
    let annotations = [(annotation::MANAGED_BY_NAMESPACE_MAP.to_owned(), key(map))];
    RoleBinding {
        metadata: ObjectMeta {
            name: map.namespace(),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        },
        role_ref: cluster_role(object::ROLE_VIRTUAL_KUBELET_REMOTE),
        subjects: Some(vec![user(consumer)]),
    }
}

/// The phase that is reported of a namespace, once something was done about it, well or not.
///
/// What was there stays: a hiccup is no reason to stop its pods.
pub fn phase(step: &Step, went_well: bool, before: Option<MappingPhase>) -> MappingPhase {
    match step {
        Step::Make | Step::Keep { .. } if went_well => MappingPhase::Accepted,
        Step::Make | Step::Keep { .. } | Step::Await if before == Some(MappingPhase::Accepted) => {
            MappingPhase::Accepted
        }
        Step::Make | Step::Keep { .. } | Step::Await | Step::Refuse(_) => {
            MappingPhase::CreationLoopBackOff
        }
        Step::Remove | Step::Leave => MappingPhase::Terminating,
    }
}

/// Whether a namespace was made for a NamespaceMap.
pub fn is_made_for(namespace: &ObjectMeta, map: &NamespaceMap) -> bool {
    maker(namespace) == Some(key(map).as_str())
}

/// The NamespaceMap that a namespace was made for, as its namespace and name.
pub fn maker(namespace: &ObjectMeta) -> Option<&str> {
    let annotations = namespace.annotations.as_ref()?;
    annotations.get(annotation::MANAGED_BY_NAMESPACE_MAP).map(String::as_str)
}

fn original(namespace: &ObjectMeta) -> Option<&str> {
    let annotations = namespace.annotations.as_ref()?;
    annotations.get(annotation::ORIGINAL_NAME).map(String::as_str)
}

fn key(map: &NamespaceMap) -> String {
    format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any())
}

#[cfg(test)]
mod tests;
