//! Facts about statuses.

use super::*;

#[test]
fn a_status_comes_home_with_addresses_of_this_cluster() {
    let remote = json!({
        "phase": "Running",
        "podIP": "10.201.0.118", "podIPs": [{"ip": "10.201.0.118"}],
        "hostIP": "172.30.0.3", "hostIPs": [{"ip": "172.30.0.3"}],
        "startTime": "2026-11-15T20:10:46Z",
        "ofTomorrow": {"a": 1},
    });
    let want = json!({
        "phase": "Running",
        "podIP": "10.71.0.118", "podIPs": [{"ip": "10.71.0.118"}],
        "hostIP": "10.200.0.9", "hostIPs": [{"ip": "10.200.0.9"}],
        "startTime": "2026-11-15T20:10:46Z",
        "ofTomorrow": {"a": 1},
    });
    assert_eq!(home(&remote, &json!({}), &translation(&["10.71.0.118"])), want);
}

#[test]
fn addresses_that_are_not_told_are_left_out() {
    let remote = json!({"podIP": "10.201.0.118", "podIPs": [{"ip": "10.201.0.118"}]});
    assert_eq!(home(&remote, &json!({}), &translation(&[])), json!({}));
}

#[test]
fn all_addresses_of_a_pod_are_known() {
    let both = json!({"podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]});
    assert_eq!(addresses(&both).len(), 2);
    assert_eq!(addresses(&json!({"podIP": "10.1.0.1"})).len(), 1);
    assert!(addresses(&json!({})).is_empty());
}

#[test]
fn what_this_cluster_says_of_a_pod_stays() {
    let remote = json!({"phase": "Running", "qosClass": "Burstable", "observedGeneration": 4});
    let have = json!({"phase": "Pending", "qosClass": "BestEffort", "nominatedNodeName": "n"});
    let want = json!({"phase": "Running", "qosClass": "BestEffort", "nominatedNodeName": "n"});
    assert_eq!(home(&remote, &have, &translation(&[])), want);
}

#[test]
fn conditions_come_home_and_what_is_known_better_here_stays() {
    let remote = json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "late",
         "observedGeneration": 1},
        {"type": "Ready", "status": "True", "observedGeneration": 1},
    ]});
    let have = json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "early"},
        {"type": "DisruptionTarget", "status": "True"},
        {"type": "Gone", "status": "True"},
    ]});
    let want = json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "early"},
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True"},
    ]});
    assert_eq!(home(&remote, &have, &translation(&[])), want);
}

#[test]
fn a_pod_that_no_node_there_has_taken_is_no_news() {
    let have = json!({"phase": "Pending", "qosClass": "BestEffort", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "early"},
    ]});
    let remote = json!({"phase": "Pending", "qosClass": "BestEffort", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "late"},
    ]});
    let want = home(&remote, &have, &translation(&[]));
    assert_eq!(change(&ObjectMeta::default(), &have, &want), None);
}

#[test]
fn restarts_of_pods_that_are_gone_are_added_to_every_container() {
    let remote = json!({"containerStatuses": [
        {"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 0},
    ], "initContainerStatuses": [{"name": "i", "restartCount": 0}]});
    let translation = Translation { restarts: 3, ..translation(&[]) };
    let want = json!({"containerStatuses": [
        {"name": "a", "restartCount": 5}, {"name": "b", "restartCount": 3},
    ], "initContainerStatuses": [{"name": "i", "restartCount": 0}]});
    assert_eq!(home(&remote, &json!({}), &translation), want);
}

#[test]
fn another_pod_counts_as_a_restart() {
    let count = |number: i64| json!({"containerStatuses": [{"restartCount": number}]});
    let next = |last: &Restarts, pod, remote: &Value, have: &Value| {
        Restarts::next(Some(last), pod, remote, have).unwrap()
    };
    let first = Restarts::next(None, "one", &count(2), &json!({})).unwrap();
    assert_eq!(first.more, 0);
    let same = next(&first, "one", &count(3), &count(2));
    assert_eq!(same.more, 0);
    let other = next(&same, "two", &json!({}), &count(3));
    assert_eq!(other.more, 4, "three of the last pod, and the change");
    assert_eq!(next(&other, "two", &count(0), &count(4)).more, 4);
}

#[test]
fn who_has_just_come_goes_by_what_is_shown() {
    let count = |number: i64| json!({"containerStatuses": [{"restartCount": number}]});
    let more = |remote: &Value| Restarts::next(None, "two", remote, &count(4)).map(|it| it.more);
    assert_eq!(more(&count(1)), Some(3));
    assert_eq!(more(&count(5)), Some(0));
    assert_eq!(more(&json!({})), None);
}

#[test]
fn a_pod_that_never_started_waits_and_one_that_did_has_failed() {
    let have = json!({
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "early"},
            {"type": "Initialized", "status": "False", "lastTransitionTime": "early"},
        ],
        "containerStatuses": [{"name": "a", "ready": true, "restartCount": 1}],
    });
    let now = Timestamp::from_second(0).unwrap();
    let aborted = rejected(&have, Rejection::Aborted, "because", now);
    let want = json!({
        "phase": "Failed", "reason": "OffloadingAborted", "message": "because",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "OffloadingAborted",
             "lastTransitionTime": "1970-01-01T00:00:00Z"},
            {"type": "Initialized", "status": "False", "lastTransitionTime": "early"},
        ],
        "containerStatuses": [{"name": "a", "ready": false, "restartCount": 1}],
    });
    assert_eq!(aborted, want);
    let later = Timestamp::from_second(9).unwrap();
    assert_eq!(rejected(&aborted, Rejection::Aborted, "because", later), aborted, "said once");
    let waits = rejected(&json!({"phase": "Pending"}), Rejection::BackOff, "because", now);
    let want = json!({"phase": "Pending", "reason": "OffloadingBackOff", "message": "because"});
    assert_eq!(waits, want);
}

