//! Many pods, while connections break and virtual kubelets die; and many objects at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use liqo_api::virtualkubelet::ShadowPod;
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::pods::{is_running, pod};
use crate::provider::Provider;
use crate::world::{World, make};

const ROUNDS: usize = 4;
const PODS: usize = 8;
const OBJECTS: usize = 5_000;
const LIMIT: Duration = Duration::from_mins(1);
/// What thousands of objects may take on a machine that is busy with other tests.
const LONG: Duration = Duration::from_mins(5);

#[tokio::test]
async fn whatever_breaks_in_the_end_both_clusters_agree() {
    let mut world = World::make().await;
    let here = world.here::<Pod>();
    let _provider = Provider::start(&world);
    let mut kubelet = world.kubelet(&[]);
    let name = |round: usize, pod: usize| format!("pod-{round}-{pod}");
    let mut untouched = BTreeMap::new();
    for round in 0..ROUNDS {
        if round % 2 == 1 {
            world.line.cut().await;
        }
        for number in 0..PODS {
            let made = make(&here, pod(&name(round, number))).await;
            untouched.insert(made.name_any(), made.uid());
        }
        if round > 0 {
            let [gone, forced, again] = [0, 1, 2].map(|number| name(round - 1, number));
            here.delete(&gone, &DeleteParams::default()).await.unwrap();
            let at_once = DeleteParams::default().grace_period(0);
            here.delete(&forced, &at_once).await.unwrap();
            here.delete(&again, &at_once).await.unwrap();
            make(&here, pod(&again)).await;
            for name in [gone, forced, again] {
                untouched.remove(&name);
            }
        }
        kubelet.kill().await;
        kubelet = world.kubelet(&[]);
        if round % 2 == 1 {
            world.line.restore();
        }
        // The next round begins while this one is under way.
        let some = async { while running(&world).await < round * PODS / 2 + 2 {} };
        timeout(LIMIT, some).await.unwrap();
    }

    let agree = async { while compare(&world).await.is_err() {} };
    let agreed = timeout(LIMIT, agree).await;
    assert!(agreed.is_ok(), "they do not agree: {:?}", compare(&world).await);
    for (name, uid) in untouched {
        let pod = here.get(&name).await.unwrap();
        assert_eq!(pod.uid(), uid, "{name} is still the same");
        let containers = pod.status.unwrap().container_statuses.unwrap();
        assert_eq!(containers[0].restart_count, 0, "{name} was not restarted");
    }
}

#[tokio::test]
async fn many_objects_that_come_at_once_are_all_there_and_all_go() {
    let world = World::make().await;
    let (here, there) = (world.here::<ConfigMap>(), world.there::<ConfigMap>());
    let _kubelet = world.kubelet(&[]);
    let made = futures::stream::iter(0..OBJECTS).for_each_concurrent(32, |number| {
        let map = json!({"metadata": {"name": format!("map-{number}")}, "data": {"a": "1"}});
        let here = &here;
        async move { drop(make(here, map).await) }
    });
    made.await;
    become_copies(&there, OBJECTS).await;
    here.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    become_copies(&there, 0).await;
    let [home, remote] = world.requests().await;
    let told = home.get("POST events").copied().unwrap_or_default();
    assert!((20..OBJECTS / 2).contains(&told), "that all is well is told of a few: {home:?}");
    assert_eq!(remote.get("APPLY configmaps"), Some(&OBJECTS), "each is written once: {remote:?}");
    assert_eq!(remote.get("DELETE configmaps"), Some(&OBJECTS), "{remote:?}");
}

/// Waits until there are so many copies.
async fn become_copies(there: &Api<ConfigMap>, number: usize) {
    // Whoever counts all the time holds up those who work.
    let mut ticks = interval(Duration::from_millis(250));
    let counted = async {
        while there.list_metadata(&ListParams::default()).await.unwrap().items.len() != number {
            ticks.tick().await;
        }
    };
    timeout(LONG, counted).await.unwrap();
}

async fn running(world: &World) -> usize {
    let pods = world.here::<Pod>().list(&ListParams::default()).await.unwrap();
    pods.items.iter().filter(|pod| is_running(Some(pod))).count()
}

/// What is different on the two sides.
async fn compare(world: &World) -> Result<(), String> {
    let all = ListParams::default();
    let here = world.here::<Pod>().list(&all).await.unwrap().items;
    let shadows = world.there::<ShadowPod>().list(&all).await.unwrap().items;
    let there = world.there::<Pod>().list(&all).await.unwrap().items;
    let wanted: BTreeSet<(String, String)> =
        here.iter().map(|pod| (pod.name_any(), pod.uid().unwrap())).collect();
    let of = |object: &ShadowPod| {
        let uid = object.annotations()["virtualkubelet.liqo.io/home-pod-uid"].clone();
        (object.name_any(), uid)
    };
    let have: BTreeSet<(String, String)> = shadows.iter().map(of).collect();
    if wanted != have {
        return Err(format!("pods {wanted:?}, ShadowPods {have:?}"));
    }
    let owners: BTreeSet<String> =
        there.iter().map(|pod| pod.owner_references()[0].uid.clone()).collect();
    let owned: BTreeSet<String> = shadows.iter().map(|shadow| shadow.uid().unwrap()).collect();
    if owners != owned {
        return Err(format!("ShadowPods {owned:?}, pods of {owners:?}"));
    }
    let idle = here.iter().filter(|pod| !is_running(Some(pod)));
    let idle: Vec<String> =
        idle.map(|pod| format!("{}: {:?}", pod.name_any(), pod.status)).collect();
    if idle.is_empty() { Ok(()) } else { Err(format!("not running: {idle:?}")) }
}
