//! `sealwright inspect`.

use std::path::PathBuf;

use sealwright_client::batch::{self, Stop};
use sealwright_client::inspect::{InspectReport, inspect};
use sealwright_client::source;
use sealwright_formats::report::{DigestState, Inspection};
use serde::Serialize;

use crate::cli::sign::format_options::FormatName;
use crate::cli::verify::{DigestView, ErrorView, SignatureView};
use crate::cli::{Context, list};
use crate::duration::utc;
use crate::failure::{Exit, Failure};
use crate::output::{Output, PathView, shown, size};
use crate::terminal;

/// `sealwright inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig).
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// Look at the packages in directories, and in those beneath; links are not followed.
    #[arg(long, short)]
    recursive: bool,
    /// Files, signature files (.asc, .sig), or directories with -r.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Carries out `inspect`: files in the order in which they are named.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?
        .at_once();
    let listing = list(args.paths, args.recursive, &stop).await?;
    let mut output = Output::new(context, 0);
    let mut failed = !listing.failed.is_empty();
    for (path, error) in &listing.failed {
        output.failure(0, path, error, &ErrorView::of(path, error));
    }
    let format = args.format.map(|format| format.0);
    let work = |index, entry: source::Entry| async move {
        tokio::task::spawn_blocking(move || inspect(index, &entry, format)).await.ok()
    };
    let mut groups = listing.groups;
    groups.extend(listing.repeated.into_iter().map(|entry| vec![entry]));
    batch::each(
        groups,
        1,
        &stop,
        work,
        |_, _| None,
        |report| match report {
            Some(report) => failed |= !take(&report, &mut output),
            None => failed = true,
        },
    )
    .await;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn take(report: &InspectReport, output: &mut Output) -> bool {
    match &report.outcome {
        Ok(None) => true,
        Ok(Some(found)) => {
            output.result(&FileView::of(report, found), &lines(report, found));
            true
        }
        Err(error) => {
            output.failure(report.index, &report.path, error, &ErrorView::of(&report.path, error));
            false
        }
    }
}

fn lines(report: &InspectReport, found: &Inspection) -> Vec<String> {
    let format = report.format.unwrap_or_default();
    let mut lines = vec![format!("{}: {format}, {}", shown(&report.path), size(report.size))];
    let mut line = |name: &str, value: &str| lines.push(format!("  {name:<16} {}", terminal::safe(value)));
    for (name, value) in &found.facts {
        line(name, value);
    }
    for note in &report.notes {
        line("note", note);
    }
    if found.signatures.is_empty() {
        line("signatures", "none");
    }
    for signature in &found.signatures {
        let made = signature.created.map(|created| format!(", {}", utc(created))).unwrap_or_default();
        let detail = signature.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let text = format!("{}: {}{made}{detail}", signature.place, signature.made());
        line("signature", &text);
    }
    for digest in &found.digests {
        let state = match digest.state {
            DigestState::Right => "right",
            DigestState::Wrong => "DIFFERS",
            DigestState::NotChecked => "not checked",
        };
        line(digest.what, state);
    }
    lines
}

#[derive(Debug, Serialize)]
struct FileView<'a> {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    format: Option<&'static str>,
    size: u64,
    facts: serde_json::Map<String, serde_json::Value>,
    signatures: Vec<SignatureView<'a>>,
    digests: Vec<DigestView>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

impl<'a> FileView<'a> {
    fn of(report: &'a InspectReport, found: &'a Inspection) -> Self {
        Self {
            path: PathView::of(&report.path),
            status: "inspected",
            format: report.format,
            size: report.size,
            facts: found
                .facts
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                .collect(),
            signatures: found.signatures.iter().map(SignatureView::of).collect(),
            digests: found.digests.iter().map(DigestView::of).collect(),
            notes: &report.notes,
        }
    }
}
