//! `sealwright verify`.

use std::path::PathBuf;
use std::sync::Arc;

use sealwright_client::batch::{self, Stop};
use sealwright_client::error::Error;
use sealwright_client::source;
use sealwright_client::trust;
use sealwright_client::verify::{VerifyReport, verify};
use sealwright_crypto::openpgp::certificate::Keyring;
use sealwright_crypto::openpgp::verify::State;
use sealwright_formats::report::{DigestState, SignatureReport, Verification};
use serde::Serialize;

use crate::cli::sign::format_options::FormatName;
use crate::cli::{Context, list};
use crate::duration::{iso, utc};
use crate::failure::{Exit, Failure};
use crate::output::{FailureView, Output, PathView, milliseconds, shown};
use crate::remote::ServerArgs;
use crate::terminal;

/// `sealwright verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check against the certificate of this key: name or fingerprint.
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Check against the certificates in this file, armored or binary; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    keyring: Vec<PathBuf>,
    /// Check against this certificate, armored or binary.
    #[arg(long, value_name = "FILE")]
    cert: Vec<PathBuf>,
    /// Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig).
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// Files in hand at once.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Check the packages in directories, and in those beneath; links are not followed.
    #[arg(long, short)]
    recursive: bool,
    #[command(flatten)]
    server: ServerArgs,
    /// Files, signature files (.asc, .sig), or directories with -r.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Carries out `verify`. Only files whose state is `valid` count as verified.
pub(crate) async fn run(args: Args, context: Context) -> Result<Exit, Failure> {
    // Before signals are caught: a pipe may never give anything.
    let named = named_certificates(&args)?;
    let stop = Stop::on_signals()
        .map_err(|error| Failure::failed(format!("cannot catch signals: {error}"), "Try again."))?
        .at_once();
    let keyring = Arc::new(keyring(&args, named).await?);
    let listing = list(args.paths.clone(), args.recursive, &stop).await?;
    let mut printer = Printer { output: Output::new(context, listing.len()), valid: 0, other: 0 };
    for (path, error) in &listing.failed {
        printer.output.failure(0, path, error, &ErrorView::of(path, error));
        printer.other = printer.other.saturating_add(1);
    }
    let format = args.format.map(|format| format.0);
    let work = |index, entry: source::Entry| {
        let keyring = Arc::clone(&keyring);
        async move {
            let work = tokio::task::spawn_blocking(move || verify(index, &entry, format, &keyring)).await;
            work.ok()
        }
    };
    let jobs = args.jobs.map_or_else(batch::hash_threads, usize::from);
    let mut stopped = 0usize;
    let mut groups = listing.groups;
    groups.extend(listing.repeated.into_iter().map(|entry| vec![entry]));
    batch::each(
        groups,
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
    let mut last = format!("{} valid", printer.valid);
    if printer.other > 0 {
        last.push_str(&format!(", {} not", printer.other));
    }
    if stopped > 0 {
        last.push_str(&format!(", {stopped} not looked at"));
    }
    terminal::err(&last);
    Ok(if printer.other > 0 || stopped > 0 { Exit::Failed } else { Exit::Done })
}

/// Those of the files that were named.
fn named_certificates(args: &Args) -> Result<Keyring, Failure> {
    let files: Vec<PathBuf> = args.keyring.iter().chain(&args.cert).cloned().collect();
    trust::from_files(&files).map_err(|error| Failure::failed(Failure::chain(&error), error.advice()))
}

/// The certificates that count: those named, else those of all keys of the server or the store.
async fn keyring(args: &Args, named: Keyring) -> Result<Keyring, Failure> {
    let mut keyring = named;
    if args.key.is_none() && !keyring.is_empty() {
        return Ok(keyring);
    }
    let way = args.server.choose()?;
    if way.nothing_stored()?.is_some() {
        let what = "there is nothing to check against: no store and no certificate named";
        return Err(Failure::usage(what, "Give --keyring FILE, --cert FILE or --key NAME."));
    }
    let opened = way.open().await?;
    let found = match &args.key {
        Some(key) => trust::from_server(opened.connection(), key).await,
        None => trust::all_of_server(opened.connection()).await,
    };
    opened.close().await;
    let found = found.map_err(|error| {
        let exit = if error.nothing_was_attempted() { Exit::Unreachable } else { Exit::Failed };
        Failure::of(&error, exit)
    })?;
    for certificate in found.certificates() {
        keyring.push(certificate.clone());
    }
    Ok(keyring)
}

struct Printer {
    output: Output,
    valid: usize,
    other: usize,
}

impl Printer {
    fn take(&mut self, report: &VerifyReport) {
        self.output.advance();
        let is_valid = match &report.outcome {
            Ok(None) => return,
            Ok(Some(found)) => {
                self.output.result(&FileView::of(report, found), &lines(report, found));
                found.state() == State::Valid
            }
            Err(error) => {
                self.output.failure(report.index, &report.path, error, &ErrorView::of(&report.path, error));
                false
            }
        };
        let count = if is_valid { &mut self.valid } else { &mut self.other };
        *count = count.saturating_add(1);
    }
}

fn lines(report: &VerifyReport, found: &Verification) -> Vec<String> {
    let mut head = format!("{:<11} {}", found.state().name(), shown(&report.path));
    if !report.notes.is_empty() {
        head.push_str(&format!(" ({})", terminal::safe(&report.notes.join("; "))));
    }
    let mut lines = vec![head];
    lines.extend(
        found.signatures.iter().map(|signature| format!("            {}", signature_line(signature))),
    );
    for digest in found.digests.iter().filter(|digest| digest.state == DigestState::Wrong) {
        lines.push(format!("            {}: differs", digest.what));
    }
    lines
}

/// One signature for a person.
pub(crate) fn signature_line(signature: &SignatureReport) -> String {
    let made = signature.created.map(|created| format!(", {}", utc(created))).unwrap_or_default();
    let who = signature.user_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
    let why = signature.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    terminal::safe(&format!(
        "{}: {}{why} - {}{who}{made}",
        signature.place,
        signature.state.name(),
        signature.made(),
    ))
}

/// One signature for a program.
#[derive(Debug, Serialize)]
pub(crate) struct SignatureView<'a> {
    place: &'a str,
    state: &'static str,
    version: u8,
    key_algorithm: &'a str,
    hash: &'a str,
    issuer: &'a str,
    created: Option<String>,
    created_s: Option<i64>,
    user_id: Option<&'a str>,
    detail: Option<&'a str>,
}

