//! Tells when something changes in the folders of some files.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Error;

/// A wait for changes.
pub(super) struct Notice(AsyncFd<Queue>);

/// What tokio waits on: it owns the descriptor, which never changes.
struct Queue(Inotify);

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Notice {
    /// Waits for changes in the folders of these files from here on.
    pub fn on<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<Self, Error> {
        let folders: BTreeSet<&Path> = files.into_iter().map(folder).collect();
        let queue = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(|errno| failed(Path::new("/"), errno))?;
        let changes = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE;
        for path in folders {
            queue.add_watch(path, changes).map_err(|errno| failed(path, errno))?;
        }
        #[expect(
            deprecated,
            reason = "its heir is unsafe, for the sake of descriptors that change"
        )]
        let queue = AsyncFd::with_interest(Queue(queue), Interest::READABLE);
        let queue =
            queue.map_err(|source| Error::Watch { path: Path::new("/").to_owned(), source })?;
        Ok(Self(queue))
    }

    /// Waits until something has changed.
    pub async fn wait(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable_mut().await?;
            let read = ready.try_io(|queue| Ok(queue.get_ref().0.read_events()?));
            // Otherwise it was woken for nothing.
            if let Ok(events) = read {
                return events.map(drop);
            }
        }
    }
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    }
}

fn failed(path: &Path, errno: Errno) -> Error {
    Error::Watch { path: path.to_owned(), source: errno.into() }
}
