//! Work in a network namespace, on a thread that lives only for it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;

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
    let path = path.map(Path::to_owned);
    // A new thread is in the namespace of the thread that starts it.
    thread::Builder::new()
        .name("netns".to_owned())
        .spawn(move || {
            let entered = path.as_deref().map_or(Ok(()), enter);
            // Whoever asked may have stopped waiting, and what was made is then dropped.
            let _ = answer.send(entered.and_then(|()| work()));
        })
        .map_err(|source| Error::Thread { name: device.to_owned(), source })?;
    match waiting.await {
        Ok(result) => result,
        Err(_) => Err(Error::Thread {
            name: device.to_owned(),
            source: io::Error::other("the thread ended before its work"),
        }),
    }
}

fn enter(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::namespace(path.to_owned(), source);
    let file = File::open(path).map_err(failed)?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| failed(errno.into()))
}
