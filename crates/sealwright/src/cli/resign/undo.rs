//! `sealwright resign --undo`.

use std::path::PathBuf;

use sealwright_client::apply::Written;
use sealwright_client::batch::Stop;
use sealwright_client::campaign::journal::Journal;
use sealwright_client::campaign::undo::{Undone, undo};
use sealwright_client::error::Error;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::resign::failed;
use crate::cli::verify::ErrorView;
use crate::failure::{Exit, Failure};
use crate::output::{Output, PathView};
use crate::terminal;

/// Puts back what the campaign of this journal has replaced.
pub(super) async fn run(path: PathBuf, context: Context, stop: Stop) -> Result<Exit, Failure> {
    let work = move || {
        let journal = Journal::open_existing(&path).map_err(|error| failed(&error))?;
        let mut printer = Printer { output: Output::new(context, 0), restored: 0, unchanged: 0, failed: 0 };
        let is_complete = undo(&journal, &stop, &mut |undone| printer.take(&undone));
        is_complete.map(|complete| (printer, complete)).map_err(|error| failed(&error))
    };
    let (printer, is_complete) = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Failure::failed("a worker thread ended", "Please report it."))??;
    let mut line = format!("{} put back", printer.restored);
    if printer.unchanged > 0 {
        line.push_str(&format!(", {} had the old signature", printer.unchanged));
    }
    if printer.failed > 0 {
        line.push_str(&format!(", {} failed (unchanged)", printer.failed));
    }
    if !is_complete {
        line.push_str("; stopped: run the same command again to go on");
    }
    terminal::err(&line);
    Ok(if is_complete && printer.failed == 0 { Exit::Done } else { Exit::Failed })
}

struct Printer {
    output: Output,
    restored: u64,
    unchanged: u64,
    failed: u64,
}

impl Printer {
    fn take(&mut self, undone: &Undone) {
        let (count, status) = match &undone.outcome {
            Ok(Some(_)) => (&mut self.restored, "restored"),
            Ok(None) => (&mut self.unchanged, "unchanged"),
            Err(error) => {
                self.failed = self.failed.saturating_add(1);
                self.output.failure(0, &undone.path, error, &ErrorView::of(&undone.path, error));
                return;
            }
        };
        *count = count.saturating_add(1);
        let written = written(&undone.outcome).map_or(0, |written| written.bytes);
        self.output.result(&View { path: PathView::of(&undone.path), status, written }, &[]);
    }
}

const fn written(outcome: &Result<Option<Written>, Error>) -> Option<&Written> {
    match outcome {
        Ok(Some(written)) => Some(written),
        Ok(None) | Err(_) => None,
    }
}

#[derive(Debug, Serialize)]
struct View {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    written: u64,
}
