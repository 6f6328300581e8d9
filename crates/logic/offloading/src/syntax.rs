//! Selectors as people type them, as kubectl takes them: `region in (europe,us-west), !staging`.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use crate::selector::{check_key, check_value};

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no selector such as 'region in (europe,us-west), !staging': {problem}")]
pub struct NoSelector {
    text: String,
    problem: String,
}

/// The clusters that any of several selectors selects; every cluster, without one.
pub fn any_of(texts: &[impl AsRef<str>]) -> Result<NodeSelector, NoSelector> {
    let terms = texts.iter().map(|text| term(text.as_ref()));
    Ok(NodeSelector { node_selector_terms: terms.collect::<Result<_, _>>()? })
}

/// The requirements of one selector, which hold together.
pub fn term(text: &str) -> Result<NodeSelectorTerm, NoSelector> {
    let wrong = |problem| NoSelector { text: text.to_owned(), problem };
    let parts = split(text).map_err(wrong)?;
    let requirements = parts.into_iter().map(requirement).collect::<Result<_, _>>();
    Ok(NodeSelectorTerm {
        match_expressions: Some(requirements.map_err(wrong)?),
        match_fields: None,
    })
}

/// The parts between commas that are not within parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth) = (vec![], 0, 0_u32);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("a ')' has no '('")?,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    if depth > 0 {
        return Err("a '(' has no ')'".to_owned());
    }
    if parts.iter().any(|part| part.trim().is_empty()) {
        return Err("a requirement is empty".to_owned());
    }
    Ok(parts)
}

fn requirement(part: &str) -> Result<NodeSelectorRequirement, String> {
    let part = part.trim();
    if let Some(key) = part.strip_prefix('!') {
        return built(key, "DoesNotExist", None);
    }
    // Longer ones first: each begins with a shorter one.
    for (sign, operator) in [("!=", "NotIn"), ("==", "In"), ("=", "In"), (">", "Gt"), ("<", "Lt")] {
        if let Some((key, value)) = part.split_once(sign) {
            let value = value.trim();
            if matches!(operator, "Gt" | "Lt") && value.parse::<i64>().is_err() {
                return Err(format!("'{value}' is not a whole number"));
            }
            return built(key, operator, Some(vec![value.to_owned()]));
        }
    }
    let mut words = part.splitn(2, char::is_whitespace);
    let (key, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim());
    for (word, operator) in [("notin", "NotIn"), ("in", "In")] {
        if let Some(list) = rest.strip_prefix(word) {
            let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
            let list =
                list.ok_or_else(|| format!("'{word}' is followed by values in '(' and ')'"))?;
            let values = list.split(',').map(|value| value.trim().to_owned()).collect();
            return built(key, operator, Some(values));
        }
    }
    if rest.is_empty() { built(key, "Exists", None) } else { Err(format!("'{rest}' says nothing")) }
}

fn built(
    key: &str,
    operator: &str,
    values: Option<Vec<String>>,
) -> Result<NodeSelectorRequirement, String> {
    let key = key.trim();
    check_key(key)?;
    values.iter().flatten().try_for_each(|value| check_value(value))?;
    Ok(NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::selector::Selector;

    #[test]
    fn every_form_of_kubectl_is_read() {
        let one = |operator: &str, values: Value| {
            let mut want = json!({ "key": "a", "operator": operator });
            if !values.is_null() {
                want["values"] = values;
            }
            json!({ "matchExpressions": [want] })
        };
        for (text, want) in [
            ("a=b", one("In", json!(["b"]))),
            ("a == b", one("In", json!(["b"]))),
            ("a=", one("In", json!([""]))),
            ("a!=b", one("NotIn", json!(["b"]))),
            ("a in (b, c)", one("In", json!(["b", "c"]))),
            ("a notin (b)", one("NotIn", json!(["b"]))),
            ("a", one("Exists", Value::Null)),
            ("!a", one("DoesNotExist", Value::Null)),
            ("a>5", one("Gt", json!(["5"]))),
            ("a < 5", one("Lt", json!(["5"]))),
        ] {
            assert_eq!(serde_json::to_value(term(text).unwrap()).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn requirements_are_between_commas_and_selectors_are_alternatives() {
        let selector = any_of(&["region in (europe,us-west), !staging", "pool=gpu"]).unwrap();
        let terms = &selector.node_selector_terms;
        assert_eq!(terms.len(), 2);
        assert_eq!(terms[0].match_expressions.as_ref().unwrap().len(), 2);
        assert!(Selector::read(Some(&selector)).is_ok());
        assert_eq!(any_of(&[""; 0]).unwrap(), NodeSelector::default());
    }

    #[test]
    fn what_is_no_selector_is_told_why() {
        let why = |text: &str| term(text).unwrap_err().problem;
        assert_eq!(why("a,,b"), "a requirement is empty");
        assert_eq!(why(""), "a requirement is empty");
        assert_eq!(why("a in (b"), "a '(' has no ')'");
        assert_eq!(why("a in b"), "'in' is followed by values in '(' and ')'");
        assert_eq!(why("a like b"), "'like b' says nothing");
        assert_eq!(why("a > b"), "'b' is not a whole number");
        assert!(why("a/b/c").starts_with("'a/b/c' is no name of a label"));
    }
}
