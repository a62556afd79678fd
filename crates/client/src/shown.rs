//! What messages show: names of files (bytes that are no text are escaped, what is too long to be a name is cut), and
//! errors with their causes.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Longest path in bytes that Linux takes (PATH_MAX): none that is longer is the name of anything.
const SHOWN_BYTES_MAX: usize = 4096;
/// Bytes that are shown of a longer one.
const HEAD_BYTES: usize = 256;

/// An error with its chain of causes, each once.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// A path for a message: `\xNN` in the place of bytes that are no text. Control characters stay: who shows the message
/// escapes them in all of it.
#[must_use]
pub fn shown(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let too_long = bytes.len() > SHOWN_BYTES_MAX;
    let kept = if too_long { bytes.get(..HEAD_BYTES).unwrap_or_default() } else { bytes };
    let mut text = String::new();
    for chunk in kept.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if too_long {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        let name = OsStr::from_bytes(b"d/\xff\xfe\xc3\xa4.asc");
        assert_eq!(shown(Path::new(name)), "d/\\xff\\xfe\u{e4}.asc");
    }

    #[test]
    fn a_name_is_shown_whole_up_to_the_longest_that_there_can_be() {
        let longest = "x".repeat(SHOWN_BYTES_MAX);
        assert_eq!(shown(Path::new(&longest)), longest);
        let cut = shown(Path::new(&"x".repeat(3_000_000)));
        assert_eq!(cut, format!("{}... (3000000 bytes)", "x".repeat(HEAD_BYTES)));
    }
}
