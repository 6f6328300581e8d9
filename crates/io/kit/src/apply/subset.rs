//! Is what is wanted already part of what is there?
//!
//! An unneeded write costs a request, and a missing one leaves the cluster wrong; where the two
//! cannot be told apart without knowing the schema, the answer is *no*.
//!
//! - A map holds another when it holds each of its entries; `apiVersion` and `kind` of the whole
//!   object are not compared, because lists leave them out.
//! - A wanted `null` or `[]` is held by nothing at all: the API server drops them. A wanted `{}`,
//!   `""`, `0` or `false` is not (an `emptyDir: {}` or an `automountServiceAccountToken: false`
//!   says a lot), except within `metadata`, where an empty map or text says nothing.
//! - Lists of maps that all have a `name`, or all a `type`, with no two alike, are matched by it
//!   in any order, and what others added is left to them, as with containers, ports, variables
//!   and conditions. Owner references are matched by `uid`, finalizers are a set.
//! - All other lists must have the same length, and hold each other place by place.
//! - Within `limits`, `requests`, `capacity`, `allocatable`, `hard` and `used`, and for
//!   `sizeLimit` and `divisor`, amounts are compared as amounts: `1000m` is `1`, `1Gi` is
//!   `1073741824`. Everywhere else a text is a text.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Fields whose values are amounts, or maps of amounts.
const AMOUNTS: [&str; 8] =
    ["allocatable", "capacity", "divisor", "hard", "limits", "requests", "sizeLimit", "used"];

/// What tells the items of a list apart, outside of metadata.
const IDENTITIES: [&str; 2] = ["name", "type"];

/// Whether an object holds all of another; both as JSON.
pub fn is_subset(want: &Value, have: &Value) -> bool {
    let (Value::Object(want), Value::Object(have)) = (want, have) else {
        return holds(Place::Plain, have, want);
    };
    want.iter().all(|(name, value)| match name.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => entry_is_held(Place::Metadata, name, value, have),
        _ => entry_is_held(Place::Plain, name, value, have),
    })
}

/// Where in an object a value stands, as far as it changes what the value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Plain,
    Metadata,
    Amount,
}

impl Place {
    fn of_entry(self, name: &str) -> Self {
        match self {
            Self::Plain if AMOUNTS.contains(&name) => Self::Amount,
            Self::Plain | Self::Metadata | Self::Amount => self,
        }
    }
}

fn holds(place: Place, have: &Value, want: &Value) -> bool {
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => {
            want.iter().all(|(name, value)| entry_is_held(place.of_entry(name), name, value, have))
        }
        (Value::Array(want), Value::Array(have)) => list_holds(place, have, want),
        (Value::Number(want), Value::Number(have)) => {
            want == have || want.as_f64() == have.as_f64()
        }
        (Value::String(want), Value::String(have)) if place == Place::Amount => {
            want == have || amount(want).is_some_and(|want| amount(have) == Some(want))
        }
        _ => want == have,
    }
}

fn entry_is_held(place: Place, name: &str, want: &Value, have: &Map<String, Value>) -> bool {
    match have.get(name) {
        Some(have) => holds(place, have, want) || (have.is_null() && says_nothing(place, want)),
        None => says_nothing(place, want),
    }
}

fn says_nothing(place: Place, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => place == Place::Metadata && entries.is_empty(),
        Value::String(text) => place == Place::Metadata && text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn list_holds(place: Place, have: &[Value], want: &[Value]) -> bool {
    if place == Place::Metadata && want.iter().all(Value::is_string) {
        return want.iter().all(|item| have.contains(item));
    }
    let identities: &[&str] = if place == Place::Metadata { &["uid"] } else { &IDENTITIES };
    for identity in identities.iter().copied() {
        if tells_apart(identity, want) && tells_apart(identity, have) {
            return want.iter().all(|item| {
                let partner = have.iter().find(|other| other.get(identity) == item.get(identity));
                partner.is_some_and(|partner| holds(place, partner, item))
            });
        }
    }
    have.len() == want.len() && have.iter().zip(want).all(|(have, want)| holds(place, have, want))
}

/// Whether all items of a list have a field, and no two the same.
fn tells_apart(identity: &str, items: &[Value]) -> bool {
    let names: Option<BTreeSet<&str>> =
        items.iter().map(|item| item.get(identity)?.as_str()).collect();
    names.is_some_and(|names| !items.is_empty() && names.len() == items.len())
}

/// A Kubernetes amount in billionths, if the text is one and fits.
fn amount(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (scale, divisor) = scale(suffix)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 18)?;
    let value: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = value.checked_mul(scale)?;
    let divisor = divisor.checked_mul(10_i128.checked_pow(places)?)?;
    // What is finer than a billionth cannot be told apart by an API server either.
    let exact = scaled.checked_rem(divisor)? == 0;
    let billionths = scaled.checked_div(divisor)?;
    exact.then_some(if negative { billionths.checked_neg()? } else { billionths })
}

/// How many billionths a suffix stands for, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const UNIT: i128 = 1_000_000_000;
    let binary = |power: u32| Some((UNIT.checked_mul(1024_i128.checked_pow(power)?)?, 1));
    let decimal = |power: u32| Some((UNIT.checked_mul(10_i128.checked_pow(power)?)?, 1));
    match suffix {
        "n" => Some((1, 1)),
        "u" => Some((1_000, 1)),
        "m" => Some((1_000_000, 1)),
        "" => Some((UNIT, 1)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let size = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { Some((UNIT, size)) } else { Some((UNIT.checked_mul(size)?, 1)) }
        }
    }
}

#[cfg(test)]
mod tests;
