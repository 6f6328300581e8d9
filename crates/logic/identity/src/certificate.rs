//! How long a certificate lasts, and when it is time for the next one.

use jiff::Timestamp;
use x509_parser::pem::Pem;

/// A text that is no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate in PEM")]
pub struct NoCertificate;

/// From when to when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: Timestamp,
    /// Its last moment.
    pub until: Timestamp,
}

impl Validity {
    /// The validity of the first certificate of a text.
    pub fn of(pem: &str) -> Result<Self, NoCertificate> {
        let pem = Pem::iter_from_buffer(pem.as_bytes()).next().ok_or(NoCertificate)?;
        let pem = pem.map_err(|_| NoCertificate)?;
        let certificate = pem.parse_x509().map_err(|_| NoCertificate)?;
        let validity = certificate.validity();
        let moment = |seconds| Timestamp::from_second(seconds).map_err(|_| NoCertificate);
        Ok(Self {
            from: moment(validity.not_before.timestamp())?,
            until: moment(validity.not_after.timestamp())?,
        })
    }

    /// Whether it is over.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        now >= self.until
    }

    /// Whether it is time to ask for the next one: less than a third of its life is left.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due()
    }

    /// When [`is_due`](Self::is_due) comes true.
    pub fn due(&self) -> Timestamp {
        let [from, until] = [self.from, self.until].map(Timestamp::as_second);
        let third = until.saturating_sub(from).max(0) / 3;
        // Between two moments that exist lies only what exists.
        Timestamp::from_second(until.saturating_sub(third)).unwrap_or(self.until)
    }

    /// The same for a certificate that came at a known moment. Signers date back what they sign, so
    /// that a short one may be due when it comes: half of what is left then is waited for anyway.
    pub fn due_since(&self, obtained: Timestamp) -> Timestamp {
        let [from, until] = [obtained, self.until].map(Timestamp::as_millisecond);
        let middle = from.midpoint(until.max(from));
        Timestamp::from_millisecond(middle).unwrap_or(self.until).max(self.due())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair};
    use time::{Duration, OffsetDateTime};

    use super::*;

    #[test]
    fn the_validity_is_what_the_certificate_says() {
        let start = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let mut params = CertificateParams::default();
        params.not_before = start;
        params.not_after = start + Duration::seconds(300);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        assert_eq!(Validity::of(&pem).unwrap(), lasting(1_800_000_000, 1_800_000_300));
        assert_eq!(Validity::of("hello"), Err(NoCertificate));
    }

    #[test]
    fn a_certificate_is_renewed_in_the_last_third_of_its_life() {
        let validity = lasting(1000, 1300);
        assert!(!validity.is_due(at(1199)));
        assert!(validity.is_due(at(1200)));
        assert!(!validity.has_ended(at(1299)));
        assert!(validity.has_ended(at(1300)));
    }

    #[test]
    fn a_certificate_that_came_late_in_its_life_is_kept_for_half_of_the_rest() {
        let validity = lasting(1000, 1300);
        assert_eq!(validity.due_since(at(1280)), at(1290));
        assert_eq!(validity.due_since(at(1000)), at(1200), "as ever");
        assert_eq!(validity.due_since(at(1400)), at(1400));
    }

    proptest! {
        #[test]
        fn renewal_comes_before_the_end(from in 0_i64..4_000_000_000, length in 0_i64..400_000_000) {
            let validity = lasting(from, from + length);
            prop_assert!(validity.from <= validity.due() && validity.due() <= validity.until);
            prop_assert!(validity.is_due(validity.until));
        }
    }

    fn lasting(from: i64, until: i64) -> Validity {
        Validity { from: at(from), until: at(until) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
