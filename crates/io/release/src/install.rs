//! Installs or changes a release, and goes back when that fails.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use liqo_chart::{Chart, Document, Hook, Release, Rendered, Status, Target, Values, render};
use liqo_install::history::{self, Next};
use liqo_install::object::Id;
use liqo_kit::apply::is_subset;
use serde_json::Value;

use crate::hooks::is_of_a_chart;
use crate::objects::Pair;
use crate::{Engine, Error, RELEASE};

/// How long going back may take.
const WAY_BACK: Duration = Duration::from_mins(2);

/// What is to be installed.
pub struct Wanted<'a> {
    /// The chart.
    pub chart: &'a Chart,
    /// Its values.
    pub values: &'a Values,
    /// Version of Kubernetes.
    pub kubernetes: &'a str,
}

/// What will be done; nothing has been written yet.
pub struct Prepared {
    /// What the chart makes of the values.
    pub rendered: Rendered,
    /// The revision that is to be written, with the status of one that is under way; none when
    /// everything already is as it is wanted.
    pub release: Option<Release>,
    definitions: Vec<Value>,
    objects: Vec<Value>,
    history: Vec<Release>,
    /// What is deployed, if anything.
    from: Option<Release>,
    made: Mutex<Made>,
}

/// What did not exist before.
#[derive(Default)]
struct Made {
    namespace: bool,
    definitions: Vec<Value>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything already was as it is wanted.
    Unchanged,
    /// It is installed.
    Installed,
    /// It was changed.
    Upgraded,
}

/// What is there after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Nothing of it.
    Removed,
    /// The revision from before.
    Restored(u32),
}

/// It did not work.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: Error,
    /// What is there now, or why not even the way back worked; none when nothing had been written.
    pub undone: Option<Result<Undone, Error>>,
}

