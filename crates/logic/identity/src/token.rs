//! The token that peers have to present: made from chance, compared in constant time, never printed.

use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// How many random bytes make a token.
pub const ENTROPY: usize = 64;

/// A token that peers have to present.
#[derive(Clone, Debug)]
pub struct Token(SecretString);

impl Token {
    /// The token that chance gives: two lower-case hexadecimal digits for every byte.
    pub fn from_chance(bytes: &[u8; ENTROPY]) -> Self {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(text.into())
    }

    /// A token that was made before; one without a character is none.
    pub fn known(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// Whether this is what was presented; how long that takes says nothing about the token.
    pub fn is(&self, presented: &str) -> bool {
        self.reveal().as_bytes().ct_eq(presented.as_bytes()).into()
    }

    /// The token itself, for the one place that stores or sends it.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_has_128_hexadecimal_digits() {
        let token = Token::from_chance(&[0xab; ENTROPY]);
        assert_eq!(token.reveal(), "ab".repeat(ENTROPY));
    }

    #[test]
    fn a_token_is_not_printed() {
        assert!(!format!("{:?}", Token::known("hush").unwrap()).contains("hush"));
    }

    #[test]
    fn nothing_is_no_token() {
        assert!(Token::known(" \n").is_none());
        assert!(!Token::known("a").unwrap().is(""));
    }

    proptest! {
        #[test]
        fn only_the_token_itself_is_accepted(token in "[0-9a-f]{1,128}", presented in "[0-9a-f]{0,128}") {
            let known = Token::known(&token).unwrap();
            prop_assert!(known.is(&token));
            prop_assert_eq!(known.is(&presented), token == presented);
        }
    }
}