#[test]
fn a_change_names_the_pod_and_what_differs() {
    let pod = ObjectMeta { uid: Some("u".to_owned()), ..ObjectMeta::default() };
    let (have, want) = (json!({"phase": "Pending", "reason": "a"}), json!({"phase": "Running"}));
    let patch = json!({"metadata": {"uid": "u"}, "status": {"phase": "Running", "reason": null}});
    assert_eq!(change(&pod, &have, &want), Some(patch));
    assert_eq!(change(&pod, &want, &want), None);
}

#[test]
fn a_pod_is_marked_with_its_first_status_from_elsewhere() {
    let mut pod = crate::fixtures::home_pod();
    let (have, want) = (json!({"phase": "Pending"}), json!({"phase": "Running"}));
    assert_eq!(marked_change(&pod, &have, &want), change(&pod.metadata, &have, &want));
    pod.metadata.labels = None;
    let marked = marked_change(&pod, &have, &want).unwrap();
    assert_eq!(marked["metadata"]["labels"], json!({"liqo.io/shadowPod": "true"}));
    assert_eq!(marked["status"], want);
    assert_eq!(marked_change(&pod, &want, &want), None);
}

#[test]
fn what_is_about_to_change_again_may_wait_and_what_starts_may_have_company() {
    let pod = crate::fixtures::home_pod();
    let pending = json!({"phase": "Pending"});
    let waiting = |reason: &str| {
        let state = json!({"waiting": {"reason": reason}});
        json!({"phase": "Pending", "containerStatuses": [{"name": "c", "state": state}]})
    };
    assert_eq!(wait(&pod, &pending, &waiting("ContainerCreating")), Wait::ForStart);
    assert_eq!(wait(&pod, &pending, &waiting("ErrImagePull")), Wait::Not);
    let back_off = json!({"phase": "Pending", "reason": "OffloadingBackOff"});
    let lifted = wait(&pod, &back_off, &waiting("ContainerCreating"));
    assert_eq!(lifted, Wait::Not, "a worry is lifted");
    assert_eq!(wait(&pod, &pending, &back_off), Wait::Not);
    let (running, failed) = (json!({"phase": "Running"}), json!({"phase": "Failed"}));
    assert_eq!(wait(&pod, &pending, &running), Wait::ForOthers);
    assert_eq!(wait(&pod, &pending, &failed), Wait::Not);
    assert_eq!(wait(&pod, &back_off, &running), Wait::Not);
    let unready = json!({"phase": "Running", "conditions": []});
    assert_eq!(wait(&pod, &running, &unready), Wait::Not);
    assert_eq!(wait(&pod, &pending, &pending), Wait::Not, "nothing changed");
    let mut leaving = pod;
    leaving.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-11-16T07:00:00Z")).unwrap();
    assert_eq!(wait(&leaving, &running, &unready), Wait::ForNext);
    assert_eq!(wait(&leaving, &running, &failed), Wait::Not);
    assert_eq!(wait(&leaving, &running, &running), Wait::Not, "nothing changed");
}

fn translation(addresses: &[&str]) -> Translation {
    Translation {
        node: "10.200.0.9".parse().unwrap(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        restarts: 0,
    }
}
