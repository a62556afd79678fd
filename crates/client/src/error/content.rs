//! What a file looks like that is of no known format: only to make the message helpful.

/// What unknown content looks like, so that the message can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing in it.
    Empty,
    /// A web page: most often a saved error message.
    WebPage,
    /// An OpenPGP signature.
    Signature,
    /// Anything else.
    Other,
}

impl Content {
    /// Looks at the first bytes.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        let text = head.trim_ascii_start().get(..14).unwrap_or(head.trim_ascii_start()).to_ascii_lowercase();
        if head.is_empty() {
            Self::Empty
        } else if text.starts_with(b"<!doctype html") || text.starts_with(b"<html") {
            Self::WebPage
        } else if head.starts_with(b"-----BEGIN PGP SIGNATURE-----") {
            Self::Signature
        } else {
            Self::Other
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Empty => "the file is empty",
            Self::WebPage => "it is a web page",
            Self::Signature => "it is an OpenPGP signature",
            Self::Other => "its content is of no format with an embedded signature",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_content_is_described() {
        assert_eq!(Content::of(b""), Content::Empty);
        assert_eq!(Content::of(b"\n <HTML><body>404"), Content::WebPage);
        assert_eq!(Content::of(b"<!DOCTYPE html>\n"), Content::WebPage);
        assert_eq!(Content::of(b"-----BEGIN PGP SIGNATURE-----\n"), Content::Signature);
        assert_eq!(Content::of(b"\x7fELF"), Content::Other);
    }
}
