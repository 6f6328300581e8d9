//! Quantities of Kubernetes, exact: read, added, compared and printed without rounding.
//!
//! A quantity is a whole number of billionths. Kubernetes itself knows nothing smaller: what is
//! written smaller is rounded up. Numbers beyond its largest one are cut to that.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// Billionths in one thousandth.
const MILLI: i128 = ONE / 1000;
/// The largest quantity of Kubernetes, 2^63 - 1.
const LARGEST: i128 = i64::MAX as i128 * ONE;

/// Suffixes of powers of a thousand, from billionths on.
const DECIMAL: [(&str, i128); 10] = [
    ("n", 1),
    ("u", 1000),
    ("m", MILLI),
    ("", ONE),
    ("k", ONE * 1000),
    ("M", ONE * 1_000_000),
    ("G", ONE * 1_000_000_000),
    ("T", ONE * 1_000_000_000_000),
    ("P", ONE * 1_000_000_000_000_000),
    ("E", ONE * 1_000_000_000_000_000_000),
];

/// Suffixes of powers of 1024.
const BINARY: [(&str, i128); 6] = [
    ("Ki", ONE << 10),
    ("Mi", ONE << 20),
    ("Gi", ONE << 30),
    ("Ti", ONE << 40),
    ("Pi", ONE << 50),
    ("Ei", ONE << 60),
];

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a quantity such as 500m, 2 or 1Gi")]
pub struct NoQuantity(String);

/// How much of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many.
    pub fn units(count: i64) -> Self {
        Self(i128::from(count) * ONE)
    }

    /// So many thousandths.
    pub fn millis(count: i128) -> Self {
        Self(count.saturating_mul(MILLI)).bounded()
    }

    /// How many thousandths; less than one counts as none.
    pub fn in_millis(self) -> i128 {
        self.0.div_euclid(MILLI)
    }

    /// How many billionths.
    pub fn in_billionths(self) -> i128 {
        self.0
    }

    /// Whether there is some of it.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Whether there is nothing of it.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // Sums are not cut: taking away again must lead back.
        Self(self.0.saturating_add(other.0))
    }

    /// The one without the other; may be negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// At least nothing.
    #[must_use]
    pub fn or_nothing(self) -> Self {
        self.max(Self::ZERO)
    }

    /// A percentage of it, in whole steps: a part of a step counts as one before, and as none
    /// after.
    #[must_use]
    pub fn share(self, percentage: u8, step: Self) -> Self {
        if step.0 <= 0 {
            return Self::ZERO;
        }
        let steps = div_ceil(self.0, step.0);
        Self((steps * i128::from(percentage)).div_euclid(100) * step.0).bounded()
    }

    /// Whether it differs from an earlier one by more than a percentage of that.
    pub fn differs(self, earlier: Self, percentage: u8) -> bool {
        let difference = self.minus(earlier).0.abs();
        difference.saturating_mul(100) > earlier.0.abs().saturating_mul(i128::from(percentage))
    }

    fn bounded(self) -> Self {
        Self(self.0.clamp(-LARGEST, LARGEST))
    }
}

fn div_ceil(value: i128, by: i128) -> i128 {
    -(-value).div_euclid(by)
}

impl FromStr for Quantity {
    type Err = NoQuantity;

    fn from_str(text: &str) -> Result<Self, NoQuantity> {
        read(text).map(Self::bounded).ok_or_else(|| NoQuantity(text.to_owned()))
    }
}

impl TryFrom<&Text> for Quantity {
    type Error = NoQuantity;

    fn try_from(text: &Text) -> Result<Self, NoQuantity> {
        text.0.parse()
    }
}

impl From<Quantity> for Text {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

/// Prints whole numbers plainly and others with the suffix that makes them whole: `1800m`, `2`,
/// `22654000000`. Readers of any notation understand these.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = [("", ONE), ("m", MILLI), ("u", 1000)];
        let (suffix, unit) =
            whole.into_iter().find(|(_, unit)| self.0 % unit == 0).unwrap_or(("n", 1));
        write!(f, "{}{suffix}", self.0 / unit)
    }
}

fn read(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return None;
    }
    let (numerator, denominator) = scale(suffix)?;
    // Digits that no quantity can show only matter as "a little more".
    let used = part.len().min(if denominator == 1 { 24 } else { 9 });
    let (part, rest) = part.split_at(used);
    let digits = format!("{whole}{part}");
    let digits = digits.trim_start_matches('0');
    let mantissa: i128 = match digits.len() {
        0 => 0,
        1..=38 => digits.parse().ok()?,
        _ => return Some(Quantity(if negative { -LARGEST } else { LARGEST })),
    };
    let divisor = 10_i128.checked_pow(u32::try_from(used).ok()?)?.checked_mul(denominator)?;
    let more = rest.bytes().any(|digit| digit != b'0');
    let value = scaled(mantissa, numerator, divisor, more);
    Some(Quantity(if negative { -value } else { value }))
}

