//! One rule of RBAC, said in words: `on(CORE, ["nodes"]).read()`.

use std::collections::BTreeSet;

/// What can be done to a resource; there is no "everything".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Approve,
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// What may be done to some resources of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) group: &'static str,
    pub(crate) resources: Vec<String>,
    /// The only objects it is about; all of them when there are none.
    pub(crate) names: Vec<&'static str>,
    pub(crate) verbs: BTreeSet<Verb>,
}

/// A rule about resources of a group, which allows nothing yet.
pub(crate) fn on<const N: usize>(group: &'static str, resources: [&str; N]) -> Rule {
    let resources = resources.map(str::to_owned).to_vec();
    Rule { group, resources, names: Vec::new(), verbs: BTreeSet::new() }
}

impl Rule {
    /// About a part of the resources, such as their status.
    pub(crate) fn part(mut self, part: &str) -> Self {
        for resource in &mut self.resources {
            *resource = format!("{resource}/{part}");
        }
        self
    }

    /// About the resources' status.
    pub(crate) fn status(self) -> Self {
        self.part("status")
    }

    /// About the resources' finalizers: who owns others in a way that holds up its deletion must be
    /// allowed to update them.
    pub(crate) fn finalizers(self) -> Self {
        self.part("finalizers")
    }

    /// About objects of these names alone.
    pub(crate) fn named<const N: usize>(mut self, names: [&'static str; N]) -> Self {
        self.names.extend(names);
        self
    }

    /// To look at any of them at any time.
    pub(crate) fn read(self) -> Self {
        self.get().follow()
    }

    /// To keep a copy of all of them.
    pub(crate) fn follow(self) -> Self {
        self.list().watch()
    }

    /// To apply them on the server, which creates or patches.
    pub(crate) fn apply(self) -> Self {
        self.create().patch()
    }

    /// To change those that exist.
    pub(crate) fn change(self) -> Self {
        self.patch().update()
    }

    /// To do with single objects whatever can be done.
    pub(crate) fn manage(self) -> Self {
        self.read().create().change().delete()
    }

    pub(crate) fn approve(self) -> Self {
        self.may(Verb::Approve)
    }

    pub(crate) fn create(self) -> Self {
        self.may(Verb::Create)
    }

    pub(crate) fn delete(self) -> Self {
        self.may(Verb::Delete)
    }

    pub(crate) fn delete_many(self) -> Self {
        self.may(Verb::DeleteCollection)
    }

    pub(crate) fn get(self) -> Self {
        self.may(Verb::Get)
    }

    pub(crate) fn list(self) -> Self {
        self.may(Verb::List)
    }

    pub(crate) fn patch(self) -> Self {
        self.may(Verb::Patch)
    }

    pub(crate) fn update(self) -> Self {
        self.may(Verb::Update)
    }

    pub(crate) fn watch(self) -> Self {
        self.may(Verb::Watch)
    }

    fn may(mut self, verb: Verb) -> Self {
        self.verbs.insert(verb);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up() {
        let rule = on("apps", ["deployments"]).follow().apply();

        let verbs: Vec<&str> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
        assert_eq!(verbs, ["create", "list", "patch", "watch"]);
    }

    #[test]
    fn a_part_is_one_of_every_resource() {
        let rule = on("", ["pods", "nodes"]).status();

        assert_eq!(rule.resources, ["pods/status", "nodes/status"]);
    }
}
