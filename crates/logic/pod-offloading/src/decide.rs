//! What to do about a pod, here and there.
//!
//! ```text
//!                        namespace does not extend
//!   bound ───────────────────────────────────────────────> Pending, OffloadingBackOff
//!     │ offload                                                   │ it extends now
//!     v                                                           v
//!   ShadowPod there ──its pod there──> status comes home <──── offload
//!     │                                  │
//!     │ deleted here: ShadowPod deleted  │ namespace does not extend any more
//!     v                                  v
//!   both gone there ──> pod gone here    Failed, OffloadingAborted (never offloaded again)
//! ```
//!
//! Nothing is decided about the other side as long as it is not known.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use liqo_api::keys::node;
use liqo_reflection::Place;
use serde_json::Value;

use crate::lean::{HomePod, RemotePod};
use crate::shadow;
use crate::status::Rejection;

/// What is known of the other side.
#[derive(Clone, Copy, Debug)]
pub enum There<'a> {
    /// Nothing yet.
    Unknown,
    /// The namespace does not extend there.
    Nowhere,
    /// What there is.
    Known {
        /// The ShadowPod.
        shadow: Option<&'a ObjectMeta>,
        /// The pod.
        pod: Option<&'a RemotePod>,
        /// Where that is.
        place: &'a Place,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the ShadowPod.
    Offload,
    /// Change labels and annotations of the ShadowPod.
    Relabel(Value),
    /// Add to the ShadowPod the containers that the pod has got since.
    AddContainers,
    /// Say why the other cluster does not add them.
    Warn(String),
    /// Delete the ShadowPod.
    DeleteShadow,
    /// Bring the status of the pod there home.
    Mirror,
    /// Say that the pod does not run, and why.
    Reject(Rejection),
    /// Say why the other cluster does not run it.
    Explain(String),
    /// Let the pod here go, at once: nothing of it is left anywhere.
    Finish,
}

/// Decides about a pod.
pub fn decide(home: Option<&HomePod>, there: There<'_>) -> Vec<Action> {
    match (home, there) {
        (_, There::Unknown) | (None, There::Nowhere) => Vec::new(),
        (None, There::Known { shadow, .. }) => delete(shadow),
        (Some(home), There::Nowhere) => stranded(home),
        (Some(home), There::Known { shadow, pod, place }) => {
            here_and_there(home, shadow, pod, place)
        }
    }
}

/// Whether a pod ought to be seen there and is not: it has a ShadowPod, nobody says why none could be made
/// of that, and it is not over.
pub fn is_missed(home: Option<&HomePod>, there: There<'_>) -> bool {
    let (Some(home), There::Known { shadow: Some(shadow), pod: None, .. }) = (home, there) else {
        return false;
    };
    let is_over = matches!(phase(&home.status.value()), "Succeeded" | "Failed");
    let is_wanted = !is_over && !home.is_leaving() && shadow.deletion_timestamp.is_none();
    is_wanted && shadow::error(shadow).is_none()
}

/// A pod whose namespace does not extend.
fn stranded(home: &HomePod) -> Vec<Action> {
    if home.is_leaving() {
        return vec![Action::Finish];
    }
    match phase(&home.status.value()) {
        "Succeeded" | "Failed" => Vec::new(),
        "Running" => vec![Action::Reject(Rejection::Aborted)],
        _ if home.has_started() => vec![Action::Reject(Rejection::Aborted)],
        _ => vec![Action::Reject(Rejection::BackOff)],
    }
}

fn here_and_there(
    home: &HomePod,
    shadow: Option<&ObjectMeta>,
    pod: Option<&RemotePod>,
    place: &Place,
) -> Vec<Action> {
    if shadow.is_some_and(|shadow| shadow::is_of_another(shadow, &home.metadata)) {
        return delete(shadow);
    }
    let status = home.status.value();
    let is_aborted = status.get("reason").and_then(Value::as_str) == Some(node::OFFLOADING_ABORTED)
        && phase(&status) == "Failed";
    if home.is_leaving() {
        let mut actions = delete(shadow);
        match (shadow, pod) {
            (None, None) => actions.push(Action::Finish),
            (_, Some(pod)) if !is_aborted && is_of(pod, shadow) => actions.push(Action::Mirror),
            (_, Some(_)) | (Some(_), None) => {}
        }
        return actions;
    }
    if is_aborted {
        return delete(shadow);
    }
    let Some(shadow) = shadow else {
        let is_over = matches!(phase(&status), "Succeeded" | "Failed");
        // The pod of an earlier ShadowPod goes by itself, and must not be taken for a new one.
        let is_in_the_way = pod.is_some_and(|pod| pod.owner().is_some());
        return if is_over || is_in_the_way { Vec::new() } else { vec![Action::Offload] };
    };
    if shadow.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    actions.extend(shadow::relabel(shadow, &home.metadata, place).map(Action::Relabel));
    match pod {
        Some(pod) if is_of(pod, Some(shadow)) && !is_replaced(pod) => {
            if !pod.is_leaving() && home.added().any(|name| !pod.has_added(name)) {
                actions.push(Action::AddContainers);
                let error = shadow::error(shadow);
                actions.extend(error.map(|error| Action::Warn(error.to_owned())));
            }
            actions.push(Action::Mirror);
        }
        Some(_) => {}
        None => {
            let error = shadow::error(shadow);
            actions.extend(error.map(|error| Action::Explain(error.to_owned())));
        }
    }
    actions
}

