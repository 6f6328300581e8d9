//! A node's file system: the machine's own, with private `/etc`, `/var`, `/opt` and `/run` on top.
//!
//! All of it lives in the node's mount namespace and ends with it. Paths relative to the node's
//! folder are used while mounting, because the folder may lie below what is being covered.

use std::fs;
use std::io;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::Boot;

/// What is covered by a writable layer of the node's own.
const LAYERED: [&str; 3] = ["etc", "var", "opt"];

/// Makes the file system; the current folder is the node's.
pub fn prepare(boot: &Boot) -> io::Result<()> {
    let none = None::<&str>;
    fs::create_dir_all("run")?;
    mount(Some("tmpfs"), "run", Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?;
    for (source, target) in [(&boot.engine, "run/engine"), (&boot.images, "run/images")] {
        fs::create_dir_all(target)?;
        bind(source, Path::new(target))?;
    }
    // A fresh /sys shows this network namespace's interfaces; the control groups are carried over.
    fs::create_dir_all("run/cgroup")?;
    bind(Path::new("/sys/fs/cgroup"), Path::new("run/cgroup"))?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none)?;
    mount(Some("run/cgroup"), "/sys/fs/cgroup", none, MsFlags::MS_MOVE, none)?;
    fs::remove_dir("run/cgroup")?;

    fs::create_dir_all("containerd")?;
    fs::create_dir_all("layers/var/lib/containerd")?;
    for name in LAYERED {
        let (upper, work, target) =
            (format!("layers/{name}"), format!("work/{name}"), format!("/{name}"));
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&work)?;
        fs::create_dir_all(&target)?;
        let options = format!("lowerdir={target},upperdir={upper},workdir={work}");
        mount(
            Some("overlay"),
            target.as_str(),
            Some("overlay"),
            MsFlags::empty(),
            Some(options.as_str()),
        )?;
    }
    // An overlay cannot be the upper layer of another, and containerd makes many.
    bind(Path::new("containerd"), Path::new("/var/lib/containerd"))?;
    // What a previous life of this node, or the machine itself, left there is not ours to see.
    for stale in ["/var/log/pods", "/var/log/containers"] {
        fs::create_dir_all(stale)?;
    }
    umount_if_mounted("/run/netns");
    mount(Some("run"), "/run", none, MsFlags::MS_MOVE, none)?;
    fs::create_dir_all("/run/lock")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SHARED, none)?;
    Ok(())
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    let none = None::<&str>;
    mount(Some(source), target, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
    Ok(())
}

/// The machine's list of network namespaces has no meaning inside a node.
fn umount_if_mounted(path: &str) {
    let _ = umount2(path, MntFlags::MNT_DETACH);
}
