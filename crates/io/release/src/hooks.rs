//! Hooks: objects that are applied when something happens to a release.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use liqo_api::keys::label;
use liqo_chart::Hook;
use liqo_install::object::Id;
use serde_json::Value;

use crate::{Engine, Error};

/// How much of a failed Job's log is worth telling.
const LAST_LINES: i64 = 5;

impl Engine<'_> {
    /// Applies the hooks of a moment one after the other; Jobs have to succeed.
    pub(crate) async fn run_hooks(&self, event: &str, hooks: &[&Hook]) -> Result<(), Error> {
        for hook in hooks {
            let mut object = hook.document.object.clone();
            self.settle(&mut object);
            let Some(id) = Id::of(&object, &self.namespace) else { continue };
            // What a hook makes cannot be changed: the old one goes first.
            self.delete(vec![object.clone()], is_of_a_chart).await?;
            self.apply(std::slice::from_ref(&object)).await?;
            if id.kind == "Job" {
                match self.ready(std::slice::from_ref(&id), event).await {
                    Err(Error::Never { what, why }) => {
                        let words = self.last_words(&id.name).await.unwrap_or_default();
                        let why = if words.is_empty() { why } else { format!("{why}\n{words}") };
                        return Err(Error::Never { what, why });
                    }
                    other => other?,
                }
            }
        }
        let done = |hook: &&&Hook| hook.delete_policies.iter().any(|one| one == "hook-succeeded");
        let done = hooks.iter().filter(done).map(|hook| hook.document.object.clone());
        self.delete(done.collect(), is_of_a_chart).await
    }

    /// Gives an object the namespace of the release, unless it has one.
    fn settle(&self, object: &mut Value) {
        let Some(id) = Id::of(object, &self.namespace) else { return };
        if let (Some(namespace), Some(metadata)) = (id.namespace, object.get_mut("metadata")) {
            metadata["namespace"] = namespace.into();
        }
    }

    /// The end of what a Job's last pod logged.
    async fn last_words(&self, job: &str) -> Option<String> {
        let jobs: Api<Job> = self.own();
        let selector = jobs.get(job).await.ok()?.spec?.selector?.match_labels?;
        let words: Vec<String> =
            selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods: Api<Pod> = self.own();
        let all = pods.list(&ListParams::default().labels(&words.join(","))).await.ok()?;
        let last =
            all.items.into_iter().max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
        let params = LogParams { tail_lines: Some(LAST_LINES), ..LogParams::default() };
        pods.logs(&last.name_any(), &params).await.ok().map(|log| log.trim_end().to_owned())
    }
}

/// Whether an object was made from a chart, which all hooks are.
pub fn is_of_a_chart(live: &Value) -> bool {
    let labels = live.pointer("/metadata/labels");
    let manager = labels.and_then(|labels| labels.get(label::APP_MANAGED_BY));
    manager.and_then(Value::as_str) == Some(label::MANAGED_BY_HELM)
}
