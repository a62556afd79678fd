//! Files that documents name: links to files of the repository, and paths in backticks.

use std::path::{Component, Path, PathBuf};

use super::{Findings, has_extension, text};
use crate::Result;

/// Where a path in backticks begins, if it is one of the repository.
const TOP: &[&str] = &["crates/", "docs/", "fixtures/", "packaging/", "xtask/", ".ci/"];

/// Checks every Markdown file outside the fixtures.
pub(super) fn check(files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| has_extension(path, &["md"])) {
        let content = text(path)?;
        for target in links(&content) {
            let folder = path.parent().unwrap_or(Path::new(""));
            if !exists(files, &normal(&folder.join(target))) {
                findings.push(format!("{}: dead link {target}", path.display()));
            }
        }
        for target in paths(&content) {
            if !exists(files, Path::new(target.trim_end_matches('/'))) {
                findings.push(format!("{}: names {target}, which is not there", path.display()));
            }
        }
    }
    Ok(findings)
}

/// Targets of Markdown links that are files of the repository.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#', ' ']).next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
        .collect()
}

/// Paths in backticks that begin with a folder of the repository and are no pattern.
fn paths(text: &str) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|word| TOP.iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains(['*', '{', ' ', '<']) && !word.contains("NAME"))
        .map(|word| word.split("::").next().unwrap_or(word))
        .collect()
}

fn exists(files: &[PathBuf], path: &Path) -> bool {
    path == Path::new("") || files.iter().any(|file| file.starts_with(path))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                result.pop();
            }
            Component::Normal(name) => result.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found() {
        let text =
            "see [a](adr/0001.md#x), [b](https://b.example) and `crates/a/src/lib.rs`, not `crates/*/x`";
        assert_eq!(links(text), ["adr/0001.md"]);
        assert_eq!(paths(text), ["crates/a/src/lib.rs"]);
        assert_eq!(normal(Path::new("docs/../README.md")), Path::new("README.md"));
    }
}
