//! Packs binaries, their shared libraries and a few tools into an image archive, without Docker.
//!
//! A [`Recipe`] only describes the image; [`Recipe::write`] reads the host and writes one tar that
//! is both a docker archive and an OCI layout, so `docker load`, `ctr images import` and
//! `nerdctl load` all take it. Equal inputs give equal bytes.
//!
//! ```no_run
//! # use liqo_images::Recipe;
//! let summary = Recipe::new("localhost/playground/demo:v1")
//!     .binary("target/release/demo", "/usr/bin/demo")
//!     .symlink("/usr/bin/curl", "demo")
//!     .tool("nft")
//!     .users()
//!     .user("65532:65532")
//!     .entrypoint(["/usr/bin/demo"])
//!     .write("demo.tar".as_ref())?;
//! assert_eq!(summary.reference, "localhost/playground/demo:v1");
//! # Ok::<(), liqo_images::Error>(())
//! ```

mod archive;
mod closure;
mod error;
mod layer;
mod reference;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::error::Error;
use crate::layer::{Entry, Tree};
use crate::reference::Reference;

/// What `PATH` is in a container whose recipe does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const PASSWD: &str = "\
root:x:0:0:root:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin
nonroot:x:65532:65532:nonroot:/:/usr/sbin/nologin
";

const GROUP: &str = "\
root:x:0:
nobody:x:65534:
nonroot:x:65532:
";

/// glibc has `files` and `dns` built in since 2.34, so these names need no further libraries.
const NSSWITCH: &str = "\
passwd: files
group: files
hosts: files dns
";

/// Describes an image; a later step wins over an earlier one for the same path.
#[derive(Debug, Clone)]
#[must_use = "a recipe does nothing until it is written"]
pub struct Recipe {
    reference: String,
    steps: Vec<Step>,
    settings: Settings,
}

/// How a container of the image starts.
#[derive(Debug, Clone, Default)]
struct Settings {
    entrypoint: Vec<String>,
    env: BTreeMap<String, String>,
    user: Option<String>,
    workdir: Option<String>,
}

/// One thing to put in the image, not looked at before [`Recipe::write`].
#[derive(Debug, Clone)]
enum Step {
    Binary { host: PathBuf, at: String },
    Tool(String),
    Place { at: String, entry: Entry },
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The full name under which a container runtime will know the image.
    pub reference: String,
    /// Size of the archive in bytes.
    pub size: u64,
    /// Digest of the only layer, as `sha256:…`.
    pub layer: String,
}

impl Recipe {
    /// Starts an empty image called `reference`, for example `localhost/playground/demo:v1`.
    pub fn new(reference: impl Into<String>) -> Self {
        Self { reference: reference.into(), steps: Vec::new(), settings: Settings::default() }
    }

    /// Adds the ELF file `host` as `at`, and every shared library that it needs.
    pub fn binary(self, host: impl Into<PathBuf>, at: impl Into<String>) -> Self {
        self.step(Step::Binary { host: host.into(), at: at.into() })
    }

    /// Adds an installed tool, found on `PATH`, in `/usr/sbin` or in `/sbin`, with its libraries.
    pub fn tool(self, name: impl Into<String>) -> Self {
        self.step(Step::Tool(name.into()))
    }

    /// Adds a file with these contents.
    pub fn file(self, at: impl Into<String>, contents: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.place(at, Entry::Bytes { contents: contents.into(), mode })
    }

    /// Adds a directory; parents of anything that is added exist anyway, with mode 0755.
    pub fn directory(self, at: impl Into<String>, mode: u32) -> Self {
        self.place(at, Entry::Directory { mode })
    }

    /// Adds a symbolic link at `at` that points to `target`.
    pub fn symlink(self, at: impl Into<String>, target: impl Into<PathBuf>) -> Self {
        self.place(at, Entry::Symlink { target: target.into() })
    }

    /// Adds the accounts `root`, `nobody` and `nonroot` (65532), and lets names resolve through
    /// `/etc/hosts` and DNS.
    pub fn users(self) -> Self {
        self.file("/etc/passwd", PASSWD, 0o644).file("/etc/group", GROUP, 0o644).file(
            "/etc/nsswitch.conf",
            NSSWITCH,
            0o644,
        )
    }

    /// Sets the command line that a container starts with.
    pub fn entrypoint<I>(mut self, words: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.settings.entrypoint = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable; `PATH` has a default.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.env.insert(key.into(), value.into());
        self
    }

    /// Sets the user, for example `65532:65532`; root when never called.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.settings.user = Some(user.into());
        self
    }

    /// Sets the working directory, which should exist in the image.
    pub fn workdir(mut self, at: impl Into<String>) -> Self {
        self.settings.workdir = Some(at.into());
        self
    }

    /// Reads the host and writes the archive to `target`, which appears whole or not at all.
    pub fn write(&self, target: &Path) -> Result<Summary, Error> {
        let reference: Reference = self.reference.parse()?;
        archive::write(&reference, &self.tree()?, &self.settings, target)
    }

    fn place(self, at: impl Into<String>, entry: Entry) -> Self {
        self.step(Step::Place { at: at.into(), entry })
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The files of the image, with tools found and closures resolved.
    fn tree(&self) -> Result<Tree, Error> {
        let mut tree = Tree::default();
        for step in &self.steps {
            match step {
                Step::Binary { host, at } => add_binary(&mut tree, host, Path::new(at))?,
                Step::Tool(name) => {
                    let host = tool::find(name)?;
                    add_binary(&mut tree, &host, &host)?;
                }
                Step::Place { at, entry } => tree.insert(Path::new(at), entry.clone())?,
            }
        }
        Ok(tree)
    }
}

impl Settings {
    /// The environment as `KEY=value`, sorted, with a `PATH`.
    fn environment(&self) -> Vec<String> {
        let mut env = self.env.clone();
        env.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
        env.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

fn add_binary(tree: &mut Tree, host: &Path, at: &Path) -> Result<(), Error> {
    for library in closure::of(host)? {
        tree.insert(&library.at, Entry::Host { path: library.host, mode: 0o755 })?;
    }
    tree.insert(at, Entry::Host { path: host.to_owned(), mode: 0o755 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_has_a_path_unless_it_sets_its_own() {
        let plain = Recipe::new("localhost/a").env("B", "2").env("A", "1");
        assert_eq!(
            plain.settings.environment(),
            ["A=1".to_owned(), "B=2".to_owned(), format!("PATH={DEFAULT_PATH}")]
        );
        assert_eq!(
            Recipe::new("localhost/a").env("PATH", "/x").settings.environment(),
            ["PATH=/x"]
        );
    }

    #[test]
    fn a_missing_tool_is_named_with_its_cure() {
        let error =
            Recipe::new("localhost/a").tool("no-such-tool").write(Path::new("never")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no-such-tool") && text.contains("Debian package"), "{text}");
        assert!(!Path::new("never").exists());
    }

    #[test]
    fn a_script_is_refused_because_its_interpreter_would_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("run.sh");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let recipe = Recipe::new("localhost/a").binary(&script, "/run.sh");
        assert!(matches!(recipe.write(&folder.path().join("a.tar")), Err(Error::NotElf { .. })));
    }
}
