//! The expressions of `--set`: `a.b=c`, `list={a,b}`, `list[0].a=1`, `a\.b=c`, separated by commas.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value};

use crate::Error;

/// Longest list that an index makes.
const MOST_ITEMS: usize = 65_536;

/// A parsed expression: which keys get which values, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    settings: Vec<(Vec<Step>, Value)>,
}

/// A step from a value into one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Expression {
    /// Reads an expression in which `true`, `false`, `null` and whole numbers are not text.
    pub fn typed(text: &str) -> Result<Self, Error> {
        Self::parse(text, typed)
    }

    /// Reads an expression in which every value is text.
    pub fn text(text: &str) -> Result<Self, Error> {
        Self::parse(text, Value::from)
    }

    fn parse(text: &str, value: fn(String) -> Value) -> Result<Self, Error> {
        let mut reader = Reader { rest: text.chars().peekable(), value };
        let settings = reader
            .settings()
            .map_err(|problem| Error::Set { expression: text.to_owned(), problem })?;
        Ok(Self { text: text.to_owned(), settings })
    }

    /// Sets the values in a map.
    pub fn apply(self, map: &mut Map<String, Value>) -> Result<(), Error> {
        let Self { text, settings } = self;
        let mut root = Value::Object(std::mem::take(map));
        let mut outcome = Ok(());
        for (path, value) in settings {
            outcome = put(&mut root, &path, value, &mut String::new());
            if outcome.is_err() {
                break;
            }
        }
        if let Value::Object(changed) = root {
            *map = changed;
        }
        outcome.map_err(|problem| Error::Set { expression: text, problem })
    }
}

fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        "0" => Value::from(0),
        // What starts with a zero is a code, not a number.
        number if !number.starts_with('0') => match number.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(text),
        },
        _ => Value::from(text),
    }
}

fn put(at: &mut Value, path: &[Step], value: Value, name: &mut String) -> Result<(), String> {
    let Some((step, rest)) = path.split_first() else {
        *at = value;
        return Ok(());
    };
    let inner = match step {
        Step::Key(key) => {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            let Value::Object(map) = at else { return Err(format!("{name} is no map")) };
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(key);
            map.entry(key.clone()).or_insert(Value::Null)
        }
        Step::Index(index) => {
            if at.is_null() {
                *at = Value::Array(vec![]);
            }
            let Value::Array(items) = at else { return Err(format!("{name} is no list")) };
            if items.len() <= *index {
                items.resize(index + 1, Value::Null);
            }
            let _ = write!(name, "[{index}]");
            items.get_mut(*index).ok_or_else(|| format!("{name} is not there"))?
        }
    };
    put(inner, rest, value, name)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    value: fn(String) -> Value,
}

impl Reader<'_> {
    fn settings(&mut self) -> Result<Vec<(Vec<Step>, Value)>, String> {
        let mut settings = vec![];
        while self.rest.peek().is_some() {
            let path = self.path()?;
            let value = self.setting(&path)?;
            settings.push((path, value));
        }
        Ok(settings)
    }

    /// Reads up to and with the equals sign.
    fn path(&mut self) -> Result<Vec<Step>, String> {
        let mut path = vec![];
        loop {
            let (key, end) = self.word("=[,.");
            let after_index = matches!(path.last(), Some(Step::Index(_)));
            if key.is_empty() && !(after_index && end != Some(',')) {
                return Err(format!("a key is missing{}", after(&path)));
            }
            if !key.is_empty() {
                path.push(Step::Key(key));
            }
            match end {
                Some('=') => return Ok(path),
                Some('[') => path.push(Step::Index(self.index(&path)?)),
                Some('.') => {
                    if self.rest.peek().is_none_or(|next| "=[,.".contains(*next)) {
                        return Err(format!("a key is missing{}", after(&path)));
                    }
                }
                Some(_) | None => return Err(format!("{} has no value", name(&path))),
            }
        }
    }

    fn index(&mut self, path: &[Step]) -> Result<usize, String> {
        let (digits, end) = self.word("]");
        let index = digits.parse().ok().filter(|index| *index < MOST_ITEMS);
        match (index, end) {
            (Some(index), Some(_)) => Ok(index),
            _ => Err(format!("[{digits} after {} is no index", name(path))),
        }
    }

    fn setting(&mut self, path: &[Step]) -> Result<Value, String> {
        if self.rest.next_if_eq(&'{').is_none() {
            let (text, _) = self.word(",");
            return Ok((self.value)(text));
        }
        let mut items = vec![];
        loop {
            let (text, end) = self.word(",}");
            match end {
                Some('}') => {
                    items.push((self.value)(text));
                    break;
                }
                Some(_) => items.push((self.value)(text)),
                None => return Err(format!("the list of {} does not end", name(path))),
            }
        }
        match self.rest.next() {
            None | Some(',') => Ok(Value::Array(items)),
            Some(_) => Err(format!("something follows the list of {}", name(path))),
        }
    }

    /// Reads up to and with one of the given characters; a backslash takes the next one as it is.
    fn word(&mut self, ends: &str) -> (String, Option<char>) {
        let mut word = String::new();
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => word.extend(self.rest.next()),
                end if ends.contains(end) => return (word, Some(end)),
                c => word.push(c),
            }
        }
        (word, None)
    }
}

