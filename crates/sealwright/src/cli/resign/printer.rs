//! Results of a campaign as they come: failures and warnings for a person, an object for each package for a program.

use std::path::Path;

use sealwright_client::campaign::Verdict;
use sealwright_client::campaign::check::Check;
use sealwright_client::campaign::plan::{Count, Plan};
use sealwright_client::campaign::run::{Class, Ended, Summary, Watch};
use sealwright_client::error::Error;
use sealwright_client::sign::{Done, FileReport};
use sealwright_client::source::Entry;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::resign::progress::Progress;
use crate::cli::sign::FileView;
use crate::cli::verify::ErrorView;
use crate::failure::Failure;
use crate::output::{PathView, failure_lines, milliseconds, shown};
use crate::terminal;

/// Failures that are shown one by one; beyond, the summary counts them by reason, and `--json` has all.
const SHOWN_MAX: u64 = 50;

pub(super) struct Printer {
    json: bool,
    dry_run: bool,
    trace_id: String,
    progress: Option<Progress>,
    failures: u64,
}

impl Printer {
    pub(super) const fn new(context: Context, dry_run: bool, trace_id: String) -> Self {
        Self { json: context.json, dry_run, trace_id, progress: None, failures: 0 }
    }

    pub(super) fn begin(&mut self, what: &'static str, total: Option<Count>) {
        self.progress = Some(Progress::begin(what, total));
        self.failures = 0;
    }

    pub(super) fn end(&mut self) {
        self.progress = None;
    }

    /// What a dry run came to, for a program.
    pub(super) fn plan(&self, plan: &Plan) {
        if !self.json {
            return;
        }
        terminal::json(&PlanView {
            status: "plan",
            sign: plan.sign.files,
            sign_bytes: plan.sign.bytes,
            already: plan.already.files,
            unsigned: plan.unsigned.files,
            foreign: plan.foreign.files,
            no_key: plan.no_key.files,
            others: plan.others.files,
            failed: plan.failed.files,
            stopped: plan.is_stopped,
        });
    }

    /// What all came to, for a program.
    pub(super) fn summary(&self, view: &SummaryView<'_>) {
        if self.json {
            terminal::json(view);
        }
    }

    fn beside(&self, print: impl FnOnce()) {
        match &self.progress {
            Some(progress) => progress.beside(print),
            None => print(),
        }
    }

    fn add(&self, bytes: u64) {
        if let Some(progress) = &self.progress {
            progress.add(bytes);
        }
    }

    fn fail(&mut self, path: &Path, error: &Error, report: Option<&FileReport>) {
        self.failures = self.failures.saturating_add(1);
        let (count, json) = (self.failures, self.json);
        self.beside(|| {
            if json {
                match report {
                    Some(report) => terminal::json(&FileView::of(report, &self.trace_id)),
                    None => terminal::json(&ErrorView::of(path, error)),
                }
            }
            if count <= SHOWN_MAX {
                let lines = failure_lines(path, &Failure::chain(error), error.advice());
                lines.iter().for_each(|line| terminal::err(line));
            }
            if count == SHOWN_MAX {
                terminal::err("Further failures are counted by reason at the end; --json names each.");
            }
        });
    }
}

impl Watch for Printer {
    fn planned(&mut self, entry: &Entry, seen: Result<(Verdict, u64), &Error>) {
        let (verdict, size) = match seen {
            Ok(seen) => seen,
            Err(error) => {
                self.add(0);
                // Signing will meet it again.
                if self.dry_run {
                    self.fail(&entry.shown, error, None);
                }
                return;
            }
        };
        self.add(size);
        let (status, why) = match verdict {
            Verdict::NotPackage => return,
            Verdict::Sign => ("would-sign", None),
            Verdict::Already => ("unchanged", Some("already signed by this key")),
            Verdict::Unsigned => ("unchanged", Some("unsigned, and not by the old key")),
            Verdict::Foreign => ("unchanged", Some("signed by another key than the old one")),
            Verdict::NoKey => ("unchanged", Some("no key is given for its directory")),
        };
        if self.json && self.dry_run {
            let view = PlannedView { path: PathView::of(&entry.shown), status, why, size };
            self.beside(|| terminal::json(&view));
        }
    }