/// `mantissa × numerator / divisor`, rounded up, or [`LARGEST`] if that is less.
fn scaled(mantissa: i128, numerator: i128, divisor: i128, more: bool) -> i128 {
    let (whole, rest) = (mantissa / divisor, mantissa % divisor);
    let Some(whole) = whole.checked_mul(numerator).filter(|value| *value <= LARGEST) else {
        return LARGEST;
    };
    // Both share most of their factors, so that the product of the rest is small enough.
    let common = gcd(numerator, divisor);
    let (numerator, divisor) = (numerator / common, divisor / common);
    let product = rest.saturating_mul(numerator);
    let up = i128::from(product % divisor != 0 || more);
    whole.saturating_add(product / divisor).saturating_add(up)
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What a suffix multiplies by, as billionths over a divisor.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let known = DECIMAL.iter().chain(&BINARY).find(|(name, _)| *name == suffix);
    if let Some((_, factor)) = known {
        return Some((*factor, 1));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = |exponent: u32| 10_i128.checked_pow(exponent);
    // Beyond these, every number but zero is too large or the smallest there is.
    let exponent = exponent.clamp(-27, 27);
    match u32::try_from(exponent) {
        Ok(exponent) => Some((power(exponent)?.checked_mul(ONE)?, 1)),
        Err(_) => Some((ONE, power(exponent.unsigned_abs())?)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_notation_is_read() {
        for (text, nanos) in [
            ("0", 0),
            ("1", ONE),
            ("+1", ONE),
            ("-1", -ONE),
            ("500m", ONE / 2),
            ("0.5", ONE / 2),
            (".5", ONE / 2),
            ("5.", 5 * ONE),
            ("1n", 1),
            ("1u", 1000),
            ("1k", 1000 * ONE),
            ("1.5Ki", 1536 * ONE),
            ("24577936Ki", 24_577_936 * 1024 * ONE),
            ("1e3", 1000 * ONE),
            ("1E3", 1000 * ONE),
            ("1E", 1_000_000_000_000_000_000 * ONE),
            ("12e-1", 12 * ONE / 10),
            ("1Ei", (1 << 60) * ONE),
        ] {
            assert_eq!(text.parse(), Ok(Quantity(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_smaller_than_a_billionth_is_rounded_up() {
        for (text, nanos) in [("0.1n", 1), ("1.0000000001", ONE + 1), ("1e-30", 1), ("0e-30", 0)] {
            assert_eq!(text.parse(), Ok(Quantity(nanos)), "{text}");
        }
        let long = format!("1.{}1", "0".repeat(60));
        assert_eq!(long.parse(), Ok(Quantity(ONE + 1)));
    }

    #[test]
    fn what_is_too_large_is_the_largest() {
        for text in ["9223372036854775808", "8Ei", "1e30", "99999999999999999999999999999E"] {
            assert_eq!(text.parse(), Ok(Quantity(LARGEST)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "m", ".", "1 ", " 1", "1.2.3", "1mi", "1KI", "1ee3", "0x10", "--1", "1K"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_print_as_a_peer_prints_them() {
        for (text, printed) in [
            ("1.8", "1800m"),
            ("2000m", "2"),
            ("22654M", "22654000000"),
            ("1Ki", "1024"),
            ("1500u", "1500u"),
            ("3n", "3n"),
            ("-500m", "-500m"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn a_share_is_counted_in_whole_steps() {
        let share = |text: &str, percentage, step| {
            text.parse::<Quantity>().unwrap().share(percentage, step).to_string()
        };
        assert_eq!(share("2", 90, Quantity::millis(1)), "1800m");
        assert_eq!(share("1m", 90, Quantity::millis(1)), "0");
        assert_eq!(share("25167806464", 90, Quantity::units(1_000_000)), "22651000000");
        assert_eq!(share("1.2", 100, Quantity::units(1)), "2");
    }

    #[test]
    fn a_difference_counts_beyond_the_percentage() {
        let (old, new) = (Quantity::units(100), Quantity::units(105));
        assert!(new.differs(old, 4) && !new.differs(old, 5));
        assert!(new.differs(Quantity::ZERO, 100));
        assert!(!old.differs(old, 0));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(nanos in -LARGEST..=LARGEST) {
            let quantity = Quantity(nanos);
            prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
        }

        #[test]
        fn no_text_is_a_quantity_by_accident(text in "[0-9.eEkKmMinu+-]{0,12}") {
            // Whatever is read is read again the same from what it prints.
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
            }
        }

        #[test]
        fn a_share_is_never_more_than_the_whole_rounded_up(
            nanos in 0..LARGEST / 2,
            percentage in 0_u8..=100,
        ) {
            let (whole, step) = (Quantity(nanos), Quantity::units(1));
            let share = whole.share(percentage, step);
            prop_assert!(share >= Quantity::ZERO && share <= whole.share(100, step));
        }

        #[test]
        fn taking_away_what_was_added_leads_back(a in 0..LARGEST, b in 0..LARGEST) {
            prop_assert_eq!(Quantity(a).plus(Quantity(b)).minus(Quantity(b)), Quantity(a));
        }
    }
}
