//! The map of a campaign as text: which key signs the packages of which directory.
//!
//! ```text
//! # comment
//! el9         = release-9
//! "el9/a = b" = beta         # quotes where a blank, = or # is a part of a name
//! ```
//!
//! A name that begins with a quote goes to the next one, and only blanks, = or a comment may follow. A name without quotes has
//! no # at its begin or after a blank; the last = that is in no quotes ends the directory.

/// Longest key map in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// One directory and its key, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Of the line in the file, from 1.
    pub number: u32,
    /// Not empty; relative to the file, if it is.
    pub directory: &'a str,
    /// Name or fingerprint; not empty.
    pub key: &'a str,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It does not say where the directory ends.
    #[error("there is no =")]
    NoEquals,
    /// Nothing before or behind the =.
    #[error("a directory or a key is missing")]
    Missing,
    /// It ends within quotes.
    #[error("a quote is not closed")]
    Open,
    /// Something else follows a name in quotes.
    #[error("something follows a quote")]
    Behind,
}

/// The lines that say something, in their order.
///
/// # Errors
/// The number of the first line that is wrong, and why.
pub fn parse(text: &str) -> Result<Vec<Line<'_>>, (u32, Malformed)> {
    let lines = (1u32..).zip(text.lines());
    lines.filter_map(|(number, text)| line(number, text).map_err(|why| (number, why)).transpose()).collect()
}

fn line(number: u32, text: &str) -> Result<Option<Line<'_>>, Malformed> {
    let (text, equals) = without_comment(text)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let equals = equals.ok_or(Malformed::NoEquals)?;
    let (directory, key) = text.split_at_checked(equals).ok_or(Malformed::NoEquals)?;
    let (directory, key) = (name(directory)?, name(key.strip_prefix('=').unwrap_or(key))?);
    if directory.is_empty() || key.is_empty() {
        return Err(Malformed::Missing);
    }
    Ok(Some(Line { number, directory, key }))
}

/// Up to a # where a name begins or after a blank, and where the last = is; both outside of quotes, which only open where a
/// name begins.
fn without_comment(text: &str) -> Result<(&str, Option<usize>), Malformed> {
    let (mut is_quoted, mut begins, mut after_blank) = (false, true, true);
    let mut equals = None;
    for (at, character) in text.char_indices() {
        match character {
            '"' if is_quoted => is_quoted = false,
            _ if is_quoted => {}
            '"' if begins => is_quoted = true,
            '#' if after_blank || begins => return Ok((text.get(..at).unwrap_or(text), equals)),
            '=' => equals = Some(at),
            _ => {}
        }
        after_blank = character.is_whitespace();
        begins = !is_quoted && (character == '=' || (begins && after_blank));
    }
    if is_quoted { Err(Malformed::Open) } else { Ok((text, equals)) }
}

/// Without blanks and quotes around it.
fn name(text: &str) -> Result<&str, Malformed> {
    let text = text.trim();
    let Some(quoted) = text.strip_prefix('"') else { return Ok(text) };
    match quoted.split_once('"') {
        Some((name, "")) => Ok(name),
        Some(_) => Err(Malformed::Behind),
        None => Err(Malformed::Open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<(&str, &str), Malformed> {
        let lines = parse(text).map_err(|(_, why)| why)?;
        let [line] = lines.as_slice() else { return Ok(("", "")) };
        Ok((line.directory, line.key))
    }

    #[test]
    fn a_comment_begins_the_line_or_follows_a_blank_and_is_no_part_of_a_key() {
        for (line, pair) in [
            ("# all", ("", "")),
            ("   ", ("", "")),
            ("el9 = release-9      # relative = to", ("el9", "release-9")),
            ("el9 = a#b", ("el9", "a#b")),
            ("\"el #9\" = a # b", ("el #9", "a")),
        ] {
            assert_eq!(one(line), Ok(pair), "{line}");
        }
    }

    #[test]
    fn what_is_in_quotes_is_one_name_whatever_it_holds() {
        for (line, pair) in [
            ("\"el9/a = b\" = \"new\"", ("el9/a = b", "new")),
            ("el9 = \"a = b\"", ("el9", "a = b")),
            ("\"a\" = \" # \" # c \"", ("a", " # ")),
            ("a=b = c", ("a=b", "c")),
            ("inch\" = c # d", ("inch\"", "c")),
        ] {
            assert_eq!(one(line), Ok(pair), "{line}");
        }
    }

    #[test]
    fn what_is_no_directory_and_its_key_is_refused_with_the_number_of_its_line() {
        for (line, why) in [
            ("el9", Malformed::NoEquals),
            ("el9 # = a", Malformed::NoEquals),
            ("= new", Malformed::Missing),
            ("el9 =", Malformed::Missing),
            ("el9 =#new", Malformed::Missing),
            ("\"\" = new", Malformed::Missing),
            ("\"el9 = new", Malformed::Open),
            ("el9 = \"new", Malformed::Open),
            ("\"el9\"x = new", Malformed::Behind),
            ("el9 = \"new\" x", Malformed::Behind),
        ] {
            assert_eq!(parse(&format!("a = b\n{line}\n")), Err((2, why)), "{line}");
        }
    }
}