    fn ended(&mut self, ended: &Ended) {
        let report = &ended.report;
        match ended.class {
            Class::Signed | Class::Failed => self.add(report.size),
            Class::Already
            | Class::Unsigned
            | Class::Foreign
            | Class::NoKey
            | Class::NotPackage
            | Class::NotBegun => {}
        }
        match &report.outcome {
            Ok(Done::Skipped) | Err(Error::Stopped) => {}
            Ok(_) if ended.class == Class::NotPackage => {}
            Ok(_) => {
                let json = self.json;
                self.beside(|| {
                    if json {
                        terminal::json(&FileView::of(report, &self.trace_id));
                    }
                    for warning in &report.warnings {
                        terminal::err(&format!(
                            "Warning: {}: {}",
                            shown(&report.path),
                            terminal::safe(warning)
                        ));
                    }
                });
            }
            Err(error) => self.fail(&report.path, error, Some(report)),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &Error) {
        self.fail(path, error, None);
    }
}

#[derive(Debug, Serialize)]
struct PlannedView {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    size: u64,
}

#[derive(Debug, Serialize)]
struct PlanView {
    status: &'static str,
    sign: u64,
    sign_bytes: u64,
    already: u64,
    unsigned: u64,
    foreign: u64,
    no_key: u64,
    others: u64,
    failed: u64,
    stopped: bool,
}

/// The last object of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct SummaryView<'a> {
    status: &'static str,
    signed: u64,
    already: u64,
    unsigned: u64,
    foreign: u64,
    no_key: u64,
    others: u64,
    failed: u64,
    not_begun: u64,
    sent: u64,
    written: u64,
    elapsed_ms: f64,
    finished: bool,
    reasons: Vec<ReasonView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<ReasonView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<CheckView<'a>>,
    journal: Option<String>,
    regenerate: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ReasonView<'a> {
    error: &'a str,
    advice: &'a str,
    files: u64,
}

#[derive(Debug, Serialize)]
struct CheckView<'a> {
    packages: u64,
    unsigned: u64,
    old: u64,
    not_new: u64,
    unreadable: u64,
    keys: &'a std::collections::BTreeMap<String, u64>,
}

/// What is known at the end.
pub(super) struct Known<'a> {
    pub(super) summary: &'a Summary,
    pub(super) check: Option<&'a Check>,
    pub(super) is_finished: bool,
    pub(super) journal: Option<&'a Path>,
    pub(super) regenerate: Vec<String>,
}

impl<'a> SummaryView<'a> {
    pub(super) fn of(known: Known<'a>) -> Self {
        let summary = known.summary;
        let reasons = summary
            .reasons
            .iter()
            .map(|reason| ReasonView { error: &reason.why, advice: &reason.advice, files: reason.files })
            .collect();
        let stopped_by = summary.fatal.as_ref().map(|fatal| ReasonView {
            error: &fatal.why,
            advice: &fatal.advice,
            files: 1,
        });
        let check = known.check.map(|check| CheckView {
            packages: check.packages,
            unsigned: check.unsigned,
            old: check.old,
            not_new: check.not_new,
            unreadable: check.unreadable,
            keys: &check.keys,
        });
        Self {
            status: "summary",
            signed: summary.signed,
            already: summary.already,
            unsigned: summary.unsigned,
            foreign: summary.foreign,
            no_key: summary.no_key,
            others: summary.others,
            failed: summary.failed,
            not_begun: summary.not_begun,
            sent: summary.sent_bytes,
            written: summary.written_bytes,
            elapsed_ms: milliseconds(summary.elapsed),
            finished: known.is_finished,
            reasons,
            stopped_by,
            check,
            journal: known.journal.map(|path| path.display().to_string()),
            regenerate: known.regenerate,
        }
    }
}
