//! The shape of source files: an opening line that says what the file is for, a bounded length, nothing
//! unfinished.

use std::path::{Path, PathBuf};

use super::{Findings, has_extension, text};
use crate::Result;

/// Lines of a source file at most: longer ones are two files.
const LINES_MAX: usize = 600;

/// What must not be left in code. Written in halves, so that this file does not find itself.
const UNFINISHED: &[(&str, &str)] = &[("todo", "!("), ("unimplemented", "!("), ("#[ig", "nore")];

/// Checks every source and text file outside the fixtures.
pub(super) fn check(files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| !path.starts_with("fixtures") && !path.starts_with("docs/man")) {
        if has_extension(path, &["rs"]) {
            findings.extend(rust(path, &text(path)?));
        }
        if has_extension(path, &["rs", "md", "toml", "proto", "sql", "sh"]) {
            findings.extend(spaces(path, &text(path)?));
        }
        if path.file_name().is_some_and(|name| name == "mod.rs") {
            findings.push(format!("{}: modules are NAME.rs and NAME/, never mod.rs", path.display()));
        }
    }
    Ok(findings)
}

fn rust(path: &Path, text: &str) -> Findings {
    let mut findings = Findings::new();
    if !text.starts_with("//!") {
        findings.push(format!("{}: does not open with a `//!` line", path.display()));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{}: {lines} lines, at most {LINES_MAX}", path.display()));
    }
    for (first, second) in UNFINISHED {
        let word = format!("{first}{second}");
        for (number, _) in (1_usize..).zip(text.lines()).filter(|(_, line)| line.contains(&word)) {
            findings.push(format!("{}:{number}: `{word}` is left in the code", path.display()));
        }
    }
    findings
}

fn spaces(path: &Path, text: &str) -> Findings {
    let mut findings: Findings = (1_usize..)
        .zip(text.lines())
        .filter(|(_, line)| line.ends_with([' ', '\t']))
        .map(|(number, _)| format!("{}:{number}: space at the end of the line", path.display()))
        .collect();
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(format!("{}: no newline at the end", path.display()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_opening_line_is_found() {
        assert_eq!(rust(Path::new("a.rs"), "fn main() {}\n").len(), 1);
        assert!(rust(Path::new("a.rs"), "//! Why.\n").is_empty());
    }

    #[test]
    fn a_file_of_601_lines_is_found() {
        let text = format!("//! Why.\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(rust(Path::new("a.rs"), &text).len(), 1);
    }

    #[test]
    fn unfinished_code_is_found() {
        let text = format!("//! Why.\nfn a() {{ {}{}) }}\n", "todo", "!(");
        assert_eq!(rust(Path::new("a.rs"), &text).len(), 1);
    }

    #[test]
    fn space_at_the_end_of_a_line_is_found() {
        assert_eq!(spaces(Path::new("a.md"), "one \ntwo").len(), 2);
    }
}
