//! NamespaceOffloadings: one per namespace, whose mapping stays.

use liqo_api::keys::{annotation, object};
use liqo_api::offloading::{NamespaceOffloading, PodOffloadingStrategy};
use liqo_offloading::eviction;
use liqo_offloading::selector::Selector;

use crate::Verdict;

/// Whether a NamespaceOffloading may be created, or become another one.
pub fn validate(old: Option<&NamespaceOffloading>, new: &NamespaceOffloading) -> Verdict {
    let name = new.metadata.name.as_deref().unwrap_or_default();
    if name != object::NAMESPACE_OFFLOADING {
        return Verdict::Denied(format!(
            "a NamespaceOffloading is named '{}', one per namespace; this one is named '{name}'",
            object::NAMESPACE_OFFLOADING
        ));
    }
    let selector = &new.spec.cluster_selector;
    // What is there already may go, even if it would not be let in today.
    if new.metadata.deletion_timestamp.is_none()
        && old.is_none_or(|old| old.spec.cluster_selector != *selector)
        && let Err(error) = Selector::read(selector.as_ref())
    {
        return Verdict::Denied(error.to_string());
    }
    let Some(old) = old else { return Verdict::Allowed };
    if old.spec.namespace_mapping_strategy != new.spec.namespace_mapping_strategy {
        return Verdict::denied(
            "spec.namespaceMappingStrategy cannot change: unoffload the namespace, then offload it \
             anew",
        );
    }
    let strategy = new.spec.pod_offloading_strategy;
    if strategy != old.spec.pod_offloading_strategy
        && strategy != PodOffloadingStrategy::LocalAndRemote
        && !eviction::is_wanted(new)
    {
        return Verdict::Warned(format!(
            "Pods that are already running stay where they are, even where the new \
             podOffloadingStrategy would not place them; the annotation {}=true has them evicted",
            annotation::EVICT_VIOLATING_PODS
        ));
    }
    Verdict::Allowed
}

#[cfg(test)]
mod tests {
    use liqo_api::offloading::{NamespaceMappingStrategy, NamespaceOffloadingSpec};

    use super::*;

    #[test]
    fn there_is_one_per_namespace() {
        assert_eq!(validate(None, &offloading("offloading")), Verdict::Allowed);
        assert!(matches!(validate(None, &offloading("mine")), Verdict::Denied(_)));
    }

    #[test]
    fn names_of_namespaces_stay_as_they_were_chosen() {
        let mut other = offloading("offloading");
        other.spec.namespace_mapping_strategy = NamespaceMappingStrategy::EnforceSameName;
        assert!(matches!(
            validate(Some(&offloading("offloading")), &other),
            Verdict::Denied(reason) if reason.contains("cannot change")
        ));
    }

    #[test]
    fn a_stricter_strategy_is_told_to_leave_pods_alone() {
        let mut strict = offloading("offloading");
        strict.spec.pod_offloading_strategy = PodOffloadingStrategy::Remote;
        assert!(matches!(validate(Some(&offloading("offloading")), &strict), Verdict::Warned(_)));
        assert_eq!(validate(Some(&strict), &offloading("offloading")), Verdict::Allowed);
        assert_eq!(validate(Some(&strict), &strict), Verdict::Allowed);
    }

    #[test]
    fn a_selector_without_sense_is_not_let_in() {
        let mut wrong = offloading("offloading");
        wrong.spec.cluster_selector = serde_json::from_value(serde_json::json!({
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Like" }] }],
        }))
        .unwrap();
        assert!(matches!(
            validate(None, &wrong),
            Verdict::Denied(why) if why.contains("'Like' is no operator")
        ));
        assert!(matches!(validate(Some(&offloading("offloading")), &wrong), Verdict::Denied(_)));
        // One that was there before does not hold up the rest.
        assert_eq!(validate(Some(&wrong), &wrong), Verdict::Allowed);
    }

    fn offloading(name: &str) -> NamespaceOffloading {
        NamespaceOffloading::new(name, NamespaceOffloadingSpec::default())
    }
}
