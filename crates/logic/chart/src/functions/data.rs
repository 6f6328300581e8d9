//! Functions on maps, lists and numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::{TemplateError, Value};
use serde_json::{Map, Number};

use super::{Outcome, count, wrong};
use crate::yaml;

type Entries = BTreeMap<Arc<str>, Value>;

pub fn append(arguments: &[Value]) -> Outcome {
    let [items, item] = arguments else { return count(2) };
    let mut items = list_of(items)?.to_vec();
    items.push(item.clone());
    Ok(Value::List(items.into()))
}

/// The first value that is not empty.
pub fn coalesce(arguments: &[Value]) -> Outcome {
    Ok(arguments.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))
}

pub fn concat(arguments: &[Value]) -> Outcome {
    let mut all = vec![];
    for items in arguments {
        all.extend_from_slice(list_of(items)?);
    }
    Ok(Value::List(all.into()))
}

pub fn default(arguments: &[Value]) -> Outcome {
    match arguments {
        [otherwise, value] if !value.is_truthy() => Ok(otherwise.clone()),
        [_, value] => Ok(value.clone()),
        _ => count(2),
    }
}

pub fn dict(arguments: &[Value]) -> Outcome {
    let mut entries = Entries::new();
    for pair in arguments.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::from(""));
        let key = pair.first().map(ToString::to_string).unwrap_or_default();
        entries.insert(key.into(), value);
    }
    Ok(Value::Map(Arc::new(entries)))
}

/// A value deep in a map, or what to take when it is not there.
pub fn dig(arguments: &[Value]) -> Outcome {
    let [keys @ .., otherwise, map] = arguments else { return count(3) };
    let mut at = map;
    for key in keys {
        match map_of(at)?.get(key.to_string().as_str()) {
            Some(inner) => at = inner,
            None => return Ok(otherwise.clone()),
        }
    }
    Ok(at.clone())
}

pub fn from_yaml(arguments: &[Value]) -> Outcome {
    let [text] = arguments else { return count(1) };
    let Some(text) = text.as_str() else { return wrong("text", text) };
    match yaml::read_map("the text", text) {
        Ok(value) => Ok(from_json(&value)),
        Err(error) => Err(TemplateError::Exec(error.to_string())),
    }
}

pub fn has_key(arguments: &[Value]) -> Outcome {
    let [map, key] = arguments else { return count(2) };
    Ok(Value::Bool(map_of(map)?.contains_key(key.to_string().as_str())))
}

pub fn int(arguments: &[Value]) -> Outcome {
    let [value] = arguments else { return count(1) };
    Ok(Value::Int(integer(value)))
}

pub fn list(arguments: &[Value]) -> Outcome {
    Ok(Value::List(arguments.into()))
}

/// One map out of several; the first that has something for a key wins.
pub fn merge(arguments: &[Value]) -> Outcome {
    let mut merged = Entries::new();
    for map in arguments {
        fill(&mut merged, map_of(map)?);
    }
    Ok(Value::Map(Arc::new(merged)))
}

fn fill(into: &mut Entries, from: &Entries) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Map(inner)), Value::Map(value)) => fill(Arc::make_mut(inner), value),
            (Some(there), _) if there.is_truthy() => {}
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

pub fn modulo(arguments: &[Value]) -> Outcome {
    let [value, by] = arguments else { return count(2) };
    match integer(value).checked_rem(integer(by)) {
        Some(rest) => Ok(Value::Int(rest)),
        None => wrong("a divisor", by),
    }
}

pub fn ternary(arguments: &[Value]) -> Outcome {
    let [yes, no, condition] = arguments else { return count(3) };
    let Value::Bool(condition) = condition else { return wrong("true or false", condition) };
    Ok(if *condition { yes.clone() } else { no.clone() })
}

