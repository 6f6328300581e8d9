//! Finds Rust files that no target compiles: code that looks alive and is not.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::path::{folder, join, stem};
use crate::rust::{Module, modules};
use crate::workspace::Workspace;

/// Every file that no chain of `mod` declarations ties to a target.
pub fn check(workspace: &Workspace, rust: &BTreeMap<String, String>) -> Vec<Finding> {
    let roots: BTreeSet<&str> =
        workspace.members.iter().flat_map(|member| &member.roots).map(String::as_str).collect();
    let reached = reach(&roots, rust);
    rust.keys()
        .filter(|path| !reached.contains(*path))
        .map(|path| Finding::new(path, why_unreached(path, workspace)))
        .collect()
}

fn reach(roots: &BTreeSet<&str>, rust: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
    while let Some(path) = pending.pop() {
        let Some(text) = rust.get(&path) else { continue };
        let is_root = roots.contains(path.as_str());
        for module in modules(text).iter().filter(|module| !module.is_inline) {
            pending.extend(places(module, &path, is_root).filter(|place| !reached.contains(place)));
        }
        reached.insert(path);
    }
    reached
}

/// Where the compiler would look for a module's file.
fn places(module: &Module, declared_in: &str, is_root: bool) -> impl Iterator<Item = String> {
    let own = folder(declared_in);
    let beside = is_root || stem(declared_in) == "mod";
    let below = if beside { own.to_owned() } else { format!("{own}/{}", stem(declared_in)) };
    let inner = format!("{below}/{}", module.inside.join("/"));
    let name = &module.name;
    let candidates = match &module.path {
        Some(path) if module.inside.is_empty() => [join(own, path), None],
        Some(path) => [join(&inner, path), None],
        None => [join(&inner, &format!("{name}.rs")), join(&inner, &format!("{name}/mod.rs"))],
    };
    candidates.into_iter().flatten()
}

fn why_unreached(path: &str, workspace: &Workspace) -> &'static str {
    let is_ours =
        |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    if workspace.members.iter().any(|member| is_ours(&member.folder)) {
        "no `mod` names this file"
    } else {
        "belongs to no member of the workspace"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    #[test]
    fn files_tied_to_a_target_pass() {
        let found = orphans(&[
            (
                "kit/src/lib.rs",
                "mod watch;\nmod inner { mod deep; }\n#[path = \"odd.rs\"] mod even;",
            ),
            ("kit/src/watch.rs", "mod known;"),
            ("kit/src/watch/known.rs", ""),
            ("kit/src/inner/deep.rs", ""),
            ("kit/src/odd.rs", ""),
            ("kit/tests/peer.rs", "mod fixture;"),
            ("kit/tests/fixture/mod.rs", "mod pods;"),
            ("kit/tests/fixture/pods.rs", ""),
        ]);

        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_file_that_nothing_names_is_found() {
        let found = orphans(&[("kit/src/lib.rs", "// mod old;"), ("kit/src/old.rs", "")]);

        assert_eq!(found, ["kit/src/old.rs: no `mod` names this file"]);
    }

    #[test]
    fn what_an_orphan_declares_is_orphaned_too() {
        let found = orphans(&[
            ("kit/src/lib.rs", ""),
            ("kit/src/old.rs", "mod older;"),
            ("kit/src/old/older.rs", ""),
        ]);

        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_package_that_is_no_member_is_found() {
        let found = orphans(&[("kit/src/lib.rs", ""), ("kitchen/src/lib.rs", "")]);

        assert_eq!(found, ["kitchen/src/lib.rs: belongs to no member of the workspace"]);
    }

    fn orphans(files: &[(&str, &str)]) -> Vec<String> {
        let member = Member {
            folder: "kit".to_owned(),
            roots: vec!["kit/src/lib.rs".to_owned(), "kit/tests/peer.rs".to_owned()],
            ..Member::default()
        };
        let workspace = Workspace { members: vec![member], ..Workspace::default() };
        let rust = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        check(&workspace, &rust.collect()).iter().map(ToString::to_string).collect()
    }
}
