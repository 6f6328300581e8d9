//! The workspace as cargo sees it: members, their targets, and the graph below them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

/// The part of `cargo metadata` that the checks need.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The packages of this repository.
    pub members: Vec<Member>,
    /// Every package of the graph by its identity, with what it normally depends on.
    pub graph: BTreeMap<String, Package>,
}

/// A package of this repository.
#[derive(Debug, Default)]
pub struct Member {
    /// Its identity in the graph.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its folder, relative to the root.
    pub folder: String,
    /// The files compilation starts at, relative to the root.
    pub roots: Vec<String>,
    /// What its manifest names, by package name.
    pub uses: Vec<Use>,
}

/// A dependency as a manifest names it.
#[derive(Debug)]
pub struct Use {
    /// The package's name.
    pub name: String,
    /// Whether only tests, examples and benchmarks have it.
    pub only_dev: bool,
}

/// A node of the resolved graph.
#[derive(Debug)]
pub struct Package {
    /// The package's name.
    pub name: String,
    /// Identities of its normal dependencies, for every platform.
    pub normal: Vec<String>,
}

impl Workspace {
    /// Reads what `cargo metadata --format-version 1` printed.
    pub fn parse(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata).context("parse cargo's metadata")?;
        let root = format!("{}/", text(&metadata, "workspace_root")?);
        let ours: Vec<&str> =
            list(&metadata, "workspace_members")?.iter().filter_map(Value::as_str).collect();
        let mut workspace = Self::default();
        for package in list(&metadata, "packages")? {
            let id = text(package, "id")?;
            if ours.contains(&id) {
                workspace.members.push(Member::parse(package, &root)?);
            }
            let node = Package { name: text(package, "name")?.to_owned(), normal: Vec::new() };
            workspace.graph.insert(id.to_owned(), node);
        }
        let resolve = metadata.get("resolve").context("cargo's metadata has no 'resolve'")?;
        for node in list(resolve, "nodes")? {
            if let Some(package) = workspace.graph.get_mut(text(node, "id")?) {
                package.normal = normal_dependencies(node)?;
            }
        }
        Ok(workspace)
    }
}

impl Member {
    fn parse(package: &Value, root: &str) -> Result<Self> {
        let manifest = relative(text(package, "manifest_path")?, root);
        let mut member = Self {
            id: text(package, "id")?.to_owned(),
            name: text(package, "name")?.to_owned(),
            folder: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
            ..Self::default()
        };
        for target in list(package, "targets")? {
            member.roots.push(relative(text(target, "src_path")?, root));
        }
        for used in list(package, "dependencies")? {
            let only_dev = used.get("kind").and_then(Value::as_str) == Some("dev");
            member.uses.push(Use { name: text(used, "name")?.to_owned(), only_dev });
        }
        Ok(member)
    }
}

fn normal_dependencies(node: &Value) -> Result<Vec<String>> {
    let mut normal = Vec::new();
    for dependency in list(node, "deps")? {
        let mut kinds = list(dependency, "dep_kinds")?.iter();
        if kinds.any(|kind| kind.get("kind").is_none_or(Value::is_null)) {
            normal.push(text(dependency, "pkg")?.to_owned());
        }
    }
    Ok(normal)
}

fn relative(path: &str, root: &str) -> String {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .with_context(|| format!("cargo's metadata lacks '{key}'"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value
        .get(key)
        .and_then(Value::as_array)
        .with_context(|| format!("cargo's metadata lacks '{key}'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_told_from_the_packages_they_use() {
        let workspace = Workspace::parse(&metadata()).unwrap();

        let member = &workspace.members[0];
        assert_eq!(workspace.members.len(), 1);
        assert_eq!(member.folder, "crates/logic/ipam");
        assert_eq!(member.roots, ["crates/logic/ipam/src/lib.rs"]);
        assert!(!member.uses[0].only_dev);
        assert!(member.uses[1].only_dev);
    }

    #[test]
    fn the_graph_holds_normal_dependencies_only() {
        let workspace = Workspace::parse(&metadata()).unwrap();

        assert_eq!(workspace.graph["ours"].normal, ["ipnet 2"]);
        assert_eq!(workspace.graph["ipnet 2"].name, "ipnet");
    }

    #[test]
    fn metadata_without_a_graph_is_an_error() {
        assert!(Workspace::parse("{}").is_err());
    }

    fn metadata() -> String {
        json!({
            "workspace_root": "/clone",
            "workspace_members": ["ours"],
            "packages": [
                {
                    "id": "ours",
                    "name": "liqo-ipam",
                    "manifest_path": "/clone/crates/logic/ipam/Cargo.toml",
                    "targets": [{"src_path": "/clone/crates/logic/ipam/src/lib.rs"}],
                    "dependencies": [
                        {"name": "ipnet", "kind": null},
                        {"name": "proptest", "kind": "dev"},
                    ],
                },
                {
                    "id": "ipnet 2",
                    "name": "ipnet",
                    "manifest_path": "/registry/ipnet/Cargo.toml",
                    "targets": [],
                    "dependencies": [],
                },
            ],
            "resolve": {
                "nodes": [{
                    "id": "ours",
                    "deps": [
                        {"pkg": "ipnet 2", "dep_kinds": [{"kind": "build"}, {"kind": null}]},
                        {"pkg": "proptest 1", "dep_kinds": [{"kind": "dev"}]},
                    ],
                }],
            },
        })
        .to_string()
    }
}
