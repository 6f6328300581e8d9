//! YAML in and out, as Helm reads and writes it.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// Reads a file.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    serde_saphyr::from_str(text)
        .map_err(|source| Error::Yaml { file: file.to_owned(), source: Box::new(source) })
}

/// Reads a file that holds a map, or nothing.
pub fn read_map(file: &str, text: &str) -> Result<Value, Error> {
    match read::<Option<Value>>(file, text)? {
        None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Some(value @ Value::Object(_)) => Ok(value),
        Some(_) => Err(Error::NoMap(file.to_owned())),
    }
}

/// Writes a value in block style, with sorted keys and without a last line break.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text.trim_matches('\n').to_owned()
}

/// Writes a value on lines of its own.
fn block(value: &Value, depth: usize, text: &mut String) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let _ = write!(text, "\n{pad}{}:", scalar(key));
                beside(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(text, "\n{pad}-");
                let mut inner = String::new();
                beside(item, depth, &mut inner);
                // A map or list starts on the line of its dash.
                let flush = format!("\n{pad}  ");
                let _ = match inner.strip_prefix(&flush) {
                    Some(rest) => write!(text, " {rest}"),
                    None => write!(text, "{inner}"),
                };
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            let _ = write!(text, "\n{pad}{}", inline(value));
        }
    }
}

/// Writes a value after its key or dash.
fn beside(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if is_block {
        block(value, depth + 1, text);
    } else {
        let _ = write!(text, " {}", inline(value));
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => scalar(text),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
    }
}

/// A string, quoted unless every parser takes it for one as it is.
fn scalar(text: &str) -> String {
    let plain_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./$()=".contains(c);
    let word = text.to_ascii_lowercase();
    let meaning = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    if plain_start && text.chars().all(plain) && !meaning.contains(&word.as_str()) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_sorted_and_lists_start_on_the_line_of_their_dash() {
        let value = json!({"b": [{"z": 1, "x": [true, []]}, "-a"], "a": {"k": ""}, "c": {}});

        let expected =
            "a:\n  k: \"\"\nb:\n  - x:\n      - true\n      - []\n    z: 1\n  - \"-a\"\nc: {}";
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn words_with_a_meaning_stay_words() {
        for word in ["yes", "No", "null", "1", "0x1", "1e3", "~", "a: b", "#a", "2020-01-01", "5m"]
        {
            let read: Value = read("test", &write(&json!([word]))).unwrap();
            assert_eq!(read, json!([word]));
        }
    }

    #[test]
    fn a_file_without_values_is_an_empty_map() {
        assert_eq!(read_map("empty", "# nothing\n").unwrap(), json!({}));
        assert!(matches!(read_map("list", "- a"), Err(Error::NoMap(_))));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in values()) {
            let read: Value = read("test", &write(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }
}
