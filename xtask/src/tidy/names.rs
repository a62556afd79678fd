//! Tests and functions that documents name by their long names exist: a table that says which test holds a law is no better than
//! the test that is there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Findings, has_extension, text};
use crate::Result;

/// Words of a name from which on it is one of this repository: shorter ones are options, fields and columns of anybody.
const WORDS_MIN: usize = 5;

/// Checks every Markdown file outside the fixtures.
pub(super) fn check(files: &[PathBuf]) -> Result<Findings> {
    let mut functions = BTreeSet::new();
    let mut literals = BTreeSet::new();
    for path in files.iter().filter(|path| has_extension(path, &["rs"])) {
        let code = text(path)?;
        functions.extend(names_of_functions(&code).map(str::to_owned));
        literals.extend(metrics(&code).map(str::to_owned));
    }
    let mut findings = Findings::new();
    for path in files.iter().filter(|path| has_extension(path, &["md"]) && !path.starts_with("fixtures")) {
        let content = text(path)?;
        let missing =
            long_names(&content).filter(|name| !functions.contains(*name) && !literals.contains(*name));
        findings.extend(missing.map(|name| format!("{}: no function has the name {name}", path.display())));
        if path.starts_with("docs/adr") {
            let lawless = laws(&content).filter(|law| !has_test(&functions, law));
            findings.extend(lawless.map(|law| format!("{}: no test begins with {law}_", path.display())));
        }
    }
    Ok(findings)
}

fn names_of_functions(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    code.split("fn ")
        .skip(1)
        .map(move |rest| rest.split(|character| !is_part(character)).next().unwrap_or(""))
}

/// Names of metrics are texts.
fn metrics(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').filter(|text| text.starts_with("sealwright_"))
}

/// Names in backticks, of so many words; the last part of a path.
fn long_names(content: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && word.split('_').filter(|part| !part.is_empty()).count() >= WORDS_MIN
    };
    let quoted = content.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.map(|word| word.trim_end_matches("()").rsplit("::").next().unwrap_or(word)).filter(is_name)
}

/// The laws of a table, as the names of their tests begin: `| R12 ...` is `r12`.
fn laws(content: &str) -> impl Iterator<Item = String> {
    content.lines().filter_map(|line| {
        let number = line.strip_prefix("| R")?.split(' ').next()?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| format!("r{number}"))
    })
}

fn has_test(functions: &BTreeSet<String>, law: &str) -> bool {
    let begins = |name: &String| name.strip_prefix(law).is_some_and(|rest| rest.starts_with('_'));
    functions.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_in_backticks_are_found_and_short_or_other_ones_are_not() {
        let content = "`a_test_of_five_words`, `tests::another_one_with_five_words()`, `four_words_are_few`,\n\
                       a_name_in_no_backticks_at_all and `--an-option`";
        let found: Vec<&str> = long_names(content).collect();
        assert_eq!(found, ["a_test_of_five_words", "another_one_with_five_words"]);
    }

    #[test]
    fn functions_and_laws_are_those_of_the_files() {
        let code = text(std::path::Path::new("xtask/src/tidy/names.rs")).unwrap();
        let functions: BTreeSet<String> = names_of_functions(&code).map(str::to_owned).collect();
        assert!(functions.contains("functions_and_laws_are_those_of_the_files"));
        assert_eq!(laws("| R1 a | b |\n| R12 c |\n| Rule | x |\n").collect::<Vec<_>>(), ["r1", "r12"]);
        let tests = BTreeSet::from(["r12_holds".to_owned()]);
        assert!(has_test(&tests, "r12") && !has_test(&tests, "r1"));
    }
}