impl Engine<'_> {
    /// Finds out what has to be done, and whether it may be; writes nothing.
    pub async fn prepare(&self, wanted: &Wanted<'_>) -> Result<Prepared, Error> {
        let mut history = self.history().await?;
        let mut target = Target {
            release: RELEASE.to_owned(),
            namespace: self.namespace.clone(),
            kubernetes: wanted.kubernetes.to_owned(),
            revision: 1,
            is_upgrade: history::deployed(&history).is_some(),
        };
        let rendered = render(wanted.chart, wanted.values, &target)?;
        let definitions = wanted.chart.custom_resource_definitions()?;
        let objects = self.marked(&rendered.documents);
        self.kinds_exist(&objects).await?;
        let defined = self.look(definitions.clone()).await?;
        let live = self.look(objects.clone()).await?;
        self.refuse_strangers(&live)?;

        let is_so = defined.iter().all(|pair| pair.have.is_some()) && live.iter().all(is_so);
        let next = history::next(&history, |release| is_so && says(release, wanted, &rendered));
        let from = match &next {
            Next::Upgrade { from, .. } => Some((*from).clone()),
            Next::Nothing(_) | Next::Install { .. } => None,
        };
        let revision = next.revision();
        let release = match revision {
            None => None,
            Some(revision) => {
                target.revision = revision;
                let status =
                    if from.is_some() { Status::PendingUpgrade } else { Status::PendingInstall };
                let Wanted { chart, values, .. } = wanted;
                let now = Timestamp::now();
                let mut release = Release::new(chart, values, &rendered, &target, status, now)?;
                if let Some(from) = &from {
                    release.info.first_deployed = from.info.first_deployed;
                }
                Some(release)
            }
        };
        history.retain(|one| Some(one.version) != revision);
        let absent = defined.into_iter().filter(|pair| pair.have.is_none());
        let made = Made { namespace: false, definitions: absent.map(|pair| pair.want).collect() };
        let made = Mutex::new(made);
        Ok(Prepared { rendered, release, definitions, objects, history, from, made })
    }

    /// Does it, within a time and until it is interrupted; goes back if it does not work.
    ///
    /// Going back can be interrupted as well; what is then left, the next run or an uninstallation
    /// takes care of.
    pub async fn install<F: Future<Output = ()>>(
        &self,
        prepared: &Prepared,
        timeout: Duration,
        interrupted: impl Fn() -> F,
    ) -> Result<Outcome, Failed> {
        let Some(release) = &prepared.release else { return Ok(Outcome::Unchanged) };
        let result = tokio::select! {
            result = self.attempt(prepared, release) => result,
            () = tokio::time::sleep(timeout) => Err(Error::TimedOut(self.what_is_missing())),
            () = interrupted() => Err(Error::Interrupted),
        };
        match result {
            Ok(()) if prepared.from.is_some() => Ok(Outcome::Upgraded),
            Ok(()) => Ok(Outcome::Installed),
            Err(error) => {
                self.report.step("going back to what was before");
                let back = self.go_back(prepared, release, &error);
                let undone = tokio::select! {
                    undone = back => undone,
                    () = tokio::time::sleep(WAY_BACK) => Err(Error::TimedOut(String::new())),
                    () = interrupted() => Err(Error::Interrupted),
                };
                Err(Failed { error, undone: Some(undone) })
            }
        }
    }

    fn what_is_missing(&self) -> String {
        let waiting = self.waiting();
        let all = waiting.failed.iter().chain(&waiting.waiting);
        let parts: Vec<String> = all.map(|(what, why)| format!("{what}: {why}")).collect();
        parts.join("; ")
    }

    async fn attempt(&self, prepared: &Prepared, release: &Release) -> Result<(), Error> {
        let upgrade = prepared.from.is_some();
        let [before, after] =
            if upgrade { ["pre-upgrade", "post-upgrade"] } else { ["pre-install", "post-install"] };
        let made = self.make_namespace().await?;
        prepared.made.lock().unwrap_or_else(PoisonError::into_inner).namespace = made;
        for old in history::interrupted(&prepared.history, release.version) {
            self.record_as(&old, Status::Failed, "Interrupted").await?;
        }
        self.record(release).await?;
        self.report.step("applying the definitions of custom resources");
        self.define(&prepared.definitions).await?;
        self.run_hooks(before, &prepared.rendered.hooks_of(before)).await?;
        self.report.step("applying the objects");
        self.apply(&prepared.objects).await?;
        if let Some(from) = &prepared.from {
            self.prune(from, &prepared.objects).await?;
        }
        let ids: Vec<Id> =
            prepared.objects.iter().filter_map(|one| Id::of(one, &self.namespace)).collect();
        self.ready(&ids, "waiting for the components").await?;
        self.run_hooks(after, &prepared.rendered.hooks_of(after)).await?;
        let description = if upgrade { "Upgrade complete" } else { "Install complete" };
        self.record_as(release, Status::Deployed, description).await?;
        self.close_history(&prepared.history, release).await
    }

    /// Marks what was deployed before as replaced, and drops what is too old.
    async fn close_history(&self, history: &[Release], release: &Release) -> Result<(), Error> {
        for old in history.iter().filter(|old| old.info.status == Status::Deployed) {
            self.record_as(old, Status::Superseded, "Superseded by a later revision").await?;
        }
        let mut all = history.to_vec();
        all.push(release.clone());
        self.forget(&history::excess(&all)).await
    }

    /// Deletes what an earlier revision had and this one has not.
    async fn prune(&self, earlier: &Release, objects: &[Value]) -> Result<(), Error> {
        let kept: BTreeSet<Id> =
            objects.iter().filter_map(|one| Id::of(one, &self.namespace)).collect();
        let gone = self.marked(&earlier.documents()?).into_iter();
        let gone =
            gone.filter(|one| Id::of(one, &self.namespace).is_some_and(|id| !kept.contains(&id)));
        self.delete(gone.collect(), |live| self.owner().owns(live)).await
    }

    async fn go_back(
        &self,
        prepared: &Prepared,
        release: &Release,
        error: &Error,
    ) -> Result<Undone, Error> {
        match &prepared.from {
            Some(from) => self.restore(prepared, from, release, error).await,
            None => self.remove(prepared, release).await,
        }
    }

    /// Makes everything as it was in an earlier revision.
    async fn restore(
        &self,
        prepared: &Prepared,
        from: &Release,
        release: &Release,
        error: &Error,
    ) -> Result<Undone, Error> {
        let objects = self.marked(&from.documents()?);
        self.apply(&objects).await?;
        self.prune(release, &objects).await?;
        let why = format!("Upgrade failed: {error}");
        self.record_as(release, Status::Failed, &why).await?;
        let mut back = from.clone();
        back.version = release.version + 1;
        back.info.last_deployed = Some(Timestamp::now());
        let description = format!("Rollback to {}", from.version);
        self.record_as(&back, Status::Deployed, &description).await?;
        let mut history = prepared.history.clone();
        history.push(release.clone());
        self.close_history(&history, &back).await?;
        Ok(Undone::Restored(from.version))
    }

    /// Removes what a first installation made, and nothing that was there before.
    async fn remove(&self, prepared: &Prepared, release: &Release) -> Result<Undone, Error> {
        self.remove_objects(release).await?;
        let revisions = prepared.history.iter().map(|one| one.version);
        self.forget(&revisions.chain([release.version]).collect::<Vec<u32>>()).await?;
        let made =
            std::mem::take(&mut *prepared.made.lock().unwrap_or_else(PoisonError::into_inner));
        self.undefine(&made.definitions).await?;
        if made.namespace {
            self.drop_namespace(&self.namespace).await?;
        }
        Ok(Undone::Removed)
    }

    /// Deletes all objects of a release: its own, those of its hooks, and what components made.
    pub(crate) async fn remove_objects(&self, release: &Release) -> Result<(), Error> {
        let objects = self.marked(&release.documents()?);
        self.delete(objects, |live| self.owner().owns(live)).await?;
        let mut hooks: Vec<Hook> = vec![];
        for event in ["pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-delete"] {
            hooks.extend(release.hooks_of(event)?);
        }
        let hooks: BTreeSet<(Id, String)> = hooks
            .iter()
            .filter_map(|hook| {
                let object = &hook.document.object;
                Some((Id::of(object, &self.namespace)?, object.to_string()))
            })
            .collect();
        let hooks = hooks.iter().filter_map(|(_, text)| serde_json::from_str(text).ok());
        self.delete(hooks.collect(), is_of_a_chart).await?;
        self.remove_leftovers().await
    }

    /// Objects as they are applied: marked as belonging to the release.
    pub(crate) fn marked(&self, documents: &[Document]) -> Vec<Value> {
        let mark = |document: &Document| {
            let mut object = document.object.clone();
            self.owner().mark(&mut object);
            object
        };
        documents.iter().map(mark).collect()
    }

    fn refuse_strangers(&self, live: &[Pair]) -> Result<(), Error> {
        let is_strange = |pair: &&Pair| {
            let owned = pair.have.as_ref().is_none_or(|have| self.owner().owns(have));
            !owned && !pair.id.is_shared()
        };
        let strangers: Vec<Id> =
            live.iter().filter(is_strange).map(|pair| pair.id.clone()).collect();
        if strangers.is_empty() { Ok(()) } else { Err(Error::Strangers(strangers)) }
    }
}

fn is_so(pair: &Pair) -> bool {
    pair.have.as_ref().is_some_and(|have| is_subset(&pair.want, have))
}

/// Whether a revision says what is wanted.
fn says(release: &Release, wanted: &Wanted<'_>, rendered: &Rendered) -> bool {
    let manifest = |hook: &Value| hook.get("manifest").and_then(Value::as_str).map(str::to_owned);
    let recorded = release.hooks.iter().map(manifest);
    let hooks = rendered.hooks.iter().map(|hook| Some(hook.document.text.clone()));
    release.manifest == rendered.manifest()
        && &release.config == wanted.values.given()
        && recorded.eq(hooks)
}
