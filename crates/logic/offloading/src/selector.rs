//! Selects clusters by the labels of their virtual nodes, as the scheduler selects nodes.
//!
//! Terms are alternatives, requirements of a term hold together. A selector without terms selects
//! every cluster; a term without requirements, as with pods, selects none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// The longest name of a label, and the longest value.
const LONGEST_NAME: usize = 63;
/// The longest prefix of a label's name.
const LONGEST_PREFIX: usize = 253;
/// The one field that nodes can be selected by.
const NAME_FIELD: &str = "metadata.name";

/// A selector that makes no sense, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.clusterSelector.nodeSelectorTerms[{term}].{list}[{index}]: {problem}")]
pub struct InvalidSelector {
    term: usize,
    list: &'static str,
    index: usize,
    problem: String,
}

/// A selector that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Alternatives; nothing when every cluster is selected.
    terms: Option<Vec<Vec<Requirement>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    /// The label; nothing when it is about the name of the node.
    label: Option<String>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

impl Selector {
    /// Reads a selector; none selects every cluster.
    pub fn read(selector: Option<&NodeSelector>) -> Result<Self, InvalidSelector> {
        let terms = selector.map(|selector| selector.node_selector_terms.as_slice());
        let terms = terms.filter(|terms| !terms.is_empty());
        let terms = terms.map(|terms| terms.iter().enumerate().map(read_term).collect());
        Ok(Self { terms: terms.transpose()? })
    }

    /// Whether it selects the cluster behind a virtual node.
    pub fn selects(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        let Some(terms) = &self.terms else { return true };
        let holds = |requirement: &Requirement| match &requirement.label {
            Some(label) => requirement.test.holds(labels.get(label).map(String::as_str)),
            None => requirement.test.holds(Some(node)),
        };
        terms.iter().any(|term| !term.is_empty() && term.iter().all(holds))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt(bound) => number().is_some_and(|number| number > *bound),
            Self::Lt(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

fn read_term(
    (term, terms): (usize, &NodeSelectorTerm),
) -> Result<Vec<Requirement>, InvalidSelector> {
    let labels = terms.match_expressions.iter().flatten().enumerate().map(|(index, one)| {
        let list = "matchExpressions";
        read_label(one).map_err(|problem| InvalidSelector { term, list, index, problem })
    });
    let fields = terms.match_fields.iter().flatten().enumerate().map(|(index, one)| {
        let list = "matchFields";
        read_field(one).map_err(|problem| InvalidSelector { term, list, index, problem })
    });
    labels.chain(fields).collect()
}

fn read_label(requirement: &NodeSelectorRequirement) -> Result<Requirement, String> {
    check_key(&requirement.key)?;
    let test = read_test(requirement)?;
    if let Test::In(values) | Test::NotIn(values) = &test {
        values.iter().try_for_each(|value| check_value(value))?;
    }
    Ok(Requirement { label: Some(requirement.key.clone()), test })
}

fn read_field(requirement: &NodeSelectorRequirement) -> Result<Requirement, String> {
    if requirement.key != NAME_FIELD {
        let key = &requirement.key;
        return Err(format!("nodes can be selected by the field {NAME_FIELD} only, not '{key}'"));
    }
    let test = read_test(requirement)?;
    let is_fit = matches!(test, Test::In(_) | Test::NotIn(_)) && values(requirement).len() == 1;
    let wrong = || "a field takes the operator In or NotIn, and one value".to_owned();
    is_fit.then_some(Requirement { label: None, test }).ok_or_else(wrong)
}

fn read_test(requirement: &NodeSelectorRequirement) -> Result<Test, String> {
    let (key, values) = (&requirement.key, values(requirement));
    let some = || match values {
        [] => Err(format!("'{key}' needs at least one value")),
        values => Ok(values.to_vec()),
    };
    let none = |test| match values {
        [] => Ok(test),
        _ => Err(format!("'{key}' takes no values with the operator {}", requirement.operator)),
    };
    let number = || match values {
        [value] => value.parse().map_err(|_| format!("'{value}' of '{key}' is not a whole number")),
        _ => Err(format!("'{key}' needs just one value, a whole number")),
    };
    match requirement.operator.as_str() {
        "In" => some().map(Test::In),
        "NotIn" => some().map(Test::NotIn),
        "Exists" => none(Test::Exists),
        "DoesNotExist" => none(Test::DoesNotExist),
        "Gt" => number().map(Test::Gt),
        "Lt" => number().map(Test::Lt),
        other => Err(format!(
            "'{other}' is no operator: there are In, NotIn, Exists, DoesNotExist, Gt and Lt"
        )),
    }
}

fn values(requirement: &NodeSelectorRequirement) -> &[String] {
    requirement.values.as_deref().unwrap_or_default()
}

/// Says what is wrong with the name of a label.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_prefix = |prefix: &str| {
        !prefix.is_empty()
            && prefix.len() <= LONGEST_PREFIX
            && prefix.split('.').all(|part| {
                let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                part.bytes().all(|byte| is_inner(byte) || byte == b'-')
                    && part.bytes().next().is_some_and(is_inner)
                    && part.bytes().next_back().is_some_and(is_inner)
            })
    };
    if prefix.is_none_or(is_prefix) && !name.is_empty() && is_qualified(name) {
        return Ok(());
    }
    Err(format!(
        "'{key}' is no name of a label: it has up to 63 letters, digits, '-', '_' and '.', \
         and perhaps a domain and '/' before"
    ))
}

/// Says what is wrong with the value of a label.
pub(crate) fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_qualified(value) {
        return Ok(());
    }
    Err(format!(
        "'{value}' is no value of a label: it has up to 63 letters, digits, '-', '_' and '.'"
    ))
}

