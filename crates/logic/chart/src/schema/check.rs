//! Checks values against the part of JSON Schema that our schema uses, and says what to mend.

use std::fmt;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// A setting that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, as `--set` would name it.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

/// Every setting that does not fit, in the order of the keys.
pub fn check(schema: &Value, value: &Value) -> Vec<Problem> {
    let mut problems = vec![];
    walk(schema, value, "", &mut problems);
    problems
}

/// The type of a value, in the words of JSON Schema.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn walk(schema: &Value, value: &Value, key: &str, problems: &mut Vec<Problem>) {
    let mut say = |text: String| problems.push(Problem { key: key.to_owned(), text });
    let kinds = words(schema.get("type"));
    let is = kind(value);
    let fits = |wanted: &&str| **wanted == *is || (**wanted == *"number" && is == "integer");
    if !kinds.is_empty() && !kinds.iter().any(fits) {
        let wanted: Vec<String> = kinds.iter().map(|kind| noun(kind)).collect();
        say(format!("is {value}, and has to be {}", wanted.join(" or ")));
        return;
    }
    let choices = words(schema.get("enum"));
    if !choices.is_empty() && !value.as_str().is_some_and(|text| choices.contains(&text)) {
        say(format!("is {value}, and has to be one of {}", choices.join(", ")));
    }
    if let (Some(pattern), Some(text)) =
        (schema.get("pattern").and_then(Value::as_str), value.as_str())
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        say(format!("is {value}, and has to match {pattern}"));
    }
    let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
    if let Some(number) = value.as_i64() {
        if let Some(least) = limit("minimum").filter(|least| number < *least) {
            say(format!("is {number}, and has to be at least {least}"));
        }
        if let Some(most) = limit("maximum").filter(|most| number > *most) {
            say(format!("is {number}, and has to be at most {most}"));
        }
    }
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                walk(schema, item, &format!("{key}[{index}]"), problems);
            }
        }
        Value::Object(map) => walk_map(schema, map, key, problems),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn walk_map(schema: &Value, map: &Map<String, Value>, key: &str, problems: &mut Vec<Problem>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in map {
        let inner = if key.is_empty() { escaped(name) } else { format!("{key}.{}", escaped(name)) };
        let known = properties.and_then(|properties| properties.get(name));
        match known.or_else(|| schema.get("additionalProperties")) {
            Some(Value::Bool(false)) => {
                let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                let text = match nearest(name, names) {
                    Some(near) => format!("is no setting; did you mean {near}?"),
                    None => "is no setting".to_owned(),
                };
                problems.push(Problem { key: inner, text });
            }
            Some(schema) => walk(schema, value, &inner, problems),
            None => {}
        }
    }
}

/// A string, or a list of strings.
fn words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => vec![],
    }
}

fn noun(kind: &str) -> String {
    match kind {
        "boolean" => "true or false".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "a map".to_owned(),
        "integer" => "an integer".to_owned(),
        kind => format!("a {kind}"),
    }
}

fn escaped(name: &str) -> String {
    name.replace('.', "\\.")
}

/// The name that most likely was meant, if one is near.
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (distance(word, name), name))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, name)| name)
}

/// How many letters have to be added, taken away or changed to make one word of another.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut next = vec![i + 1];
        for ((b, above), aslant) in right.chars().zip(row.iter().skip(1)).zip(&row) {
            let beside = next.last().copied().unwrap_or_default();
            next.push((aslant + usize::from(a != b)).min(above + 1).min(beside + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Chart, schema};

    #[test]
    fn what_does_not_fit_is_told_with_its_key() {
        for (values, problem) in [
            (
                json!({"gateway": {"replicas": "2"}}),
                "gateway.replicas: is \"2\", and has to be an integer",
            ),
            (json!({"auth": {"tls": "yes"}}), "auth.tls: is \"yes\", and has to be true or false"),
            (
                json!({"auth": {"service": {"port": 70000}}}),
                "auth.service.port: is 70000, and has to be at most 65535",
            ),
            (
                json!({"auth": {"service": {"type": "nodeport"}}}),
                "auth.service.type: is \"nodeport\", and has to be one of ClusterIP, NodePort, LoadBalancer",
            ),
            (
                json!({"gateway": {"service": {"labels": {"a.b/c": true}}}}),
                "gateway.service.labels.a\\.b/c: is true, and has to be a string",
            ),
            (
                json!({"virtualKubelet": {"extra": {"resources": {"limits": {"storage": 1}}}}}),
                "virtualKubelet.extra.resources.limits.storage: is no setting",
            ),
            (
                json!({"route": {"pod": {"extraArgs": [1]}}}),
                "route.pod.extraArgs[0]: is 1, and has to be a string",
            ),
            (
                json!({"common": {"tolerations": {}}}),
                "common.tolerations: is {}, and has to be a list",
            ),
            (
                json!({"storage": {"enabled": true}}),
                "storage.enabled: is no setting; did you mean enable?",
            ),
            (
                json!({"discovery": {"config": {"clusterName": "Rome"}}}),
                "discovery.config.clusterName: is \"Rome\", and has to match \
                 ^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
            ),
        ] {
            let problems = check(&own(), &values);
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [problem]);
        }
    }

    #[test]
    fn what_may_be_of_several_types_fits_as_either() {
        for values in [
            json!({"gateway": {"config": {"portOverride": 30000}}}),
            json!({"gateway": {"config": {"portOverride": "30000"}}}),
            json!({"auth": {"pod": {"resources": {"limits": {"cpu": 1, "memory": "1Gi", "x/y": 0.5}}}}}),
            json!({"common": {"affinity": {"nodeAffinity": {}}, "tolerations": [{"key": "a"}]}}),
            json!({"global": {"any": "thing"}}),
        ] {
            assert_eq!(check(&own(), &values), []);
        }
    }

    fn own() -> Value {
        schema(&Chart::embedded().unwrap()).unwrap()
    }
}
