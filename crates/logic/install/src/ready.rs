//! What is still waited for, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use crate::object::Id;

/// What has been seen of a cluster, by name; all in one namespace.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Deployments.
    pub deployments: BTreeMap<String, Deployment>,
    /// What runs on every node.
    pub daemon_sets: BTreeMap<String, DaemonSet>,
    /// Jobs.
    pub jobs: BTreeMap<String, Job>,
    /// APIs that are served by somebody else than the API server.
    pub api_services: BTreeMap<String, APIService>,
    /// Pods.
    pub pods: BTreeMap<String, Pod>,
}

/// How far something has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there and works.
    Ready,
    /// It will be, for all that is known.
    Waiting(String),
    /// It will never be.
    Failed(String),
}

/// How far all has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many are ready.
    pub ready: usize,
    /// How many there are.
    pub total: usize,
    /// What is not ready, and why.
    pub waiting: Vec<(String, String)>,
    /// What will never be ready, and why.
    pub failed: Vec<(String, String)>,
}

impl Progress {
    /// Whether nothing is waited for.
    pub fn is_done(&self) -> bool {
        self.ready == self.total
    }

    /// One line for whoever waits.
    pub fn line(&self) -> String {
        let mut line = format!("{}/{} ready", self.ready, self.total);
        if let Some((what, why)) = self.failed.first().or(self.waiting.first()) {
            let _ = write!(line, "; waiting for {what}: {why}");
        }
        line
    }
}

/// How far the objects that can be waited for have come.
pub fn progress<'a>(wanted: impl Iterator<Item = &'a Id>, seen: &Seen) -> Progress {
    let mut progress = Progress::default();
    for id in wanted {
        let Some(state) = seen.state(id) else { continue };
        progress.total += 1;
        match state {
            State::Ready => progress.ready += 1,
            State::Waiting(why) => progress.waiting.push((id.name.clone(), why)),
            State::Failed(why) => progress.failed.push((id.name.clone(), why)),
        }
    }
    progress
}

impl Seen {
    /// How far an object has come; none for one that nobody waits for.
    fn state(&self, id: &Id) -> Option<State> {
        let name = &id.name;
        let state = match (id.group.as_str(), id.kind.as_str()) {
            ("apps", "Deployment") => self.deployments.get(name).map(|one| self.deployment(one)),
            ("apps", "DaemonSet") => self.daemon_sets.get(name).map(|one| self.daemon_set(one)),
            ("batch", "Job") => self.jobs.get(name).map(|one| self.job(one)),
            ("apiregistration.k8s.io", "APIService") => {
                self.api_services.get(name).map(api_service)
            }
            _ => return None,
        };
        Some(state.unwrap_or_else(|| State::Waiting("it is not there yet".to_owned())))
    }

    fn deployment(&self, deployment: &Deployment) -> State {
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.replicas.unwrap_or(1);
        let conditions = status.conditions.unwrap_or_default();
        let refused = conditions.iter().find(|one| {
            one.type_.as_deref() == Some("ReplicaFailure") && one.status.as_deref() == Some("True")
        });
        if status.observed_generation < deployment.metadata.generation {
            return State::Waiting("nobody has seen it yet".to_owned());
        }
        if let Some(refused) = refused {
            return State::Waiting(refused.message.clone().unwrap_or_default());
        }
        let [updated, available, all] =
            [status.updated_replicas, status.available_replicas, status.replicas]
                .map(Option::unwrap_or_default);
        if updated >= wanted && available >= wanted && all == updated {
            return State::Ready;
        }
        let labels = deployment.spec.selector.match_labels.clone();
        State::Waiting(self.trouble(&labels.unwrap_or_default()))
    }

