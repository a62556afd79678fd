//! The page docs/benchmarks.md: one section a bench, between markers, the rest left alone; a picture beside it; and raw
//! rows for programs.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::plot::Plot;
use crate::error::Error;
use crate::{Result, process};

const PAGE: &str = "docs/benchmarks.md";
const PICTURES: &str = "docs/benchmarks";
const HEAD: &str = "# Benchmarks\n\nWritten by `cargo xtask bench`, which measures public tools in the same run on the same machine. A broken\nlimit, or a figure that falls short, fails the run.\n";

/// One bench.
pub(super) struct Section {
    /// The argument of `cargo xtask bench`.
    pub(super) name: &'static str,
    /// What is measured, with what, in sentences.
    pub(super) text: String,
    /// The first row.
    pub(super) columns: Vec<&'static str>,
    /// The others.
    pub(super) rows: Vec<Vec<String>>,
    /// The picture.
    pub(super) plot: Option<Plot>,
    /// Figures that were to be reached.
    pub(super) figures: Vec<Figure>,
    /// Every single measurement, as it came: objects with the same names within a bench.
    pub(super) raw: Vec<Value>,
}

/// A figure that was to be reached, and whether it was.
pub(super) struct Figure {
    /// What is compared.
    pub(super) what: String,
    /// The measured value, with its unit.
    pub(super) measured: String,
    /// What was to be reached.
    pub(super) wanted: String,
    /// Whether it was.
    pub(super) is_met: bool,
}

/// What becomes of results.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    /// Whether the page is written.
    pub(super) page: bool,
    /// Where raw rows are appended, a JSON object a line.
    pub(super) json: Option<&'a Path>,
}

impl Records<'_> {
    /// Prints a section and records it; returns the figures that fell short.
    pub(super) fn take(self, section: &Section) -> Result<usize> {
        print!("{}", render(section));
        if let Some(path) = self.json {
            append(path, section)?;
        }
        if self.page {
            write(section)?;
        }
        Ok(section.figures.iter().filter(|figure| !figure.is_met).count())
    }
}

fn append(path: &Path, section: &Section) -> Result<()> {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).map_err(Error::file(path))?;
    for row in &section.raw {
        let mut row = row.clone();
        if let Some(object) = row.as_object_mut() {
            object.insert("bench".to_owned(), section.name.into());
        }
        writeln!(file, "{row}").map_err(Error::file(path))?;
    }
    Ok(())
}

/// Puts a section into the page, in place of its older self.
fn write(section: &Section) -> Result<()> {
    let path = process::root().join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_else(|_| HEAD.to_owned());
    let begin = format!("<!-- begin {} -->\n", section.name);
    let end = format!("<!-- end {} -->\n", section.name);
    let body = format!("{begin}{}{end}", render(section));
    let new = match (old.split_once(&begin), old.split_once(&end)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{body}{after}"),
        _ => format!("{old}\n{body}"),
    };
    if let Some(plot) = &section.plot {
        let folder = process::root().join(PICTURES);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        let picture = folder.join(format!("{}.svg", section.name));
        fs::write(&picture, plot.svg()).map_err(Error::file(&picture))?;
    }
    fs::write(&path, new).map_err(Error::file(&path))
}

fn render(section: &Section) -> String {
    let mut lines = vec![
        format!(
            "## {}\n\n    cargo xtask {}\n\n{}\n",
            section.name,
            command(section.name),
            section.text.trim_end()
        ),
        format!("| {} |", section.columns.join(" | ")),
        format!("|{}", "---|".repeat(section.columns.len())),
    ];
    lines.extend(section.rows.iter().map(|row| format!("| {} |", row.join(" | "))));
    if !section.figures.is_empty() {
        lines.push("\n| Figure | Measured | Wanted | |\n|---|---|---|---|".to_owned());
        lines.extend(section.figures.iter().map(|figure| {
            let verdict = if figure.is_met { "met" } else { "**falls short**" };
            format!("| {} | {} | {} | {verdict} |", figure.what, figure.measured, figure.wanted)
        }));
    }
    if let Some(plot) = &section.plot {
        lines.push(format!("\n![{}](benchmarks/{}.svg)", plot.title, section.name));
    }
    format!("{}\n", lines.join("\n"))
}

/// What measures it.
fn command(name: &str) -> String {
    if name == "storm" { name.to_owned() } else { format!("bench {name}") }
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

/// What else the machine does now: the mean number of processes that wanted a processor in the last minute.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
