//! Functions that make text.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotmpl::{TemplateError, Value};

use super::{Outcome, count, wrong};

pub fn adler32sum(arguments: &[Value]) -> Outcome {
    let [text] = arguments else { return count(1) };
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in string(text)?.bytes() {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    Ok(Value::from((high << 16 | low).to_string()))
}

pub fn b64enc(arguments: &[Value]) -> Outcome {
    let [text] = arguments else { return count(1) };
    Ok(Value::from(STANDARD.encode(string(text)?)))
}

/// The last part of a path.
pub fn base(arguments: &[Value]) -> Outcome {
    let [path] = arguments else { return count(1) };
    let path = string(path)?;
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(Value::from(match (path, last) {
        ("", _) => ".",
        (_, "") => "/",
        (_, last) => last,
    }))
}

pub fn contains(arguments: &[Value]) -> Outcome {
    let [part, text] = arguments else { return count(2) };
    Ok(Value::Bool(string(text)?.contains(string(part)?)))
}

/// Text on lines of its own, further to the right.
pub fn nindent(arguments: &[Value]) -> Outcome {
    let [width, text] = arguments else { return count(2) };
    let Some(width) = width.as_int().and_then(|width| usize::try_from(width).ok()) else {
        return wrong("a width", width);
    };
    let pad = " ".repeat(width);
    let break_and_pad = format!("\n{pad}");
    Ok(Value::from(format!("{break_and_pad}{}", string(text)?.replace('\n', &break_and_pad))))
}

pub fn join(arguments: &[Value]) -> Outcome {
    let [separator, list] = arguments else { return count(2) };
    let Value::List(items) = list else { return wrong("a list", list) };
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    Ok(Value::from(items.join(string(separator)?)))
}

pub fn replace(arguments: &[Value]) -> Outcome {
    let [old, new, text] = arguments else { return count(3) };
    Ok(Value::from(string(text)?.replace(string(old)?, string(new)?)))
}

/// Text between double quotes, as Go and YAML write it.
pub fn quote(arguments: &[Value]) -> Outcome {
    let given = arguments.iter().filter(|value| !matches!(value, Value::Nil));
    let quoted: Vec<String> = given.map(|value| quoted(&value.to_string())).collect();
    Ok(Value::from(quoted.join(" ")))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

pub fn to_string(arguments: &[Value]) -> Outcome {
    let [value] = arguments else { return count(1) };
    Ok(Value::from(value.to_string()))
}

pub fn trim(arguments: &[Value]) -> Outcome {
    let [text] = arguments else { return count(1) };
    Ok(Value::from(string(text)?.trim()))
}

fn string(value: &Value) -> Result<&str, TemplateError> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => wrong("text", value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_as_helm_makes_it() {
        let cases: [(Outcome, &str); 12] = [
            (adler32sum(&["Wikipedia".into()]), "300286872"),
            (b64enc(&["secret".into()]), "c2VjcmV0"),
            (base(&["a/b:c".into()]), "b:c"),
            (base(&["".into()]), "."),
            (base(&["//".into()]), "/"),
            (contains(&[":".into(), "a:b".into()]), "true"),
            (trim(&[" \na b\n".into()]), "a b"),
            (nindent(&[Value::Int(2), "a\nb".into()]), "\n  a\n  b"),
            (replace(&["+".into(), "_".into(), "1+2".into()]), "1_2"),
            (quote(&["a\"\\\n".into(), Value::Nil, Value::Int(1)]), "\"a\\\"\\\\\\n\" \"1\""),
            (to_string(&[Value::Bool(true)]), "true"),
            (join(&[",".into(), Value::List(["a".into(), Value::Int(1)].into())]), "a,1"),
        ];

        for (outcome, expected) in cases {
            assert_eq!(outcome.unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(contains(&[":".into(), Value::Int(1)]).is_err());
        assert!(nindent(&["".into(), "".into()]).is_err());
        assert!(join(&[",".into(), "a".into()]).is_err());
    }
}
