//! The folder where a playground keeps what it must remember: `.playground/<prefix>`.
//!
//! ```text
//! plan.json               what is to exist; written before anything is made
//! wired                   present once the routers are made
//! lock                    held by whoever changes the playground
//! clusters/<name>/        kubeconfig, prepared
//! nodes/<name>/           boot.json, logs/, layers/ (its /etc, /var, /opt), containerd/
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::plan::Plan;

/// A playground's folder.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The folder of the playground with that prefix, below `home`.
    pub fn new(home: &Path, prefix: &str) -> Self {
        Self { root: home.join(".playground").join(prefix) }
    }

    /// The prefixes of all playgrounds below `home`.
    pub fn prefixes(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home.join(".playground")).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was planned, if anything was.
    pub fn plan(&self) -> io::Result<Option<Plan>> {
        match fs::read(self.root.join("plan.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers a plan.
    pub fn save(&self, plan: &Plan) -> io::Result<()> {
        write_whole(&self.root.join("plan.json"), &serde_json::to_vec_pretty(plan)?)
    }

    /// Waits until nobody else changes this playground; holds it until the file is dropped.
    pub fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.root)?;
        let file = File::create(self.root.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// The mark that the routers are made.
    pub fn wired(&self) -> PathBuf {
        self.root.join("wired")
    }

    /// The mark that the files of a cluster's nodes are written.
    pub fn prepared(&self, cluster: &str) -> PathBuf {
        self.root.join("clusters").join(cluster).join("prepared")
    }

    /// The administrator's kubeconfig of a cluster.
    pub fn kubeconfig(&self, cluster: &str) -> PathBuf {
        self.root.join("clusters").join(cluster).join("kubeconfig")
    }

    /// The folder of a node.
    pub fn node(&self, name: &str) -> PathBuf {
        self.root.join("nodes").join(name)
    }

    /// Removes the folder, and the one above it if it was the last.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if let Some(parent) = self.root.parent() {
            // Another playground may be there; then it stays.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// Writes a file that is either there whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn a_plan_survives_the_folder_and_is_gone_with_it() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::new(home.path(), "pg");
        assert_eq!(store.plan().unwrap(), None);
        let plan = Plan::new("pg", 3, "nat", &Topology::load("nat").unwrap()).unwrap();
        store.save(&plan).unwrap();
        assert_eq!(store.plan().unwrap(), Some(plan));
        assert_eq!(Store::prefixes(home.path()), ["pg"]);
        store.remove().unwrap();
        assert!(!home.path().join(".playground").exists());
    }
}
