//! The page docs/benchmarks.md: one section a bench, between markers, the rest left alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::{Result, process};

const PAGE: &str = "docs/benchmarks.md";
const HEAD: &str = "# Benchmarks\n\nWritten by `cargo xtask bench`, which measures public tools in the same run on the same machine. A broken\nlimit fails the run.\n";

/// One table.
pub(super) struct Section {
    /// The argument of `cargo xtask bench`.
    pub(super) name: &'static str,
    /// What is measured, with what, in sentences.
    pub(super) text: String,
    /// The first row.
    pub(super) columns: Vec<&'static str>,
    /// The others.
    pub(super) rows: Vec<Vec<String>>,
}

/// Puts a section into the page, in place of its older self.
pub(super) fn write(section: &Section) -> Result<()> {
    let path = process::root().join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_else(|_| HEAD.to_owned());
    let begin = format!("<!-- begin {} -->\n", section.name);
    let end = format!("<!-- end {} -->\n", section.name);
    let body = format!("{begin}{}{end}", render(section));
    let new = match (old.split_once(&begin), old.split_once(&end)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{body}{after}"),
        _ => format!("{old}\n{body}"),
    };
    show(section)?;
    fs::write(&path, new).map_err(Error::file(&path))
}

/// Prints a section.
pub(super) fn show(section: &Section) -> Result<()> {
    print!("{}", render(section));
    Ok(())
}

fn render(section: &Section) -> String {
    let mut lines = vec![
        format!("## {}\n\n    cargo xtask bench {}\n\n{}\n", section.name, section.name, section.text),
        format!("| {} |", section.columns.join(" | ")),
        format!("|{}", "---|".repeat(section.columns.len())),
    ];
    lines.extend(section.rows.iter().map(|row| format!("| {} |", row.join(" | "))));
    format!("{}\n", lines.join("\n"))
}

/// Processor, kernel and file system of this machine, for the text of a section.
pub(super) fn machine(folder: &Path) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name))
        .unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system =
        process::output(Command::new("stat").args(["-f", "-c", "%T"]).arg(folder)).unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}, file system {}", kernel.trim(), system.trim())
}
