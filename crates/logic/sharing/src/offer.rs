//! The offer that answers a request for resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuotaSpec;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use liqo_api::keys::{annotation, label, object};
use liqo_api::names::{Cluster, ClusterId};
use liqo_api::sharing::{ResourceOffer, ResourceOfferSpec, StorageType};

use crate::amounts::Amounts;

/// What this cluster says of itself in every offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Labels for the virtual nodes that stand for this cluster.
    pub labels: BTreeMap<String, String>,
    /// Storage classes that may be used.
    pub storage_classes: Vec<StorageType>,
}

/// To whom an offer is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipient {
    /// The cluster that asked.
    pub consumer: ClusterId,
    /// The namespace of its request.
    pub namespace: String,
    /// Its request, which owns the offer.
    pub request: OwnerReference,
}

/// The offer of these amounts.
pub fn offer(
    home: &Cluster,
    recipient: &Recipient,
    amounts: &Amounts,
    terms: &Terms,
) -> ResourceOffer {
    let consumer = recipient.consumer.as_str();
    let labels = [
        (label::CLUSTER_ID, consumer),
        (label::REMOTE_ID, consumer),
        (label::REPLICATION, label::TRUE),
    ];
    let metadata = ObjectMeta {
        name: Some(home.name.to_string()),
        namespace: Some(recipient.namespace.clone()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![recipient.request.clone()]),
        ..ObjectMeta::default()
    };
    let quota = ResourceQuotaSpec { hard: Some(amounts.list()), ..ResourceQuotaSpec::default() };
    let spec = ResourceOfferSpec {
        cluster_id: home.id.to_string(),
        resource_quota: Some(quota),
        labels: terms.labels.clone(),
        storage_classes: terms.storage_classes.clone(),
        ..ResourceOfferSpec::default()
    };
    ResourceOffer { metadata, spec, status: None }
}

/// Whether an offer that was made is still good enough.
///
/// Amounts may differ by a percentage; everything else must be the same.
pub fn still_holds(made: &ResourceOffer, now: &ResourceOffer, percentage: u8) -> bool {
    let amounts = |offer: &ResourceOffer| {
        let quota = offer.spec.resource_quota.as_ref();
        Amounts::readable(quota.and_then(|quota| quota.hard.as_ref()))
    };
    let rest = |offer: &ResourceOffer| ResourceOfferSpec {
        resource_quota: None,
        // Not ours to compare: others may state them.
        images: vec![],
        prices: BTreeMap::new(),
        ..offer.spec.clone()
    };
    let has_labels = now.metadata.labels.iter().flatten().all(|(name, value)| {
        made.metadata.labels.as_ref().and_then(|labels| labels.get(name)) == Some(value)
    });
    let is_owned = now.metadata.owner_references.iter().flatten().all(|owner| {
        made.metadata.owner_references.iter().flatten().any(|other| other.uid == owner.uid)
    });
    has_labels
        && is_owned
        && rest(made) == rest(now)
        && !amounts(now).differ(&amounts(made), percentage)
}

/// The storage classes to offer: all but those whose volumes come from other clusters.
///
/// The default is the one that was named, or else those that are the cluster's default.
pub fn storage_classes<'a>(
    classes: impl IntoIterator<Item = &'a StorageClass>,
    named: &str,
) -> Vec<StorageType> {
    let is_default = |class: &StorageClass, name: &str| {
        let annotations = class.metadata.annotations.as_ref();
        let mark = annotations.and_then(|map| map.get(annotation::DEFAULT_STORAGE_CLASS));
        if named.is_empty() { mark.is_some_and(|mark| mark == label::TRUE) } else { name == named }
    };
    let mut offered: Vec<_> = classes
        .into_iter()
        .filter(|class| class.provisioner != object::STORAGE_PROVISIONER)
        .filter_map(|class| {
            let name = class.metadata.name.clone()?;
            Some(StorageType { default: is_default(class, &name), storage_class_name: name })
        })
        .collect();
    offered.sort_by(|a, b| a.storage_class_name.cmp(&b.storage_class_name));
    offered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_says_who_lends_how_much_to_whom() {
        let offer = made("cpu", "1800m");
        assert_eq!(offer.metadata.name.as_deref(), Some("milan"));
        assert_eq!(offer.metadata.namespace.as_deref(), Some("liqo-tenant-rome-2f55ef"));
        let labels: Vec<_> = offer.metadata.labels.iter().flatten().collect();
        assert_eq!(labels.len(), 3);
        assert!(labels.iter().any(|(name, value)| *name == "liqo.io/remoteID" && *value == ROME));
        assert_eq!(offer.spec.cluster_id, MILAN);
        let hard = offer.spec.resource_quota.unwrap().hard.unwrap();
        assert_eq!(hard["cpu"].0, "1800m");
        assert!(offer.metadata.owner_references.unwrap()[0].controller.unwrap());
    }

    #[test]
    fn small_changes_are_not_worth_a_new_offer() {
        let old = made("cpu", "100");
        assert!(still_holds(&old, &made("cpu", "104"), 5));
        assert!(!still_holds(&old, &made("cpu", "106"), 5));
        assert!(!still_holds(&old, &made("pods", "100"), 5));
        let mut relabelled = made("cpu", "100");
        relabelled.spec.labels.insert("region".to_owned(), "north".to_owned());
        assert!(!still_holds(&old, &relabelled, 100));
    }

    #[test]
    fn an_offer_that_was_withdrawn_does_not_hold() {
        let mut old = made("cpu", "100");
        old.spec.withdrawal_timestamp =
            Some(liqo_api::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        assert!(!still_holds(&old, &made("cpu", "100"), 100));
    }

    #[test]
    fn prices_that_others_state_do_not_matter() {
        let mut old = made("cpu", "100");
        old.spec.prices =
            BTreeMap::from([("cpu".to_owned(), crate::quantity::Quantity::units(1).into())]);
        assert!(still_holds(&old, &made("cpu", "100"), 0));
    }

    #[test]
    fn our_own_storage_class_is_not_offered() {
        let classes = [
            class("slow", "example.com/disk", false),
            class("liqo", "liqo.io/storage", false),
            class("fast", "example.com/disk", true),
        ];
        let offered = |named| -> Vec<(String, bool)> {
            let offered = storage_classes(&classes, named).into_iter();
            offered.map(|class| (class.storage_class_name, class.default)).collect()
        };
        assert_eq!(offered(""), [("fast".to_owned(), true), ("slow".to_owned(), false)]);
        assert_eq!(offered("slow"), [("fast".to_owned(), false), ("slow".to_owned(), true)]);
    }

    const ROME: &str = "41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    const MILAN: &str = "2cb4110a-c5e6-4a52-851d-d0e0d86c9174";

    fn made(name: &str, amount: &str) -> ResourceOffer {
        let home = Cluster { id: MILAN.parse().unwrap(), name: "milan".parse().unwrap() };
        let recipient = Recipient {
            consumer: ROME.parse().unwrap(),
            namespace: "liqo-tenant-rome-2f55ef".to_owned(),
            request: OwnerReference { controller: Some(true), ..OwnerReference::default() },
        };
        let amounts = [(name, amount.parse().unwrap())].into_iter().collect();
        offer(&home, &recipient, &amounts, &Terms::default())
    }

    fn class(name: &str, provisioner: &str, default: bool) -> StorageClass {
        let mark = (annotation::DEFAULT_STORAGE_CLASS.to_owned(), default.to_string());
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(BTreeMap::from([mark])),
            ..ObjectMeta::default()
        };
        StorageClass { metadata, provisioner: provisioner.to_owned(), ..StorageClass::default() }
    }
}
