//! The functions that our templates call beside those of Go: what Helm and its library offer, as far
//! as our chart uses it.

#[expect(clippy::unnecessary_wraps, reason = "functions of templates have one shape")]
mod data;
#[expect(clippy::unnecessary_wraps, reason = "functions of templates have one shape")]
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::{FuncMap, TemplateError, Value, ValueFunc};

pub use data::from_json;

type Outcome = Result<Value, TemplateError>;
type Named = (&'static str, fn(&[Value]) -> Outcome);

/// Every function but `include` and what reads files, which need to know the chart.
pub fn functions() -> FuncMap {
    let all: [Named; 27] = [
        ("adler32sum", text::adler32sum),
        ("append", data::append),
        ("b64enc", text::b64enc),
        ("base", text::base),
        ("coalesce", data::coalesce),
        ("concat", data::concat),
        ("contains", text::contains),
        ("default", data::default),
        ("dict", data::dict),
        ("dig", data::dig),
        ("fail", fail),
        ("fromYaml", data::from_yaml),
        ("hasKey", data::has_key),
        ("int", data::int),
        ("join", text::join),
        ("list", data::list),
        ("lookup", lookup),
        ("merge", data::merge),
        ("mod", data::modulo),
        ("nindent", text::nindent),
        ("quote", text::quote),
        ("replace", text::replace),
        ("required", required),
        ("ternary", data::ternary),
        ("toString", text::to_string),
        ("toYaml", data::to_yaml),
        ("trim", text::trim),
    ];
    let named = |(name, function): Named| {
        let name = name.to_owned();
        let label = name.clone();
        let function: ValueFunc = Arc::new(move |arguments: &[Value]| {
            function(arguments).map_err(|error| named_error(&label, error))
        });
        (name, function)
    };
    all.into_iter().map(named).collect()
}

/// Errors of arguments name the function; words of the chart stand for themselves.
fn named_error(function: &str, error: TemplateError) -> TemplateError {
    if matches!(function, "fail" | "required") {
        return error;
    }
    TemplateError::Exec(format!("{function}: {}", words(&error)))
}

/// What an error says, without the engine's preamble.
pub fn words(error: &TemplateError) -> String {
    if let TemplateError::Exec(text) = error { text.clone() } else { error.to_string() }
}

fn fail(arguments: &[Value]) -> Outcome {
    let [text] = arguments else { return count(1) };
    Err(TemplateError::Exec(text.to_string()))
}

fn required(arguments: &[Value]) -> Outcome {
    let [text, value] = arguments else { return count(2) };
    if matches!(value, Value::Nil) || value.as_str() == Some("") {
        return Err(TemplateError::Exec(text.to_string()));
    }
    Ok(value.clone())
}

/// There is no cluster to look at, as with `helm template`.
fn lookup(arguments: &[Value]) -> Outcome {
    let [_, _, _, _] = arguments else { return count(4) };
    Ok(Value::Map(Arc::new(BTreeMap::new())))
}

fn count<T>(wanted: usize) -> Result<T, TemplateError> {
    Err(TemplateError::Exec(format!("takes {wanted} arguments")))
}

fn wrong<T>(wanted: &str, value: &Value) -> Result<T, TemplateError> {
    Err(TemplateError::Exec(format!("takes {wanted}, not {value}")))
}
