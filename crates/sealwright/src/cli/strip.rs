//! `sealwright strip`.

use std::path::PathBuf;
use std::sync::Arc;

use sealwright_client::batch::{self, Stop};
use sealwright_client::sign::Effect;
use sealwright_client::source;
use sealwright_client::strip::{StripReport, Stripped, strip};
use serde::Serialize;

use crate::cli::sign::paths::PathArgs;
use crate::cli::sign::{output_directory, writing};
use crate::cli::{Context, list};
use crate::config::Places;
use crate::failure::{Exit, Failure};
use crate::output::{FailureView, Output, PathView, milliseconds, shown};
use crate::terminal;

/// `sealwright strip`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files in hand at once.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Strip the packages in directories, and in those beneath; links are not followed.
    #[arg(long, short)]
    recursive: bool,
    /// Write stripped copies into this directory and leave the files as they are.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Check everything, write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    files: PathArgs,
}

/// Carries out `strip`.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let paths = args.files.all()?;
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?;
    let effect = if args.dry_run { Effect::DryRun } else { Effect::Write };
    let directory = output_directory(args.output.as_deref(), effect)?;
    let directory = Arc::new(directory);
    // A half-written package is none that could be stripped; without a home there is nothing to recover.
    if let (Effect::Write, Ok(places)) = (effect, Places::from_environment()) {
        writing::recover(&places.state);
    }
    let listing = list(paths, args.recursive, &stop).await?;
    let mut printer = Printer { output: Output::new(context, listing.len()), counts: Counts::default() };
    for (path, error) in listing.failed {
        printer.take(&StripReport::failed(path, error));
    }
    let work = |index, entry: source::Entry| {
        let directory = Arc::clone(&directory);
        async move {
            let work = move || strip(index, &entry, effect, directory.as_ref().as_ref());
            tokio::task::spawn_blocking(work).await.ok()
        }
    };
    let jobs = args.jobs.map_or_else(batch::hash_threads, usize::from);
    let mut stopped = 0usize;
    batch::each(
        listing.groups,
        jobs,
        &stop,
        work,
        |_, _| None,
        |report| match report {
            Some(report) => printer.take(&report),
            None => stopped = stopped.saturating_add(1),
        },
    )
    .await;
    printer.output.finish();
    terminal::err(&printer.counts.line(stopped, args.dry_run));
    if stopped == 0 {
        // A file found beneath a directory keeps its path there; named itself, it would lose it.
        let keep_names = args.recursive && args.output.is_some();
        printer.output.retry(&command(&args), &args.files.words(), &args.files.paths, keep_names);
    }
    Ok(if printer.counts.failed > 0 || stopped > 0 { Exit::Failed } else { Exit::Done })
}

fn command(args: &Args) -> Vec<String> {
    let mut words = vec!["sealwright".to_owned(), "strip".to_owned()];
    if args.recursive {
        words.push("--recursive".to_owned());
    }
    if let Some(dir) = &args.output {
        words.extend(["--output".to_owned(), dir.display().to_string()]);
    }
    words
}

#[derive(Debug, Default)]
struct Counts {
    stripped: usize,
    unsigned: usize,
    failed: usize,
}

impl Counts {
    fn line(&self, stopped: usize, dry_run: bool) -> String {
        let mut line =
            format!("{} {}", self.stripped, if dry_run { "would be stripped" } else { "stripped" });
        for (count, what) in
            [(self.unsigned, "not signed"), (self.failed, "failed (unchanged)"), (stopped, "not begun")]
        {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line
    }
}

struct Printer {
    output: Output,
    counts: Counts,
}

impl Printer {
    fn take(&mut self, report: &StripReport) {
        self.output.advance();
        let path = shown(&report.path);
        let (status, line, written) = match &report.outcome {
            Ok(Stripped::Skipped) => return,
            Ok(Stripped::Written(written)) => ("stripped", format!("stripped   {path}"), written.bytes),
            Ok(Stripped::Would) => ("would-strip", format!("would strip {path}"), 0),
            Ok(Stripped::NotSigned) => ("not-signed", format!("not signed {path}"), 0),
            Err(_) => ("failed", String::new(), 0),
        };
        let view = FileView {
            path: PathView::of(&report.path),
            status,
            format: report.format,
            written,
            elapsed_ms: milliseconds(report.elapsed),
            warnings: &report.warnings,
            failure: report.outcome.as_ref().err().map(FailureView::of),
        };
        let count = match &report.outcome {
            Err(error) => {
                self.output.failure(report.index, &report.path, error, &view);
                &mut self.counts.failed
            }
            Ok(done) => {
                self.output.result(&view, &[line]);
                self.output.warnings(&report.path, &report.warnings);
                match done {
                    Stripped::Written(_) | Stripped::Would => &mut self.counts.stripped,
                    Stripped::NotSigned | Stripped::Skipped => &mut self.counts.unsigned,
                }
            }
        };
        *count = count.saturating_add(1);
    }
}

#[derive(Debug, Serialize)]
struct FileView<'a> {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    written: u64,
    elapsed_ms: f64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(flatten)]
    failure: Option<FailureView>,
}