pub fn to_yaml(arguments: &[Value]) -> Outcome {
    let [value] = arguments else { return count(1) };
    Ok(Value::from(yaml::write(&to_json(value)?)))
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Bool(flag) => i64::from(*flag),
        Value::String(text) => text.parse().unwrap_or_default(),
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        // Rust has no other way from a float; it saturates instead of wrapping.
        #[expect(clippy::cast_possible_truncation, reason = "templates ask for the whole part")]
        Value::Float(number) => *number as i64,
        Value::Int(number) => *number,
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Function(_) => 0,
    }
}

fn list_of(value: &Value) -> Result<&[Value], TemplateError> {
    let Value::List(items) = value else { return wrong("a list", value) };
    Ok(items)
}

fn map_of(value: &Value) -> Result<&Entries, TemplateError> {
    let Value::Map(entries) = value else { return wrong("a map", value) };
    Ok(entries)
}

/// A value for templates.
pub fn from_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(text) => Value::String(text.as_str().into()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(map) => Value::Map(Arc::new(
            map.iter().map(|(key, value)| (key.as_str().into(), from_json(value))).collect(),
        )),
    }
}

/// A value out of templates.
pub fn to_json(value: &Value) -> Result<serde_json::Value, TemplateError> {
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Float(number) => {
            Number::from_f64(*number).map_or(serde_json::Value::Null, serde_json::Value::Number)
        }
        Value::String(text) => serde_json::Value::String(text.to_string()),
        Value::List(items) => {
            serde_json::Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?)
        }
        Value::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries.iter() {
                map.insert(key.to_string(), to_json(value)?);
            }
            serde_json::Value::Object(map)
        }
        Value::Function(_) => return wrong("data", value),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_made_as_helm_makes_it() {
        let map = || value(&json!({"a": {"b": "c"}, "empty": ""}));
        let cases = [
            (append(&[value(&json!([1])), value(&json!(2))]), json!([1, 2])),
            (coalesce(&[value(&json!("")), value(&json!("a"))]), json!("a")),
            (coalesce(&[]), json!(null)),
            (concat(&[value(&json!([1])), value(&json!([2]))]), json!([1, 2])),
            (default(&[value(&json!(1)), value(&json!(0))]), json!(1)),
            (default(&[value(&json!(1)), value(&json!("x"))]), json!("x")),
            (dict(&[value(&json!("a")), value(&json!(1))]), json!({"a": 1})),
            (dig(&["a".into(), "b".into(), "".into(), map()]), json!("c")),
            (dig(&["a".into(), "x".into(), "none".into(), map()]), json!("none")),
            (from_yaml(&["a: [1, b]".into()]), json!({"a": [1, "b"]})),
            (has_key(&[map(), "a".into()]), json!(true)),
            (int(&["12".into()]), json!(12)),
            (int(&[Value::Float(1.9)]), json!(1)),
            (modulo(&[Value::Int(65), "60".into()]), json!(5)),
            (ternary(&["y".into(), "n".into(), Value::Bool(false)]), json!("n")),
            (to_yaml(&[map()]), json!("a:\n  b: c\nempty: \"\"")),
        ];

        for (outcome, expected) in cases {
            assert_eq!(to_json(&outcome.unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn merging_keeps_what_is_there_unless_it_is_empty() {
        let left = value(&json!({"a": {"x": 1}, "b": "", "c": 1}));
        let right = value(&json!({"a": {"x": 2, "y": 3}, "b": "z", "d": 4}));

        let merged = to_json(&merge(&[left, right]).unwrap()).unwrap();

        assert_eq!(merged, json!({"a": {"x": 1, "y": 3}, "b": "z", "c": 1, "d": 4}));
    }

    #[test]
    fn what_is_of_another_type_is_refused() {
        assert!(append(&["a".into(), "b".into()]).is_err());
        assert!(merge(&[Value::Nil]).is_err());
        assert!(modulo(&[Value::Int(1), Value::Int(0)]).is_err());
        assert!(ternary(&["y".into(), "n".into(), "true".into()]).is_err());
        assert!(from_yaml(&["- a".into()]).is_err());
    }

    fn value(json: &serde_json::Value) -> Value {
        from_json(json)
    }
}
