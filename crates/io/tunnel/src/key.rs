//! Keys as WireGuard writes them: 32 bytes, shown in base64.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotatun::x25519;

/// A private key. It is never printed.
#[derive(Clone)]
pub struct PrivateKey(x25519::StaticSecret);

/// A public key, which is also the name of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A text that is not a key.
#[derive(Debug, thiserror::Error)]
#[error("a WireGuard key is 32 bytes in base64, that is 44 characters; this text is not")]
pub struct NotAKey;

impl PrivateKey {
    /// A new key that nobody knows.
    pub fn generate() -> Self {
        let mut bytes: [u8; 32] = rand::random();
        // As `wg genkey` does, so that the text form of a key is always the same.
        bytes[0] &= 0xf8;
        bytes[31] = (bytes[31] & 0x7f) | 0x40;
        Self::from_bytes(bytes)
    }

    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(x25519::StaticSecret::from(bytes))
    }

    /// The key with this text, as in the Secret that holds it.
    pub fn from_base64(text: &str) -> Result<Self, NotAKey> {
        decode(text).map(Self::from_bytes)
    }

    /// The text of this key, for the Secret that holds it.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }

    /// What peers know this key by.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&self.0).to_bytes())
    }

    pub(crate) fn secret(&self) -> x25519::StaticSecret {
        self.0.clone()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PrivateKey(of {})", self.public())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        decode(text).map(Self)
    }
}

fn decode(text: &str) -> Result<[u8; 32], NotAKey> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| NotAKey)?;
    bytes.try_into().map_err(|_| NotAKey)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_known_private_key_has_the_public_key_that_wg_shows() {
        // The pair of RFC 7748, section 6.1.
        let private =
            PrivateKey::from_base64("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=").unwrap();
        assert_eq!(private.public().to_string(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
    }

    #[test]
    fn a_private_key_is_not_printed() {
        let private = PrivateKey::generate();
        let shown = format!("{private:?}");
        assert!(!shown.contains(&private.to_base64()));
        assert!(shown.contains(&private.public().to_string()));
    }

    #[test]
    fn generated_keys_differ_and_survive_their_text() {
        let (one, other) = (PrivateKey::generate(), PrivateKey::generate());
        assert_ne!(one.public(), other.public());
        assert_eq!(PrivateKey::from_base64(&one.to_base64()).unwrap().public(), one.public());
    }

    #[test]
    fn texts_of_another_length_are_refused() {
        for text in ["", "AAAA", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo", "not base64!"] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn public_keys_survive_their_text(bytes: [u8; 32]) {
            let key = PublicKey(bytes);
            prop_assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
        }

        #[test]
        fn any_text_is_a_key_or_refused(text in ".{0,64}") {
            if let Ok(key) = text.parse::<PublicKey>() {
                prop_assert_eq!(key.to_string(), text.trim());
            }
        }
    }
}
