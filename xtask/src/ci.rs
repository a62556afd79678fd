//! Everything that CI runs, in one command.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::error::Error;
use crate::process::{self, cargo};
use crate::{Result, cases, generate, install, tidy};

/// Runs every check; stops at the first that fails, but runs all tests before it says so. The last line is
/// the sum of all tests: `N passed, N failed`.
pub(crate) fn run(install_first: bool) -> Result<()> {
    if install_first {
        install::install()?;
    }
    step("format");
    process::run(&mut cargo(&["fmt", "--all", "--", "--check"]))?;
    step("tidy");
    tidy::run()?;
    step("lints");
    process::run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    step("documentation");
    process::run(
        cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    step("generated files");
    generate::run(true)?;
    step("cases");
    cases::run(false, &[])?;
    step("tests");
    let sum = tests()?;
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed == 0 && sum.succeeded {
        Ok(())
    } else {
        Err(Error::Command { command: "cargo test".to_owned() })
    }
}

fn step(name: &str) {
    println!("xtask: {name}");
}

struct Sum {
    passed: u64,
    failed: u64,
    succeeded: bool,
}

/// All tests, to the last one whatever fails, shown as they run and added up.
fn tests() -> Result<Sum> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|source| process::start(&command, source))?;
    let mut sum = Sum { passed: 0, failed: 0, succeeded: false };
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
            println!("{line}");
            if let Some(counts) = line.strip_prefix("test result: ") {
                sum.passed = sum.passed.saturating_add(count(counts, "passed"));
                sum.failed = sum.failed.saturating_add(count(counts, "failed"));
            }
        }
    }
    sum.succeeded = child.wait().map_err(|source| process::start(&command, source))?.success();
    Ok(sum)
}

/// The number before `word` in `ok. 12 passed; 0 failed; ...`.
fn count(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';', '.']).filter(|part| !part.is_empty()).collect();
    words
        .windows(2)
        .find_map(|pair| match pair {
            [number, name] if *name == word => number.parse().ok(),
            _ => None,
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_are_read_from_the_line_of_cargo() {
        let line = "FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s";
        assert_eq!(count(line, "passed"), 12);
        assert_eq!(count(line, "failed"), 3);
        assert_eq!(count(line, "absent"), 0);
    }
}
