//! A controller on a real API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher::Config;
use liqo_kit::controller::{Runs, Tools, run};
use liqo_kit::events::Events;
use liqo_kit::metrics::Metrics;
use liqo_kit::retry::{Backoff, Failure, Retry};
use liqo_testkit::ControlPlane;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
#[error("no luck yet")]
struct NoLuck;

impl Failure for NoLuck {
    fn retry(&self) -> Retry {
        Retry::Soon
    }
    fn reason(&self) -> &'static str {
        "NoLuck"
    }
}

#[tokio::test]
async fn a_failure_is_tried_again_counted_and_told() {
    let plane = ControlPlane::start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let metadata = ObjectMeta { name: Some("settings".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await.unwrap();

    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    let pause = Duration::from_millis(10);
    let tools = Tools {
        runs: Runs::register(&metrics),
        events: Arc::new(Events::new(plane.client(), "liqo-test")),
        backoff: Backoff { first: pause, limit: pause },
        stop: stop.clone(),
    };
    let tries = Arc::new(AtomicU32::new(0));
    let done = run("test", Controller::new(maps, Config::default()), tools, move |_| {
        let (tries, stop) = (Arc::clone(&tries), stop.clone());
        async move {
            if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(NoLuck);
            }
            stop.cancel();
            Ok(Action::await_change())
        }
    });
    timeout(LIMIT, done).await.unwrap();

    let text = metrics.text().unwrap();
    for (result, count) in [("NoLuck", 2), ("ok", 1)] {
        let line = format!(
            "liqo_controller_runs_total{{controller=\"test\",result=\"{result}\"}} {count}\n"
        );
        assert!(text.contains(&line), "{text}");
    }
    let events: Api<Event> = Api::namespaced(plane.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.iter().filter(|event| event.reason.as_deref() == Some("NoLuck"));
    assert_eq!(told.count(), 1, "the same words are not repeated");
}
