//! Finds dependencies that point up, and decisions that can reach the outside world.
//!
//! ```text
//! bin → crates/services → crates/io → crates/logic → crates/api
//! ```
//!
//! A package may use its own layer and those below it; examples stand beside bin. The test bed and
//! xtask may use anything, and nobody ships them. What only tests need is free, except that nothing
//! uses xtask.
//! Reachability is read from the graph of the whole workspace, where features are united: a
//! feature that another member enables counts.

use std::collections::{BTreeMap, VecDeque};

use super::Finding;
use crate::workspace::{Member, Workspace};

/// What turns a decision into an effect.
const OUTSIDE_WORLD: [&str; 4] = ["kube-client", "nix", "rtnetlink", "tokio"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Api,
    Logic,
    Io,
    Services,
    Bin,
    Testbed,
    Xtask,
}

impl Layer {
    fn of(folder: &str) -> Option<Self> {
        const FOLDERS: [(&str, Layer); 8] = [
            ("crates/api", Layer::Api),
            ("crates/logic", Layer::Logic),
            ("crates/io", Layer::Io),
            ("crates/services", Layer::Services),
            ("bin", Layer::Bin),
            ("examples", Layer::Bin),
            ("testbed", Layer::Testbed),
            ("xtask", Layer::Xtask),
        ];
        FOLDERS.iter().find(|(prefix, _)| is_within(folder, prefix)).map(|(_, layer)| *layer)
    }

    fn decides(self) -> bool {
        self <= Self::Logic
    }
}

/// Every arrow that goes up, and every way from a decision to the outside world.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let members: BTreeMap<&str, &Member> =
        workspace.members.iter().map(|member| (member.name.as_str(), member)).collect();
    let mut findings = Vec::new();
    for member in members.values() {
        let Some(layer) = Layer::of(&member.folder) else {
            findings.push(Finding::new(
                &member.folder,
                "belongs to no layer; packages live under bin, crates/{services,io,logic,api}, \
                 examples, testbed or xtask",
            ));
            continue;
        };
        findings.extend(upward_arrows(member, layer, &members));
        if layer.decides() {
            findings.extend(ways_out(member, workspace));
        }
    }
    findings
}

fn upward_arrows(member: &Member, layer: Layer, members: &BTreeMap<&str, &Member>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for used in &member.uses {
        let Some(target) = members.get(used.name.as_str()) else { continue };
        let Some(below) = Layer::of(&target.folder) else { continue };
        let excused = used.only_dev && below != Layer::Xtask;
        if below > layer && !excused {
            findings.push(Finding::new(
                &member.folder,
                format!("depends on {}, which is above it", target.folder),
            ));
        }
    }
    findings
}

fn ways_out(member: &Member, workspace: &Workspace) -> Vec<Finding> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([member.id.as_str()]);
    let mut findings = Vec::new();
    while let Some(id) = queue.pop_front() {
        let Some(package) = workspace.graph.get(id) else { continue };
        if OUTSIDE_WORLD.contains(&package.name.as_str()) {
            let way = way_to(id, &came_from, workspace);
            findings.push(Finding::new(&member.folder, format!("reaches {}: {way}", package.name)));
            continue;
        }
        for next in &package.normal {
            if next != &member.id && !came_from.contains_key(next.as_str()) {
                came_from.insert(next, id);
                queue.push_back(next);
            }
        }
    }
    findings
}

fn way_to(id: &str, came_from: &BTreeMap<&str, &str>, workspace: &Workspace) -> String {
    let mut names = Vec::new();
    let mut at = Some(id);
    while let Some(id) = at {
        names.push(workspace.graph.get(id).map_or(id, |package| package.name.as_str()));
        at = came_from.get(id).copied();
    }
    names.reverse();
    names.join(" → ")
}

fn is_within(folder: &str, prefix: &str) -> bool {
    folder.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Package, Use};

    #[test]
    fn arrows_that_go_down_or_sideways_pass() {
        let workspace = workspace(&[
            ("bin/liqo", &["crates/services/gateway"]),
            ("crates/services/gateway", &["crates/io/netio", "crates/logic/fabric"]),
            ("crates/io/netio", &["crates/io/kit", "crates/api"]),
            ("crates/io/kit", &[]),
            ("crates/logic/fabric", &["crates/api"]),
            ("crates/api", &[]),
        ]);

        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn an_arrow_that_goes_up_is_found() {
        let workspace =
            workspace(&[("crates/logic/fabric", &["crates/io/netio"]), ("crates/io/netio", &[])]);

        assert_eq!(
            texts(&workspace),
            ["crates/logic/fabric: depends on crates/io/netio, which is above it"]
        );
    }

    #[test]
    fn what_only_tests_need_may_be_above() {
        let mut workspace =
            workspace(&[("crates/io/kit", &["testbed/testkit"]), ("testbed/testkit", &[])]);
        workspace.members[0].uses[0].only_dev = true;

        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn nothing_ships_the_test_bed() {
        let workspace = workspace(&[("bin/liqo", &["testbed/lab"]), ("testbed/lab", &[])]);

        assert_eq!(texts(&workspace), ["bin/liqo: depends on testbed/lab, which is above it"]);
    }

    #[test]
    fn the_test_bed_and_xtask_may_use_anything() {
        let workspace = workspace(&[
            ("testbed/lab", &["bin/liqo", "crates/api"]),
            ("xtask", &["testbed/lab", "crates/api"]),
            ("bin/liqo", &[]),
            ("crates/api", &[]),
        ]);

        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn a_package_outside_every_layer_is_found() {
        let workspace = workspace(&[("binaries/liqo", &[])]);

        assert!(texts(&workspace)[0].starts_with("binaries/liqo: belongs to no layer"));
    }

    #[test]
    fn a_decision_that_reaches_the_runtime_is_found_with_the_way() {
        let mut workspace = workspace(&[("crates/logic/peering", &[])]);
        link(&mut workspace, "crates/logic/peering", "tower");
        link(&mut workspace, "tower", "tokio");

        assert_eq!(
            texts(&workspace),
            ["crates/logic/peering: reaches tokio: crates/logic/peering → tower → tokio"]
        );
    }

    #[test]
    fn input_and_output_may_reach_the_runtime() {
        let mut workspace = workspace(&[("crates/io/netio", &[])]);
        link(&mut workspace, "crates/io/netio", "tokio");

        assert_eq!(check(&workspace), []);
    }

    /// Packages whose name and identity are their folder.
    fn workspace(packages: &[(&str, &[&str])]) -> Workspace {
        let mut workspace = Workspace::default();
        for (folder, uses) in packages {
            let uses = uses.iter().map(|name| Use { name: (*name).to_owned(), only_dev: false });
            workspace.members.push(Member {
                id: (*folder).to_owned(),
                name: (*folder).to_owned(),
                folder: (*folder).to_owned(),
                roots: Vec::new(),
                uses: uses.collect(),
            });
        }
        workspace
    }

    fn link(workspace: &mut Workspace, from: &str, to: &str) {
        for name in [from, to] {
            let package = Package { name: name.to_owned(), normal: Vec::new() };
            workspace.graph.entry(name.to_owned()).or_insert(package);
        }
        let package = workspace.graph.get_mut(from).unwrap();
        package.normal.push(to.to_owned());
    }

    fn texts(workspace: &Workspace) -> Vec<String> {
        check(workspace).iter().map(ToString::to_string).collect()
    }
}
