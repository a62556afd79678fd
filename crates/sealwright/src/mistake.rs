//! Where in a TOML file a mistake lies, and what it is.

use std::ops::Range;

/// What a parser of TOML says, on one line: the place, then what is wrong.
pub(crate) fn at(text: &str, span: Option<Range<usize>>, message: &str) -> String {
    let message = message.trim_end().replace('\n', ", ");
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count().saturating_add(1);
    let last = before.rsplit('\n').next().unwrap_or_default();
    format!("line {line}, column {}: {message}", last.chars().count().saturating_add(1))
}

/// [`at`] of an error of the crate `toml`.
pub(crate) fn of(text: &str, error: &toml::de::Error) -> String {
    at(text, error.span(), error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, place) in [("a = 1\nb = [1,\n", "line 2, column "), ("a = \"é\" x", "line 1, column ")] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            let said = of(text, &error);
            assert!(said.starts_with(place) && !said.contains('\n'), "{said}");
        }
    }
}
