//! The primitives of output: standard output for results, standard error for everything a person reads
//! beside them. A closed pipe ends the output, never the work, and nothing here panics.

use std::io::{IsTerminal as _, Write as _};

/// One line of results.
pub(crate) fn out(line: &str) {
    // A reader that went away (`| head`) is not our failure.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Raw bytes as results (an exported certificate, a detached signature).
///
/// # Errors
/// What writing to standard output says.
pub(crate) fn out_bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// One line beside the results.
pub(crate) fn err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// One JSON object on a line of standard output.
pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => out(&text),
        Err(error) => err(&format!("cannot write JSON: {error}")),
    }
}

/// Whether a person looks at standard error.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// A text from outside, safe to show: control characters (a terminal would obey them) are escaped.
pub(crate) fn safe(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let hidden = c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let escaped: Box<dyn Iterator<Item = char>> =
                if hidden { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
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
}
