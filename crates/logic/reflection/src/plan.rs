//! What to do about an object and its copy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::place::is_skipped;
use crate::{Outcome, Place, Reflect, Translated};

/// What to do about an object and its copy.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan<T> {
    /// The copy has to be like this.
    Apply(T),
    /// The copy has to go.
    Remove,
    /// There must be no copy, and the user is told why.
    Withhold {
        /// Why.
        reason: &'static str,
        /// Whether there is one that has to go.
        remove: bool,
    },
    /// Somebody else has an object where the copy should be; it stays.
    Taken,
    /// Nothing.
    Nothing,
}

/// What a user reads of an object with the annotation that keeps it here.
const SKIPPED: &str = "its annotation says so";
/// The same when it is its Service that has the annotation.
const SERVICE_SKIPPED: &str = "the annotation of its Service says so";

/// Why a user wants an object to stay here: its annotation says so, or that of its Service.
pub fn skipped(source: &ObjectMeta, service: Option<&ObjectMeta>) -> Option<&'static str> {
    let service = service.filter(|service| is_skipped(service)).map(|_| SERVICE_SKIPPED);
    if is_skipped(source) { Some(SKIPPED) } else { service }
}

/// Decides about an object, which may belong to a Service, and what is there under the name of its
/// copy.
pub fn plan<R: Reflect>(
    source: Option<&R::Source>,
    service: Option<&ObjectMeta>,
    there: Option<&ObjectMeta>,
    place: &Place,
    addresses: &Translated,
) -> Plan<R::Target> {
    let has_copy = there.is_some_and(|there| place.is_ours(there) && R::is_copy(there));
    let is_leaving = there.is_some_and(|there| there.deletion_timestamp.is_some());
    let outcome = match source {
        None => Outcome::Nothing,
        Some(source) => match skipped(kube_core::Resource::meta(source), service) {
            Some(reason) => Outcome::Withheld(reason),
            None => R::desired(source, place, addresses),
        },
    };
    match outcome {
        Outcome::Copy(_) if there.is_some() && !has_copy => Plan::Taken,
        // Its end is seen, and then there is a new one.
        Outcome::Copy(_) if is_leaving => Plan::Nothing,
        Outcome::Copy(target) => Plan::Apply(target),
        Outcome::Withheld(reason) => Plan::Withhold { reason, remove: has_copy && !is_leaving },
        Outcome::Nothing if has_copy && !is_leaving => Plan::Remove,
        Outcome::Nothing => Plan::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::kinds::ConfigMaps;
    use crate::place::tests::{map, place};

    #[test]
    fn an_object_without_a_copy_gets_one() {
        assert!(matches!(decide(Some(&source()), None), Plan::Apply(_)));
    }

    #[test]
    fn a_copy_without_an_object_goes() {
        assert_eq!(decide(None, Some(&copy())), Plan::Remove);
        assert_eq!(decide(None, None), Plan::Nothing);
    }

    #[test]
    fn what_is_not_ours_is_neither_changed_nor_removed() {
        let foreign = ObjectMeta::default();
        assert_eq!(decide(Some(&source()), Some(&foreign)), Plan::Taken);
        assert_eq!(decide(None, Some(&foreign)), Plan::Nothing);
    }

    #[test]
    fn an_object_that_is_to_stay_here_has_no_copy() {
        let mut source = source();
        source.metadata.annotations = Some(map(&[("liqo.io/skip-reflection", "")]));
        let withheld = |remove| Plan::Withhold { reason: SKIPPED, remove };
        assert_eq!(decide(Some(&source), None), withheld(false));
        assert_eq!(decide(Some(&source), Some(&copy())), withheld(true));
        assert_eq!(decide(Some(&source), Some(&ObjectMeta::default())), withheld(false));
    }

    #[test]
    fn a_service_may_keep_what_belongs_to_it_here() {
        let annotations = Some(map(&[("liqo.io/skip-reflection", "")]));
        let service = ObjectMeta { annotations, ..ObjectMeta::default() };
        assert_eq!(skipped(&ObjectMeta::default(), Some(&service)), Some(SERVICE_SKIPPED));
        assert_eq!(skipped(&service, Some(&ObjectMeta::default())), Some(SKIPPED));
        assert_eq!(skipped(&ObjectMeta::default(), Some(&ObjectMeta::default())), None);
        let (source, place) = (source(), place());
        let plan =
            plan::<ConfigMaps>(Some(&source), Some(&service), None, &place, &Translated::new());
        assert_eq!(plan, Plan::Withhold { reason: SERVICE_SKIPPED, remove: false });
    }

    #[test]
    fn a_copy_that_is_leaving_is_waited_for() {
        let mut copy = copy();
        copy.deletion_timestamp = serde_json::from_str("\"2026-11-16T07:00:00Z\"").unwrap();
        assert_eq!(decide(Some(&source()), Some(&copy)), Plan::Nothing);
        assert_eq!(decide(None, Some(&copy)), Plan::Nothing);
    }

    fn decide(source: Option<&ConfigMap>, there: Option<&ObjectMeta>) -> Plan<ConfigMap> {
        plan::<ConfigMaps>(source, None, there, &place(), &Translated::new())
    }

    fn source() -> ConfigMap {
        let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn copy() -> ObjectMeta {
        place().metadata(&source().metadata, "a")
    }
}
