//! The control groups that pods live below: one tree per playground, in every hierarchy there is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long groups may take to be empty.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// Makes `group/child` in every hierarchy, ready for a kubelet.
pub fn create(group: &str, child: &str) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for hierarchy in hierarchies(&mounts) {
        let mut path = hierarchy.path.clone();
        for name in [group, child] {
            if hierarchy.unified {
                delegate(&path)?;
            }
            let parent = path.clone();
            path.push(name);
            fs::create_dir_all(&path)?;
            // A new set of processors is empty, and nothing can run on none.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let (ours, theirs) = (path.join(file), parent.join(file));
                if !hierarchy.unified && ours.exists() {
                    fs::write(ours, fs::read(theirs)?)?;
                }
            }
        }
        if hierarchy.unified {
            delegate(&path)?;
        }
    }
    Ok(())
}

/// Removes `group` and all below it, in every hierarchy. Nothing runs there any more, and groups
/// empty themselves a moment after their processes are gone.
pub fn remove(group: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match try_remove(group) {
            Err(_) if Instant::now() < deadline => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn try_remove(group: &str) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    mount_points(&mounts).iter().try_for_each(|(path, _)| remove_tree(&path.join(group)))
}

#[derive(Debug, PartialEq)]
struct Hierarchy {
    path: PathBuf,
    unified: bool,
}

/// The hierarchies that have controllers.
fn hierarchies(mounts: &str) -> Vec<Hierarchy> {
    mount_points(mounts)
        .into_iter()
        // A machine with both kinds has its controllers in the old one; the new one only watches.
        .filter(|(path, unified)| !unified || path == Path::new("/sys/fs/cgroup"))
        .map(|(path, unified)| Hierarchy { path, unified })
        .collect()
}

/// Where hierarchies are mounted, and whether of the new kind.
fn mount_points(mounts: &str) -> Vec<(PathBuf, bool)> {
    let mut found: Vec<(PathBuf, bool)> = vec![];
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(path) = before.split_whitespace().nth(4).map(PathBuf::from) else { continue };
        let unified = match after.split_whitespace().next() {
            Some("cgroup") => false,
            Some("cgroup2") => true,
            Some(_) | None => continue,
        };
        if path.starts_with("/sys/fs/cgroup") && !found.iter().any(|(other, _)| *other == path) {
            found.push((path, unified));
        }
    }
    found
}

/// Lets groups below `path` have every controller that `path` has.
fn delegate(path: &Path) -> io::Result<()> {
    let controllers = fs::read_to_string(path.join("cgroup.controllers"))?;
    let switches: Vec<String> =
        controllers.split_whitespace().map(|controller| format!("+{controller}")).collect();
    fs::write(path.join("cgroup.subtree_control"), switches.join(" "))
}

fn remove_tree(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_both_kinds_uses_the_old_hierarchies() {
        let mounts = "\
30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
        let path = PathBuf::from("/sys/fs/cgroup/cpu");
        assert_eq!(hierarchies(mounts), [Hierarchy { path, unified: false }]);
        // Runtimes leave empty groups in the other one, which go with the rest.
        assert_eq!(mount_points(mounts).len(), 2);
    }

    #[test]
    fn a_machine_with_the_new_kind_has_one_hierarchy() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let path = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(hierarchies(mounts), [Hierarchy { path, unified: true }]);
    }
}
