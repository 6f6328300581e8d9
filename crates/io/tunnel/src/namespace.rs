//! Work in a network namespace, on a thread that lives only for it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CloneFlags, setns};
use tokio::sync::oneshot;

use crate::error::Error;

/// Runs work in a namespace, or in that of the caller, without holding up the caller's runtime.
///
/// What the work opens, a device or a socket, belongs to that namespace for good.
pub(crate) async fn within<T, W>(path: Option<&Path>, device: &str, work: W) -> Result<T, Error>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, Error> + Send + 'static,
{
    let (answer, waiting) = oneshot::channel();
    start(path, device, move |entered: Result<(), Error>| {
        // Whoever asked may have stopped waiting, and what was made is then dropped.
        let _ = answer.send(entered.and_then(|()| work()));
    })?;
    waiting.await.unwrap_or_else(|_| Err(ended(device)))
}

/// Runs work in a namespace, or in that of the caller, and waits for it.
pub(crate) fn now<T, W>(path: Option<&Path>, device: &str, work: W) -> Result<T, Error>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, Error> + Send + 'static,
{
    let thread = start(path, device, |entered| entered.and_then(|()| work()))?;
    thread.join().unwrap_or_else(|_| Err(ended(device)))
}

fn start<T, W>(path: Option<&Path>, device: &str, work: W) -> Result<JoinHandle<T>, Error>
where
    T: Send + 'static,
    W: FnOnce(Result<(), Error>) -> T + Send + 'static,
{
    let path = path.map(Path::to_owned);
    // A new thread is in the namespace of the thread that starts it.
    Builder::new()
        .name("netns".to_owned())
        .spawn(move || work(path.as_deref().map_or(Ok(()), enter)))
        .map_err(|source| Error::Thread { name: device.to_owned(), source })
}

fn enter(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::namespace(path.to_owned(), source);
    let file = File::open(path).map_err(failed)?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| failed(errno.into()))
}

fn ended(device: &str) -> Error {
    let source = io::Error::other("the thread ended before its work");
    Error::Thread { name: device.to_owned(), source }
}