/// Deletes a ShadowPod that nobody has deleted yet.
fn delete(shadow: Option<&ObjectMeta>) -> Vec<Action> {
    let stays = shadow.is_some_and(|shadow| shadow.deletion_timestamp.is_none());
    if stays { vec![Action::DeleteShadow] } else { Vec::new() }
}

/// Whether a pod is that of a ShadowPod, and not of an earlier one.
fn is_of(pod: &RemotePod, shadow: Option<&ObjectMeta>) -> bool {
    match (pod.owner(), shadow.and_then(|shadow| shadow.uid.as_deref())) {
        (Some(owner), Some(shadow)) => owner == shadow,
        (None, _) | (_, None) => true,
    }
}

/// Whether a pod has ended only to be made anew, as when its node there is lost. Whoever heard that
/// it has failed would make another one here.
fn is_replaced(pod: &RemotePod) -> bool {
    pod.is_leaving() && matches!(phase(&pod.status.value()), "Succeeded" | "Failed")
}

fn phase(status: &Value) -> &str {
    status.get("phase").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{golden_home, home_pod, place, remote_pod, shadow_of};
    use crate::lean::Json;

    #[test]
    fn a_pod_is_offloaded_once() {
        let home = home_pod();
        assert_eq!(known(Some(&home), None, None), [Action::Offload]);
        assert_eq!(known(Some(&home), Some(&shadow_of(&home)), None), []);
    }

    #[test]
    fn nothing_is_decided_about_what_is_not_known() {
        assert_eq!(decide(Some(&home_pod()), There::Unknown), []);
        assert_eq!(decide(Some(&leaving(home_pod())), There::Unknown), []);
        assert_eq!(decide(None, There::Unknown), []);
    }

    #[test]
    fn a_pod_that_ought_to_be_there_is_missed() {
        let (home, remote, place) = (home_pod(), running(), place());
        let missed = |home: Option<&HomePod>, shadow: Option<&ObjectMeta>, pod| {
            is_missed(home, There::Known { shadow, pod, place: &place })
        };
        let shadow = shadow_of(&home);
        assert!(missed(Some(&home), Some(&shadow), None));
        assert!(!missed(Some(&home), Some(&shadow), Some(&remote)), "it is there");
        assert!(!missed(Some(&home), None, None), "nobody asked for it yet");
        assert!(!missed(None, Some(&shadow), None), "nobody wants it any more");
        assert!(!missed(Some(&leaving(home_pod())), Some(&shadow), None));
        assert!(!is_missed(Some(&home), There::Nowhere) && !is_missed(Some(&home), There::Unknown));
        let mut refused = shadow_of(&home);
        let why = ("liqo.io/shadowpod-error".to_owned(), "no room".to_owned());
        refused.annotations.get_or_insert_default().extend([why]);
        assert!(!missed(Some(&home), Some(&refused), None), "it is said why there is none");
        let mut over = home_pod();
        over.status = Json::of(&json!({"phase": "Succeeded"}));
        assert!(!missed(Some(&over), Some(&shadow), None), "it has come to its end");
    }

    #[test]
    fn the_status_comes_home() {
        let home = home_pod();
        let remote = running();
        let actions = known(Some(&home), Some(&shadow_of(&home)), Some(&remote));
        assert_eq!(actions, [Action::Mirror]);
    }

    #[test]
    fn labels_follow_and_the_specification_does_not() {
        let mut home = home_pod();
        let shadow = shadow_of(&home);
        home.metadata.labels.as_mut().unwrap().insert("new".to_owned(), "1".to_owned());
        let actions = known(Some(&home), Some(&shadow), Some(&running()));
        assert!(matches!(&actions[..], [Action::Relabel(_), Action::Mirror]), "{actions:?}");
    }

    #[test]
    fn a_pod_that_is_deleted_here_goes_when_nothing_is_left_there() {
        let home = leaving(home_pod());
        let mut shadow = shadow_of(&home);
        let both = [Action::DeleteShadow, Action::Mirror];
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), both);
        shadow.deletion_timestamp = now();
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), [Action::Mirror]);
        assert_eq!(known(Some(&home), None, Some(&running())), [Action::Mirror]);
        assert_eq!(known(Some(&home), Some(&shadow), None), []);
        assert_eq!(known(Some(&home), None, None), [Action::Finish]);
    }

    #[test]
    fn what_is_gone_here_goes_there() {
        assert_eq!(
            known(None, Some(&shadow_of(&home_pod())), Some(&running())),
            [Action::DeleteShadow]
        );
        assert_eq!(known(None, None, Some(&running())), []);
    }

    #[test]
    fn a_shadow_that_vanishes_is_made_again_once_its_pod_is_gone() {
        let home = home_pod();
        assert_eq!(known(Some(&home), None, Some(&running())), []);
        assert_eq!(known(Some(&home), None, None), [Action::Offload]);
    }

    #[test]
    fn the_shadow_of_an_earlier_pod_of_the_same_name_makes_room() {
        let mut home = home_pod();
        let shadow = shadow_of(&home);
        home.metadata.uid = Some("new".to_owned());
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), [Action::DeleteShadow]);
    }

    #[test]
    fn the_pod_of_an_earlier_shadow_is_not_mirrored() {
        let home = home_pod();
        let shadow = ObjectMeta { uid: Some("other".to_owned()), ..shadow_of(&home) };
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), []);
    }

    #[test]
    fn what_is_over_is_not_started_again() {
        for phase in ["Succeeded", "Failed"] {
            let home = with_status(&json!({"phase": phase}));
            assert_eq!(known(Some(&home), None, None), []);
        }
    }

    #[test]
    fn what_was_aborted_stays_so() {
        let home = with_status(&json!({"phase": "Failed", "reason": "OffloadingAborted"}));
        let shadow = shadow_of(&home);
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), [Action::DeleteShadow]);
        assert_eq!(known(Some(&home), None, Some(&running())), []);
        assert_eq!(known(Some(&leaving(home)), None, None), [Action::Finish]);
    }

    #[test]
    fn a_pod_that_is_made_anew_there_has_not_failed_here() {
        let home = home_pod();
        let mut remote = remote_pod(&json!({"phase": "Failed"}));
        let shadow = shadow_of(&home);
        assert_eq!(known(Some(&home), Some(&shadow), Some(&remote)), [Action::Mirror]);
        remote.metadata.deletion_timestamp = now();
        assert_eq!(known(Some(&home), Some(&shadow), Some(&remote)), []);
    }

    #[test]
    fn why_there_is_no_pod_there_is_told() {
        let home = home_pod();
        let mut shadow = shadow_of(&home);
        let annotations = shadow.annotations.as_mut().unwrap();
        annotations.insert("liqo.io/shadowpod-error".to_owned(), "no room".to_owned());
        let why = [Action::Explain("no room".to_owned())];
        assert_eq!(known(Some(&home), Some(&shadow), None), why);
        assert_eq!(known(Some(&home), Some(&shadow), Some(&running())), [Action::Mirror]);
    }

    #[test]
    fn containers_that_are_added_here_are_added_there() {
        let mut home = golden_home();
        home["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "tools"}]);
        let home: HomePod = serde_json::from_value(home).unwrap();
        let shadow = shadow_of(&home);
        let has = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            let pod = remote_pod(&json!({"phase": "Running"}));
            let spec = serde_json::from_value(json!({"ephemeralContainers": containers})).unwrap();
            RemotePod { spec, ..pod }
        };
        let adds = [Action::AddContainers, Action::Mirror];
        assert_eq!(known(Some(&home), Some(&shadow), Some(&has(&[]))), adds);
        assert_eq!(known(Some(&home), Some(&shadow), Some(&has(&["theirs"]))), adds);
        let both = has(&["theirs", "debug"]);
        assert_eq!(known(Some(&home), Some(&shadow), Some(&both)), [Action::Mirror]);
        assert_eq!(known(Some(&home), Some(&shadow), None), [], "there is nothing to add to yet");
        let mut refused = shadow;
        let annotations = refused.annotations.as_mut().unwrap();
        annotations.insert("liqo.io/shadowpod-error".to_owned(), "too bold".to_owned());
        let warns = [Action::AddContainers, Action::Warn("too bold".to_owned()), Action::Mirror];
        assert_eq!(known(Some(&home), Some(&refused), Some(&has(&[]))), warns);
        assert_eq!(known(Some(&home), Some(&refused), Some(&both)), [Action::Mirror]);
    }

    #[test]
    fn a_pod_whose_namespace_does_not_extend_waits_or_has_failed() {
        let reject = |status: Value| decide(Some(&with_status(&status)), There::Nowhere);
        let back_off = [Action::Reject(Rejection::BackOff)];
        let aborted = [Action::Reject(Rejection::Aborted)];
        assert_eq!(reject(json!({"phase": "Pending"})), back_off);
        assert_eq!(reject(json!({})), back_off);
        assert_eq!(reject(json!({"phase": "Running"})), aborted);
        let containers = json!([{"name": "c"}]);
        assert_eq!(reject(json!({"phase": "Pending", "containerStatuses": containers})), aborted);
        assert_eq!(reject(json!({"phase": "Succeeded"})), []);
        assert_eq!(reject(json!({"phase": "Failed"})), []);
        assert_eq!(decide(Some(&leaving(home_pod())), There::Nowhere), [Action::Finish]);
    }

    #[test]
    fn whatever_is_seen_nothing_is_lost_and_nothing_doubled() {
        let home = home_pod();
        let phases = ["Pending", "Running", "Succeeded", "Failed"].map(|phase| {
            json!({
                "phase": phase,
            })
        });
        let aborted = json!({"phase": "Failed", "reason": "OffloadingAborted"});
        let homes = phases
            .iter()
            .chain([&aborted])
            .flat_map(|status| [with_status(status), leaving(with_status(status))].map(Some));
        let homes: Vec<Option<HomePod>> = homes.chain([None]).collect();
        let ours = shadow_of(&home);
        let gone = ObjectMeta { deletion_timestamp: now(), ..ours.clone() };
        let mut old = ours.clone();
        let annotations = old.annotations.as_mut().unwrap();
        annotations.insert("virtualkubelet.liqo.io/home-pod-uid".to_owned(), "old".to_owned());
        let shadows = [None, Some(ours), Some(gone), Some(old)];
        let mut leaves = running();
        leaves.metadata.deletion_timestamp = now();
        let pods = [None, Some(running()), Some(leaves)];
        for home in &homes {
            for (shadow, pod) in shadows.iter().flat_map(|one| pods.iter().map(move |it| (one, it)))
            {
                let actions = known(home.as_ref(), shadow.as_ref(), pod.as_ref());
                let does = |action: &Action| actions.contains(action);
                let seen = format!("{home:?} {shadow:?} {pod:?}: {actions:?}");
                let is_leaving = home.as_ref().is_some_and(HomePod::is_leaving);
                if does(&Action::Finish) {
                    assert!(is_leaving && shadow.is_none() && pod.is_none(), "{seen}");
                }
                if does(&Action::Offload) {
                    assert!(!is_leaving && shadow.is_none() && pod.is_none(), "{seen}");
                }
                if does(&Action::DeleteShadow) {
                    let is_there =
                        shadow.as_ref().is_some_and(|it| it.deletion_timestamp.is_none());
                    assert!(is_there && actions.len() <= 2, "{seen}");
                }
                if home.is_none() || is_leaving {
                    let is_there =
                        shadow.as_ref().is_some_and(|it| it.deletion_timestamp.is_none());
                    assert_eq!(does(&Action::DeleteShadow), is_there, "{seen}");
                }
            }
        }
    }

    fn known(
        home: Option<&HomePod>,
        shadow: Option<&ObjectMeta>,
        pod: Option<&RemotePod>,
    ) -> Vec<Action> {
        decide(home, There::Known { shadow, pod, place: &place() })
    }

    fn running() -> RemotePod {
        remote_pod(&json!({"phase": "Running"}))
    }

    fn with_status(status: &Value) -> HomePod {
        HomePod { status: Json::of(status), ..home_pod() }
    }

    fn leaving(mut pod: HomePod) -> HomePod {
        pod.metadata.deletion_timestamp = now();
        pod
    }

    fn now() -> Option<liqo_api::Time> {
        serde_json::from_value(json!("2026-11-16T07:00:00Z")).unwrap()
    }
}