fn is_qualified(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= LONGEST_NAME
        && text.bytes().all(|byte| is_end(byte) || matches!(byte, b'-' | b'_' | b'.'))
        && text.bytes().next().is_some_and(is_end)
        && text.bytes().next_back().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn no_selector_and_no_terms_select_every_cluster() {
        assert!(Selector::read(None).unwrap().selects("any", &labels(&[])));
        assert!(read(&json!([])).unwrap().selects("any", &labels(&[])));
    }

    #[test]
    fn a_term_without_requirements_selects_none() {
        assert!(!read(&json!([{}])).unwrap().selects("any", &labels(&[("a", "b")])));
    }

    #[test]
    fn operators_mean_what_they_mean_to_the_scheduler() {
        let here = labels(&[("region", "south"), ("cores", "8"), ("odd", "many")]);
        for (key, operator, values, want) in [
            ("region", "In", json!(["north", "south"]), true),
            ("region", "In", json!(["north"]), false),
            ("none", "In", json!(["north"]), false),
            ("region", "NotIn", json!(["north"]), true),
            ("region", "NotIn", json!(["south"]), false),
            ("none", "NotIn", json!(["south"]), true),
            ("region", "Exists", json!([]), true),
            ("none", "Exists", json!(null), false),
            ("region", "DoesNotExist", json!([]), false),
            ("none", "DoesNotExist", json!([]), true),
            ("cores", "Gt", json!(["7"]), true),
            ("cores", "Gt", json!(["8"]), false),
            ("cores", "Lt", json!(["9"]), true),
            ("cores", "Lt", json!(["-9"]), false),
            ("odd", "Gt", json!(["0"]), false),
            ("none", "Lt", json!(["0"]), false),
        ] {
            let expression = json!({ "key": key, "operator": operator, "values": values });
            let selector = read(&json!([{ "matchExpressions": [expression] }])).unwrap();
            assert_eq!(selector.selects("n", &here), want, "{key} {operator} {values}");
        }
    }

    #[test]
    fn requirements_hold_together_and_terms_are_alternatives() {
        let [a, b] = ["a", "b"].map(|key| json!({ "key": key, "operator": "Exists" }));
        let both = read(&json!([{ "matchExpressions": [a, b] }])).unwrap();
        assert!(!both.selects("n", &labels(&[("a", "")])));
        assert!(both.selects("n", &labels(&[("a", ""), ("b", "")])));
        let one = json!([{ "matchExpressions": [a] }, { "matchExpressions": [b] }]);
        assert!(read(&one).unwrap().selects("n", &labels(&[("b", "")])));
    }

    #[test]
    fn a_node_can_be_selected_by_its_name() {
        let field = json!({ "key": "metadata.name", "operator": "In", "values": ["liqo-milan"] });
        let selector = read(&json!([{ "matchFields": [field] }])).unwrap();
        assert!(selector.selects("liqo-milan", &labels(&[])));
        assert!(!selector.selects("liqo-naples", &labels(&[])));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        let wrong = |expression: Value| {
            let good = json!({ "key": "a", "operator": "Exists" });
            let terms =
                json!([{ "matchExpressions": [good] }, { "matchExpressions": [expression] }]);
            read(&terms).unwrap_err().to_string()
        };
        let texts = [
            wrong(json!({ "key": "a", "operator": "Like", "values": ["b"] })),
            wrong(json!({ "key": "a", "operator": "In" })),
            wrong(json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
            wrong(json!({ "key": "a", "operator": "Gt", "values": ["much"] })),
            wrong(json!({ "key": "a b", "operator": "Exists" })),
            wrong(json!({ "key": "a", "operator": "In", "values": ["b c"] })),
        ];
        insta::assert_snapshot!(texts.join("\n"), @r"
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'Like' is no operator: there are In, NotIn, Exists, DoesNotExist, Gt and Lt
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'a' needs at least one value
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'a' takes no values with the operator Exists
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'much' of 'a' is not a whole number
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'a b' is no name of a label: it has up to 63 letters, digits, '-', '_' and '.', and perhaps a domain and '/' before
        spec.clusterSelector.nodeSelectorTerms[1].matchExpressions[0]: 'b c' is no value of a label: it has up to 63 letters, digits, '-', '_' and '.'
        ");
        let field = json!({ "key": "spec.unschedulable", "operator": "In", "values": ["true"] });
        assert!(read(&json!([{ "matchFields": [field] }])).is_err());
    }

    proptest! {
        #[test]
        fn in_and_not_in_are_opposites(value in "[a-c]", values in prop::collection::vec("[a-c]", 1..3)) {
            let selects = |operator: &str| {
                let expression = json!({ "key": "k", "operator": operator, "values": values });
                let selector = read(&json!([{ "matchExpressions": [expression] }])).unwrap();
                (selector.selects("n", &labels(&[("k", &value)])), selector.selects("n", &labels(&[])))
            };
            let ((a, absent), (b, absent_too)) = (selects("In"), selects("NotIn"));
            prop_assert_ne!(a, b);
            prop_assert_eq!((absent, absent_too), (false, true));
        }
    }

    fn read(terms: &Value) -> Result<Selector, InvalidSelector> {
        let selector = json!({ "nodeSelectorTerms": terms });
        Selector::read(Some(&serde_json::from_value(selector).unwrap()))
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }
}