fn name(path: &[Step]) -> String {
    let mut name = String::new();
    for step in path {
        let _ = match step {
            Step::Key(key) if name.is_empty() => write!(name, "{key}"),
            Step::Key(key) => write!(name, ".{key}"),
            Step::Index(index) => write!(name, "[{index}]"),
        };
    }
    name
}

fn after(path: &[Step]) -> String {
    if path.is_empty() { String::new() } else { format!(" after {}", name(path)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_to_helm() {
        for (expression, expected) in [
            ("a=b", json!({"a": "b"})),
            ("a.b.c=d,e=f", json!({"a": {"b": {"c": "d"}}, "e": "f"})),
            ("a=", json!({"a": ""})),
            ("a=1,b=-2,c=0,d=007,e=1.5", json!({"a": 1, "b": -2, "c": 0, "d": "007", "e": "1.5"})),
            (
                "a=true,b=false,c=null,d=True",
                json!({"a": true, "b": false, "c": null, "d": "True"}),
            ),
            ("a={b,1},c={}", json!({"a": ["b", 1], "c": [""]})),
            ("a[0]=x,a[2].b=y", json!({"a": ["x", null, {"b": "y"}]})),
            ("a[0][1]=x", json!({"a": [[null, "x"]]})),
            (r"a\.b/c=d\,e", json!({"a.b/c": "d,e"})),
            ("a=b=c", json!({"a": "b=c"})),
            (r"a=\{b\}", json!({"a": "{b}"})),
            ("", json!({})),
        ] {
            assert_eq!(Value::Object(applied(expression).unwrap()), expected, "{expression}");
        }
    }

    #[test]
    fn text_stays_text() {
        let mut map = Map::new();
        Expression::text("a=1,b={true,null}").unwrap().apply(&mut map).unwrap();

        assert_eq!(Value::Object(map), json!({"a": "1", "b": ["true", "null"]}));
    }

    #[test]
    fn problems_name_the_key() {
        for (expression, problem) in [
            ("a.b", "a.b has no value"),
            ("a,b=c", "a has no value"),
            ("a.=b", "a key is missing after a"),
            ("=b", "a key is missing"),
            ("a={b", "the list of a does not end"),
            ("a={b}c", "something follows the list of a"),
            ("a[x]=b", "[x after a is no index"),
            ("a[99999999]=b", "[99999999 after a is no index"),
            ("a=1,a.b=c", "a is no map"),
            ("a=1,a[0]=c", "a is no list"),
        ] {
            let error = applied(expression).unwrap_err().to_string();
            assert_eq!(error, format!("cannot set `{expression}`: {problem}"));
        }
    }

    fn applied(expression: &str) -> Result<Map<String, Value>, Error> {
        let mut map = Map::new();
        Expression::typed(expression)?.apply(&mut map)?;
        Ok(map)
    }
}
