//! What pods in two clusters cost before anybody brings them there: no Liqo runs.
//!
//! A pod that is sent away is a pod of both clusters, and comes with a ShadowPod, a token and a Secret.
//! How long it takes to make just these is what no program can be faster than, whatever it does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Resource};
use liqo_api::virtualkubelet::ShadowPod;
use liqo_testkit::{Lab, places};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{clusters, middle, pods, settle};

/// Two clusters that are no limit themselves, with nodes that only pretend.
const TOPOLOGY: &str = "
clusters:
  - {name: rome, podCIDR: 10.10.0.0/16, serviceCIDR: 10.11.0.0/16, fakeNodes: 20,
     addons: {metrics: false}, qps: 1000}
  - {name: milan, podCIDR: 10.20.0.0/16, serviceCIDR: 10.21.0.0/16, fakeNodes: 20,
     addons: {metrics: false}, qps: 1000}
";
const CLUSTERS: [&str; 2] = ["rome", "milan"];
/// The namespace, in both clusters.
const NAMESPACE: &str = "direct";
/// How often each way is gone.
const ROUNDS: usize = 3;
/// How many objects are made at once; a virtual kubelet has as many workers.
const WORKERS: usize = 10;

/// The figures, as lines.
pub fn figures(count: usize) -> Result<Vec<String>> {
    let lab = clusters(TOPOLOGY)?;
    for cluster in CLUSTERS {
        lab.kubectl(cluster, &format!("create namespace {NAMESPACE}"))?;
        lab.kubectl(cluster, &format!("cordon {cluster}-1"))?;
        lab.kubectl(cluster, "taint nodes -l type=kwok kwok.x-k8s.io/node-")?;
    }
    let definitions = places()?.home.join("charts/liqo/crds");
    lab.kubectl("milan", &format!("apply -f {}", definitions.display()))?;
    settle()?;
    let (mut one, mut two, mut all) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        one.push(once(&lab, &["milan"], 0, count)?);
        two.push(once(&lab, &CLUSTERS, 0, count)?);
        all.push(once(&lab, &CLUSTERS, count, count)?);
        lab.block_on(clear(&lab.client("milan")?))?;
    }
    let (one, two, all) = (middle(one), middle(two), middle(all));
    let line = |what: &str, time: Duration| {
        let (time, one) = (time.as_secs_f64(), one.as_secs_f64());
        format!("{what:<26} {:>8.2} × ({time:.1} s against {one:.1} s)", time / one)
    };
    Ok(vec![
        format!("{count} fake pods in a cluster, without Liqo: {:.1} s", one.as_secs_f64()),
        line("in two clusters at once", two),
        line("with what comes along", all),
    ])
}

/// How long it takes until so many pods are ready in each of some clusters, and so many ShadowPods,
/// tokens and Secrets are made.
fn once(lab: &Lab, clusters: &[&str], more: usize, count: usize) -> Result<Duration> {
    let template = json!({
        "terminationGracePeriodSeconds": 0, "containers": [{"name": "none", "image": "none"}],
    });
    let clients: Vec<Client> =
        clusters.iter().map(|cluster| lab.client(cluster)).collect::<Result<_>>()?;
    let (rome, milan) = (lab.client("rome")?, lab.client("milan")?);
    // Nobody's pods go before everybody's are there.
    let together = Arc::new(Barrier::new(clients.len() + 1));
    let start = Instant::now();
    let took = lab.block_on(async {
        let runs = clients.iter().map(|client| {
            let together = Arc::clone(&together);
            pods::run(client, NAMESPACE, count, &template, async move || {
                together.wait().await;
                Ok(())
            })
        });
        let others = async {
            make(&rome, &milan, more).await?;
            together.wait().await;
            Ok::<_, anyhow::Error>(start.elapsed())
        };
        let (_, took) = futures::try_join!(futures::future::try_join_all(runs), others)?;
        Ok::<_, anyhow::Error>(took)
    })?;
    settle()?;
    Ok(took)
}

/// Makes so many ShadowPods and Secrets in one cluster, with a token each of the other.
async fn make(rome: &Client, milan: &Client, count: usize) -> Result<()> {
    let shadows: Api<ShadowPod> = Api::namespaced(milan.clone(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(milan.clone(), NAMESPACE);
    let accounts: Api<ServiceAccount> = Api::namespaced(rome.clone(), NAMESPACE);
    stream::iter(0..count)
        .map(Ok)
        .try_for_each_concurrent(WORKERS, |index| {
            let (shadows, secrets, accounts) = (&shadows, &secrets, &accounts);
            async move {
                let asked = TokenRequest::default();
                let params = PostParams::default();
                let answer = accounts.create_token_request("default", &params, &asked).await;
                let token = answer.context("ask for a token")?.status.context("it came")?.token;
                let secret = json!({
                    "metadata": {"name": format!("pod-{index}-token")},
                    "stringData": {"token": token},
                });
                create(secrets, secret).await?;
                create(shadows, shadow(index)).await
            }
        })
        .await
}

/// Removes what was made in one cluster, in one request a kind: one by one it takes minutes.
async fn clear(milan: &Client) -> Result<()> {
    let (how, all) = (DeleteParams::default(), ListParams::default());
    let shadows: Api<ShadowPod> = Api::namespaced(milan.clone(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(milan.clone(), NAMESPACE);
    shadows.delete_collection(&how, &all).await.context("remove ShadowPods")?;
    secrets.delete_collection(&how, &all).await.context("remove Secrets")?;
    Ok(())
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("it is one")?;
    api.create(&PostParams::default(), &object).await.context("make it")?;
    Ok(())
}

/// A ShadowPod like those that a virtual kubelet makes of the pods above.
fn shadow(index: usize) -> Value {
    let variable = |name: &str| json!({"name": name, "value": "tcp://kubernetes.default:443"});
    let names = ["HOST", "PORT", "TCP", "TCP_PROTO", "TCP_ADDR", "TCP_PORT", "SERVICE"];
    let mounted = json!({"name": "kube-api-access", "readOnly": true,
                         "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    let sources = json!([
        {"secret": {"name": format!("pod-{index}-token"),
                    "items": [{"key": "token", "path": "token"}]}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]);
    json!({
        "metadata": {"name": format!("pod-{index}"), "labels": {"app": "many"}},
        "spec": {"pod": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "none", "image": "none", "imagePullPolicy": "Always",
                            "env": names.map(variable), "volumeMounts": [mounted]}],
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["kubernetes.default"]}],
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "kube-api-access", "projected": {"sources": sources}}],
        }},
    })
}
