//! Replicas that agree through a Lease of a real API server.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use liqo_kit::leader::{BadTiming, Candidate, Lost, Solitude, Timing};
use liqo_testkit::{ControlPlane, Line};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_leader_that_stops_is_followed_by_another() {
    let plane = ControlPlane::start().await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let (first_stop, second_stop) = (CancellationToken::new(), CancellationToken::new());

    let first = replica(plane.client(), "first", &first_stop, &tell);
    assert_eq!(next(&mut told).await, "first leads");
    let second = replica(plane.client(), "second", &second_stop, &tell);
    assert_eq!(holder(&plane).await, ("first".to_owned(), 0));

    first_stop.cancel();
    assert_eq!(next(&mut told).await, "first ends");
    assert_eq!(first.await.unwrap(), Ok(Some("done")));
    assert_eq!(next(&mut told).await, "second leads");
    assert_eq!(holder(&plane).await, ("second".to_owned(), 1));

    second_stop.cancel();
    assert_eq!(second.await.unwrap(), Ok(Some("done")));
    assert_eq!(holder(&plane).await.0, "", "released for whoever comes next");
}

#[tokio::test]
async fn a_leader_that_is_cut_off_gives_up_before_another_leads() {
    let plane = ControlPlane::start().await.unwrap();
    let mut line = Line::to(&plane).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();

    let lonely = candidate(line.client(&plane).await.unwrap(), "lonely");
    let lonely = spawn_for_ever(lonely, tell.clone());
    assert_eq!(next(&mut told).await, "leads");
    let other = replica(plane.client(), "other", &stop, &tell);
    line.cut().await;

    assert_eq!(next(&mut told).await, "gives up");
    assert_eq!(lonely.await.unwrap(), Err(Lost));
    assert_eq!(next(&mut told).await, "other leads");

    line.restore();
    let again = CancellationToken::new();
    let back = replica(line.client(&plane).await.unwrap(), "back", &again, &tell);
    stop.cancel();
    assert_eq!(next(&mut told).await, "other ends");
    assert_eq!(other.await.unwrap(), Ok(Some("done")));
    assert_eq!(next(&mut told).await, "back leads");
    again.cancel();
    assert_eq!(back.await.unwrap(), Ok(Some("done")));
}

#[tokio::test]
async fn a_leader_that_nobody_could_follow_goes_on_until_somebody_could() {
    let plane = ControlPlane::start().await.unwrap();
    let mut line = Line::to(&plane).await.unwrap();
    let alone = Arc::new(AtomicBool::new(true));
    let known = Arc::clone(&alone);
    let is_alone = Arc::new(move || known.load(Ordering::Relaxed));
    let lonely = candidate(line.client(&plane).await.unwrap(), "lonely")
        .while_alone(Solitude { is_alone, limit: LIMIT });
    let (tell, mut told) = mpsc::unbounded_channel();
    let lonely = spawn_for_ever(lonely, tell);
    assert_eq!(next(&mut told).await, "leads");
    line.cut().await;
    let stale = timeout(Duration::from_secs(4), told.recv()).await;
    assert!(stale.is_err(), "longer than its Lease lasts: {stale:?}");

    line.restore();
    let before = renewed(&plane).await;
    timeout(LIMIT, async { while renewed(&plane).await == before {} }).await.unwrap();
    alone.store(false, Ordering::Relaxed);
    line.cut().await;
    assert_eq!(next(&mut told).await, "gives up");
    assert_eq!(lonely.await.unwrap(), Err(Lost));
}

#[tokio::test]
async fn a_leader_that_nobody_could_follow_gives_up_in_the_end() {
    let plane = ControlPlane::start().await.unwrap();
    let mut line = Line::to(&plane).await.unwrap();
    let limit = Duration::from_secs(2);
    let lonely = candidate(line.client(&plane).await.unwrap(), "lonely")
        .while_alone(Solitude { is_alone: Arc::new(|| true), limit });
    let (tell, mut told) = mpsc::unbounded_channel();
    let lonely = spawn_for_ever(lonely, tell);
    assert_eq!(next(&mut told).await, "leads");
    line.cut().await;
    assert_eq!(next(&mut told).await, "gives up");
    assert_eq!(lonely.await.unwrap(), Err(Lost));
}

#[tokio::test]
async fn a_candidate_that_is_stopped_before_it_leads_never_works() {
    let plane = ControlPlane::start().await.unwrap();
    let stop = CancellationToken::new();
    let (tell, mut told) = mpsc::unbounded_channel();
    let leader = replica(plane.client(), "leader", &stop, &tell);
    assert_eq!(next(&mut told).await, "leader leads");

    let early = CancellationToken::new();
    early.cancel();
    let waiting = candidate(plane.client(), "waiting");
    assert_eq!(waiting.lead(&early, async { "worked" }).await, Ok(None));
    stop.cancel();
    assert_eq!(leader.await.unwrap(), Ok(Some("done")));
}

#[tokio::test]
async fn timings_that_allow_two_leaders_are_refused() {
    let plane = ControlPlane::start().await.unwrap();
    let lease = Duration::from_secs(5);
    let timing = Timing { lease, deadline: lease, ..Timing::default() };
    let candidate = Candidate::new(plane.client(), "default", "lead", "me", timing);
    assert_eq!(candidate.err(), Some(BadTiming));
}

fn candidate(client: Client, identity: &str) -> Candidate {
    let timing = Timing {
        lease: Duration::from_secs(3),
        deadline: Duration::from_secs(1),
        pause: Duration::from_millis(100),
    };
    Candidate::new(client, "default", "lead", identity, timing).unwrap()
}

/// A replica that tells when it leads and when it ends, and ends when it is stopped.
fn replica(
    client: Client,
    name: &'static str,
    stop: &CancellationToken,
    tell: &UnboundedSender<&'static str>,
) -> JoinHandle<Result<Option<&'static str>, Lost>> {
    let (stop, tell) = (stop.clone(), tell.clone());
    let candidate = candidate(client, name);
    tokio::spawn(async move {
        let work = async {
            let _ = tell.send(format!("{name} leads").leak());
            stop.cancelled().await;
            let _ = tell.send(format!("{name} ends").leak());
            "done"
        };
        candidate.lead(&stop, work).await
    })
}

/// A replica that tells when it leads and when it gives up, and never ends by itself.
fn spawn_for_ever(
    candidate: Candidate,
    tell: UnboundedSender<&'static str>,
) -> JoinHandle<Result<Option<()>, Lost>> {
    tokio::spawn(async move {
        let work = async {
            let _ = tell.send("leads");
            pending::<()>().await;
        };
        let result = candidate.lead(&CancellationToken::new(), work).await;
        let _ = tell.send("gives up");
        result
    })
}

/// When the Lease was renewed last.
async fn renewed(plane: &ControlPlane) -> String {
    let leases: Api<Lease> = Api::namespaced(plane.client(), "default");
    let spec = leases.get("lead").await.unwrap().spec.unwrap();
    format!("{:?}", spec.renew_time)
}

async fn holder(plane: &ControlPlane) -> (String, i32) {
    let leases: Api<Lease> = Api::namespaced(plane.client(), "default");
    let spec = leases.get("lead").await.unwrap().spec.unwrap();
    (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
}

async fn next(told: &mut UnboundedReceiver<&'static str>) -> &'static str {
    timeout(LIMIT, told.recv()).await.unwrap().unwrap()
}