impl<'a> SignatureView<'a> {
    /// Of a report.
    pub(crate) fn of(signature: &'a SignatureReport) -> Self {
        Self {
            place: &signature.place,
            state: signature.state.name(),
            version: signature.version,
            key_algorithm: &signature.key_algorithm,
            hash: &signature.hash,
            issuer: &signature.issuer,
            created: signature.created.map(iso),
            created_s: signature.created,
            user_id: signature.user_id.as_deref(),
            detail: signature.detail.as_deref(),
        }
    }
}

/// One digest for a program.
#[derive(Debug, Serialize)]
pub(crate) struct DigestView {
    what: &'static str,
    state: &'static str,
}

impl DigestView {
    /// Of a report.
    pub(crate) const fn of(digest: &sealwright_formats::report::DigestReport) -> Self {
        let state = match digest.state {
            DigestState::Right => "right",
            DigestState::Wrong => "wrong",
            DigestState::NotChecked => "not-checked",
        };
        Self { what: digest.what, state }
    }
}

#[derive(Debug, Serialize)]
struct FileView<'a> {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    state: &'static str,
    format: Option<&'static str>,
    signatures: Vec<SignatureView<'a>>,
    digests: Vec<DigestView>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    size: u64,
    elapsed_ms: f64,
}

impl<'a> FileView<'a> {
    fn of(report: &'a VerifyReport, found: &'a Verification) -> Self {
        Self {
            path: PathView::of(&report.path),
            status: found.state().name(),
            state: found.state().name(),
            format: report.format,
            signatures: found.signatures.iter().map(SignatureView::of).collect(),
            digests: found.digests.iter().map(DigestView::of).collect(),
            notes: &report.notes,
            size: report.size,
            elapsed_ms: milliseconds(report.elapsed),
        }
    }
}

/// A file that could not be looked at.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorView {
    #[serde(flatten)]
    path: PathView,
    status: &'static str,
    state: &'static str,
    #[serde(flatten)]
    failure: FailureView,
}

impl ErrorView {
    /// Of an error.
    pub(crate) fn of(path: &std::path::Path, error: &Error) -> Self {
        Self { path: PathView::of(path), status: "failed", state: "error", failure: FailureView::of(error) }
    }
}
