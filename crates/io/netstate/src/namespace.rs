//! Network namespaces: made at a path, entered by threads of their own, removed.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::Error;

/// The namespace of the thread that looks.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace; a clone is the same. It exists as long as somebody holds it.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
    path: PathBuf,
}

impl Namespace {
    /// The one that this process is in.
    pub fn own() -> Result<Self, Error> {
        Self::open(Path::new(OWN))
    }

    /// One that is known by a path.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| error("open", path, source))?;
        Ok(Self { file: Arc::new(file), path: path.to_owned() })
    }

    /// A new one at a path, where nothing else is kept by then.
    pub async fn create(path: &Path) -> Result<Self, Error> {
        let at = path.to_owned();
        on_thread(move || make(&at))
            .await
            .map_err(|source| Error::kernel(format!("create {}", path.display()), source))?;
        Self::open(path)
    }

    /// Lets go of the one at a path; whether there was one.
    ///
    /// The kernel removes it, with all interfaces in it, once nobody else holds it.
    pub fn remove(path: &Path) -> Result<bool, Error> {
        if !path.exists() {
            return Ok(false);
        }
        match umount2(path, MntFlags::MNT_DETACH) {
            // Nothing is mounted there: what is left is a file.
            Ok(()) | Err(nix::errno::Errno::EINVAL) => {}
            Err(errno) => return Err(error("remove", path, errno.into())),
        }
        fs::remove_file(path).map_err(|source| error("remove", path, source))?;
        Ok(true)
    }

    /// The file that stands for it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Runs something inside, on a thread of its own that may open sockets of the runtime.
    pub async fn run<T, F>(&self, inside: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (file, runtime) = (Arc::clone(&self.file), Handle::current());
        let entered = on_thread(move || {
            setns(file.as_fd(), CloneFlags::CLONE_NEWNET)?;
            let _runtime = runtime.enter();
            Ok(inside())
        });
        entered.await.map_err(|source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                return Error::Forbidden { action: format!("enter {}", self.path.display()) };
            }
            error("enter", &self.path, source)
        })
    }
}

fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create(path)?;
    let kept = unshare(CloneFlags::CLONE_NEWNET)
        .and_then(|()| mount(Some(OWN), path, None::<&str>, MsFlags::MS_BIND, None::<&str>));
    if kept.is_err() {
        // A file that stands for nothing would be in the way of whoever comes next.
        let _ = fs::remove_file(path);
    }
    Ok(kept?)
}

/// Runs something on a thread that nobody else uses, before or after.
async fn on_thread<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    let thread = thread::Builder::new().name("namespace".to_owned());
    thread.spawn(move || {
        // Nobody may be left to hear it.
        let _ = tell.send(work());
    })?;
    told.await.map_err(|_| io::Error::other("the thread in the namespace panicked"))?
}

fn error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Namespace { action, path: path.to_owned(), source }
}
