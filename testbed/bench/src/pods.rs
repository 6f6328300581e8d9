//! Deployments and Services, watched from where a user looks and from where they run.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource, ResourceExt as _};
use liqo_pod_offloading::lean::RemotePod;
use serde_json::{Value, json};

/// How long a run may take in all.
const LIMIT: Duration = Duration::from_mins(20);

/// What one Deployment took.
pub struct Run {
    /// From its creation until it said that every pod was Ready.
    pub ready: Duration,
    /// From its deletion until no pod was left, as its user saw it.
    pub gone: Duration,
}

/// Creates a Deployment, waits until all of it is Ready, looks around, deletes it, and waits until
/// all of it is gone.
///
/// Whoever looks must not cost what is measured: until all is Ready nothing is watched but the
/// Deployment, as `kubectl rollout status` does, and then no more than metadata.
pub async fn run<T>(
    home: &Client,
    namespace: &str,
    count: usize,
    template: &Value,
    look: impl AsyncFnOnce() -> Result<T>,
) -> Result<(Run, T)> {
    let mut seen = follow::<Deployment>(home, namespace);
    let deployments: Api<Deployment> = Api::namespaced(home.clone(), namespace);
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "many"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "many"}},
            "template": {"metadata": {"labels": {"app": "many"}}, "spec": template},
        },
    }))?;
    let start = Instant::now();
    deployments.create(&PostParams::default(), &deployment).await.context("create it")?;
    let wanted = i32::try_from(count)?;
    let is_ready = |it: &Deployment| {
        it.status.as_ref().and_then(|status| status.ready_replicas) == Some(wanted)
    };
    let work = async {
        while !added(seen.next().await)?.iter().any(is_ready) {}
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, work).await.context("pods do not become Ready")??;
    let ready = start.elapsed();
    drop(seen);
    let looked = look().await?;
    let mut seen = follow::<PartialObjectMeta<Pod>>(home, namespace);
    let mut left = BTreeSet::new();
    loop {
        match seen.next().await.context("the watch ended")? {
            Ok(Event::InitApply(pod)) => drop(left.insert(pod.name_any())),
            Ok(Event::InitDone) => break,
            Ok(_) | Err(_) => {}
        }
    }
    ensure!(left.len() == count, "{} pods in place of {count}", left.len());
    let start = Instant::now();
    deployments.delete("many", &DeleteParams::background()).await.context("delete it")?;
    let work = async {
        let mut listed = BTreeSet::new();
        while !left.is_empty() {
            // One that broke goes on by itself, and names what is left.
            match seen.next().await.context("the watch ended")? {
                Ok(Event::Delete(pod)) => drop(left.remove(&pod.name_any())),
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => drop(listed.insert(pod.name_any())),
                Ok(Event::InitDone) => left.retain(|name| listed.contains(name)),
                Ok(Event::Apply(_)) | Err(_) => {}
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, work).await.context("pods do not go")??;
    Ok((Run { ready, gone: start.elapsed() }, looked))
}

/// Creates Services with a slice of endpoints each, one after the other; how long it was until both
/// were seen in the other cluster.
pub async fn services(
    home: &Client,
    there: &Client,
    namespace: &str,
    count: usize,
) -> Result<Vec<Duration>> {
    let mut services = follow::<Service>(there, namespace);
    let mut slices = follow::<EndpointSlice>(there, namespace);
    let (mine, ends): (Api<Service>, Api<EndpointSlice>) =
        (Api::namespaced(home.clone(), namespace), Api::namespaced(home.clone(), namespace));
    let mut took = vec![];
    for index in 0..count {
        let name = format!("shop-{index}");
        let service = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
        }))?;
        // An address of the documentation: nobody is asked.
        let slice = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}],
            "ports": [{"port": 80}],
        }))?;
        let start = Instant::now();
        mine.create(&PostParams::default(), &service).await.context("create a Service")?;
        ends.create(&PostParams::default(), &slice).await.context("create a slice")?;
        let work = async {
            let (mut one, mut other) = (false, false);
            while !(one && other) {
                tokio::select! {
                    event = services.next() => one |= added(event)?.iter().any(|it| it.name_any() == name),
                    event = slices.next() => other |= added(event)?.iter().any(|it| it.name_any() == name),
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(LIMIT, work).await.context("they are not seen there")??;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// Changes the statuses of pods where they run, one after the other; how long each took until it was
/// known at home.
pub async fn statuses(
    home: &Client,
    there: &Client,
    namespace: &str,
    count: u32,
) -> Result<Vec<Duration>> {
    let mut seen = follow::<RemotePod>(home, namespace);
    let pods: Api<Pod> = Api::namespaced(there.clone(), namespace);
    let some =
        pods.list_metadata(&ListParams::default().limit(count)).await.context("list pods")?;
    let mut took = vec![];
    while !matches!(seen.next().await.context("the watch ended")?, Ok(Event::InitDone)) {}
    for pod in some {
        let (name, message) = (pod.name_any(), format!("told at {}", took.len()));
        let change = json!({"status": {"message": message}});
        let start = Instant::now();
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .context("change a status")?;
        let says = |pod: &RemotePod| pod.status.value()["message"] == message;
        let work = async {
            while !added(seen.next().await)?.iter().any(|pod| pod.name_any() == name && says(pod)) {
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(LIMIT, work).await.context("it is not seen at home")??;
        took.push(start.elapsed());
    }
    Ok(took)
}

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

fn follow<K>(client: &Client, namespace: &str) -> Events<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    watcher::watcher(api, watcher::Config::default()).default_backoff().boxed()
}

fn added<K>(event: Option<Result<Event<K>, watcher::Error>>) -> Result<Vec<K>> {
    match event {
        Some(Ok(Event::Apply(object) | Event::InitApply(object))) => Ok(vec![object]),
        // One that broke goes on by itself.
        Some(Ok(Event::Delete(_) | Event::Init | Event::InitDone) | Err(_)) => Ok(vec![]),
        None => bail!("the watch ended"),
    }
}