    fn daemon_set(&self, set: &DaemonSet) -> State {
        let Some(status) = set.status.as_ref() else {
            return State::Waiting("nobody has seen it yet".to_owned());
        };
        let wanted = status.desired_number_scheduled;
        if status.observed_generation < set.metadata.generation {
            return State::Waiting("nobody has seen it yet".to_owned());
        }
        let [updated, available] = [status.updated_number_scheduled, status.number_available]
            .map(Option::unwrap_or_default);
        if updated >= wanted && available >= wanted {
            return State::Ready;
        }
        let labels = set.spec.selector.match_labels.clone();
        State::Waiting(self.trouble(&labels.unwrap_or_default()))
    }

    fn job(&self, job: &Job) -> State {
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
        let conditions = conditions.unwrap_or_default();
        let holds =
            |kind: &str| conditions.iter().find(|one| one.type_ == kind && one.status == "True");
        if holds("Complete").is_some() {
            return State::Ready;
        }
        if let Some(failed) = holds("Failed") {
            return State::Failed(failed.message.clone().unwrap_or_default());
        }
        let labels = job.spec.as_ref().and_then(|spec| spec.selector.clone());
        let labels = labels.and_then(|selector| selector.match_labels).unwrap_or_default();
        State::Waiting(self.trouble(&labels))
    }

    /// Why pods with these labels do not work.
    fn trouble(&self, labels: &BTreeMap<String, String>) -> String {
        let is_one = |pod: &&Pod| {
            let own = pod.metadata.labels.as_ref();
            !labels.is_empty()
                && labels.iter().all(|(key, value)| {
                    own.and_then(|own| own.get(key)).is_some_and(|own| own == value)
                })
        };
        let pods: Vec<&Pod> = self.pods.values().filter(is_one).collect();
        let troubles: Vec<String> = pods.iter().filter_map(|pod| pod_trouble(pod)).collect();
        // What explains most is what is said longest.
        match troubles.into_iter().max_by_key(String::len) {
            Some(trouble) => trouble,
            None if pods.is_empty() => "it has no pod yet".to_owned(),
            None => "its pods are about to be ready".to_owned(),
        }
    }
}

fn api_service(service: &APIService) -> State {
    let conditions = service.status.as_ref().and_then(|status| status.conditions.as_deref());
    let available = conditions.unwrap_or_default().iter().find(|one| one.type_ == "Available");
    match available {
        Some(one) if one.status == "True" => State::Ready,
        Some(one) => State::Waiting(one.message.clone().unwrap_or_default()),
        None => State::Waiting("nobody has looked at it yet".to_owned()),
    }
}

/// Why a pod does not work; none when it does, or is about to go.
pub fn pod_trouble(pod: &Pod) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|one| one.type_ == kind);
    if let Some(one) = condition("PodScheduled").filter(|one| one.status == "False") {
        return Some(format!("not scheduled: {}", one.message.clone().unwrap_or_default()));
    }
    let containers = status.init_container_statuses.unwrap_or_default();
    let mut containers = containers.iter().chain(status.container_statuses.iter().flatten());
    if let Some(trouble) = containers.find_map(container_trouble) {
        return Some(trouble);
    }
    match (condition("Ready").map(|one| one.status.as_str()), status.phase.as_deref()) {
        (Some("True"), _) | (_, Some("Succeeded")) => None,
        (_, Some("Failed")) => Some("failed".to_owned()),
        (_, Some("Running")) => Some("runs, but is not ready".to_owned()),
        (_, _) => Some("starting".to_owned()),
    }
}

