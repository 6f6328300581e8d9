//! Puts values over values: what is said later counts, and lists grow.

use serde_json::{Map, Value};

/// Two values of one setting do not go together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is {below} and cannot become {above}")]
pub struct Mismatch {
    /// The setting.
    pub path: String,
    /// What it was.
    below: &'static str,
    /// What it should be.
    above: &'static str,
}

/// Puts `above` over `below`: maps are merged, lists appended, everything else is replaced.
pub fn append(below: &mut Value, above: Value) -> Result<(), Mismatch> {
    put(below, above, "")
}

fn put(below: &mut Value, above: Value, path: &str) -> Result<(), Mismatch> {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => put_all(below, above, path),
        (Value::Array(below), Value::Array(above)) => {
            below.extend(above);
            Ok(())
        }
        (below, above) if below.is_null() || kind(below) == kind(&above) => {
            *below = above;
            Ok(())
        }
        (below, above) => {
            Err(Mismatch { path: path.to_owned(), below: kind(below), above: kind(&above) })
        }
    }
}

fn put_all(
    below: &mut Map<String, Value>,
    above: Map<String, Value>,
    path: &str,
) -> Result<(), Mismatch> {
    for (key, value) in above {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match below.get_mut(&key) {
            Some(inner) => put(inner, value, &path)?,
            None => {
                below.insert(key, value);
            }
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_grow_and_everything_else_is_replaced() {
        let mut values = json!({"a": {"list": ["x"], "text": "old", "number": 1}, "b": null});

        append(&mut values, json!({"a": {"list": ["y"], "text": "new"}, "b": 2, "c": [3]}))
            .unwrap();

        let expected =
            json!({"a": {"list": ["x", "y"], "text": "new", "number": 1}, "b": 2, "c": [3]});
        assert_eq!(values, expected);
    }

    #[test]
    fn a_setting_keeps_its_type() {
        let error = append(&mut json!({"a": {"b": []}}), json!({"a": {"b": "x"}})).unwrap_err();

        assert_eq!(error.to_string(), "a.b is a list and cannot become a text");
    }
}
