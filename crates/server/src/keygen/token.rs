//! The token that a request carries, where the operator wants one: `Authorization: Bearer TOKEN`.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Digest, Hasher};

/// Characters of a token, at least: 128 bits in hexadecimal.
const CHARS_MIN: usize = 32;

/// Bytes of its file.
pub const TOKEN_BYTES_MAX: usize = 1 << 10;

/// What is remembered of a token: its SHA-256, so that the token itself is nowhere in memory, and comparing tells nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Digest);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAToken {
    /// Too few characters to be one that nobody guesses.
    #[error("the token has fewer than 32 characters")]
    Short,
    /// A blank or a character that a header cannot carry.
    #[error("the token has other characters than visible ASCII ones")]
    Characters,
}

impl Token {
    /// Of the text of its file, whose last line may end.
    ///
    /// # Errors
    /// [`NotAToken`].
    pub fn parse(text: &str) -> Result<Self, NotAToken> {
        let token = text.strip_suffix('\n').unwrap_or(text);
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(NotAToken::Characters);
        }
        if token.len() < CHARS_MIN {
            return Err(NotAToken::Short);
        }
        Ok(Self(Hasher::digest(HashAlgorithm::Sha256, token.as_bytes())))
    }

    /// Whether the request carries it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (all.next(), all.next()) else { return false };
        let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer")
            && Hasher::digest(HashAlgorithm::Sha256, token.trim().as_bytes()) == self.0
    }
}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_carried_once_by_its_scheme() {
        let word = "0123456789abcdef0123456789abcdef";
        let token = Token::parse(&format!("{word}\n")).unwrap();
        let carried = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            token.is_in(&headers)
        };
        assert!(carried(&[&format!("Bearer {word}")]) && carried(&[&format!("bearer  {word}")]));
        let twice = format!("Bearer {word}");
        for wrong in [
            &[][..],
            &[word],
            &[&format!("Basic {word}")],
            &[&format!("Bearer {word}0")],
            &["Bearer "],
            &[&twice, &twice],
        ] {
            assert!(!carried(wrong), "{wrong:?}");
        }
        assert_eq!(Token::parse(&word[1..]), Err(NotAToken::Short));
        for bad in [format!("{word} x"), format!("{word}\n\n"), format!("{word}\u{e9}")] {
            assert_eq!(Token::parse(&bad), Err(NotAToken::Characters));
        }
        assert!(!format!("{token:?}").contains(&word[..4]));
    }
}
