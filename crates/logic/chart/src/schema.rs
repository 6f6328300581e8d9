//! The shape of the values: written from the defaults, and checked against.
//!
//! The type of a setting is that of its default; what a default cannot tell is in [`RULES`]. The
//! result is `values.schema.json`, which Helm and editors read as well.

mod check;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use check::{Problem, check};

use crate::{Chart, Error};

const SERVICE_TYPES: &str = r#"{"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}"#;
const PORT: &str = r#"{"minimum": 1, "maximum": 65535}"#;
const TEXTS: &str = r#"{"additionalProperties": {"type": "string"}}"#;
const AMOUNTS: &str =
    r#"{"properties": {}, "additionalProperties": {"type": ["string", "number"]}}"#;
const TWO_AMOUNTS: &str = r#"{
    "properties": {"cpu": {"type": ["string", "number"]}, "memory": {"type": ["string", "number"]}},
    "additionalProperties": false
}"#;
const PORT_OR_EMPTY: &str = r#"{"type": ["string", "integer"]}"#;

/// What defaults do not tell; the first rule whose end is that of a setting's path counts.
const RULES: &[(&str, &str)] = &[
    ("pullPolicy", r#"{"enum": ["Always", "IfNotPresent", "Never"]}"#),
    ("webhook.failurePolicy", r#"{"enum": ["Fail", "Ignore"]}"#),
    ("wireguardImplementation", r#"{"enum": ["kernel", "userspace"]}"#),
    ("service.type", SERVICE_TYPES),
    ("ort", PORT),
    ("portOverride", PORT_OR_EMPTY),
    ("offerUpdateThresholdPercentage", PORT_OR_EMPTY),
    ("resourceSharingPercentage", r#"{"minimum": 0, "maximum": 100}"#),
    ("replicas", r#"{"minimum": 0}"#),
    ("ttl", r#"{"minimum": 1}"#),
    ("mtu", r#"{"minimum": 576, "maximum": 65535}"#),
    ("clusterIDOverride", r#"{"pattern": "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$"}"#),
    ("discovery.config.clusterName", r#"{"pattern": "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"}"#),
    ("virtualKubelet.extra.resources.limits", TWO_AMOUNTS),
    ("virtualKubelet.extra.resources.requests", TWO_AMOUNTS),
    ("resources.limits", AMOUNTS),
    ("resources.requests", AMOUNTS),
    ("labels", TEXTS),
    ("Labels", TEXTS),
    ("annotations", TEXTS),
    ("nodeSelector", TEXTS),
    ("tolerations", r#"{"items": {"type": "object"}}"#),
    ("common.affinity", r#"{"additionalProperties": true}"#),
];

/// Writes the schema of a chart's values.
pub fn schema(chart: &Chart) -> Result<Value, Error> {
    let text = chart.file("values.yaml").ok_or(Error::NoFile("values.yaml"))?;
    let mut schema = describe("", &chart.defaults()?, &descriptions(text));
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        map.insert("title".to_owned(), json!(format!("Values of {}", chart.metadata.name)));
        // Helm hands these to all charts of a family.
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            properties.insert("global".to_owned(), json!({"type": "object"}));
        }
    }
    Ok(schema)
}

fn describe(path: &str, default: &Value, descriptions: &BTreeMap<String, String>) -> Value {
    let mut schema = Map::new();
    if let Some(text) = descriptions.get(path) {
        schema.insert("description".to_owned(), json!(text));
    }
    schema.insert("type".to_owned(), json!(check::kind(default)));
    match default {
        Value::Array(_) => {
            schema.insert("items".to_owned(), json!({"type": "string"}));
        }
        Value::Object(map) => {
            let properties: Map<String, Value> = map
                .iter()
                .map(|(key, value)| {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    (key.clone(), describe(&path, value, descriptions))
                })
                .collect();
            if !properties.is_empty() {
                schema.insert("properties".to_owned(), Value::Object(properties));
            }
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    schema.extend(rule(path, default));
    Value::Object(schema)
}

fn rule(path: &str, default: &Value) -> Map<String, Value> {
    let text = RULES.iter().find(|(end, _)| {
        // Ports are numbers; the rule for what ends like one is not for the rest.
        path.ends_with(end) && (*end != "ort" || default.is_number())
    });
    text.and_then(|(_, rule)| serde_json::from_str(rule).ok()).unwrap_or_default()
}

/// The comment above each setting.
fn descriptions(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut path: Vec<(usize, &str)> = vec![];
    let mut comment = None;
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(text) = line.strip_prefix("# ") {
            comment = Some(text);
            continue;
        }
        let above = comment.take();
        let Some((key, _)) = line.split_once(':') else { continue };
        path.retain(|(at, _)| *at < depth);
        path.push((depth, key));
        if let Some(text) = above {
            let keys: Vec<&str> = path.iter().map(|(_, key)| *key).collect();
            found.insert(keys.join("."), text.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_for_some_setting() {
        let defaults = Chart::embedded().unwrap().defaults().unwrap();
        let mut paths = vec![];
        collect("", &defaults, &mut paths);

        for (end, rule) in RULES {
            assert!(paths.iter().any(|path| path.ends_with(end)), "{end}");
            assert!(serde_json::from_str::<Map<String, Value>>(rule).is_ok(), "{rule}");
        }
    }

    #[test]
    fn defaults_fit() {
        let chart = Chart::embedded().unwrap();

        assert_eq!(check(&schema(&chart).unwrap(), &chart.defaults().unwrap()), []);
    }

    #[test]
    fn settings_are_described_by_their_comments() {
        let schema = schema(&Chart::embedded().unwrap()).unwrap();

        let description = schema.pointer("/properties/gateway/properties/replicas/description");
        assert_eq!(description, Some(&json!("How many gateways run; one of them is active.")));
    }

    fn collect(path: &str, value: &Value, paths: &mut Vec<String>) {
        paths.push(path.to_owned());
        for (key, value) in value.as_object().into_iter().flatten() {
            collect(&format!("{path}.{key}"), value, paths);
        }
    }
}
