//! Tasks with names, which end with their owner; one that fails ends the service.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::keyed::chain;

/// A task ended as it must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// It panicked.
    #[error("task {name} panicked")]
    Panicked {
        /// The name of the task.
        name: &'static str,
    },
    /// It gave up.
    #[error("task {name} failed: {reason}")]
    Failed {
        /// The name of the task.
        name: &'static str,
        /// Why, with all causes.
        reason: String,
    },
}

/// Tasks that are aborted when this value is dropped.
///
/// The first task that panics or fails is told by [`Tasks::failure`], whose caller ends the
/// service: what a component does without one of its tasks is nothing that was ever tried.
#[derive(Debug)]
pub struct Tasks {
    running: Mutex<JoinSet<()>>,
    failure: watch::Sender<Option<TaskError>>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { running: Mutex::default(), failure: watch::Sender::new(None) }
    }
}

impl Tasks {
    /// Tasks with an owner of their own, whose failures are told here.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { running: Mutex::default(), failure: self.failure.clone() }
    }

    /// Starts a task that has no way to fail.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let alarm = Alarm { name, failure: self.failure.clone() };
        let mut running = self.running();
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            let _alarm = alarm;
            task.await;
        });
    }

    /// Starts a task whose failure ends the service.
    pub fn spawn_fallible<E>(
        &self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: StdError + Send,
    {
        let failure = self.failure.clone();
        self.spawn(name, async move {
            if let Err(error) = task.await {
                tell(&failure, TaskError::Failed { name, reason: chain(&error) });
            }
        });
    }

    /// Waits for the first task that panics or fails.
    pub fn failure(&self) -> impl Future<Output = TaskError> + Send + use<> {
        let mut failure = self.failure.subscribe();
        async move {
            let seen = failure.wait_for(Option::is_some).await.ok().and_then(|seen| seen.clone());
            match seen {
                Some(error) => error,
                // Nobody is left to fail.
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until all tasks have ended by themselves; aborts the rest, and says how many.
    pub async fn finish(&self, limit: Duration) -> usize {
        let mut running = std::mem::take(&mut *self.running());
        let _ = timeout(limit, async { while running.join_next().await.is_some() {} }).await;
        let late = running.len();
        running.shutdown().await;
        late
    }

    fn running(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of a panic as it passes by.
struct Alarm {
    name: &'static str,
    failure: watch::Sender<Option<TaskError>>,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&self.failure, TaskError::Panicked { name: self.name });
        }
    }
}

fn tell(failure: &watch::Sender<Option<TaskError>>, error: TaskError) {
    failure.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(error);
        is_first
    });
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_with_the_name_of_its_task() {
        let tasks = Tasks::default();
        tasks.spawn("fine", async {});
        tasks.child().spawn_forever();
        let child = tasks.child();
        child.spawn("clumsy", async { panic!("as the test wants") });
        assert_eq!(tasks.failure().await, TaskError::Panicked { name: "clumsy" });
    }

    #[tokio::test]
    async fn the_first_failure_is_the_one_that_is_told() {
        let tasks = Tasks::default();
        tasks.spawn_fallible("poor", async { Err(io::Error::other("no money")) });
        assert_eq!(tasks.failure().await.to_string(), "task poor failed: no money");
        tasks.spawn_fallible("late", async { Err(io::Error::other("no time")) });
        tasks.finish(Duration::from_secs(10)).await;
        assert_eq!(tasks.failure().await.to_string(), "task poor failed: no money");
    }

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let tasks = Tasks::default();
        let (held, released) = oneshot::channel::<()>();
        tasks.spawn("endless", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        assert!(released.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_do_not_end_in_time_are_aborted_and_counted() {
        let tasks = Tasks::default();
        tasks.spawn("quick", async {});
        tasks.spawn_forever();
        assert_eq!(tasks.finish(Duration::from_secs(5)).await, 1);
    }

    impl Tasks {
        fn spawn_forever(&self) {
            self.spawn("endless", std::future::pending());
        }
    }
}
