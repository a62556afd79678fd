//! Fixtures against ORIGIN.tsv, and each file format against its page and its fixtures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Findings, has_extension, text};
use crate::error::Error;
use crate::{Result, process};

/// The list of fixtures.
const ORIGIN: &str = "fixtures/ORIGIN.tsv";
/// Columns of the list.
const COLUMNS: usize = 5;
/// Text of this repository among the fixtures, under its own licence.
const OURS: &[&str] =
    &["fixtures/cases/", "fixtures/README.md", "fixtures/ORIGIN.tsv", "fixtures/obs/differences.tsv"];

/// Checks the list, and what a format must bring.
pub(super) fn check(files: &[PathBuf]) -> Result<Findings> {
    let mut findings = origin(files)?;
    findings.extend(formats(files)?);
    Ok(findings)
}

fn origin(files: &[PathBuf]) -> Result<Findings> {
    let list = text(Path::new(ORIGIN))?;
    let mut findings = Findings::new();
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    for line in list.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            [path, sha256, _, _, _] if cells.iter().all(|cell| !cell.is_empty()) => {
                listed.insert(format!("fixtures/{path}"), (*sha256).to_owned());
            }
            _ => findings.push(format!("{ORIGIN}: not {COLUMNS} filled columns: {line}")),
        }
    }
    let there: BTreeSet<String> = files
        .iter()
        .filter(|path| path.starts_with("fixtures"))
        .map(|path| path.to_string_lossy().into_owned())
        .filter(|path| !OURS.iter().any(|ours| path.starts_with(ours)))
        .collect();
    for path in there.iter().filter(|path| !listed.contains_key(*path)) {
        findings.push(format!("{path}: not in {ORIGIN}: where from, and under which licence?"));
    }
    for (path, sha256) in &listed {
        if !there.contains(path) {
            findings.push(format!("{ORIGIN} lists {path}, which is not there"));
            continue;
        }
        let full = process::root().join(path);
        let bytes = std::fs::read(&full).map_err(Error::file(&full))?;
        if hexadecimal(&Sha256::digest(bytes)) != *sha256 {
            findings.push(format!("{path}: not the bytes that {ORIGIN} lists"));
        }
    }
    Ok(findings)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each format has a page docs/formats/NAME.md that names its fixtures (a folder `fixtures/...`).
fn formats(files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    let mut names = Vec::new();
    for path in
        files.iter().filter(|path| path.starts_with("crates/formats/src") && has_extension(path, &["rs"]))
    {
        names.extend(format_names(&text(path)?));
    }
    let registered = registered(&text(Path::new("crates/formats/src/lib.rs"))?);
    if names.is_empty() || names.len() != registered {
        findings.push(format!(
            "FORMATS has {registered} members, {} files implement Format: {names:?}",
            names.len()
        ));
    }
    for name in names {
        let page = PathBuf::from(format!("docs/formats/{name}.md"));
        if !files.contains(&page) {
            findings.push(format!("the format {name} has no page {}", page.display()));
            continue;
        }
        let page_text = text(&page)?;
        let has_fixtures = page_text
            .split(['`', '(', ')', ' ', '\n'])
            .filter(|word| word.contains("fixtures/"))
            .filter_map(|word| word.find("fixtures/").and_then(|at| word.get(at..)))
            .any(|folder| files.iter().any(|file| file.starts_with(folder.trim_end_matches('/'))));
        if !has_fixtures {
            findings.push(format!("{}: names no folder of fixtures that exists", page.display()));
        }
    }
    Ok(findings)
}

/// Names that a source file gives its implementations of `Format`.
fn format_names(source: &str) -> Vec<String> {
    source
        .split("impl Format for ")
        .skip(1)
        .filter_map(|body| body.split("fn name(").nth(1)?.split('"').nth(1).map(str::to_owned))
        .collect()
}

/// How many members the list FORMATS has.
fn registered(source: &str) -> usize {
    source
        .split("FORMATS: &[&dyn Format] =")
        .nth(1)
        .and_then(|rest| rest.split("];").next()?.split_once("&["))
        .map_or(0, |(_, list)| list.matches('&').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_members_of_the_registry_are_read() {
        let source = "pub static FORMATS: &[&dyn Format] = &[&a::A, &b::B];\nimpl Format for A {\n fn name(&self) -> &'static str {\n \"aaa\"\n }\n}";
        assert_eq!(registered(source), 2);
        assert_eq!(registered(&source.replace("= &[&a", "=\n    &[&a")), 2);
        assert_eq!(format_names(source), ["aaa"]);
    }
}
