//! All that a component may do, in groups that say what they are for, and the file of it.

use std::fmt::{self, Display, Formatter};

use crate::rule::{Rule, Verb};

/// What a component may do, in the whole cluster and in Liqo's namespace.
///
/// Displayed, it is the file that the chart reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    purpose: &'static str,
    cluster: Vec<Group>,
    namespace: Vec<Group>,
}

/// Rules that serve one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    reason: &'static str,
    rules: Vec<Rule>,
}

impl Permissions {
    /// Those of a component that is there for a purpose; nothing yet.
    pub(crate) fn new(purpose: &'static str) -> Self {
        Self { purpose, cluster: Vec::new(), namespace: Vec::new() }
    }

    /// Adds what it may do in all namespaces, and to what belongs to none.
    pub(crate) fn cluster<const N: usize>(
        mut self,
        reason: &'static str,
        rules: [Rule; N],
    ) -> Self {
        self.cluster.push(Group { reason, rules: rules.into() });
        self
    }

    /// Adds what it may do in Liqo's namespace.
    pub(crate) fn namespace<const N: usize>(
        mut self,
        reason: &'static str,
        rules: [Rule; N],
    ) -> Self {
        self.namespace.push(Group { reason, rules: rules.into() });
        self
    }
}

impl Display for Permissions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.purpose)?;
        for (scope, groups) in [("cluster", &self.cluster), ("namespace", &self.namespace)] {
            if !groups.is_empty() {
                writeln!(f, "{scope}:")?;
            }
            groups.iter().try_for_each(|group| write!(f, "{group}"))?;
        }
        Ok(())
    }
}

impl Display for Group {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  # {}", self.reason)?;
        for rule in &self.rules {
            let verbs: Vec<&str> = rule.verbs.iter().copied().map(Verb::as_str).collect();
            let group = if rule.group.is_empty() { "\"\"" } else { rule.group };
            writeln!(f, "  - apiGroups: [{group}]")?;
            writeln!(f, "    resources: [{}]", rule.resources.join(", "))?;
            if !rule.names.is_empty() {
                writeln!(f, "    resourceNames: [{}]", rule.names.join(", "))?;
            }
            writeln!(f, "    verbs: [{}]", verbs.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::on;

    #[test]
    fn a_file_says_what_every_rule_is_for() {
        let permissions = Permissions::new("Makes tea.")
            .cluster(
                "Cups.",
                [on("", ["cups"]).read(), on("tea.example", ["pots"]).named(["blue"]).get()],
            )
            .namespace("The kettle.", [on("tea.example", ["kettles"]).status().apply()]);

        insta::assert_snapshot!(permissions, @r#"
        # Makes tea.
        cluster:
          # Cups.
          - apiGroups: [""]
            resources: [cups]
            verbs: [get, list, watch]
          - apiGroups: [tea.example]
            resources: [pots]
            resourceNames: [blue]
            verbs: [get]
        namespace:
          # The kettle.
          - apiGroups: [tea.example]
            resources: [kettles/status]
            verbs: [create, patch]
        "#);
    }

    #[test]
    fn a_scope_without_rules_is_left_out() {
        assert_eq!(Permissions::new("Rests.").to_string(), "# Rests.\n");
    }
}
