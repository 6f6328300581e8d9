//! Reads the repository into values, and writes to it: the only place that touches files and
//! processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::generate::is_generated;
use crate::path::folder;
use crate::workspace::Workspace;

/// All that the checks look at; paths are relative to the root and use `/`.
#[derive(Default)]
pub struct Repository {
    /// Packages, their targets and who depends on whom.
    pub workspace: Workspace,
    /// Every file and folder that is not ignored.
    pub paths: BTreeSet<String>,
    /// Text of the Rust files.
    pub rust: BTreeMap<String, String>,
    /// Text of the Markdown files.
    pub markdown: BTreeMap<String, String>,
    /// Text of the files that are made from the code.
    pub generated: BTreeMap<String, String>,
}

impl Repository {
    /// Reads the repository this program is run from.
    pub fn read() -> Result<Self> {
        let root = root()?;
        let workspace = Workspace::parse(&metadata(&root)?)?;
        let mut repository = Self { workspace, ..Self::default() };
        let ignored = ignored_at_root(&root)?;
        repository.read_folder(&root, "", &ignored)?;
        Ok(repository)
    }

    fn read_folder(&mut self, root: &Path, folder: &str, ignored: &BTreeSet<String>) -> Result<()> {
        let entries = fs::read_dir(root.join(folder))
            .with_context(|| format!("list the folder '{folder}'"))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list the folder '{folder}'"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if ignored.contains(&path) {
                continue;
            }
            let kind = entry.file_type().with_context(|| format!("look at {path}"))?;
            self.paths.insert(path.clone());
            if kind.is_dir() {
                self.read_folder(root, &path, ignored)?;
            } else if kind.is_file() {
                self.read_text(root, path)?;
            }
        }
        Ok(())
    }

    fn read_text(&mut self, root: &Path, path: String) -> Result<()> {
        let texts = match Path::new(&path).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => &mut self.rust,
            Some("md") => &mut self.markdown,
            Some(_) | None if is_generated(&path) => &mut self.generated,
            Some(_) | None => return Ok(()),
        };
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("read {path}"))?;
        texts.insert(path, text);
        Ok(())
    }
}

/// Makes the generated files of the repository this program is run from exactly these.
pub fn write_generated(files: &BTreeMap<String, String>) -> Result<()> {
    let root = root()?;
    for stale in Repository::read()?.generated.keys().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(root.join(stale)).with_context(|| format!("remove {stale}"))?;
    }
    for (path, text) in files {
        let folder = folder(path);
        fs::create_dir_all(root.join(folder)).with_context(|| format!("create {folder}"))?;
        fs::write(root.join(path), text).with_context(|| format!("write {path}"))?;
    }
    Ok(())
}

/// Asked at run time: a build result may be shared between clones.
fn root() -> Result<PathBuf> {
    let here = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&here).parent().context("find the folder above xtask")?;
    Ok(root.to_path_buf())
}

/// What the root's `.gitignore` anchors with a slash, and git's own folder.
fn ignored_at_root(root: &Path) -> Result<BTreeSet<String>> {
    let rules = fs::read_to_string(root.join(".gitignore")).context("read .gitignore")?;
    let anchored = rules.lines().filter_map(|rule| rule.trim().strip_prefix('/'));
    let mut ignored: BTreeSet<String> =
        anchored.map(|rule| rule.trim_end_matches('/').to_owned()).collect();
    ignored.insert(".git".to_owned());
    Ok(ignored)
}

/// Asks cargo for the dependency graph; the network is used only when something is not here yet.
fn metadata(root: &Path) -> Result<String> {
    let offline = cargo_metadata(root, &["--locked", "--offline"])?;
    let output =
        if offline.status.success() { offline } else { cargo_metadata(root, &["--locked"])? };
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("read what cargo metadata printed")
}

fn cargo_metadata(root: &Path, flags: &[&str]) -> Result<Output> {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1"])
        .args(flags)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("run cargo metadata")
}
