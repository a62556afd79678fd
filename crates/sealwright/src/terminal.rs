//! The primitives of output: standard output for results, standard error for everything a person reads
//! beside them. Output that cannot be written ends the output, never the work, and nothing here panics; `main` says it
//! at the end ([`fault`]), since results that nobody got are no success.

use std::io::{Error, ErrorKind, IsTerminal as _, Write as _};
use std::sync::OnceLock;

/// The first thing that went wrong with standard output. After it nothing more is written: what comes later would
/// stand for the whole.
static FAULT: OnceLock<Error> = OnceLock::new();

/// One line of results.
pub(crate) fn out(line: &str) {
    out_bytes(format!("{line}\n").as_bytes());
}

/// Raw bytes as results (an exported certificate, a detached signature).
pub(crate) fn out_bytes(bytes: &[u8]) {
    if FAULT.get().is_none()
        && let Err(error) = write_all(bytes)
    {
        // Of two threads that fail at once, either is the first.
        let _ = FAULT.set(error);
    }
}

/// Why not all results were written.
pub(crate) fn fault() -> Option<&'static Error> {
    FAULT.get()
}

/// Past the standard library, which takes a descriptor that cannot be written to for one that wants nothing. One that
/// was closed (`>&-`) does want nothing: the standard library has opened `/dev/null` in its place before `main`, so that
/// no file of ours ever gets its number.
fn write_all(mut bytes: &[u8]) -> std::io::Result<()> {
    let stdout = std::io::stdout().lock();
    while !bytes.is_empty() {
        match rustix::io::write(&stdout, bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Most bytes of a line beside the results: names in it come from outside.
const LINE_BYTES_MAX: usize = 16 << 10;

/// One line beside the results; what nobody would read to its end is cut.
pub(crate) fn err(line: &str) {
    let kept = line.floor_char_boundary(LINE_BYTES_MAX);
    match line.get(..kept).filter(|kept| kept.len() < line.len()) {
        Some(kept) => err_whole(&format!("{kept}... ({} bytes)", line.len())),
        None => err_whole(line),
    }
}

/// A line that is of no use unless it is whole.
pub(crate) fn err_whole(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// One JSON object on a line of standard output.
pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => out(&text),
        Err(error) => {
            let _ = FAULT.set(error.into());
        }
    }
}

/// Whether a person looks at standard error.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// A text from outside, safe to show: what a terminal would obey, what ends a line somewhere, and what changes the
/// direction or the look of the text around it, is escaped.
pub(crate) fn safe(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if is_hidden(c) { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
}

/// Control characters, the two separators of lines (Unicode 5.8), marks of direction (UAX #9), and what is not seen.
/// The joiners U+200C and U+200D stay: some scripts need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Columns as wide as their widest cell, two blanks between.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain(header.get(column).map(|cell| cell.chars().count()))
            .max()
            .unwrap_or_default()
    };
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            text.push_str(&format!("{cell:<width$}  ", width = width(column)));
        }
        out(text.trim_end());
    };
    line(header.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_in_names_are_shown_not_obeyed() {
        assert_eq!(safe("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(safe("\u{202e}mpr.exe"), "\\u{202e}mpr.exe");
        assert_eq!(safe("päckage %{name} $x"), "päckage %{name} $x");
    }

    #[test]
    fn no_character_that_ends_a_line_or_turns_text_is_shown_as_it_is() {
        let ends_lines = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
        let turns = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter();
        let turns = turns.chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let unseen = ['\0', '\u{7f}', '\u{9b}', '\u{200b}', '\u{feff}', '\u{e0041}'];
        for c in ends_lines.into_iter().chain(turns).chain(unseen) {
            let shown = safe(&format!("a{c}b"));
            assert!(shown.is_ascii() && shown.starts_with("a\\") && shown.ends_with('b'), "{c:?}: {shown}");
        }
    }
}
