//! Values of flags, in the forms that Go programs write them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

/// A text that is not the value it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {what}")]
pub struct BadValue {
    text: String,
    what: &'static str,
}

fn refuse(text: &str, what: &'static str) -> BadValue {
    BadValue { text: text.to_owned(), what }
}

/// Names with values: `k1=v1,k2=v2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub BTreeMap<String, String>);

impl FromStr for Pairs {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or_default();
            let is_named = !name.trim().is_empty();
            let pair = is_named.then(|| (name.trim().to_owned(), value.to_owned()));
            pair.ok_or_else(|| refuse(text, "of the form name=value,name=value"))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }
}

/// Several texts: `a,b,c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl FromStr for Texts {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let texts = text.split(',').filter(|text| !text.is_empty());
        Ok(Self(texts.map(str::to_owned).collect()))
    }
}

/// A share of something: an integer from 0 to 100.
pub fn percentage(text: &str) -> Result<u8, BadValue> {
    let percentage = text.parse().ok().filter(|percentage| *percentage <= 100);
    percentage.ok_or_else(|| refuse(text, "a percentage: an integer from 0 to 100"))
}

/// A length of time, such as `15s`, `1h30m` or `0`.
pub fn duration(text: &str) -> Result<Duration, BadValue> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = text.parse::<SignedDuration>().ok();
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or_else(|| refuse(text, "a length of time, such as 15s or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_separated_by_commas() {
        let Pairs(pairs) = "a=1,b.io/c=x=y,d=".parse().unwrap();
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b.io/c", "x=y"), ("d", "")]);
        assert_eq!("".parse(), Ok(Pairs::default()));
        assert!("a".parse::<Pairs>().is_err());
        assert!("=a".parse::<Pairs>().is_err());
    }

    #[test]
    fn no_text_is_no_list() {
        assert_eq!("".parse(), Ok(Texts::default()));
        assert_eq!("--a=b,--c".parse(), Ok(Texts(vec!["--a=b".to_owned(), "--c".to_owned()])));
    }

    #[test]
    fn a_share_is_at_most_the_whole() {
        assert_eq!((percentage("0"), percentage("100")), (Ok(0), Ok(100)));
        for wrong in ["101", "-1", "", "50%", "0.5"] {
            assert!(percentage(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("10h0m0s", 36_000_000),
            ("1.5s", 1_500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "15", "-1s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
