//! Facts about queues, with time under control.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, advance};
use tokio_util::task::TaskTracker;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("no luck")]
struct NoLuck(Retry);

impl Failure for NoLuck {
    fn retry(&self) -> Retry {
        self.0
    }
    fn reason(&self) -> &'static str {
        "NoLuck"
    }
}

/// A queue whose keys a test sends, and whose work it defines.
struct Bench {
    send: mpsc::UnboundedSender<Touch<&'static str>>,
    runs: Rc<RefCell<Vec<(&'static str, Duration)>>>,
    end: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn new<F>(workers: u16, work: impl Fn(&'static str, usize) -> F + 'static) -> Self
    where
        F: Future<Output = Result<Next, NoLuck>> + 'static,
    {
        let (send, receive) = mpsc::unbounded_channel();
        let touched = stream::unfold(receive, async |mut receive| {
            receive.recv().await.map(|key| (key, receive))
        });
        let runs = Rc::new(RefCell::new(Vec::new()));
        let (log, start) = (Rc::clone(&runs), Instant::now());
        let queue = Queue::new("test").workers(workers);
        let end = tokio::task::spawn_local(queue.run_ranked(touched, move |key| {
            log.borrow_mut().push((key, start.elapsed()));
            let count = log.borrow().iter().filter(|(other, _)| *other == key).count();
            work(key, count)
        }));
        Self { send, runs, end }
    }

    fn touch(&self, key: &'static str) {
        self.send.send(key.into()).unwrap();
    }

    fn touch_urgently(&self, key: &'static str) {
        self.send.send(Touch { key, is_urgent: true }).unwrap();
    }

    fn keys(&self) -> Vec<&'static str> {
        self.runs.borrow().iter().map(|(key, _)| *key).collect()
    }
}

/// Lets everything that can run do so, without letting time pass.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn pass(time: Duration) {
    settle().await;
    advance(time).await;
    settle().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn touches_of_a_key_that_is_ready_become_one_run() {
    let bench = Bench::new(1, async |_, _| Ok(Next::AwaitChange));
    for key in ["a", "a", "b", "a"] {
        bench.touch(key);
    }
    settle().await;
    assert_eq!(bench.keys(), ["a", "b"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_key_that_is_touched_while_it_runs_runs_once_more_afterwards() {
    let bench = Bench::new(4, async |_, count| {
        if count == 1 {
            tokio::time::sleep(SECOND).await;
        }
        Ok(Next::AwaitChange)
    });
    bench.touch("a");
    settle().await;
    bench.touch("a");
    bench.touch("a");
    settle().await;
    assert_eq!(bench.keys(), ["a"], "never two runs of a key at once");
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "a"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn so_many_keys_run_at_once_as_there_are_workers() {
    let (now, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let counts = (Rc::clone(&now), Rc::clone(&most));
    let bench = Bench::new(3, move |_, _| {
        let (now, most) = counts.clone();
        async move {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            tokio::time::sleep(SECOND).await;
            now.set(now.get() - 1);
            Ok(Next::AwaitChange)
        }
    });
    for key in ["a", "b", "c", "d", "e"] {
        bench.touch(key);
    }
    pass(SECOND).await;
    pass(SECOND).await;
    assert_eq!((bench.keys().len(), now.get(), most.get()), (5, 0, 3));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_urgent_key_waits_neither_for_others_nor_for_their_work() {
    let bench = Bench::new(1, async |_, _| {
        tokio::time::sleep(SECOND).await;
        Ok(Next::AwaitChange)
    });
    for key in ["a", "b", "c", "d"] {
        bench.touch(key);
    }
    settle().await;
    bench.touch_urgently("e");
    bench.touch_urgently("c");
    settle().await;
    assert_eq!(bench.keys(), ["a", "e"], "urgent ones have a worker of their own");
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "e", "b", "c"], "and others have theirs");
    pass(SECOND).await;
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "e", "b", "c", "d"], "what was urgent has had its turn");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_key_that_becomes_urgent_while_it_runs_goes_first_afterwards() {
    let bench = Bench::new(1, async |_, _| {
        tokio::time::sleep(SECOND).await;
        Ok(Next::AwaitChange)
    });
    for key in ["a", "b"] {
        bench.touch(key);
    }
    settle().await;
    bench.touch_urgently("a");
    bench.touch("a");
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "a", "b"], "both at once");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_key_that_fails_is_tried_again_less_and_less_often() {
    let bench =
        Bench::new(
            1,
            async |_, count| {
                if count < 4 { Err(NoLuck(Retry::Soon)) } else { Ok(Next::AwaitChange) }
            },
        );
    bench.touch("a");
    for _ in 0..100 {
        pass(SECOND / 10).await;
    }
    let times: Vec<Duration> = bench.runs.borrow().iter().map(|(_, time)| *time).collect();
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).collect();
    assert_eq!(gaps.len(), 3);
    let backoff = Backoff::default();
    for (gap, failures) in gaps.iter().zip(1..) {
        // The clock of this test moves in steps of a tenth of a second.
        let latest = backoff.delay(failures, 1.0) + SECOND / 10;
        assert!(*gap >= backoff.delay(failures, 0.0) && *gap <= latest, "{gaps:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_failure_that_time_does_not_heal_waits_for_a_change() {
    let bench = Bench::new(1, async |_, _| Err(NoLuck(Retry::Never)));
    bench.touch("a");
    pass(SECOND * 3600).await;
    assert_eq!(bench.keys(), ["a"]);
    bench.touch("a");
    settle().await;
    assert_eq!(bench.keys(), ["a", "a"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_change_ends_the_wait_after_a_failure() {
    let bench = Bench::new(1, async |_, count| match count {
        1 => Err(NoLuck(Retry::After(SECOND * 60))),
        _ => Ok(Next::AwaitChange),
    });
    bench.touch("a");
    settle().await;
    bench.touch("a");
    pass(SECOND * 3600).await;
    assert_eq!(bench.keys(), ["a", "a"], "and the wait does not lead to a third run");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_key_comes_back_when_it_was_asked_to() {
    let bench = Bench::new(1, async |_, count| match count {
        1 => Ok(Next::RequeueAfter(SECOND * 10)),
        _ => Ok(Next::AwaitChange),
    });
    bench.touch("a");
    pass(SECOND * 9).await;
    assert_eq!(bench.keys(), ["a"]);
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "a"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_key_that_was_urgent_comes_back_before_others() {
    let bench = Bench::new(1, async |key, count| {
        if (key, count) == ("a", 1) {
            return Ok(Next::RequeueAfter(SECOND));
        }
        tokio::time::sleep(SECOND * 10).await;
        Ok(Next::AwaitChange)
    });
    bench.touch_urgently("a");
    settle().await;
    for key in ["b", "c"] {
        bench.touch(key);
    }
    pass(SECOND).await;
    assert_eq!(bench.keys(), ["a", "b", "a"], "it does not wait for the work of others");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_runs_is_finished_when_the_keys_end() {
    let tracker = TaskTracker::new();
    let token = tracker.token();
    let held = Rc::new(RefCell::new(Some(token)));
    let bench = Bench::new(1, move |_, _| {
        let held = Rc::clone(&held);
        async move {
            tokio::time::sleep(SECOND).await;
            held.borrow_mut().take();
            Ok(Next::RequeueAfter(SECOND))
        }
    });
    bench.touch("a");
    settle().await;
    let Bench { send, end, runs } = bench;
    drop(send);
    settle().await;
    assert!(!end.is_finished());
    end.await.unwrap();
    assert!(tracker.is_empty());
    assert_eq!(runs.borrow().len(), 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_run_is_told_how_it_ended() {
    let endings = RefCell::new(Vec::new());
    let queue = Queue::new("test").observed_by(|ending| endings.borrow_mut().push(ending));
    let keys = stream::iter(["good", "bad"]).chain(stream::once(settle_then_end()));
    queue
        .run(
            keys,
            async |key| {
                if key == "bad" { Err(NoLuck(Retry::Never)) } else { Ok(Next::AwaitChange) }
            },
        )
        .await;
    assert_eq!(endings.borrow()[..2], [Ending::Done, Ending::Failed("NoLuck")]);
}

#[test]
fn a_cause_that_was_told_already_is_told_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot list: {0}")]
    struct Outer(#[source] Inner);
    #[derive(Debug, thiserror::Error)]
    #[error("ApiError: {0} ({0:?})")]
    struct Inner(#[source] NoLuck);
    #[derive(Debug, thiserror::Error)]
    #[error("cannot watch")]
    struct Quiet(#[source] NoLuck);
    let luck = || NoLuck(Retry::Never);
    assert_eq!(chain(&Outer(Inner(luck()))), "cannot list: ApiError: no luck");
    assert_eq!(chain(&Quiet(luck())), "cannot watch: no luck");
}

async fn settle_then_end() -> &'static str {
    settle().await;
    "end"
}
