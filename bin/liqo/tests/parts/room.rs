//! A pod on its whole way, from one cluster to the other and back, when there is no room for it at first.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::town::{Town, gone, is_there, wait};
use crate::{AT_ROME, MILAN, ROME, SHOP, become_phase, create};

/// The user is told, and has to do nothing.
pub async fn what_does_not_fit_is_told_at_home_and_starts_later(rome: &Town, milan: &Town) {
    let kubelet = rome.launch("virtual-kubelet-local", &words()).await;
    let here: Api<Pod> = Api::namespaced(rome.client(), "shop");
    let there: Api<Pod> = Api::namespaced(milan.client(), SHOP);
    create(&here, pod("first")).await;
    wait(there.clone(), "first", is_there).await;
    become_phase(&there, "first", "Running").await;
    wait(here.clone(), "first", is_phase("Running")).await;

    create(&here, pod("second")).await;
    let told = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
        message.contains("up to 6 of cpu, and 3 of the 9 that were offered are free")
    };
    let waiting = wait(here.clone(), "second", told).await;
    assert_eq!(waiting.status.unwrap().reason.as_deref(), Some("OffloadingBackOff"));
    assert!(there.get_opt("second").await.unwrap().is_none());

    become_phase(&there, "first", "Succeeded").await;
    wait(there.clone(), "second", is_there).await;
    wait(here.clone(), "first", is_phase("Succeeded")).await;
    become_phase(&there, "second", "Running").await;
    let running = wait(here.clone(), "second", is_phase("Running")).await;
    assert_eq!(running.status.unwrap().reason, None);

    for name in ["first", "second"] {
        here.delete(name, &DeleteParams::default()).await.unwrap();
        gone(here.clone(), name).await;
        gone(there.clone(), name).await;
    }
    let (status, log) = kubelet.stop().await.unwrap();
    assert!(status.success(), "{log}");
}

/// The command line of the virtual kubelet for milan.
fn words() -> Vec<&'static str> {
    let [home, foreign] = [ROME, MILAN];
    vec![
        "virtual-kubelet",
        "--nodename=liqo-milan",
        "--node-ip=127.0.0.1",
        "--listen-port=0",
        "--certificate-type=self-signed",
        "--node-check-network=false",
        "--foreign-cluster-name=milan",
        "--home-cluster-name=rome",
        "--foreign-cluster-id",
        foreign,
        "--home-cluster-id",
        home,
        "--tenant-namespace",
        AT_ROME,
    ]
}

/// A pod of rome that is to run in milan, once, and may use up to 6 of cpu.
fn pod(name: &str) -> Value {
    let limits = json!({"cpu": "6", "memory": "64Mi"});
    let container =
        json!({"name": "main", "image": "example.org/any", "resources": {"limits": limits}});
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "liqo-milan", "restartPolicy": "Never", "containers": [container],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
        },
    })
}

fn is_phase(phase: &'static str) -> impl Fn(Option<&Pod>) -> bool {
    move |pod| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.is_some_and(|status| status.phase.as_deref() == Some(phase))
    }
}
