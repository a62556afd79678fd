//! What a person or a program reads of a migration: a line for each key, what was not taken and why, the sum.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sealwright_client::migrate::{Ended, NotTaken, Outcome, State};
use serde::Serialize;

use crate::cli::Context;
use crate::failure::{Exit, Failure};
use crate::terminal;

/// Prints, and counts.
pub(super) struct Report {
    json: bool,
    dry_run: bool,
    bar: Option<ProgressBar>,
    counts: Counts,
}

/// The sum.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    imported: usize,
    there: usize,
    would_import: usize,
    not_taken: usize,
    not_begun: usize,
    /// Lines of sign.conf and what they name.
    settings_not_taken: usize,
}

/// One name.
#[derive(Debug, Serialize)]
struct View<'a> {
    key: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// One thing that sign.conf says, and that nothing here takes.
#[derive(Debug, Serialize)]
struct Setting<'a> {
    setting: &'a str,
    status: &'static str,
    error: &'a str,
}

/// The text for `server.toml`.
#[derive(Debug, Serialize)]
struct Text<'a> {
    status: &'static str,
    server_toml: &'a str,
}

#[derive(Debug, Serialize)]
struct Summary {
    status: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

impl Report {
    pub(super) fn new(context: Context, dry_run: bool) -> Self {
        Self { json: context.json, dry_run, bar: None, counts: Counts::default() }
    }

    /// A person at a terminal sees what is waited for.
    pub(super) fn waits(&mut self, what: &'static str) {
        if terminal::stderr_is_terminal() {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(250));
            self.bar = Some(bar);
        }
    }

    /// So many names come.
    pub(super) fn begin(&mut self, total: usize) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} keys, {eta} left") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
    }

    /// What became of one.
    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        let (status, why, warnings): (_, Option<&NotTaken>, &[String]) = match &outcome.state {
            State::Imported { warnings } => ("imported", None, warnings),
            State::There { warnings } => ("there", None, warnings),
            State::WouldImport => ("would-import", None, &[]),
            State::NotTaken(why) => ("not-taken", Some(why), &[]),
        };
        let count = match &outcome.state {
            State::Imported { .. } => &mut self.counts.imported,
            State::There { .. } => &mut self.counts.there,
            State::WouldImport => &mut self.counts.would_import,
            State::NotTaken(_) => &mut self.counts.not_taken,
        };
        *count = count.saturating_add(1);
        let view = View {
            key: &outcome.name,
            status,
            fingerprint: outcome.fingerprint.as_deref(),
            error: why.map(|why| Failure::chain(why)),
            advice: why.map(NotTaken::advice),
            code: why.and_then(code),
            warnings,
        };
        self.beside(|json| if json { terminal::json(&view) } else { view.print() });
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A setting of sign.conf that has no place here.
    pub(super) fn setting(&mut self, setting: &str, error: &str) {
        self.counts.settings_not_taken = self.counts.settings_not_taken.saturating_add(1);
        self.beside(|json| {
            if json {
                terminal::json(&Setting { setting, status: "not-taken", error });
            } else {
                terminal::out(&terminal::safe(&format!("not taken     {setting}: {error}")));
            }
        });
    }

    /// A setting that has no meaning here, or that did nothing there: nobody misses it.
    pub(super) fn ignored(&self, setting: &str, why: &str) {
        self.beside(|json| {
            if json {
                terminal::json(&Setting { setting, status: "ignored", error: why });
            } else {
                terminal::err(&terminal::safe(&format!("ignored       {setting}: {why}")));
            }
        });
    }

    /// What belongs into `server.toml`.
    pub(super) fn server_toml(&self, text: &str) {
        self.beside(|json| {
            if json {
                terminal::json(&Text { status: "settings", server_toml: text });
            } else {
                terminal::out("For server.toml:\n");
                text.lines().for_each(|line| terminal::out(&format!("    {}", terminal::safe(line))));
                terminal::out("");
            }
        });
    }

    /// Whether nothing became of any key.
    pub(super) const fn is_empty(&self) -> bool {
        let Counts { imported, there, would_import, not_taken, .. } = self.counts;
        imported == 0 && there == 0 && would_import == 0 && not_taken == 0
    }

    /// The sum, and whether all was taken.
    pub(super) fn end(mut self, ended: Ended) -> Exit {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.counts.not_begun = ended.not_begun;
        let counts = self.counts;
        if self.json {
            terminal::json(&Summary { status: "summary", counts });
        } else {
            terminal::err(&self.sum());
        }
        if counts.not_begun > 0 {
            terminal::err("Stopped. The same command goes on where this one ended.");
        }
        let all = counts.not_taken == 0 && counts.not_begun == 0 && counts.settings_not_taken == 0;
        if all { Exit::Done } else { Exit::Failed }
    }

    fn sum(&self) -> String {
        let counts = &self.counts;
        let done = if self.dry_run {
            format!("{} would be imported", counts.would_import)
        } else {
            format!("{} imported", counts.imported)
        };
        let mut sum = format!("{done}, {} there already, {} not taken", counts.there, counts.not_taken);
        for (count, what) in
            [(counts.not_begun, "not begun"), (counts.settings_not_taken, "settings not taken")]
        {
            if count > 0 {
                sum.push_str(&format!(", {count} {what}"));
            }
        }
        sum
    }

    fn beside(&self, print: impl FnOnce(bool)) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(self.json)),
            None => print(self.json),
        }
    }
}

/// Of a refusal by the server.
fn code(why: &NotTaken) -> Option<&'static str> {
    let NotTaken::Failed(error) = why else { return None };
    error.server_code().map(sealwright_client::error::Code::name)
}

impl View<'_> {
    fn print(&self) {
        let name = terminal::safe(self.key);
        match &self.error {
            None => {
                let status = self.status.replace('-', " ");
                terminal::out(&format!("{status:<13} {name}  {}", self.fingerprint.unwrap_or_default()));
            }
            Some(error) => {
                terminal::out(&format!("not taken     {name}: {}", terminal::safe(error)));
                let advice = self.advice.unwrap_or_default();
                terminal::out(&format!("              {}", terminal::safe(advice)));
            }
        }
        for warning in self.warnings {
            terminal::err(&format!("Warning: {name}: {}", terminal::safe(warning)));
        }
    }
}