fn container_trouble(status: &ContainerStatus) -> Option<String> {
    let state = status.state.clone().unwrap_or_default();
    let waiting = state.waiting?;
    let reason = waiting
        .reason
        .filter(|reason| !["ContainerCreating", "PodInitializing"].contains(&reason.as_str()))?;
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let said = last.and_then(|last| last.message.as_deref()).map(last_line);
    let detail = match (said, last) {
        (Some(said), _) if !said.is_empty() => said.to_owned(),
        (_, Some(last)) => format!("exit code {}", last.exit_code),
        (_, None) => waiting.message.unwrap_or_default(),
    };
    Some(if detail.is_empty() { reason } else { format!("{reason}: {detail}") })
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn all_kinds_are_ready_when_their_status_says_so() {
        let seen = Seen {
            deployments: [("a".to_owned(), deployment(1, 1))].into(),
            daemon_sets: [("b".to_owned(), read(json!({
                "metadata": {"generation": 1},
                "status": {"observedGeneration": 1, "desiredNumberScheduled": 0,
                    "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
            })))].into(),
            jobs: [("c".to_owned(), job("Complete"))].into(),
            api_services: [("d".to_owned(), read(json!({
                "metadata": {}, "status": {"conditions": [{"type": "Available", "status": "True"}]},
            })))].into(),
            ..Seen::default()
        };
        let wanted = [
            id("apps", "Deployment", "a"),
            id("apps", "DaemonSet", "b"),
            id("batch", "Job", "c"),
            id("apiregistration.k8s.io", "APIService", "d"),
            id("", "Service", "e"),
        ];

        let progress = progress(wanted.iter(), &seen);

        assert!(progress.is_done());
        assert_eq!(progress.line(), "4/4 ready");
    }

    #[test]
    fn an_update_that_nobody_has_seen_is_not_ready() {
        let mut one = deployment(1, 1);
        one.metadata.generation = Some(2);
        let seen = Seen { deployments: [("a".to_owned(), one)].into(), ..Seen::default() };

        let progress = progress([id("apps", "Deployment", "a")].iter(), &seen);

        assert_eq!(progress.line(), "0/1 ready; waiting for a: nobody has seen it yet");
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_the_reason() {
        let pod = read(json!({
            "metadata": {"labels": {"app": "a", "more": "x"}},
            "status": {"phase": "Pending", "containerStatuses": [{
                "name": "a", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff",
                    "message": "Back-off pulling image \"nowhere/x\""}},
            }]},
        }));
        let seen = Seen {
            deployments: [("a".to_owned(), deployment(1, 0))].into(),
            pods: [("a-1".to_owned(), pod)].into(),
            ..Seen::default()
        };

        let progress = progress([id("apps", "Deployment", "a")].iter(), &seen);

        assert_eq!(
            progress.line(),
            "0/1 ready; waiting for a: ImagePullBackOff: Back-off pulling image \"nowhere/x\""
        );
    }

    #[test]
    fn a_crash_is_told_with_its_last_words() {
        let pod: Pod = read(json!({
            "metadata": {},
            "status": {"phase": "Running", "containerStatuses": [{
                "name": "a", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "start\nno cluster name\n\n"}},
            }]},
        }));

        assert_eq!(pod_trouble(&pod).as_deref(), Some("CrashLoopBackOff: no cluster name"));
    }

    #[test]
    fn a_job_that_failed_will_never_be_ready() {
        let seen = Seen { jobs: [("a".to_owned(), job("Failed"))].into(), ..Seen::default() };

        let progress = progress([id("batch", "Job", "a")].iter(), &seen);

        assert_eq!(progress.failed, [("a".to_owned(), "because".to_owned())]);
    }

    #[test]
    fn what_is_missing_is_waited_for() {
        let progress = progress([id("apps", "Deployment", "a")].iter(), &Seen::default());

        assert_eq!(progress.line(), "0/1 ready; waiting for a: it is not there yet");
    }

    fn deployment(wanted: i32, available: i32) -> Deployment {
        read(json!({
            "metadata": {"generation": 1},
            "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": "a"}}, "template": {}},
            "status": {"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted,
                "availableReplicas": available},
        }))
    }

    fn job(condition: &str) -> Job {
        let condition = json!({"type": condition, "status": "True", "message": "because"});
        read(json!({"metadata": {}, "status": {"conditions": [condition]}}))
    }

    fn id(group: &str, kind: &str, name: &str) -> Id {
        let [group, kind, name] = [group, kind, name].map(str::to_owned);
        Id { group, kind, namespace: Some("liqo".to_owned()), name }
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
}
